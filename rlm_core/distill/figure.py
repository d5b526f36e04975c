"""The teacher's trees before and after the filters, as a figure: turns, tokens, errors and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlm_core.records import ErrorClass, Judgement, Rollout

BEFORE, AFTER = "#9aa5b1", "#2f7ed8"


@dataclass(frozen=True, slots=True)
class TreeFacts:
    """What the figure shows of one tree."""

    turns: int
    """Of the root."""
    completion_tokens: int
    """Of all nodes; 0 where the teacher counts none (the scripted expert)."""
    characters: int
    """Written in all turns of all nodes."""
    errors: tuple[str, ...]
    """The error class of every turn of every node, `none` included."""
    reward: float | None
    """None: unjudged."""


def facts_of(trees: Sequence[Rollout], judgements: Sequence[Judgement | None]) -> list[TreeFacts]:
    return [
        TreeFacts(
            turns=len(tree.turns),
            completion_tokens=tree.usage.completion_tokens,
            characters=sum(len(turn.text) for node in tree.walk() for turn in node.turns),
            errors=tuple(str(turn.error) for node in tree.walk() for turn in node.turns),
            reward=verdict.reward if verdict else None,
        )
        for tree, verdict in zip(trees, judgements, strict=True)
    ]


def error_shares(facts: Sequence[TreeFacts]) -> dict[str, float]:
    """Share of turns with each error class but `none`, in the order of `ErrorClass`.

    Two trees with the turns (none, code) and (none, none) give code 1/4 and 0 for the others.
    """
    errors = [error for fact in facts for error in fact.errors]
    names = [str(error) for error in ErrorClass if error is not ErrorClass.NONE]
    return {name: errors.count(name) / len(errors) if errors else 0.0 for name in names}


def save_before_after(facts: Sequence[TreeFacts], kept: Sequence[bool], path: Path) -> None:
    """Write the figure as PNG: all trees, and those kept (`kept` aligns with `facts`), as shares of each set."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    after = [fact for fact, passed in zip(facts, kept, strict=True) if passed]
    sets = ((facts, f"{len(facts)} trees before", BEFORE), (after, f"{len(after)} kept", AFTER))
    figure = Figure(figsize=(11, 6), layout="constrained")
    ((turns, tokens), (errors, rewards)) = figure.subplots(2, 2)

    def histogram(axes: Axes, values: Sequence[Sequence[float]], bins: Sequence[float], name: str) -> None:
        filled = [(v, label, colour) for v, (_, label, colour) in zip(values, sets, strict=True) if v]
        if filled:
            axes.hist(
                [v for v, _, _ in filled],
                bins=list(bins),
                weights=[[1 / len(v)] * len(v) for v, _, _ in filled],
                label=[label for _, label, _ in filled],
                color=[colour for _, _, colour in filled],
            )
        axes.set_xlabel(name)
        axes.yaxis.set_major_formatter(PercentFormatter(1))

    most = max((fact.turns for fact in facts), default=1)
    histogram(
        turns, [[f.turns for f in s] for s, _, _ in sets], [i + 0.5 for i in range(most + 1)], "turns of the root"
    )
    turns.xaxis.set_major_locator(MaxNLocator(integer=True))
    counted = any(fact.completion_tokens for fact in facts)
    by_size = [[f.completion_tokens if counted else f.characters for f in s] for s, _, _ in sets]
    longest = max(by_size[0], default=0) + 1
    size = "completion tokens a tree" if counted else "characters written a tree (this teacher counts no tokens)"
    histogram(tokens, by_size, [longest * i / 12 for i in range(13)], size)
    by_reward = [[f.reward for f in s if f.reward is not None] for s, _, _ in sets]
    histogram(rewards, by_reward, [i / 10 for i in range(11)], "judge reward")
    for offset, (rows, label, colour) in zip((-0.2, 0.2), sets, strict=True):
        shares = error_shares(rows)
        errors.bar([i + offset for i in range(len(shares))], list(shares.values()), 0.4, label=label, color=colour)
        errors.set_xticks(range(len(shares)), list(shares))
    errors.set_xlabel("share of turns with an error, before turns are filtered")
    errors.yaxis.set_major_formatter(PercentFormatter(1))
    errors.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
