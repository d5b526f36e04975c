"""The parts below a session: output, frames, requests, the filter's tables, and the privileges that a host may have."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_core.repl import wire
from rlm_core.repl.requests import RequestError, check_request
from rlm_core.repl.sandbox import seccomp
from rlm_core.repl.sandbox.report import SandboxReport, describe
from rlm_core.repl.sandbox.syscalls import ALWAYS, CHECKED, REFUSED
from rlm_core.repl.worker.answers import AnswerError, to_json
from rlm_core.repl.worker.output import BoundedOutput, shorten

ROOT = Path(__file__).resolve().parents[3]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("abc\n", max_size=12), max_size=30), st.integers(0, 20))
def test_bounded_output_keeps_what_shortening_the_whole_would_keep(writes: list[str], limit: int) -> None:
    output = BoundedOutput(limit)
    for text in writes:
        output.write(text)
    assert output.value() == shorten("".join(writes), limit)


def test_bounded_output_stays_small() -> None:
    output = BoundedOutput(100)
    for _ in range(20_000):
        output.write("x" * 7)
    held = [*output._head, *output._tail]
    assert sum(len(text) for text in held) <= 400
    assert len(held) < 3000
    assert output.value().startswith("x" * 50 + "\n[... 139900 characters cut ...]")


json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(json_data)
def test_json_data_is_an_answer_as_it_is_and_survives_the_wire(value: Any) -> None:
    assert to_json(value, limit=10_000) == value
    frame = wire.encode({"v": value})
    (size,) = wire.HEADER.unpack(frame[: wire.HEADER.size])
    assert size == len(frame) - wire.HEADER.size
    assert wire.decode(frame[wire.HEADER.size :]) == {"v": wire.clean(value)}


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_an_object_or_a_wire_error(body: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        assert isinstance(wire.decode(body), dict)


def test_texts_from_the_wire_can_be_written_to_a_file() -> None:
    assert wire.decode(b'{"a": ["\\ud800x", {"\\udfff": 1}]}') == {"a": ["?x", {"?": 1}]}
    assert wire.decode(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["name", "args"]), json_data | st.sampled_from(["llm_query", "rlm_query_batched"]))
)
def test_any_request_is_checked_or_refused(message: dict[str, Any]) -> None:
    try:
        name, arguments = check_request(message)
    except RequestError:
        return
    assert name in ("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched")
    assert set(arguments) <= {"prompt", "prompts", "context", "contexts"}


def test_requests_keep_only_known_arguments() -> None:
    message = {"name": "rlm_query", "args": {"prompt": "p", "context": {"a": 1}, "depth": -5}}
    assert check_request(message) == ("rlm_query", {"prompt": "p", "context": {"a": 1}})
    with pytest.raises(RequestError, match="2000 prompts at once; at most 1000"):
        check_request({"name": "llm_query_batched", "args": {"prompts": ["x"] * 2000}})


def test_a_context_nested_too_deeply_is_refused() -> None:
    deep: Any = "x"
    for _ in range(60):
        deep = {"a": deep}
    with pytest.raises(RequestError, match="nested too deeply"):
        check_request({"name": "rlm_query", "args": {"prompt": "p", "context": deep}})
    with pytest.raises(AnswerError):
        to_json(deep, limit=1000)


def test_call_numbers_agree_with_libseccomp() -> None:
    pyseccomp = pytest.importorskip("pyseccomp", exc_type=(ImportError, RuntimeError))
    for table in (ALWAYS, CHECKED, REFUSED):
        for name, numbers in table.items():
            for number, arch in zip(numbers, (pyseccomp.Arch.X86_64, pyseccomp.Arch.AARCH64), strict=True):
                known = pyseccomp.resolve_syscall(arch, name)
                if known > 0 or name in ("read", "io_setup"):
                    assert number == known, name
    assert not set(ALWAYS) & set(REFUSED)


def test_the_filter_fits_the_kernel_and_ends_with_a_refusal() -> None:
    code = seccomp.program(threads=True, pid=1)
    assert len(code) < 4096
    assert all(jump <= 255 for _, yes, no, _ in code for jump in (yes, no))
    assert code[-1][0] == 0x06
    assert code[-1][3] & 0xFFFF0000 == 0x00050000


def test_a_report_says_what_is_missing_and_what_to_do() -> None:
    layers = describe(landlock_abi=0, seccomp=True, namespaces="not allowed", own_root=False, own_user=False)
    report = SandboxReport(tuple(layers), {"read /etc/passwd": False, "write /tmp/x": True})
    assert not report.full
    assert report.failed_checks == ["read /etc/passwd"]
    text = report.explain()
    assert "landlock is missing. Use Linux 5.13 or newer" in text
    assert "read /etc/passwd" in text
    assert "repl.sandbox: none" in text
    assert SandboxReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


# --- a host of any privilege -----------------------------------------------------------------------------------------

_SCRIPT = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from rlm_core.repl import Repl, probe
BLOCKS = ["open('/etc/passwd')", "open('/proc/self/environ')", "open('/tmp/rlm-repl-probe', 'w')", "import os; os.fork()",
          "import socket; socket.socket()", "import os; os.kill(1, 0)", "import os; os.setuid(0)"]
async def main():
    report = probe()
    rows = {"full": report.full, "layers": [x.name for x in report.layers if x.active], "told": report.explain()}
    async with Repl.open("text") as repl:
        rows["errors"] = [(await repl.execute(block)).error for block in BLOCKS]
        rows["works"] = (await repl.execute("import csv, sqlite3\\nlen(context)")).stdout
    print(json.dumps(rows))
asyncio.run(main())
"""
_CASES = {
    "root": ([], {"namespaces", "own root", "own user"}),
    "root without any capability": (["--bounding-set=-all", "--inh-caps=-all"], set()),
    "root as in a container": (["--bounding-set=-sys_admin,-setfcap", "--inh-caps=-all"], {"own user"}),
    "root without CAP_SYS_ADMIN": (["--bounding-set=-sys_admin", "--inh-caps=-all"], {"namespaces", "own root"}),
    "an ordinary user": (["--reuid=12345", "--regid=12345", "--clear-groups"], {"namespaces", "own root", "own user"}),
}


