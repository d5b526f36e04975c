"""Questions with ground-truth evidence, and where a parser's noisy text holds that evidence."""

from rlm_core.synthesis.align import TextIndex, locate

__all__ = ["TextIndex", "locate"]
