"""OCR engines: each reads one page image and returns boxes of text."""

from rlm_core.papers.engines.base import EngineError, OcrEngine, UnreadablePage, make_engine, surya_address

__all__ = ["EngineError", "OcrEngine", "UnreadablePage", "make_engine", "surya_address"]
