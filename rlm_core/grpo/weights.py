"""Rollout trees with advantages -> turn samples with weights, so that `L = sum(weight * turn_loss)`.

The loss of a tree (any depth)::

    loss(node) = 1/T * sum_t turn_loss(t)  +  1/K * sum_k loss(child_k)        T turns, K children
    L          = 1/N * sum_i loss(root_i)                                      N trees with an advantage

unrolls to one weight a turn: a node of mass m gives each of its turns m/T and each of its children the mass m/K.
A root has mass 1. A tree without children thus weighs 1, one with children 2, one more a level (`tree_mass: per_node`);
`constant` divides by that sum, so that every tree weighs 1.

Variants (`GrpoParams`): `children: no_division` gives each child its parent's whole mass, `root_only` and `frozen`
(children act with the SFT model) train no child.
`token_aggregation: node_mean` splits a node's mass over its tokens instead of its turns; `constant` replaces a turn's
mean over n tokens by the sum over them divided by `token_normaliser`, that is, scales the turn by n / normaliser.
`length_cut: mask` leaves out turns cut at the token limit; it changes no other turn's weight (`drop` leaves out the tree
before there are advantages: `batches.advantages_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlm_core.params import GrpoParams
from rlm_core.records import ErrorClass, Rollout, Turn, TurnSample


def turn_samples(
    rollouts: Sequence[Rollout], advantages: Sequence[float | None], config: GrpoParams | None = None
) -> list[TurnSample]:
    """Every trainable turn of every tree that has an advantage, parents before children, turns in order.

    `rollouts[i]` is a root and `advantages[i]` its tree's, inherited by all of its nodes; None leaves the tree out and it
    is not counted in N. Raises `ValueError` when lengths differ or a turn lacks the tokens that were sampled.

    A root of 2 turns with children of 1 and 4 turns, alone: weights 1/2, 1/2 | 1/2 | 1/8 four times.
    """
    config = config or GrpoParams()
    if len(rollouts) != len(advantages):
        raise ValueError(f"{len(rollouts)} rollouts but {len(advantages)} advantages: give one a tree")
    pairs = [(tree, a) for tree, a in zip(rollouts, advantages, strict=True) if a is not None]
    samples = []
    for tree, advantage in pairs:
        weighted = list(_spread(tree, 1.0, config))
        # The mass of the tree as defined, before masking: masking a turn moves no other turn's weight.
        mass = sum(_masses(tree, 1.0, config)) if config.tree_mass == "constant" else 1.0
        for node, index, weight in weighted:
            turn = node.turns[index]
            if _trains(node, index, turn, config):
                samples.append(
                    TurnSample(
                        turn.prompt_ids,
                        turn.completion_ids,
                        turn.logprobs,
                        advantage=advantage,
                        weight=weight / (mass * len(pairs)),
                        node_id=node.id,
                    )
                )
    return samples


def _spread(node: Rollout, mass: float, config: GrpoParams) -> Iterator[tuple[Rollout, int, float]]:
    """(node, index of the turn, weight) over the tree, parents first."""
    lengths = [len(turn.completion_ids) for turn in node.turns]
    for index, length in enumerate(lengths):
        if config.token_aggregation == "turn_mean":
            share = 1 / len(lengths)
        elif config.token_aggregation == "node_mean":
            share = length / max(1, sum(lengths))
        else:
            share = length / (config.token_normaliser * len(lengths))
        yield node, index, mass * share
    for child, child_mass in _children(node, mass, config):
        yield from _spread(child, child_mass, config)


def _masses(node: Rollout, mass: float, config: GrpoParams) -> Iterator[float]:
    yield mass if node.turns else 0.0
    for child, child_mass in _children(node, mass, config):
        yield from _masses(child, child_mass, config)


def _children(node: Rollout, mass: float, config: GrpoParams) -> Iterator[tuple[Rollout, float]]:
    if config.children in ("root_only", "frozen"):
        return
    divisor = 1 if config.children == "no_division" else len(node.children)
    for child in node.children:
        yield child, mass / divisor


def _trains(node: Rollout, index: int, turn: Turn, config: GrpoParams) -> bool:
    """Whether the turn gives a sample; raises when it should but its tokens are not known."""
    if not turn.completion_ids and not turn.text:
        return False
    where = f"rollout {node.id!r} turn {index}"
    if not turn.prompt_ids or not turn.completion_ids:
        raise ValueError(
            f"{where}: {len(turn.prompt_ids)} prompt and {len(turn.completion_ids)} completion token ids; "
            "roll out with a policy that returns the ids it read and sampled"
        )
    if len(turn.logprobs) != len(turn.completion_ids):
        raise ValueError(
            f"{where}: {len(turn.logprobs)} logprobs for {len(turn.completion_ids)} tokens; "
            "request logprobs of the sampled tokens"
        )
    return not (config.length_cut == "mask" and is_cut(turn))


def is_cut(turn: Turn) -> bool:
    """Whether the turn was cut at the token limit."""
    return turn.finish_reason == "length" or turn.error == ErrorClass.LENGTH
