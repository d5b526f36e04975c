"""OOLONG-Pairs: from dated, unlabelled question lines of many users, list all pairs of users that meet a condition.

The data are our own (`labelled_questions`), or a TREC file of the user's. The 20 items of a set share one context.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from rlm_core.evaluation.benchmarks.item import BenchmarkItem, count_tokens, from_json
from rlm_core.evaluation.benchmarks.labelled_questions import QuestionSource, open_source
from rlm_core.evaluation.benchmarks.oolong_tasks import (
    ABBREVIATION,
    CONDITIONS,
    DESCRIPTION,
    ENTITY,
    HUMAN,
    LABELS,
    LOCATION,
    NUMERIC,
    AllDated,
    BothUsers,
    Pair,
    day_in_words,
    gold_pairs,
    users_of,
    wording,
)

FIRST_DAY, LAST_DAY = date(2022, 9, 1), date(2023, 8, 31)
MIN_SIZE = 900
"""Tokens that hold the four planted users and a few others."""

PLANTED: tuple[dict[str, int], ...] = (
    {ENTITY: 2, ABBREVIATION: 1, LOCATION: 2},
    {HUMAN: 1, NUMERIC: 1, DESCRIPTION: 1, ABBREVIATION: 1},
    {NUMERIC: 2, ENTITY: 1},
    {LOCATION: 1, HUMAN: 1, DESCRIPTION: 1},
)
"""Four users, with all days as the rules want them, among whom each of the 20 conditions has a pair."""

RULES: dict[str, AllDated] = {
    c.dated.label: c.dated for c in CONDITIONS.values() if isinstance(c, BothUsers) and c.dated is not None
}
_CUT_OFFS = frozenset(rule.day for rule in RULES.values())


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """20 items over one context of about `size` tokens; `path` is a TREC file whose questions replace our own."""
    if size < MIN_SIZE:
        raise ValueError(f"oolong-pairs needs size >= {MIN_SIZE} tokens to give all 20 tasks an answer, got {size}")
    entries = make_entries(open_source(path), size, seed)
    context = "\n".join(line_of(entry) for entry in entries)
    users = users_of(entries)
    items = []
    for task in sorted(CONDITIONS):
        gold = gold_pairs(users, task)
        items.append(
            BenchmarkItem(
                id=f"oolong-pairs-{size}-{seed}-{task:02d}",
                question=question_of(task),
                context=context,
                gold=gold,
                scorer=functools.partial(score_pairs, gold),
                metadata={"task": task, "entries": entries, "users": len(users), "tokens": count_tokens(context)},
            )
        )
    return items


def line_of(entry: Mapping[str, Any]) -> str:
    return f"Date: {day_in_words(entry['date'])} || User: {entry['user']} || Instance: {entry['text']}"


def question_of(task: int) -> str:
    return (
        "Each line of the data is a question that a user asked on a day. A question belongs to exactly one of six labels, "
        f"by what its answer would be: {', '.join(LABELS)}. The labels are not in the data: tell them from what a question "
        f"means. Find all pairs of different users where {wording(task)}. "
        "Answer with one pair of user ids on each line, as (lower id, higher id), and no pair twice."
    )


def make_entries(source: QuestionSource, size: int, seed: int) -> list[dict[str, Any]]:
    """Entries of about `size` tokens in random order; equal arguments give equal entries."""
    rng = Random(f"oolong-pairs {size} {seed}")
    sample = [{"date": "2022-12-12", "user": 63685, "text": source.draw(label, rng)} for label in LABELS * 40]
    line_tokens = count_tokens("\n".join(line_of(entry) for entry in sample)) / len(sample)
    counts = user_counts(round(size / line_tokens), rng)
    ids = rng.sample(range(10_000, 100_000), len(counts))
    entries = []
    for number, (user, wanted) in enumerate(zip(ids, counts, strict=True)):
        for label, count in wanted.items():
            keeps_rule = number < len(PLANTED) or rng.random() < 0.5
            for _ in range(count):
                day = _day(rng, RULES.get(label) if keeps_rule else None)
                entries.append({"date": day, "user": user, "label": label, "text": source.draw(label, rng)})
    rng.shuffle(entries)
    return entries


def user_counts(num_entries: int, rng: Random) -> list[dict[str, int]]:
    """Instances by label for each user, `num_entries` in all, the planted users first.

    Most counts are 0, 1 or 2, on which the conditions turn; what is left fills cells of 3 and more, so that a context of any
    size has users on both sides of "at least one" and of "exactly one". Users grow with the square root of the entries, as
    their pairs are to be listed.
    """
    users = [dict(planted) for planted in PLANTED]
    left = num_entries - sum(sum(user.values()) for user in users)
    for _ in range(round(2.3 * num_entries**0.5) - len(users)):
        drawn = {label: rng.choices((0, 1, 2, 3), (0.58, 0.22, 0.12, 0.08))[0] for label in LABELS}
        user = {label: count for label, count in drawn.items() if count} or {rng.choice(LABELS): 1}
        if sum(user.values()) <= left:
            users.append(user)
            left -= sum(user.values())
    cells = [(user, label) for user in users[len(PLANTED) :] for label, count in user.items() if count >= 3]
    if not cells:
        users.append({rng.choice(LABELS): left} if left else {})
        return [user for user in users if user]
    for _ in range(left):
        user, label = rng.choice(cells)
        user[label] += 1
    return users


def _day(rng: Random, rule: AllDated | None) -> str:
    """A day of the year, on the rule's side where one is given; never a cut-off day, so "after" needs no reading."""
    while True:
        day = (FIRST_DAY + timedelta(days=rng.randrange((LAST_DAY - FIRST_DAY).days + 1))).isoformat()
        if day in _CUT_OFFS:
            continue
        if rule is None or (day > rule.day if rule.side == "after" else day < rule.day):
            return day


def score_pairs(gold: set[Pair], answer: Any) -> float:
    """F1 over pairs; 1.0 when both are empty."""
    predicted = pairs_of(answer)
    if not predicted and not gold:
        return 1.0
    return 2 * len(predicted & gold) / (len(predicted) + len(gold))


_BRACKETED = re.compile(r"[(\[]\s*[\"']?(\d+)[\"']?\s*,\s*[\"']?(\d+)[\"']?\s*[)\]]")
_BARE_LINE = re.compile(r"^\W*(\d+)\s*(?:,|;|-|\s)\s*(\d+)\W*$", re.MULTILINE)


def pairs_of(answer: Any) -> set[Pair]:
    """The pairs in an answer, lower id first whatever its order: text, JSON, or a list or set of pairs or of lines."""
    answer = from_json(answer)
    if answer is None:
        return set()
    if isinstance(answer, str):
        found = _BRACKETED.findall(answer) or _BARE_LINE.findall(answer)
        return {_ordered(int(a), int(b)) for a, b in found}
    if isinstance(answer, Mapping):
        answer = list(answer.values())
    if isinstance(answer, Sequence | set | frozenset):
        if len(answer) == 2 and all(_is_id(part) for part in answer):
            first, second = answer
            return {_ordered(int(first), int(second))}
        return {pair for part in answer if not _is_id(part) for pair in pairs_of(part)}
    return set()


def _is_id(part: Any) -> bool:
    return (isinstance(part, int) and not isinstance(part, bool)) or (isinstance(part, str) and part.strip().isdigit())


def _ordered(a: int, b: int) -> Pair:
    return (a, b) if a <= b else (b, a)
