"""The project's Markdown pages taken apart: links, headings, fenced blocks, code spans, command lines."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<ticks>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=ticks)[ ]*$", re.M | re.S)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str


@cache
def tracked() -> tuple[str, ...]:
    """Files of the checkout: those that git knows, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(sorted({name for name in listed if (ROOT / name).is_file()}))


@cache
def pages() -> tuple[str, ...]:
    return tuple(name for name in tracked() if name.endswith(".md"))


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(page, found["language"], found["text"]) for found in _FENCE.finditer(text_of(page))]


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def spans(page: str) -> list[str]:
    """Code spans; one that is broken over lines is joined."""
    return [re.sub(r"\s*\n\s*", " ", found) for found in _SPAN.findall(prose(page))]


def links(page: str) -> list[str]:
    return _LINK.findall(_SPAN.sub("", prose(page)))


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(page), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen = found.get(name, 0)
        found[name] = seen + 1
        names.add(f"{name}-{seen}" if seen else name)
    return names


def shell_lines(page: str) -> Iterator[str]:
    """Lines of shell blocks, each a whole command; comments and continuations are gone."""
    for block in blocks(page):
        if block.language in ("", "bash", "sh", "console"):
            yield from commands(block.text)


def commands(text: str) -> Iterator[str]:
    """The commands of a shell text, one by one."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = re.split(r"(?:^|\s)#(?:\s|$)", line)[0].strip()
        yield from (part.strip() for part in re.split(r"&&|\s[|>]+\s|;", _quoted(line)) if part.strip())


def _quoted(line: str) -> str:
    """Signs that join commands, hidden where they stand in quotes."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", lambda found: re.sub(r"[&|;]", "_", found[0]), line)
