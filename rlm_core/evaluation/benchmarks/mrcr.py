"""MRCR: a long conversation holds several equal requests; give back the text written for the one asked for.

After the published description of multi-round co-reference resolution (Vodrahalli et al. 2024, "Michelangelo"): a user asks
an assistant for many pieces of writing; `needles` of the requests are word for word the same, answered differently each time;
others share the form or the topic only. The score is the published one, `difflib.SequenceMatcher(None, answer, gold).ratio()`.
Departures: the conversation is our own (`conversations`), and no random prefix is asked for in the answer, as gold is the
needle's text alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from random import Random
from typing import Any

from rlm_core.evaluation.benchmarks.conversations import FORMS, TOPICS, Writer
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages, count_tokens

NEEDLES = range(2, 9)
MIN_SIZE = 1000
PIECE_TOKENS = 220
"""Of one piece of writing; shorter where `size` is small, so that needles stay under half of the conversation."""
LONGEST = 20
"""An answer over this many times as long as gold scores 0: its ratio is at most 0.1 and takes minutes to compute."""

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def load(path: Path | None, size: int, seed: int) -> list[BenchmarkItem]:
    """One conversation for each number of needles 2..8, and an item for each needle of it: 35 items."""
    if path is not None:
        raise ValueError(f"mrcr makes its own conversations and reads no file; leave path out (got {path})")
    return [item for needles in NEEDLES for item in make_items(size, needles, seed)]


def make_items(size: int, needles: int, seed: int) -> list[BenchmarkItem]:
    """The `needles` items of one conversation of about `size` tokens."""
    if needles not in NEEDLES:
        raise ValueError(f"mrcr takes 2 to 8 needles, got {needles}")
    if size < MIN_SIZE:
        raise ValueError(f"mrcr needs size >= {MIN_SIZE} tokens to hide {needles} needles, got {size}")
    rng = Random(f"mrcr {size} {needles} {seed}")
    form, topic = rng.choice(FORMS), rng.choice(TOPICS)
    context, texts = make_conversation(form, topic, size, needles, rng)
    tokens = count_tokens(context)
    return [
        BenchmarkItem(
            id=f"mrcr-{size}-{seed}-{needles}-{index}",
            question=question_of(form, topic, index),
            context=context,
            gold=gold,
            scorer=functools.partial(score_text, gold),
            metadata={"needles": needles, "index": index, "tokens": tokens, "request": request(form, topic)},
        )
        for index, gold in enumerate(texts, 1)
    ]


def request(form: str, topic: str) -> str:
    return f"Write a {form} about {topic}."


def question_of(form: str, topic: str, index: int) -> str:
    """`index` counts from 1."""
    return (
        f"In the conversation the user asks several times: {request(form, topic)} Give back, word for word, the "
        f"{ORDINALS[index - 1]} {form} about {topic} that the assistant wrote, counted from the start of the conversation. "
        "Answer with its text alone, without the speaker's name."
    )


def make_conversation(form: str, topic: str, size: int, needles: int, rng: Random) -> tuple[str, list[str]]:
    """The transcript, and the needles' texts in the order in which they stand in it."""
    piece_tokens = min(PIECE_TOKENS, size // (2 * needles))
    writer = Writer(rng, piece_tokens)
    wanted: list[str] = []
    while len(wanted) < needles:
        text = writer.write(form, topic)
        if text not in wanted:
            wanted.append(text)
    used = sum(_turn_tokens(form, topic, text) for text in wanted)
    fillers: list[tuple[str, str, str]] = []
    while used + piece_tokens / 2 < size:
        other = _other(form, topic, rng)
        text = writer.write(*other)
        used += _turn_tokens(*other, text)
        fillers.append((*other, text))
    places = set(rng.sample(range(len(fillers) + needles), needles))
    needle, filler = iter(wanted), iter(fillers)
    turns = [
        (form, topic, next(needle)) if place in places else next(filler) for place in range(len(fillers) + needles)
    ]
    return "\n\n".join(_turn(*turn) for turn in turns), wanted


def _other(form: str, topic: str, rng: Random) -> tuple[str, str]:
    """Another request: in 3 of 10 the same form, in 3 the same topic, else neither."""
    draw = rng.random()
    other_form = form if draw < 0.3 else rng.choice([f for f in FORMS if f != form])
    other_topic = topic if 0.3 <= draw < 0.6 else rng.choice([t for t in TOPICS if t != topic])
    return other_form, other_topic


def _turn(form: str, topic: str, text: str) -> str:
    return f"User: {request(form, topic)}\n\nAssistant: {text}"


def _turn_tokens(form: str, topic: str, text: str) -> int:
    return count_tokens(_turn(form, topic, text)) + 2


def score_text(gold: str, answer: Any) -> float:
    """Similarity ratio of the answer's text to gold, 0..1; a list is read as its texts joined by line ends."""
    text = answer.strip() if isinstance(answer, str) else _joined(as_passages(answer))
    if text == gold:
        return 1.0
    if not text or len(text) > LONGEST * len(gold):
        return 0.0
    if text[:1] in ("[", "{", '"'):
        return max(SequenceMatcher(None, t, gold).ratio() for t in (text, _joined(as_passages(text)), text.strip('"')))
    return SequenceMatcher(None, text, gold).ratio()


def _joined(passages: Sequence[str]) -> str:
    return "\n".join(passages)
