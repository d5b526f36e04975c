"""The opening messages of a node: a system message (role, tools, limits, strategy) and a user message (the question)."""

from __future__ import annotations

from rlm_core.prompts.functions import CONTEXT_RULE, functions_for
from rlm_core.prompts.strategies import strategy_for
from rlm_core.prompts.style import Allowance, PromptStyle, Task

QUESTION = "Question: "
"""What the question's line starts with."""

_TITLES_SHOWN = 20


def opening(task: Task, style: PromptStyle, allowance: Allowance) -> tuple[tuple[str, str], ...]:
    """The (role, content) messages before the first turn. The turn cue is added to the last one when it is shown."""
    if style.variant == "compact":
        return (("system", _compact_system(task, style, allowance)), ("user", QUESTION + task.question))
    system = "\n\n".join(_system_parts(task, style, allowance))
    return (("system", system), ("user", f"{QUESTION}{task.question}\n\n{_describe_context(task)}"))


def _compact_system(task: Task, style: PromptStyle, allowance: Allowance) -> str:
    goal = "Find the evidence for the question in the papers." if task.papers is not None else "Answer the question."
    if task.is_child and task.papers is not None:
        goal = "You are a child: find the evidence for the question in the paper, or answer with an empty list."
    lines = [f"{goal} Write a ```python block; you see what it prints."]
    lines += [str(f) for f in functions_for(task, style, allowance)]
    if style.strategy:
        lines.append(strategy_for(task, style, allowance))
    return "\n".join(lines)


def _system_parts(task: Task, style: PromptStyle, allowance: Allowance) -> list[str]:
    parts = [_role(task), _working(style)]
    functions = "\n".join(f"- {f}" for f in functions_for(task, style, allowance))
    parts.append(f"In the REPL there are `context` (what there is to read) and these functions:\n{functions}")
    if limits := _limits(style, allowance):
        parts.append(limits)
    if style.variant == "warn-subcalls" and allowance.may_ask(style):
        parts.append(_WARNING)
    parts.append(_answering(task))
    if style.strategy:
        parts.append(f"How to go about it:\n{strategy_for(task, style, allowance)}")
    return parts


def _role(task: Task) -> str:
    what = {"single": "a paper", "multi": "several papers", "text": "a context"}[task.scope]
    role = f"You answer a question about {what}, too long to read at once, by writing Python code in a REPL."
    if task.is_child:
        role += " You were asked by another model, which works on a larger question; your answer goes to its program."
    return role


def _working(style: PromptStyle) -> str:
    shown = f"up to {style.output_chars:,} characters a turn; of more, the head and the tail"
    return (
        "In each turn write code in a block that starts with ```python and ends with ``` on lines of their own. "
        f"It is run, and you are shown what it prints ({shown}). "
        "Several blocks run in order; text after them is ignored. Variables stay, also after an exception. "
        f"You have {style.max_turns} turn{'s' if style.max_turns > 1 else ''} "
        f"of at most {style.max_tokens_per_turn:,} tokens each."
    )


def _limits(style: PromptStyle, allowance: Allowance) -> str:
    """The limits on asking others, from the node's own budget."""
    if not allowance.may_ask(style):
        return ""
    at_once = min(style.max_prompts_per_call, allowance.subcalls)
    text = f"At most {at_once} prompts in one batched call, and {allowance.subcalls} in all, further down included."
    if not allowance.may_recurse(style):
        return text + " You may not start child RLMs."
    levels = f"{allowance.depth_left} level{'s' if allowance.depth_left > 1 else ''}"
    return f"{text} Children may go {levels} deep. {CONTEXT_RULE}"


_WARNING = (
    "IMPORTANT: sub-calls are slow and costly. Search and filter with plain Python first, never ask one sub-call a line or a "
    "passage, put as much as fits into each prompt, and do not ask again for what you already know."
)


def _answering(task: Task) -> str:
    if task.papers is None:
        return "Look at the context before you answer; answer as soon as you are sure, in the form that the question asks for."
    return (
        "The answer is a Python list of strings: the passages that hold the evidence, each copied exactly from a paper's text "
        "(not retold, not shortened by dots). An empty list is a valid answer when there is none."
    )


def _describe_context(task: Task) -> str:
    if task.papers is None:
        kind = type(task.context).__name__
        size = f"{len(task.context):,} {'characters' if isinstance(task.context, str) else 'entries'}"
        return f"`context` is a {kind} of {size}."
    rows = [f"{key}: {paper.get('title') or '(no title)'}" for key, paper in task.papers.items()]
    shown = rows[:_TITLES_SHOWN]
    if len(rows) > len(shown):
        shown.append(f"... and {len(rows) - len(shown)} more: list_papers() gives them all")
    total = sum(len(paper["text"]) for paper in task.papers.values())
    head = f'`context` is a dict {{id: {{"title", "abstract", "text"}}}} of {len(rows)} paper{"s" if len(rows) > 1 else ""}, '
    return f"{head}{total:,} characters of text:\n" + "\n".join(shown)
