"""The script that `forkserver` runs: loads what workers need, and only that, then becomes the fork server.

The project's packages are entered without running their `__init__`, which load host code (asyncio, subprocess).
"""

import contextlib
import importlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NATIVE_MODULES = ("_ctypes", "_hashlib", "_lzma", "_bz2", "_decimal", "_sqlite3", "zlib", "_uuid")
"""Imported once so that the C libraries they need show up in the memory map, and so in what stays readable."""


def bootstrap() -> None:
    """Make `rlm_core.repl` and `rlm_core.papers` importable without running their `__init__`, which load host code."""
    sys.path.insert(0, str(ROOT))
    for name in ("rlm_core.repl", "rlm_core.papers"):
        package = types.ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = package
    for name in _NATIVE_MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("rlm_core.repl.wire")
    for name in [n for n in sys.modules if n == "json" or n.startswith("json.")]:
        del sys.modules[name]  # the protocol keeps its own copy: code may break the one that it imports
    for name in importlib.import_module("rlm_core.repl.worker.interpreter").PRELOADED:
        importlib.import_module(name)


if __name__ == "__main__":
    bootstrap()
    importlib.import_module("rlm_core.repl.zygote").start(sys.argv[1])
