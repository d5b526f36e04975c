"""A rollout tree as one self-contained HTML page: folds without a script, readable on a phone and in the dark.

All texts are a model's or a document's and so hostile: each is escaped, the page has no script, and its policy
(Content-Security-Policy) lets a browser load nothing and run nothing, whatever a text holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from rlm_core.protocol import parse_turn
from rlm_core.records import ErrorClass, Rollout, Status, Turn, Usage

_LONGEST = 200_000
"""Characters of one text; what is longer is cut, and says so."""

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; --dim: #777; --good: #17803d; --bad: #c02626; --link: #2563c9 }
@media (prefers-color-scheme: dark) { :root { --dim: #9a9a9a; --good: #4ade80; --bad: #f87171; --link: #7ab0ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.25rem; margin: 0 0 .25rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .5rem 0 1rem }
dt, .dim { color: var(--dim) }
dd { margin: 0 }
details { border-left: 2px solid var(--line); margin: .4rem 0; padding-left: .6rem }
details.node { border-left: 3px solid var(--link) }
summary { cursor: pointer; padding: .15rem 0 }
summary:focus-visible { outline: 2px solid var(--link) }
pre { background: var(--soft); padding: .5rem .6rem; margin: .3rem 0; border-radius: .3rem; max-height: 32rem; overflow: auto;
  font: .85rem/1.45 ui-monospace, monospace; white-space: pre-wrap }
pre.out { border: 1px dashed var(--line); background: none }
.good { color: var(--good) } .bad { color: var(--bad) }
.tag { border: 1px solid currentColor; border-radius: .6rem; padding: 0 .4rem; font-size: .8rem; white-space: nowrap }
@media (max-width: 30rem) { body { padding: .6rem } details { padding-left: .35rem } pre { font-size: .78rem } }
@media print { pre { max-height: none } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def tree_page(rollout: Rollout) -> str:
    """The page as text. The root's turns are open; prompts, children and plain model calls are folded."""
    facts = [
        ("status", _status(rollout)),
        ("answer", _answer(rollout)),
        ("policy", escape(rollout.policy) or "-"),
        ("query", escape(rollout.query_id) or "-"),
        ("cost", escape(_usage(rollout.usage))),
    ]
    title = escape(f"{rollout.id}: {rollout.question}"[:120])
    page = "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(rollout.question) or 'a rollout tree'}</h1>",
            f'<div class="dim">{escape(rollout.id)}</div>',
            "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts) + "</dl>",
            *_node_body(rollout),
            "</body></html>",
            "",
        ]
    )
    return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written


def _node_body(node: Rollout) -> Iterator[str]:
    if node.opening:
        yield _fold("the prompt", (f'<div class="dim">{escape(role)}</div>{_pre(text)}' for role, text in node.opening))
    for index, turn in enumerate(node.turns):
        children = [child for child in node.children if child.parent_turn == index]
        calls = [call for call in node.provenance.get("calls", ()) if call.get("turn") == index]
        yield _fold(_turn_title(index, turn), _turn_body(turn, children, calls), opened=True)
    strays = [c for c in node.children if c.parent_turn is None or not 0 <= c.parent_turn < len(node.turns)]
    yield from (_child(child) for child in strays)


def _turn_body(turn: Turn, children: list[Rollout], calls: list[dict[str, Any]]) -> Iterator[str]:
    blocks = parse_turn(turn.text).code_blocks
    if blocks:
        yield from (_pre(block) for block in blocks)
        if len("".join(blocks)) + 20 * len(blocks) < len(turn.text):
            yield _fold("the whole turn", [_pre(turn.text)])
    else:
        yield _pre(turn.text)
    yield from (_call(call) for call in calls)
    yield from (_child(child) for child in children)
    if turn.observation:
        yield _pre(turn.observation, kind="out")


def _child(node: Rollout) -> str:
    title = (
        f"<b>{escape(node.id)}</b> {_status(node)} {escape(_flat(node.question, 160))} "
        f'<span class="dim">{escape(_usage(node.usage))}</span>'
    )
    answer = f'<div><span class="dim">answer</span> {_answer(node)}</div>'
    return _fold(title, [answer, *_node_body(node)], kind="node")


def _call(call: dict[str, Any]) -> str:
    failure = call.get("failure") or call.get("error")
    reply = _pre(str(failure), kind="out bad") if failure else _pre(str(call.get("text", "")), kind="out")
    title = f'model call <span class="dim">{escape(_flat(str(call.get("prompt", "")), 120))}</span>'
    return _fold(title, [_pre(str(call.get("prompt", ""))), reply])


def _turn_title(index: int, turn: Turn) -> str:
    tokens = f"{len(turn.prompt_ids)}+{len(turn.completion_ids)} tokens  " if turn.completion_ids else ""
    measured = turn.model_seconds or turn.repl_seconds
    times = f"model {turn.model_seconds:.2f} s, code {turn.repl_seconds:.2f} s" if measured else ""
    error = "" if turn.error is ErrorClass.NONE else f' <span class="tag bad">{escape(str(turn.error))} error</span>'
    return f'turn {index + 1} <span class="dim">{tokens}{times}</span>{error}'


def _status(node: Rollout) -> str:
    kind = "good" if node.status is Status.ANSWERED else "bad"
    why = f" {escape(_flat(node.failure, 300))}" if node.failure else ""
    return f'<span class="tag {kind}">{escape(str(node.status))}</span>{why}'


def _answer(node: Rollout) -> str:
    if node.answer is None:
        return '<span class="dim">none</span>'
    if isinstance(node.answer, list) and node.answer and all(isinstance(item, str) for item in node.answer):
        return "<ol>" + "".join(f"<li>{escape(_cut(item))}</li>" for item in node.answer) + "</ol>"
    text = node.answer if isinstance(node.answer, str) else json.dumps(node.answer, ensure_ascii=False, indent=1)
    return _pre(text)


def _usage(usage: Usage) -> str:
    parts = [f"{usage.turns} turns"]
    if usage.children:
        parts.append(f"{usage.children} children")
    if usage.prompt_tokens or usage.completion_tokens:
        parts.append(f"{usage.prompt_tokens}+{usage.completion_tokens} tokens")
    if usage.wall_seconds:
        parts.append(f"{usage.wall_seconds:.1f} s")
    return ", ".join(parts)


def _fold(title: str, body: Iterable[str], *, opened: bool = False, kind: str = "") -> str:
    """`title` and `body` are markup already."""
    attributes = (f' class="{kind}"' if kind else "") + (" open" if opened else "")
    return f"<details{attributes}><summary>{title}</summary>{''.join(body)}</details>"


def _pre(text: str, *, kind: str = "") -> str:
    # a newline that follows the tag is dropped by browsers: one more keeps the text's own
    return f"<pre{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>\n{escape(_cut(text))}</pre>"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n[... {len(text) - _LONGEST} more characters ...]"


def _flat(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}..."