@pytest.mark.parametrize("case", _CASES)
async def test_the_required_layers_hold_whatever_the_host_may_do(case: str) -> None:
    options, expected = _CASES[case]
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.geteuid() != 0 or not shutil.which("setpriv") or python is None or not os.access(ROOT, os.X_OK):
        pytest.skip("needs root, setpriv and a python3 that every user can read")
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True, text=True
    )
    if version.stdout.strip() != "True" or any(not p.stat().st_mode & 0o001 for p in [ROOT, *ROOT.parents]):
        pytest.skip("needs a system python3 >= 3.11 and a project folder that every user can read")
    process = await asyncio.create_subprocess_exec(
        "setpriv", *options, python, "-B", "-c", _SCRIPT, str(ROOT), stdout=-1, stderr=-1, cwd="/"
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    rows = json.loads(output)
    assert rows["full"], rows["told"]
    assert {"landlock", "seccomp", "rlimits"} <= set(rows["layers"])
    assert set(rows["layers"]) - {"landlock", "seccomp", "rlimits"} <= expected
    assert all(error and "Error" in error for error in rows["errors"]), rows["errors"]
    assert rows["works"] == "4\n"


def test_importing_the_package_stays_light() -> None:
    code = "import sys, rlm_core.repl, rlm_core.protocol\n"
    code += "print([m for m in ('torch', 'pydantic', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def marks_of(value: Any) -> int:
    """Brackets and commas: one a container, one between neighbours."""
    if not isinstance(value, list | dict):
        return 0
    items = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(len(items) - 1, 0) + sum(marks_of(item) for item in items)


marked_data = st.recursive(
    st.text('ab,[{]}"\\', max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(',[{"\\', max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(marked_data)
def test_values_are_counted_outside_of_texts(value: Any) -> None:
    body = wire.encode(value)[wire.HEADER.size :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "_FEW_VALUES", 0)
        assert wire.values_in(body) == marks_of(value)
    assert wire.values_in(body) >= marks_of(value)


@pytest.mark.parametrize(
    "body", [b"[" + b"[]," * 2_000_000 + b"0]", b'["' + b'","' * 2_000_000 + b'"]', b'["' + b'\\"' * 3_000_000 + b'"]'],
    ids=["lists", "texts", "escapes"],
)  # fmt: skip
def test_values_of_a_hostile_message_are_counted_fast(body: bytes) -> None:
    start = time.process_time()
    count = wire.values_in(body)
    assert time.process_time() - start < 1.0
    assert (count > wire.MAX_VALUES) == (b"," in body)
