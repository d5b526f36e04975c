"""RapidOCR: PP-OCR models on ONNX runtime, all inside its wheel; needs no network and one thread a process.

Measured on four pages of real papers at 150 dpi, one thread, processor seconds a page and character errors against
the text layer: detection on the full image 3.9 s, 0.8 %; detection at 960 pixels 2.7 s, 0.7 %; besides with the page
squeezed to 85 % of its width 2.3 s, 0.7 %; squeezed to 70 % 1.9 s, 1.3 %; to 60 % 1.7 s, 4.7 %. Recognition is 9 tenths
of the time and grows with a line's width over its height: that is what squeezing cuts. On the sample library, whose
print is smaller, detection at 1152 pixels costs 0.2 s more than at 960 and finds 99.9 % of the words instead of 99.1 %:
that is what is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm_core.papers.layout import Piece

if TYPE_CHECKING:
    import numpy as np

SQUEEZE = 0.85
_DETECTION_PIXELS_PER_DPI = 7.68
"""The longer side of the image that lines are detected on: 1152 pixels at 150 dpi."""


class RapidEngine:
    """RapidOCR on one thread; run one in each process."""

    name = "rapidocr"

    def __init__(self, *, dpi: int = 150) -> None:
        from importlib.metadata import version

        self.version = version("rapidocr")
        side = 32 * round(_DETECTION_PIXELS_PER_DPI * dpi / 32)
        self.settings: dict[str, Any] = {"squeeze": SQUEEZE, "detection_side": side}
        self._reader: Any = None

    def read(self, image: np.ndarray) -> list[Piece]:
        import cv2
        import numpy as np

        if self._reader is None:
            self._reader = self._load()
        squeezed = cv2.resize(image[:, :, ::-1], None, fx=SQUEEZE, fy=1.0, interpolation=cv2.INTER_AREA)
        found = self._reader(np.ascontiguousarray(squeezed))
        if found.boxes is None or found.txts is None:
            return []
        pieces = []
        for box, text in zip(found.boxes, found.txts, strict=True):
            left, top = (float(v) for v in box.min(axis=0))
            right, bottom = (float(v) for v in box.max(axis=0))
            if text.strip():
                pieces.append(Piece(text.strip(), left / SQUEEZE, top, right / SQUEEZE, bottom, bottom - top))
        return pieces

    def _load(self) -> Any:
        from rapidocr import RapidOCR

        return RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.use_cls": False,  # pages are upright
                "Global.max_side_len": 6000,
                "Det.limit_type": "max",
                "Det.limit_side_len": self.settings["detection_side"],
                "Rec.rec_batch_num": 1,  # a batch pads all lines to its longest
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
