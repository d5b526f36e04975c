"""From boxes of text on pages to a paper's title, abstract, sections and paragraphs, for a text layer and for OCR alike."""

from rlm_core.papers.layout.assemble import Layout, assemble
from rlm_core.papers.layout.boxes import Line, PageBoxes, Piece

__all__ = ["Layout", "Line", "PageBoxes", "Piece", "assemble"]
