"""What a rollout tree may still spend: completion tokens, sub-calls, depth, time. Pure: the clock is handed in.

Accounts are nested, not shared. Before children are dispatched their parent *splits off* an equal part for each of them, and
takes back what they leave. So concurrent children can neither overshoot the tree's limits nor race for what is left:
what a child may spend does not depend on which of its siblings ran first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CHILD_TIME_SHARE = 0.9
"""Of the time that a parent has left; the rest lets it act on what its children found."""


class BudgetSpent(RuntimeError):
    """Asked for more than the budget allows. The message is for the model: what the limit is and what to do instead."""


@dataclass
class Budget:
    """One node's account.

    >>> root = Budget.of_tree(max_tokens=1000, max_subcalls=6, max_depth=1, tokens_per_turn=100, deadline=60.0)
    >>> first, second = root.split(2, now=0.0)     # 1000 - 100 kept for the root's own answer = 900, 450 each
    >>> first.tokens, root.tokens, root.subcalls
    (450, 100, 0)
    >>> root.take_back(first), root.take_back(second), root.tokens, root.subcalls
    (None, None, 1000, 4)
    """

    tokens: int
    """Completion tokens left; reserved ones are taken off already."""
    subcalls: int
    """Child RLMs and plain model calls left, those of descendants included."""
    depth_left: int
    """Levels of children below this node; 0 allows no child RLM."""
    tokens_per_turn: int
    reserve: int
    """Tokens that only the last call for an answer may use."""
    deadline: float
    """In seconds of the caller's clock."""

    @classmethod
    def of_tree(
        cls, *, max_tokens: int, max_subcalls: int, max_depth: int, tokens_per_turn: int, deadline: float
    ) -> Budget:
        reserve = min(tokens_per_turn, max_tokens // 4)
        return cls(max_tokens, max_subcalls, max_depth, tokens_per_turn, reserve, deadline)

    def seconds_left(self, now: float) -> float:
        return max(0.0, self.deadline - now)

    def turn_tokens(self, *, last: bool = False) -> int:
        """Tokens that the next turn may have: 0 when spent. The last call for an answer may use the reserve too."""
        return max(0, min(self.tokens_per_turn, self.tokens - (0 if last else self.reserve)))

    def reserve_turn(self, *, last: bool = False) -> int:
        """Take a turn's tokens off before it is dispatched; give what it used to `settle`. Raises `BudgetSpent`."""
        granted = self.turn_tokens(last=last)
        if granted == 0:
            raise BudgetSpent("the completion tokens of this task are spent")
        self.tokens -= granted
        return granted

    def settle(self, granted: int, used: int) -> None:
        """Give back what a reserved turn left (an endpoint that overshot costs more than was granted)."""
        self.tokens += granted - used

    def split(self, count: int, *, now: float) -> list[Budget]:
        """Split off equal accounts for `count` children, all or none. Raises `BudgetSpent`.

        Of n sub-calls left, `count` are spent on the children themselves and each child may make `(n - count) // count`.
        """
        if self.depth_left < 1:
            raise BudgetSpent("no child RLM is allowed at this depth: solve it here with your own code")
        self._take_subcalls(count)
        share = (self.tokens - self.reserve) // count
        if share < self.tokens_per_turn:
            self.subcalls += count
            raise BudgetSpent(
                f"{max(0, self.tokens - self.reserve)} completion tokens are left, too few for {count} "
                f"child{'ren' if count > 1 else ''} of at least {self.tokens_per_turn}: ask fewer, or answer with what you have"
            )
        below = self.subcalls // count
        self.tokens -= share * count
        self.subcalls -= below * count
        deadline = now + CHILD_TIME_SHARE * self.seconds_left(now)
        reserve = min(self.tokens_per_turn, share // 4)
        return [
            Budget(share, below, self.depth_left - 1, self.tokens_per_turn, reserve, deadline) for _ in range(count)
        ]

    def take_back(self, child: Budget) -> None:
        """What a finished child left of its account; the child's own sub-call stays spent."""
        self.tokens += child.tokens
        self.subcalls += child.subcalls
        child.tokens = child.subcalls = 0

    def reserve_calls(self, count: int) -> int:
        """Take the tokens of `count` plain model calls off, all or none; returns the tokens a call. Raises `BudgetSpent`."""
        self._take_subcalls(count)
        share = min(self.tokens_per_turn, (self.tokens - self.reserve) // count)
        if share < math.ceil(self.tokens_per_turn / 4):
            self.subcalls += count
            raise BudgetSpent(
                f"{max(0, self.tokens - self.reserve)} completion tokens are left, too few for {count} "
                f"model call{'s' if count > 1 else ''}: ask fewer, or answer with what you have"
            )
        self.tokens -= share * count
        return share

    def _take_subcalls(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"a call needs at least one prompt, got {count}")
        if self.subcalls == 0:
            raise BudgetSpent("no sub-calls are left: go on with your own code, or answer with what you have")
        if count > self.subcalls:
            raise BudgetSpent(f"{self.subcalls} sub-calls are left, {count} asked for: ask fewer")
        self.subcalls -= count
