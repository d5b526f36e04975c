"""How to go about a task, as prompts put it; a strategy in the prompt shortens rollouts to a third."""

from __future__ import annotations

from rlm_core.prompts.style import Allowance, PromptStyle, Task


def strategy_for(task: Task, style: PromptStyle, allowance: Allowance) -> str:
    """The steps for this scope, naming only functions that the node may use."""
    recurse = allowance.may_recurse(style)
    if style.variant == "compact":
        return _compact(task, style, allowance)
    if task.papers is None:
        return _text(recurse=recurse, ask=allowance.may_ask(style))
    if task.scope == "multi":
        return _multi(style, allowance) if recurse else _multi_alone()
    return _single(child=task.is_child)


def batch_size(style: PromptStyle, allowance: Allowance) -> int:
    """Children that one call may ask."""
    return min(style.max_prompts_per_call, allowance.subcalls)


def _compact(task: Task, style: PromptStyle, allowance: Allowance) -> str:
    if task.papers is None:
        return "First look at `context` with code, then answer."
    if task.scope == "multi" and allowance.may_recurse(style):
        at_once = batch_size(style, allowance)
        return (
            "First list the papers. Then ask a child the question for each, with the paper as context, at most "
            f"{at_once} a call. Then answer with all that they found."
        )
    return "First search for the key phrase of the question and print. Then answer with the passages that fit."


def _single(*, child: bool) -> str:
    steps = [
        "1. Search for the key phrase of the question and print the passages.",
        "2. If they do not fit, search for synonyms, single rare words, abbreviations. The text comes from a PDF: words may "
        "be run together or split.",
        "3. Where a passage is cut, widen it: search(..., window=1200), or extract_section(start_phrase, end_phrase).",
        "4. In a later turn, having read them, answer with the passages that hold the evidence, whole paragraphs of them.",
    ]
    if child:
        steps.append("If the paper says nothing about it, answer with an empty list rather than with something near.")
    return "\n".join(steps)


def _multi(style: PromptStyle, allowance: Allowance) -> str:
    at_once = batch_size(style, allowance)
    return "\n".join(
        [
            "1. List the papers, and search for the key phrase and its synonyms to see which of them matter.",
            f"2. Ask one child for each paper that may matter: rlm_query_batched(prompts, paper_ids), at most {at_once} a "
            "call. A prompt says the whole question, what to return (a list of passages copied from the paper) and the paper's "
            "abstract.",
            "3. Join the lists that they return; a slot of a failed child is a dict with the key 'error'.",
            "4. In a later turn answer with the joined list by FINAL_VAR. Do not filter the children's passages again.",
        ]
    )


def _multi_alone() -> str:
    return "\n".join(
        [
            "1. Search all papers for the key phrase of the question and its synonyms; print the passages.",
            "2. Look paper by paper where one may hold more: search(..., paper=id), extract_section(...).",
            "3. Collect passages in a list, and in a later turn answer with it by FINAL_VAR.",
        ]
    )


def _text(*, recurse: bool, ask: bool) -> str:
    steps = [
        "1. Print the type, the size and the first lines of `context` to learn its structure.",
        "2. Narrow it down with Python: split, search, count, filter.",
    ]
    if recurse:
        steps.append(
            "3. Where meaning must be judged, give large pieces to children: rlm_query_batched(prompts, pieces)."
        )
    elif ask:
        steps.append("3. Where meaning must be judged, ask llm_query_batched with large pieces in the prompts.")
    steps.append(f"{len(steps) + 1}. Build the answer in a variable, check it, and answer with it in a later turn.")
    return "\n".join(steps)
