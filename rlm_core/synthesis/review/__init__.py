"""A page on which a person reads questions with their evidence marked on the page image, and says good or bad."""

from rlm_core.synthesis.review.sample import draw
from rlm_core.synthesis.review.server import ReviewServer

__all__ = ["ReviewServer", "draw"]
