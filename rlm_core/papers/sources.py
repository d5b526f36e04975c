"""Where PDFs come from: a folder of the user's own, or a list of addresses with checksums."""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_core.files import sha256_file
from rlm_core.papers.problems import PdfProblem, check_file

log = logging.getLogger("rlm.papers")


@dataclass(frozen=True, slots=True)
class Source:
    """One paper that is wanted: a file, or an address with its checksum."""

    id: str
    location: str
    """Path of a file, or a URL."""
    sha256: str = ""
    title: str = ""
    licence: str = ""


class SourceError(ValueError):
    """A folder or manifest that cannot be used, or a download that failed for good; the message says what to do."""


MAX_ID = 120
"""Characters of an id, so that names made from it fit into the 255 bytes of a file's."""


def make_id(name: str) -> str:
    """A name made fit for an id and a file name: letters, digits, dots, dashes and underscores, at most `MAX_ID`."""
    id = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "paper"
    return id if len(id) <= MAX_ID else f"{id[: MAX_ID - 9]}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"


def unique_ids(names: Iterable[str]) -> list[str]:
    """Ids for the names, in order; a name met before (in any case) gets -2, -3, ..."""
    taken: set[str] = set()
    ids = []
    for name in names:
        base = make_id(name)
        candidate, count = base, 2
        while candidate.lower() in taken:
            candidate, count = f"{base}-{count}", count + 1
        taken.add(candidate.lower())
        ids.append(candidate)
    return ids


def from_directory(folder: Path) -> list[Source]:
    """All that `pdf_files` finds; ids come from the file names."""
    if not folder.is_dir():
        raise SourceError(f"papers.directory: {folder} is not a folder; name the folder with your PDFs")
    files = pdf_files(folder)
    if not files:
        raise SourceError(f"papers.directory: no *.pdf file below {folder}; put PDFs there or name another folder")
    return [Source(id, str(path)) for id, path in zip(unique_ids(f.stem for f in files), files, strict=True)]


def pdf_files(folder: Path) -> list[Path]:
    """All *.pdf below `folder` but folders so named, sorted; links to folders are not followed.

    Links to nothing, pipes and the like are among them, so that each is told. A folder that cannot be read is logged.
    """

    def tell(error: OSError) -> None:
        log.warning("%s is not looked into: %s; make the folder readable", error.filename, error.strerror)

    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(folder, onerror=tell)
        for name in names
        if name.lower().endswith(".pdf")
    )


def shown(path: str) -> str:
    """A path as text that can be written: bytes of a file name that are no UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def from_manifest(path: Path) -> list[Source]:
    """Rows of a .jsonl or .tsv file with url, sha256 and optional id, title, licence; raises `SourceError` naming the line."""
    if not path.is_file():
        raise SourceError(f"papers.manifest: no such file: {path}")
    rows = list(_rows(path))
    if not rows:
        raise SourceError(f"papers.manifest: {path} lists no paper")
    names = []
    for number, row in rows:
        for key in ("url", "sha256"):
            if not str(row.get(key) or "").strip():
                raise SourceError(
                    f"papers.manifest: {path}:{number}: {key!r} is missing; every row needs url and sha256"
                )
        if not re.fullmatch(r"[0-9a-fA-F]{64}", str(row["sha256"]).strip()):
            raise SourceError(
                f"papers.manifest: {path}:{number}: sha256 {row['sha256']!r} is not 64 hexadecimal digits"
            )
        if fault := _url_fault(str(row["url"]).strip()):
            raise SourceError(f"papers.manifest: {path}:{number}: url {row['url']!r} {fault}")
        names.append(str(row.get("id") or Path(str(row["url"]).split("?")[0]).stem))
    ids = unique_ids(names)
    return [
        Source(
            id=id,
            location=str(row["url"]).strip(),
            sha256=str(row["sha256"]).strip().lower(),
            title=str(row.get("title") or ""),
            licence=str(row.get("licence") or row.get("license") or ""),
        )
        for id, (_, row) in zip(ids, rows, strict=True)
    ]


def _url_fault(url: str) -> str:
    import httpx

    if not re.match(r"https?://", url):
        return "does not start with http:// or https://"
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        return f"is no address ({error})"
    if (address.port or 0) > 65535:
        return f"is no address (there is no port {address.port})"
    return "" if address.host else "names no host"


def _rows(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"papers.manifest: {path} is not text in UTF-8 ({error}); save it as UTF-8") from error
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise SourceError(f"papers.manifest: {path}:{number}: not JSON ({error})") from error
                if not isinstance(row, dict):
                    raise SourceError(f"papers.manifest: {path}:{number}: expected an object with url and sha256")
                yield number, row
    elif path.suffix.lower() == ".tsv":
        reader = csv.DictReader(text.splitlines(), delimiter="\t", restkey="rest")
        try:
            yield from ((number, dict(row)) for number, row in enumerate(reader, 2))
        except csv.Error as error:
            raise SourceError(f"papers.manifest: {path}:{reader.line_num}: not a table ({error})") from error
    else:
        raise SourceError(f"papers.manifest: {path} is neither .jsonl nor .tsv")


def check(path: Path) -> PdfProblem | None:
    """What is wrong with a file as far as its bytes show, or None."""
    try:
        check_file(path)
    except PdfProblem as problem:
        return problem
    return None


def download(
    source: Source,
    target: Path,
    *,
    attempts: int = 5,
    wait: Callable[[float], None] = time.sleep,
    transport: Any = None,
) -> None:
    """Fetch one file to `target`, resuming a part that an earlier try left (`target` + .part), and check its sha256.

    Refused connections, cut streams, 429 (its Retry-After obeyed) and 5xx are tried again with doubling waits. Raises
    `SourceError` for anything else, for a wrong checksum of a whole fresh download, and after the last attempt.
    """
    import httpx

    if target.is_file() and sha256_file(target) == source.sha256:
        return
    part = target.with_name(target.name + ".part")
    trouble = ""
    with httpx.Client(follow_redirects=True, timeout=60.0, transport=transport) as client:
        for attempt in range(attempts):
            if attempt:
                wait(min(60.0, _retry_after(trouble) or 2.0**attempt))
            resumed = part.exists() and part.stat().st_size > 0
            try:
                trouble = _fetch(client, source, part)
            except httpx.HTTPError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if trouble:
                continue
            got = sha256_file(part)
            if got == source.sha256:
                part.replace(target)
                return
            part.unlink()
            trouble = f"sha256 is {got}, expected {source.sha256}"
            if not resumed:
                break
    raise SourceError(f"{source.id}: {source.location}: {trouble}; check the address and the checksum in the manifest")


def _fetch(client: Any, source: Source, part: Path) -> str:
    """Append to `part` what is missing; returns why it should be tried again, or nothing."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with client.stream("GET", source.location, headers=headers) as answer:
        if answer.status_code == 416:  # the part is as long as the file, or longer
            return ""
        if answer.status_code == 429 or answer.status_code >= 500:
            return f"status {answer.status_code}; retry-after={answer.headers.get('retry-after', '')}"
        if answer.status_code not in (200, 206):
            raise SourceError(f"{source.id}: {source.location}: status {answer.status_code}; check the address")
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab" if answer.status_code == 206 else "wb") as out:
            for block in answer.iter_bytes(1 << 16):
                out.write(block)
    return ""


def _retry_after(trouble: str) -> float:
    match = re.search(r"retry-after=(\d+(?:\.\d+)?)", trouble)
    return float(match.group(1)) if match else 0.0
