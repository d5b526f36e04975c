"""The 20 OOLONG-Pairs conditions as data, in our own words, and the pairs of users that meet one.

The conditions are those published in the appendix of "Recursive Language Models" (arXiv 2512.24601). How they are read:

- "after" and "before" a day leave out the day itself;
- "all instances with label L must be after D" holds for a user without any such instance;
- in tasks 11 to 20 either user of the pair may be "the one": {a, b} counts when a is the one and b the other, or the reverse;
- a user forms no pair with itself.

A condition says of each user alone whether it can be "the one" and whether it can be "the other", so the pairs are a product of
two sets of users: the work is the number of entries plus the number of pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

DESCRIPTION = "description and abstract concept"
ENTITY = "entity"
HUMAN = "human being"
NUMERIC = "numeric value"
LOCATION = "location"
ABBREVIATION = "abbreviation"
LABELS = (DESCRIPTION, ENTITY, HUMAN, NUMERIC, LOCATION, ABBREVIATION)

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class User:
    """What a condition can ask of one user."""

    counts: Mapping[str, int]
    """Instances by label."""
    days: Mapping[str, Sequence[str]]
    """Their days by label, as YYYY-MM-DD, which sort as text."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A number of instances of a label: at least `count`, or exactly."""

    label: str
    count: int = 1
    exactly: bool = False

    def holds(self, user: User) -> bool:
        found = user.counts.get(self.label, 0)
        return found == self.count if self.exactly else found >= self.count


@dataclass(frozen=True, slots=True)
class AllDated:
    """All instances of a label lie strictly on one side of a day; true without any."""

    label: str
    side: Literal["after", "before"]
    day: str

    def holds(self, user: User) -> bool:
        days = user.days.get(self.label, ())
        return all(day > self.day if self.side == "after" else day < self.day for day in days)


@dataclass(frozen=True, slots=True)
class BothUsers:
    """Each of the two has an instance of one of two labels, and keeps the rule on days where there is one."""

    any_of: tuple[str, str]
    dated: AllDated | None = None

    def roles(self, user: User) -> tuple[bool, bool]:
        fits = any(user.counts.get(label, 0) for label in self.any_of) and (
            self.dated is None or self.dated.holds(user)
        )
        return fits, fits


@dataclass(frozen=True, slots=True)
class OneAndOther:
    """One of the two meets all needs of `one`, the other all needs of `other`."""

    one: tuple[Needs, ...]
    other: tuple[Needs, ...]

    def roles(self, user: User) -> tuple[bool, bool]:
        return all(need.holds(user) for need in self.one), all(need.holds(user) for need in self.other)


Condition = BothUsers | OneAndOther


def _exactly(label: str, count: int = 1) -> Needs:
    return Needs(label, count, exactly=True)


CONDITIONS: dict[int, Condition] = {
    1: BothUsers((NUMERIC, LOCATION)),
    2: BothUsers((ENTITY, HUMAN)),
    3: BothUsers((DESCRIPTION, ABBREVIATION)),
    4: BothUsers((HUMAN, LOCATION), AllDated(HUMAN, "after", "2023-01-06")),
    5: BothUsers((ENTITY, NUMERIC), AllDated(ENTITY, "before", "2023-03-15")),
    6: BothUsers((LOCATION, ABBREVIATION)),
    7: BothUsers((DESCRIPTION, NUMERIC), AllDated(NUMERIC, "after", "2023-02-01")),
    8: BothUsers((HUMAN, DESCRIPTION)),
    9: BothUsers((ENTITY, LOCATION), AllDated(LOCATION, "after", "2023-04-10")),
    10: BothUsers((NUMERIC, ABBREVIATION), AllDated(ABBREVIATION, "before", "2023-05-20")),
    11: OneAndOther((Needs(ENTITY), Needs(ABBREVIATION)), (_exactly(ENTITY),)),
    12: OneAndOther((Needs(NUMERIC, 2),), (Needs(LOCATION), Needs(HUMAN))),
    13: OneAndOther((_exactly(DESCRIPTION),), (Needs(ABBREVIATION), Needs(ENTITY))),
    14: OneAndOther((Needs(HUMAN), Needs(NUMERIC)), (_exactly(LOCATION, 2),)),
    15: OneAndOther((Needs(ENTITY), Needs(LOCATION), Needs(ABBREVIATION)), (_exactly(NUMERIC),)),
    16: OneAndOther((Needs(DESCRIPTION), Needs(HUMAN)), (Needs(ENTITY, 2), _exactly(ABBREVIATION))),
    17: OneAndOther((_exactly(NUMERIC),), (Needs(LOCATION), Needs(DESCRIPTION))),
    18: OneAndOther((Needs(ABBREVIATION), _exactly(HUMAN)), (Needs(ENTITY), Needs(NUMERIC))),
    19: OneAndOther((Needs(LOCATION, 2), Needs(ENTITY)), (_exactly(DESCRIPTION), _exactly(ABBREVIATION))),
    20: OneAndOther((Needs(NUMERIC), Needs(HUMAN)), (Needs(LOCATION), Needs(ENTITY), _exactly(ABBREVIATION))),
}


def users_of(entries: Iterable[Mapping[str, Any]]) -> dict[int, User]:
    """Counts and days by user of `{"date", "user", "label", "text"}` entries."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    days: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        counts[entry["user"]][entry["label"]] += 1
        days[entry["user"]][entry["label"]].append(entry["date"])
    return {user: User(counts[user], days[user]) for user in counts}


def gold_pairs(users: Mapping[int, User], task: int) -> set[Pair]:
    """The pairs (lower id, higher id) that meet condition `task`, 1..20."""
    roles = {user: CONDITIONS[task].roles(record) for user, record in users.items()}
    ones = [user for user, (one, _) in roles.items() if one]
    others = [user for user, (_, other) in roles.items() if other]
    return {(a, b) if a < b else (b, a) for a in ones for b in others if a != b}


def wording(task: int) -> str:
    """The condition of `task` as a sentence part that follows "pairs of users where"."""
    condition = CONDITIONS[task]
    if isinstance(condition, OneAndOther):
        return f"one user has {_list(condition.one)}, and the other user has {_list(condition.other)}"
    text = f"each of the two users has at least one question labelled {' or '.join(condition.any_of)}"
    if (rule := condition.dated) is not None:
        text += (
            f", and every question labelled {rule.label} of either user is dated {rule.side} {day_in_words(rule.day)}"
        )
    return text


def _list(needs: Sequence[Needs]) -> str:
    parts = []
    for need in needs:
        noun = "question" if need.count == 1 else "questions"
        parts.append(f"{'exactly' if need.exactly else 'at least'} {need.count} {noun} labelled {need.label}")
    return " and ".join(parts)


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def day_in_words(day: str) -> str:
    """`2022-12-05` -> `Dec 05, 2022`, in English whatever the machine's locale."""
    year, month, number = day.split("-")
    return f"{MONTHS[int(month) - 1]} {number}, {year}"
