"""Tesseract, where the program is installed; one thread a process, for two make it many times slower."""

from __future__ import annotations

import os
import shutil
import subprocess
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlm_core.papers.engines.base import EngineError
from rlm_core.papers.layout import Piece

if TYPE_CHECKING:
    import numpy as np

PAGE_SECONDS = 300.0


class TesseractEngine:
    """Runs `tesseract` on each page and reads its table of words."""

    name = "tesseract"

    def __init__(self, *, dpi: int = 150, program: str = "tesseract") -> None:
        found = shutil.which(program)
        if found is None:
            raise EngineError(
                "the engine 'tesseract' needs the program of that name, which is not installed: "
                "apt-get install tesseract-ocr, or set ocr.engine to rapidocr"
            )
        self._program = found
        self.settings: dict[str, Any] = {"dpi": dpi, "language": "eng"}
        shown = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=30)
        self.version = (shown.stdout or shown.stderr).split("\n", 1)[0].removeprefix("tesseract").strip()

    def read(self, image: np.ndarray) -> list[Piece]:
        from PIL import Image

        buffer = BytesIO()
        Image.fromarray(image).save(buffer, "PNG", compress_level=1)
        command = [self._program, "stdin", "stdout", "-l", "eng", "--dpi", str(self.settings["dpi"]), "tsv"]
        done = subprocess.run(
            command,
            input=buffer.getvalue(),
            capture_output=True,
            timeout=PAGE_SECONDS,
            env=os.environ | {"OMP_THREAD_LIMIT": "1"},
            check=False,
        )
        if done.returncode:
            raise EngineError(
                f"tesseract failed ({done.returncode}): {done.stderr.decode(errors='replace')[-300:].strip()}"
            )
        return read_tsv(done.stdout.decode("utf-8", errors="replace"))


def read_tsv(table: str) -> list[Piece]:
    """Words (level 5) of Tesseract's table, joined to pieces within a line where the gap is under one line height."""
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    words = [row for row in rows if len(row) == 12 and row[0] == "5" and row[11].strip() and float(row[10]) >= 0]
    pieces: list[Piece] = []
    for _, line in groupby(words, key=lambda row: row[1:5]):
        current: Piece | None = None
        for row in line:
            left, top, width, height = (float(value) for value in row[6:10])
            word = Piece(row[11].strip(), left, top, left + width, top + height, height)
            if current is not None and word.x0 - current.x1 < max(current.size, word.size):
                current = _append(current, word)
            else:
                pieces += [current] if current is not None else []
                current = word
        pieces += [current] if current is not None else []
    return pieces


def _append(piece: Piece, word: Piece) -> Piece:
    top, bottom = min(piece.top, word.top), max(piece.bottom, word.bottom)
    return Piece(f"{piece.text} {word.text}", piece.x0, top, word.x1, bottom, bottom - top)
