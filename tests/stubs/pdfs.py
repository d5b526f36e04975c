"""PDFs made byte by byte for tests: text at places, and every way in which a file can be bad."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

Row = tuple[float, float, float, str]
"""(x, y from the top, font size, text), in points."""

WIDTH, HEIGHT = 595, 842
_PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def make_pdf(
    pages: Sequence[Sequence[Row]],
    *,
    title: str = "",
    extra_trailer: str = "",
    size: tuple[int, int] = (WIDTH, HEIGHT),
    page_entries: str = "",
) -> bytes:
    """One PDF with Helvetica text (Latin-1); `page_entries` go into every page's dictionary."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Title ({title}) >>",
    ]
    for number, rows in enumerate(pages):
        lines = [f"BT /F1 {s} Tf 1 0 0 1 {x} {size[1] - y} Tm ({_escape(text)}) Tj ET" for x, y, s, text in rows]
        stream = "\n".join(lines)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] {page_entries} "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {6 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream")
    return _file(objects, extra_trailer)


def _file(objects: Sequence[str], extra_trailer: str = "") -> bytes:
    body = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("cp1252")
    xref = "".join(f"{place:010d} 00000 n \n" for place in places)
    tail = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{xref}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R {extra_trailer} >>\nstartxref\n{len(body)}\n%%EOF\n"
    )
    return body + tail.encode("cp1252")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def encrypted_pdf(pages: Sequence[Sequence[Row]], password: str = "secret") -> bytes:
    """Needs `password` to open: RC4 with 40 bits, PDF 1.4 algorithms 3.2 to 3.4. The text itself stays in the clear."""
    padded = (password.encode() + _PAD)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)
    ident = b"0123456789abcdef"
    flags = 0xFFFFFFFC
    key = hashlib.md5(padded + owner + flags.to_bytes(4, "little") + ident).digest()[:5]
    user = _rc4(key, _PAD)
    return make_pdf(
        pages,
        extra_trailer=f"/ID [<{ident.hex()}> <{ident.hex()}>] /Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 "
        f"/O <{owner.hex()}> /U <{user.hex()}> /P -4 >>",
    )


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def image_only_pdf() -> bytes:
    """A page with a drawn rectangle and no text."""
    stream = "0.5 g 100 100 200 200 re f"
    return _file(
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            "<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            "<< /Title () >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 6 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    )


def turned_pdf(text: str, size: float, matrix: str) -> bytes:
    """One line of text with a text matrix of its own (PDF 32000, 9.4.2)."""
    return _one_page(f"BT /F1 {size} Tf {matrix} Tm ({_escape(text)}) Tj ET")


def scanned_pdf(stamp: str, pages: int) -> bytes:
    """Pages of one grey image each, with a line of text below."""
    stream = f"q {WIDTH} 0 0 700 0 142 cm /I1 Do Q BT /F1 8 Tf 1 0 0 1 60 40 Tm ({_escape(stamp)}) Tj ET"
    image = (
        "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>\n"
        "stream\nA\nendstream"
    )
    return _one_page(stream, pages=pages, image=image)


def _one_page(stream: str, *, pages: int = 1, image: str = "<< >>") -> bytes:
    """The same content on every page."""
    kids = " ".join(f"{7 + n} 0 R" for n in range(pages))
    resources = "/Resources << /Font << /F1 3 0 R >> /XObject << /I1 6 0 R >> >>"
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] {resources} /Contents 5 0 R >>"
    return _file(
        [
            "<< /Type /Catalog /Pages 2 0 R >>",
            f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            "<< /Title () >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
            image,
            *[page] * pages,
        ]
    )


PARAGRAPHS = (
    "Barley was sown in the first week of April on all plots of the station and rolled once.",
    "The yield of the drained plots was higher by a fifth in every year but the driest one.",
    "Weeds were counted by hand in July, and the counts were repeated by a second person.",
    "Nitrogen in the soil fell during the growth of the crop and rose again in late autumn.",
)


def article(number: int = 1, *, pages: int = 1, words: str = "") -> list[list[Row]]:
    """A small paper of one column: title, abstract, sections of four paragraphs."""
    made = []
    for page in range(pages):
        rows: list[Row] = []
        y = 60.0
        if page == 0:
            rows += [(60, 60, 20, f"Barley on drained land, part {number}"), (60, 84, 10, "Ann Smith and Bo Jones")]
            rows += [
                (60, 110, 12, "Abstract"),
                (60, 128, 10, f"We report trial {number} of barley {words} on drained land."),
            ]
            y = 160.0
        for section, name in enumerate(("Introduction", "Methods", "Results")):
            rows.append((60, y, 13, f"{section + 1 + 3 * page} {name}"))
            y += 20
            for text in PARAGRAPHS:
                half = text.rfind(" ", 0, 50)
                rows += [(60, y, 10, text[:half]), (60, y + 12, 10, f"{text[half + 1 :]} {words}".strip())]
                y += 34
        made.append(rows)
    return made
