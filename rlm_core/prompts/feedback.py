"""What the harness says between turns: cues, and answers to turns that cannot be run."""

from __future__ import annotations

from typing import Literal

NO_OUTPUT = "(no output)"
NO_CODE = "Error: the turn has no ```python block and no answer. Write code in a block, or answer with FINAL(...)."
TOO_EARLY = "Error: an answer before anything was run is not taken. Run code that looks at `context` first."
NOT_RUN = "(the blocks after the error were not run)"
REMOVED = "(output removed: the prompt is at the model's limit)"

Reason = Literal["turns", "tokens", "time", "length"]
_REASONS = {
    "turns": "No turns are left.",
    "tokens": "The tokens are spent.",
    "time": "The time is up.",
    "length": "The prompt is at its limit.",
}


def cue(turn: int, max_turns: int) -> str:
    """The line that ends the prompt of a turn; `turn` counts from 0.

    >>> cue(1, 4), cue(3, 4)
    ('Turn 2 of 4', 'Turn 4 of 4: answer now')
    """
    text = f"Turn {turn + 1} of {max_turns}"
    return text if turn + 1 < max_turns or max_turns == 1 else f"{text}: answer now"


def last_cue(reason: Reason) -> str:
    """The line that asks for a last answer."""
    return f"{_REASONS[reason]} Answer now with FINAL(...)."


def cut_off(max_tokens: int) -> str:
    """Said of a turn that was cut at its token limit."""
    return f"(your turn was cut at {max_tokens} tokens: write less)"
