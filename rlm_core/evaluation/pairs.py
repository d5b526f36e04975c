"""The same questions answered before and after training, side by side, as Markdown for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlm_core.printable import printable
from rlm_core.records import Rollout

SHOWN_CHARS = 700
"""Of a turn's text and of what it printed."""


class ExamplePair(NamedTuple):
    """Two rows of `reports/rollouts.jsonl` that answer one question."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]


def example_pairs(rows: Sequence[Mapping[str, Any]], before: str, after: str, count: int) -> list[ExamplePair]:
    """At most `count` questions that both arms answered, taking in turn from each reason for which they are shown: gains,
    losses and those that stand there by order get the same room. Raises `ValueError` for an arm that has no rows."""
    arms = {str(row["arm"]) for row in rows}
    if missing := [arm for arm in (before, after) if arm not in arms]:
        raise ValueError(f"no rollouts of the arm {missing[0]}; there are {', '.join(sorted(arms)) or 'none'}")
    first = {row["query_id"]: row for row in rows if row["arm"] == before}
    groups: dict[str, list[ExamplePair]] = {}
    for row in rows:
        if row["arm"] == after and row["query_id"] in first:
            groups.setdefault(row["why"], []).append(ExamplePair(first[row["query_id"]], row))
    longest = max((len(group) for group in groups.values()), default=0)
    in_turn = [group[n] for n in range(longest) for group in groups.values() if n < len(group)]
    return in_turn[:count]


def pairs_markdown(pairs: Sequence[ExamplePair]) -> str:
    """One section a question: gold evidence, then each arm's turns and answer. Children are a line each."""
    lines: list[str] = []
    for number, pair in enumerate(pairs, start=1):
        row = pair.after
        lines += [f"## {number}. {_inline(row['question'])}", ""]
        lines += [f"{row['kind']}-paper, tier {row['tier']}, query `{row['query_id']}`, shown for: {row['why']}.", ""]
        lines += ["Gold evidence:", ""]
        lines += [f"> `{passage['paper_id']}` {_inline(passage['text'])}\n" for passage in row["gold"]]
        for shown in pair:
            lines += list(_answered(shown))
    return "\n".join(lines).rstrip() + "\n"


def _answered(row: Mapping[str, Any]) -> Iterator[str]:
    rollout = Rollout.from_dict(row["rollout"])
    verdict = row["judgement"]
    scored = f"{verdict['judge']} judge {verdict['reward']:.2f}" if verdict else "not judged"
    f1 = "" if row["f1"] is None else f", evidence F1 {row['f1']:.2f}"
    yield f"### {row['arm']}: {scored}{f1}, {rollout.status}, {len(rollout.turns)} turns, {len(rollout.children)} children"
    for index, turn in enumerate(rollout.turns):
        yield f"\nTurn {index + 1}"
        yield from _block(turn.text)
        for child in rollout.children:
            if child.parent_turn == index:
                answer = json.dumps(child.answer, ensure_ascii=False)
                yield f"- child, {len(child.turns)} turns, {child.status}: {_inline(_cut(answer, 160))}"
        if turn.observation:
            yield "\nprinted"
            yield from _block(turn.observation)
    yield "\nAnswer"
    yield from _block(json.dumps(rollout.answer, ensure_ascii=False, indent=1))
    yield ""


def _block(text: str) -> Iterator[str]:
    """A fenced block that no run of backticks in the text can end."""
    shown = printable(_cut(text.strip(), SHOWN_CHARS))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    yield f"\n{fence}text\n{shown}\n{fence}"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]} [... {len(text) - chars:,} characters more]"


def _inline(text: str) -> str:
    """One line of text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", printable(" ".join(text.split())))
