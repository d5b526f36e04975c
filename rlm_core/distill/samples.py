"""One SFT row a turn: the exact tokens that the student will read there, and the tokens it should say."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlm_core.policies.base import Message
from rlm_core.policies.rendering import ChatRenderer
from rlm_core.prompts import messages_at
from rlm_core.records import Rollout


@dataclass(frozen=True, slots=True)
class SftRow:
    """Of a root's second turn, prompt_ids hold system, task, turn 1, what it printed and the cue; the loss is on the rest."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Ends with the token that ends a turn."""
    node_id: str
    turn: int
    role: str
    """`root` or `child`."""
    reward: float
    """The tree's, from the judge."""
    query_id: str

    @property
    def num_tokens(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)

    def to_dict(self) -> dict[str, Any]:
        return {
            "prompt_ids": list(self.prompt_ids),
            "completion_ids": list(self.completion_ids),
            "node_id": self.node_id,
            "turn": self.turn,
            "role": self.role,
            "reward": self.reward,
            "query_id": self.query_id,
        }


def turn_row(node: Rollout, index: int, text: str, renderer: ChatRenderer, *, reward: float, query_id: str) -> SftRow:
    """The row of turn `index`, whose completion is `text` (mended perhaps).

    The teacher's own ids are used where they are ids of the student's tokenizer, that is, where they say the recorded
    text; else text is tokenised once, message by message, as a roll-out of the student does.
    """
    messages = [_as_student_reads(m, renderer) for m in messages_at(node, index)]
    prompt_ids = renderer.prompt_ids(messages)
    turn = node.turns[index]
    own = text == turn.text and _says(turn.completion_ids, text, renderer)
    completion_ids = _ended(turn.completion_ids, renderer) if own else renderer.completion_ids(text)
    role = "root" if node.depth == 0 else "child"
    return SftRow(prompt_ids, completion_ids, node.id, index, role, reward, query_id)


def turn_rows(node: Rollout, renderer: ChatRenderer, *, reward: float, query_id: str) -> list[SftRow]:
    """All turns of a node as they are."""
    return [
        turn_row(node, i, turn.text, renderer, reward=reward, query_id=query_id) for i, turn in enumerate(node.turns)
    ]


def prefix_breaks(rows: list[SftRow]) -> int:
    """Of rows of one node in order, how many prompts do not begin with the row before them, prompt and completion.

    Zero with kept cues and nothing mended; then a rollout's turns can be computed as one sequence.
    """
    breaks = 0
    for before, after in pairwise(rows):
        head = (*before.prompt_ids, *before.completion_ids)
        breaks += after.prompt_ids[: len(head)] != head
    return breaks


def _as_student_reads(message: Message, renderer: ChatRenderer) -> Message:
    if message.token_ids is None or _says(message.token_ids, message.content, renderer):
        return message
    return Message(message.role, message.content)


def _says(ids: tuple[int, ...], text: str, renderer: ChatRenderer) -> bool:
    """Whether `ids` are the student's tokens of `text`."""
    if not ids or max(ids) >= len(renderer.tokenizer):
        return False
    return renderer.decode(ids) == text


def _ended(ids: tuple[int, ...], renderer: ChatRenderer) -> tuple[int, ...]:
    return ids if ids[-1] in renderer.stop_ids else (*ids, renderer.end_of_turn_id)
