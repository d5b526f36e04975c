"""Questions with ground-truth evidence, and where a parser's noisy text holds that evidence."""

from rlm_core.synthesis.align import TextIndex, locate
from rlm_core.synthesis.query_report import QueryReport
from rlm_core.synthesis.writing import write_queries

__all__ = ["QueryReport", "TextIndex", "locate", "write_queries"]
