"""What a child reads: a parent's program names it by paper ids, or hands it over as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm_core.prompts import Task

_LONGEST_ID = 300
"""Characters of a paper's id or of its row in `list_papers()`; what is longer is a text."""


def child_context(wanted: Any, parent: Any) -> Any:
    """The context that a child gets. Raises `ValueError` with a message for the model.

    None: the parent's own. A paper id (or a row "id: title" of `list_papers()`): that paper. A list of them, which may arrive
    joined by blank lines: those papers. Any other text or list of texts: that text. A dict: itself.
    """
    if wanted is None:
        return parent
    papers = Task("", parent).papers or {}
    if isinstance(wanted, str):
        return _from_list(wanted.split("\n\n"), papers)
    if isinstance(wanted, Mapping):
        return dict(wanted)
    if isinstance(wanted, Sequence) and wanted and all(isinstance(item, str) for item in wanted):
        return _from_list(wanted, papers)
    raise ValueError(
        f"a context must be a paper id, a list of paper ids, a text or a dict, got {type(wanted).__name__} {wanted!r:.60}"
    )


def _from_list(wanted: Sequence[str], papers: Mapping[str, Any]) -> Any:
    keys = [paper_id(item, papers) for item in wanted]
    if not all(keys):
        if any(keys) and max(map(len, wanted)) <= _LONGEST_ID:
            unknown = next(item for item, key in zip(wanted, keys, strict=True) if key is None)
            raise ValueError(f"no paper {unknown!r}; the papers are {', '.join(list(papers)[:20])}")
        return "\n\n".join(wanted)
    return {key: papers[key] for key in keys if key is not None}


def paper_id(text: str, papers: Mapping[str, Any]) -> str | None:
    """The id that a string means: the id itself, or a row "id: title"."""
    text = text.strip()
    if text in papers:
        return text
    head = text.split(":", 1)[0].strip()
    return head if head in papers and len(text) <= _LONGEST_ID else None


def pair_up(prompts: Any, contexts: Any) -> list[tuple[str, Any]]:
    """The (prompt, context) pairs of a batched call. Raises `ValueError` with a message for the model.

    One prompt with a list of contexts asks the same of each; one context (a string or a dict) goes with every prompt.
    """
    each_has_one = isinstance(contexts, Sequence) and not isinstance(contexts, str)
    if isinstance(prompts, str):
        prompts = [prompts] * len(contexts) if each_has_one else [prompts]
    prompts = check_prompts(prompts)
    if not each_has_one:
        return [(prompt, contexts) for prompt in prompts]
    if len(contexts) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts but {len(contexts)} contexts: give one context for each prompt")
    return list(zip(prompts, contexts, strict=True))


def check_prompts(prompts: Any) -> list[str]:
    if not isinstance(prompts, Sequence) or isinstance(prompts, str):
        raise ValueError(f"prompts must be a list of strings, got {type(prompts).__name__}")
    wrong = [p for p in prompts if not isinstance(p, str) or not p.strip()]
    if wrong:
        raise ValueError(f"each prompt must be a string that is not empty, got {wrong[0]!r:.60}")
    return list(prompts)
