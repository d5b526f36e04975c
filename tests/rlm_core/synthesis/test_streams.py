"""Letters with their places, and exact common runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.synthesis.streams import GramIndex, Stream


def test_letters_keep_their_places():
    stream = Stream.of("Eﬃ-\ncient É 2½")
    #                   0123 45678 9 ...
    assert stream.letters == "efficiente212"
    assert stream.offsets.tolist() == [0, 1, 1, 1, 4, 5, 6, 7, 8, 10, 12, 13, 13]


def test_glyph_numbers_and_soft_hyphens_are_no_letters():
    assert Stream.of("soft\u00adly (cid:28)red").letters == "softlyred"


def test_a_decomposed_accent_reads_as_a_composed_one():
    assert Stream.of("e\u0301tude").letters == Stream.of("\u00e9tude").letters == "etude"


@given(st.text())
def test_offsets_rise_and_lie_in_the_text(text):
    stream = Stream.of(text)
    assert len(stream.letters) == len(stream.codes) == len(stream.offsets)
    assert all(a <= b for a, b in zip(stream.offsets, stream.offsets[1:], strict=False))
    assert len(stream) == 0 or 0 <= stream.offsets[0] <= stream.offsets[-1] < len(text)
    assert [ord(c) for c in stream.letters] == stream.codes.tolist()


def test_common_runs_are_maximal():
    codes = Stream.of("xxabcdefyy").codes
    other = Stream.of("abcdefqqcdefyy").codes
    runs = GramIndex(other, 4).common_runs(codes, max_places=10)
    # abcdef at 2 | 0; cdefyy at 4 | 8
    assert runs.tolist() == [[2, 0, 6], [4, 8, 6]]


def test_runs_found_in_too_many_places_start_nothing():
    other = Stream.of("abcd " * 20).codes
    assert len(GramIndex(other, 4).common_runs(np.array([97, 98, 99, 100]), max_places=5)) == 0
