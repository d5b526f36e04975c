"""Questions with ground-truth evidence, and where a parser's noisy text holds that evidence.

Names load their module on first use: the commands that only read questions start without numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm_core.synthesis.align import TextIndex, locate
    from rlm_core.synthesis.query_report import QueryReport
    from rlm_core.synthesis.writing import write_queries

_LAZY = {"QueryReport": "query_report", "TextIndex": "align", "locate": "align", "write_queries": "writing"}

__all__ = ["QueryReport", "TextIndex", "locate", "write_queries"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
