"""The exact messages of a turn, for the loop that asks and for whoever reads the record later: one truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rlm_core.policies.base import Message, Role
from rlm_core.records import Rollout, Turn


def build_messages(
    opening: Sequence[tuple[str, str]], turns: Sequence[Turn], cue: str, *, cue_kept: bool
) -> list[Message]:
    """The messages that end with `cue`, after `turns` are done.

    The cue ends the last user message. `cue_kept`: earlier cues stay, so each prompt extends the one before it;
    otherwise only the newest is there. Two turns, kept::

        system | user: task, "Turn 1 of 4" | assistant: text_0 | user: observation_0, "Turn 2 of 4" | assistant: ...

    An assistant message carries the token ids as sampled.
    """
    if not opening or opening[-1][0] != "user":
        raise ValueError("a rollout's opening must end with a user message; was it stored without its opening?")
    messages = [Message(cast(Role, role), content) for role, content in opening[:-1]]
    user = opening[-1][1]
    for turn in turns:
        messages.append(Message("user", _join(user, turn.cue if cue_kept else "")))
        messages.append(Message("assistant", turn.text, turn.completion_ids or None))
        user = turn.observation
    messages.append(Message("user", _join(user, cue)))
    return messages


def messages_at(rollout: Rollout, turn: int) -> list[Message]:
    """What the policy read at `turn` (from 0) of this node. Raises `IndexError` for a turn that it does not have."""
    if not 0 <= turn < len(rollout.turns):
        raise IndexError(f"rollout {rollout.id!r} has {len(rollout.turns)} turns, no turn {turn}")
    done = rollout.turns[:turn]
    return build_messages(rollout.opening, done, rollout.turns[turn].cue, cue_kept=rollout.cue_kept)


def _join(text: str, cue: str) -> str:
    return f"{text}\n\n{cue}" if text and cue else text or cue
