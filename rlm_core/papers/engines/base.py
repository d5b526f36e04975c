"""What an OCR engine is, and how one is made by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from rlm_core.papers.layout import Piece

if TYPE_CHECKING:
    import numpy as np


class EngineError(RuntimeError):
    """An engine cannot work at all (not installed, server not reachable); the message says what to do."""


class EngineSilent(EngineError):
    """The engine's server gave no answer in all tries."""


class UnreadablePage(ValueError):
    """The engine works but could make nothing of this page."""


class OcrEngine(Protocol):
    """Reads page images. `name`, `version` and `settings` are part of every cache key."""

    name: str
    version: str
    settings: dict[str, Any]

    def read(self, image: np.ndarray) -> list[Piece]:
        """The text of one page image (height x width x 3, uint8, RGB); boxes in pixels from the top left.

        Raises `UnreadablePage` for this page's fault, `EngineError` where no page can be read.
        """
        ...


def surya_address(surya_url: str | None) -> str | None:
    """The address given, else the one in SURYA_INFERENCE_URL, the variable of surya's own client."""
    return surya_url or os.environ.get("SURYA_INFERENCE_URL")


def make_engine(name: str, *, dpi: int = 150, surya_url: str | None = None) -> OcrEngine:
    """Make `rapidocr`, `tesseract` or `surya`; raises `EngineError` where it cannot work here."""
    if name == "rapidocr":
        from rlm_core.papers.engines.rapid import RapidEngine

        return RapidEngine(dpi=dpi)
    if name == "tesseract":
        from rlm_core.papers.engines.tesseract import TesseractEngine

        return TesseractEngine(dpi=dpi)
    if name == "surya":
        from rlm_core.papers.engines.surya import SuryaEngine

        if not (address := surya_address(surya_url)):
            raise EngineError(
                "the engine 'surya' needs the address of its server: set ocr.surya_url or SURYA_INFERENCE_URL"
            )
        return SuryaEngine(address)
    raise EngineError(f"no OCR engine {name!r}; there are rapidocr, tesseract and surya")
