"""Evidence F1: how many of the answer's letters are evidence, and how many of the evidence's letters the answer holds.

Both sides become streams of letters and digits (`synthesis.streams`), so white space, hyphenation, ligatures, case and
punctuation count for nothing. Common runs of letters that fit together, with the small gaps of OCR errors, are matches.
Matches may lie anywhere: the order of passages is free, and the lines of an interleaved column match one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlm_core.synthesis.streams import GramIndex, Ints, Stream, gram_hashes

SEED = 7
PROOF = 24
"""Letters of a match that chance and common phrases do not reach; shorter ones count only between short passages."""
NOISE = 10
"""Letters of a gap inside a match that count as reading errors, on both sides."""
REPEAT = 24
"""Runs of this many letters that stood in the same side before are a repetition and not counted again."""
MOST = 0.8
"""A match shorter than `PROOF` must be this share of one passage,"""
TENTH = 0.1
"""and this share of the other: a list of single words is not evidence for the paragraph that uses them."""


@dataclass(frozen=True, slots=True)
class PRF:
    """Shares, 0..1. `f1` is their harmonic mean."""

    precision: float
    recall: float
    f1: float


def evidence_f1(predicted: Sequence[str] | str, gold: Sequence[str] | str) -> PRF:
    """Precision, recall and F1 over letters and digits, tolerant of parser and OCR noise.

    Text repeated within a side is counted once. Nothing asked and nothing given is (1, 1, 1); when only one side is
    empty (or holds no letter), all three are 0. Exchanging the sides exchanges precision and recall.
    """
    answer, evidence = Side.of(predicted), Side.of(gold, mark=-(10**9))
    if not answer.size and not evidence.size:
        return PRF(1.0, 1.0, 1.0)
    if not answer.size or not evidence.size:
        return PRF(0.0, 0.0, 0.0)
    in_answer, in_evidence = _matched(answer, evidence)
    precision = float((in_answer & answer.counted).sum()) / answer.size
    recall = float((in_evidence & evidence.counted).sum()) / evidence.size
    if precision + recall == 0:
        return PRF(0.0, 0.0, 0.0)
    return PRF(precision, recall, 2 * precision * recall / (precision + recall))


Intervals = list[tuple[int, int]]
"""Half-open character intervals of a text, in order."""


def matched_intervals(predicted: Sequence[str], gold: Sequence[str]) -> tuple[list[Intervals], list[Intervals]]:
    """Where each predicted and each gold passage matches the other side: the letters that `evidence_f1` counts as found.

    An interval holds what stands between its letters too (spaces, marks).
    """
    answer, evidence = Side.of(predicted), Side.of(gold, mark=-(10**9))
    if not answer.size or not evidence.size:
        return [[] for _ in predicted], [[] for _ in gold]
    in_answer, in_evidence = _matched(answer, evidence)
    return (
        [_intervals(text, answer, in_answer) for text in predicted],
        [_intervals(text, evidence, in_evidence) for text in gold],
    )


def _intervals(text: str, side: Side, matched: NDArray[np.bool_]) -> Intervals:
    """The matched letters of one passage as intervals of its characters."""
    stream = Stream.of(text)
    if not stream.letters:
        return []
    found = matched[side.passage == list(side.texts).index(stream.letters)]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], found, [False])).astype(np.int8)))
    return [
        (int(stream.offsets[start]), int(stream.offsets[end - 1]) + 1)
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Side:
    """The passages of one side as one stream. Between passages stands a code that no letter has."""

    codes: Ints
    """[N] letters, and negative codes, all different, between passages."""
    passage: Ints
    """[N] number of the passage; -1 between passages."""
    lengths: Ints
    """[P] letters of each passage."""
    counted: NDArray[np.bool_]
    """[N] letters that count: not between passages, and not a repetition."""
    texts: dict[str, None]
    """The letters of each passage, in the order of their numbers; all different."""

    @property
    def size(self) -> int:
        return int(self.counted.sum())

    @classmethod
    def of(cls, passages: Sequence[str] | str, *, mark: int = -1) -> Side:
        texts = [passages] if isinstance(passages, str) else list(passages)
        # One order for every input order: which copy of a repetition counts then never matters.
        streams = sorted({s.letters: s.codes for t in texts if (s := Stream.of(t)).letters}.items())
        streams.sort(key=lambda item: -len(item[0]))
        codes: list[Ints] = []
        numbers: list[Ints] = []
        for number, (_, letters) in enumerate(streams):
            codes += [letters, np.array([mark - number], dtype=np.int64)]
            numbers += [np.full(len(letters), number), np.array([-1])]
        empty: Ints = np.empty(0, dtype=np.int64)
        joined = np.concatenate(codes) if codes else empty
        passage = np.concatenate(numbers) if numbers else empty
        lengths = np.array([len(letters) for letters, _ in streams], dtype=np.int64)
        return cls(joined, passage, lengths, (passage >= 0) & ~_repeated(joined), dict.fromkeys(t for t, _ in streams))


def _repeated(codes: Ints) -> NDArray[np.bool_]:
    """[N] letters inside a run of `REPEAT` letters that stood earlier in the stream; small gaps between are included."""
    hashes = gram_hashes(codes, REPEAT)
    if len(hashes) == 0:
        return np.zeros(len(codes), dtype=bool)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] < np.arange(len(hashes)))
    return _cover(again, np.full(len(again), REPEAT), len(codes), bridge=NOISE)


def _cover(starts: Ints, lengths: Ints, size: int, *, bridge: int = 0, group: Ints | None = None) -> NDArray[np.bool_]:
    """[size] letters in any of the intervals, or between two intervals of one group at most `bridge` apart."""
    if len(starts) == 0:
        return np.zeros(size, dtype=bool)
    stride = size + bridge + 1  # groups are laid out one after the other, too far apart to be bridged
    starts = starts if group is None else starts + group * stride
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (starts + lengths)[order]
    reached = np.maximum.accumulate(ends)
    if bridge:
        gap = starts[1:] - reached[:-1]
        close = np.flatnonzero((gap > 0) & (gap <= bridge))
        starts = np.concatenate((starts, reached[close]))
        ends = np.concatenate((ends, starts[close + 1]))
    ends = ends - starts // stride * stride
    starts = starts % stride
    edges: Ints = np.zeros(size + 1, dtype=np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, ends, -1)
    return np.cumsum(edges[:-1]) > 0


def _matched(answer: Side, evidence: Side) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """[N] letters of the answer and [M] letters of the evidence that match the other side."""
    runs = GramIndex(evidence.codes, SEED).common_runs(answer.codes, max_places=200)
    cluster = _clusters(runs, answer, evidence)
    letters = np.bincount(cluster, weights=runs[:, 2], minlength=0) if len(runs) else np.empty(0)
    first = np.unique(cluster, return_index=True)[1] if len(runs) else np.empty(0, dtype=np.int64)
    mine, theirs = answer.passage[runs[first, 0]], evidence.passage[runs[first, 1]]
    short = np.minimum(answer.lengths[mine], evidence.lengths[theirs])
    long = np.maximum(answer.lengths[mine], evidence.lengths[theirs])
    sure = letters >= np.minimum(PROOF, np.maximum(MOST * short, TENTH * long))
    in_answer, in_evidence = _exact_short(answer, evidence)
    for texts, side, mask in ((evidence.texts, answer, in_answer), (answer.texts, evidence, in_evidence)):
        equal = [number for number, text in enumerate(side.texts) if text in texts]
        mask |= np.isin(side.passage, equal)
    part, group = runs[sure[cluster]], cluster[sure[cluster]]
    in_answer |= _cover(part[:, 0], part[:, 2], len(answer.codes), bridge=NOISE, group=group)
    in_evidence |= _cover(part[:, 1], part[:, 2], len(evidence.codes), bridge=NOISE, group=group)
    rest = runs[~sure[cluster]] if len(runs) else runs
    while len(rest):
        beside = _touches(rest[:, 0], rest[:, 2], in_answer) | _touches(rest[:, 1], rest[:, 2], in_evidence)
        if not beside.any():
            break
        in_answer |= _cover(rest[beside, 0], rest[beside, 2], len(answer.codes))
        in_evidence |= _cover(rest[beside, 1], rest[beside, 2], len(evidence.codes))
        rest = rest[~beside]
    return in_answer, in_evidence


def _clusters(runs: Ints, answer: Side, evidence: Side) -> Ints:
    """[R] the cluster of each run: runs of the same two passages that follow on each other with a reading error between."""
    order = np.argsort(runs[:, 0], kind="stable")
    starts = runs[order, 0]
    ends = runs[:, 0] + runs[:, 2]
    low = np.searchsorted(starts, ends - 3)
    count = np.searchsorted(starts, ends + NOISE, side="right") - low
    left: Ints = np.repeat(np.arange(len(runs)), count)
    right = order[np.repeat(low - np.cumsum(count) + count, count) + np.arange(int(count.sum()))]
    gap_mine = runs[right, 0] - ends[left]
    gap_theirs = runs[right, 1] - (runs[left, 1] + runs[left, 2])
    linked = (
        (left != right)
        & (gap_theirs >= -3)
        & (gap_theirs <= NOISE)
        & (np.abs(gap_mine - gap_theirs) <= 4)
        & (answer.passage[runs[left, 0]] == answer.passage[runs[right, 0]])
        & (evidence.passage[runs[left, 1]] == evidence.passage[runs[right, 1]])
    )
    root = list(range(len(runs)))
    for a, b in zip(left[linked].tolist(), right[linked].tolist(), strict=True):
        root[_find(root, b)] = _find(root, a)
    _, labels = np.unique([_find(root, i) for i in range(len(runs))], return_inverse=True)
    return labels.astype(np.int64)


def _find(root: list[int], item: int) -> int:
    while root[item] != item:
        root[item] = root[root[item]]
        item = root[item]
    return item


def _touches(starts: Ints, lengths: Ints, covered: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[R] intervals mostly outside `covered` but within `NOISE` letters of it: the next line of the same passage."""
    total = np.concatenate(([0], np.cumsum(covered)))
    inside = total[starts + lengths] - total[starts]
    around = total[np.minimum(starts + lengths + NOISE, len(covered))] - total[np.maximum(starts - NOISE, 0)]
    return (2 * inside < lengths) & (around > 0)


def _exact_short(answer: Side, evidence: Side) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Matches of passages too short to seed a run: they count where they stand letter by letter in a short passage."""
    masks: tuple[NDArray[np.bool_], NDArray[np.bool_]] = (
        np.zeros(len(answer.codes), dtype=bool),
        np.zeros(len(evidence.codes), dtype=bool),
    )
    for side, own, other, others in ((answer, *masks, evidence), (evidence, *masks[::-1], answer)):
        for number in np.flatnonzero(side.lengths < SEED).tolist():
            places = np.flatnonzero(side.passage == number)
            size = len(places)
            wanted = gram_hashes(side.codes[places], size)
            found = np.flatnonzero(gram_hashes(others.codes, size) == wanted)
            found = found[TENTH * others.lengths[others.passage[found]] <= size]
            if len(found):
                own[places] = True
                other |= _cover(found, np.full(len(found), size), len(others.codes))
    return masks
