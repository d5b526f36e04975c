"""Passages of clean text are found in a parser's noisy text, with exact extents, and absent ones are not."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm_core.records import Span
from rlm_core.synthesis import TextIndex, locate
from rlm_core.synthesis.streams import Stream

FOX = "The quick brown fox jumps over the lazy dog and runs away from the terrified hunters of the northern valley."
FOLD = "Protein folding remains one of the central problems in biology, where simulation at scale matters most today."
OTHER = (
    "Rainfall in the southern basin was measured daily with tipping-bucket gauges, and the gauges were emptied by hand "
    "whenever the battery of the logger failed during the long winters of the second campaign."
)


def pieces_of(span: Span, text: str) -> list[str]:
    return [text[a:b] for a, b in span.pieces]


def test_a_clean_passage_is_found_to_the_character():
    text = f"{OTHER}\n{FOX}\n{OTHER}"
    (span,) = locate(FOX, text)
    assert text[span.start : span.end] == FOX
    assert span == Span(len(OTHER) + 1, len(OTHER) + 1 + len(FOX), 1.0, ((span.start, span.end),))


def test_brackets_and_quotes_at_the_ends_belong_to_the_passage():
    passage = f'("{FOX}")'
    text = f"Before. {passage} After it, other things are said."
    (span,) = locate(passage, text)
    assert text[span.start : span.end] == passage


def test_interleaved_columns_give_a_piece_a_line():
    text = (
        "The quick brown fox jumps over the lazy dog and Protein folding remains one of the central\n"
        "runs away from the terri- problems in biology, where\n"
        "fied hunters of the north simulation at scale mat-\n"
        "ern valley. ters most today."
    )
    (left,) = locate(FOX, text)
    assert pieces_of(left, text) == [
        "The quick brown fox jumps over the lazy dog and",
        "runs away from the terri-",
        "fied hunters of the north",
        "ern valley.",
    ]
    assert (left.start, left.end, left.score) == (0, text.index(" ters most"), 1.0)
    (right,) = locate(FOLD, text)
    assert pieces_of(right, text) == [
        "Protein folding remains one of the central",
        "problems in biology, where",
        "simulation at scale mat-",
        "ters most today.",
    ]


def test_a_passage_that_goes_on_at_the_top_of_the_next_column():
    text = (
        "over the lazy dog and runs away from Rainfall in the southern basin was measured\n"
        "the terrified hunters of the northern valley. daily with tipping-bucket gauges, and the\n"
        "Rivers are other things than gauges, and The quick brown fox jumps"
    )
    (span,) = locate(FOX, text)
    assert span.score == 1.0
    assert pieces_of(span, text) == [
        "over the lazy dog and runs away from",
        "the terrified hunters of the northern valley.",
        "The quick brown fox jumps",
    ]


LINES = ["The quick brown fox jumps over the lazy dog", "and runs away from the terrified hunters"]
LAST = "of the northern valley."


@pytest.mark.parametrize("where", ["set before the rest", "after a whole table"])
def test_a_last_line_in_the_other_column_far_away(where):
    table = "\n".join(f"{n} {n * 37 % 101} {n * 53 % 97} plots" for n in range(200))
    rest = "\n".join(LINES)
    text = {
        "set before the rest": f"Gauges were read daily {LAST}\n{OTHER}\n{OTHER}\n{OTHER}\n{rest} loggers failed",
        "after a whole table": f"{rest} loggers failed\n{table}\nGauges were read daily {LAST}\n{OTHER}",
    }[where]
    (span,) = locate(FOX, text)
    assert span.score == 1.0
    assert sorted(" ".join(pieces_of(span, text)).split()) == sorted(FOX.split())


def test_a_last_line_that_stands_there_twice_is_nobodys():
    text = f"Gauges were read daily {LAST}\n{OTHER}\n{OTHER} {LAST}\n{OTHER}\n" + "\n".join(LINES) + " loggers failed"
    (span,) = locate(FOX, text)
    assert LAST not in pieces_of(span, text) and 0.75 < span.score < 0.85


@pytest.mark.parametrize(
    "noisy",
    [
        FOX.replace(" ", ""),
        FOX.replace("terrified", "terri-\nfied").replace("northern", "north\u00ad\nern"),
        FOX.replace("terrified", "terriﬁed"),
        FOX.upper(),
        FOX.replace(" ", "  \n"),
        FOX.replace("hunters", "hunt ers").replace("valley", "va11ey"),
        FOX.replace("fox", "fax").replace("terrified", "terrifled").replace("lazy", "1azy"),
        FOX.replace("fi", "(cid:12)"),
        "T\n" + FOX[1:],
        "T \n\n" + FOX[1:].upper(),
    ],
    ids=[
        "glued",
        "hyphens",
        "ligature",
        "case",
        "spaces",
        "split-word",
        "ocr-errors",
        "glyph-number",
        "drop-cap",
        "drop-cap-capitals",
    ],
)
def test_noise_of_every_kind(noisy):
    text = f"{OTHER} {noisy} {OTHER}"
    (span,) = locate(FOX, text)
    assert (span.start, span.end) == (len(OTHER) + 1, len(OTHER) + 1 + len(noisy))
    assert span.score >= 0.95


def test_a_running_head_and_a_page_number_between_are_left_out():
    half = FOX.index("runs")
    text = f"{OTHER} {FOX[:half].strip()}\nJournal of Foxes 12 (2020)\n\n417 Smith and others\n{FOX[half:]}\n{OTHER}"
    (span,) = locate(FOX, text)
    assert pieces_of(span, text) == [FOX[:half].strip(), FOX[half:]]


def test_every_occurrence_is_returned_best_first():
    damaged = FOX.replace("lazy dog", "lzy dg")
    text = f"{damaged}\n{OTHER}\n{FOX}\n{OTHER}\n{FOX}"
    spans = locate(FOX, text)
    assert [text[s.start : s.end] for s in spans] == [FOX, FOX, damaged]
    assert spans[0].start < spans[1].start and spans[2].start == 0
    assert spans[0].score == spans[1].score == 1.0 > spans[2].score


def test_absent_text_is_not_found():
    assert locate(FOLD, f"{OTHER} {FOX}") == []
    assert locate(FOX, "") == []
    assert locate("", FOX) == []
    assert locate("— … !", FOX) == []


def test_another_paragraph_on_the_topic_is_not_the_passage():
    text = (
        "The quick brown fox is a canid of the northern valley. Hunters of the region report that it jumps over fences, and "
        "the lazy dog of the farmers, which runs away from strangers, rarely catches it. Terrified hens were counted twice."
    )
    assert locate(FOX, text) == []


def test_half_of_a_passage_is_too_little_unless_asked_for():
    half = FOX[: len(FOX) // 2]
    assert locate(FOX, f"{OTHER} {half} {OTHER}") == []
    (span,) = locate(FOX, f"{OTHER} {half} {OTHER}", min_score=0.4)
    assert span.score == pytest.approx(0.5, abs=0.03)


def test_short_passages_must_stand_there_whole():
    text = "The party used 42 mg/kg in the art museum. A dose of 42\nmg/kg was safe."
    assert [text[s.start : s.end] for s in locate("42 mg/kg", text)] == ["42 mg/kg", "42\nmg/kg"]
    assert [text[s.start : s.end] for s in locate("art", text)] == ["art"]
    assert locate("42 mg/l", text) == []


def test_an_index_serves_many_look_ups():
    index = TextIndex(f"{FOX}\n{OTHER}\n{FOLD}")
    for passage in (FOX, OTHER, FOLD):
        (span,) = index.locate(passage)
        assert index.text[span.start : span.end] == passage


SEEDS = st.integers(0, 10**6)


def prose(rng: random.Random, words: int) -> str:
    """Sentences of made-up words: no two texts share long runs by chance."""
    syllables = [
        "ba",
        "ri",
        "to",
        "nel",
        "qua",
        "shi",
        "vor",
        "em",
        "ust",
        "pla",
        "gri",
        "don",
        "cy",
        "wex",
        "hal",
        "mi",
    ]
    return " ".join("".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(words)) + "."


def wrap(text: str, width: int, rng: random.Random) -> list[str]:
    """Lines of about `width` characters; long words are hyphenated at some line ends."""
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) + 1 <= width:
            line = f"{line} {word}".strip()
            continue
        room = width - len(line) - 2
        if room >= 3 and len(word) - room >= 3 and rng.random() < 0.7:
            lines.append(f"{line} {word[:room]}-".strip())
            line = word[room:]
        else:
            lines.append(line)
            line = word
    return [*lines, line]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, width=st.integers(28, 60), words=st.integers(25, 120))
def test_any_two_columns_can_be_told_apart(seed, width, words):
    rng = random.Random(seed)
    passages = [prose(rng, words), prose(rng, words)]
    left, right = (wrap(p, width, rng) for p in passages)
    rows = max(len(left), len(right))
    left += [""] * (rows - len(left))
    right += [""] * (rows - len(right))
    text = "\n".join(f"{a} {b}".strip() for a, b in zip(left, right, strict=True))
    for passage in passages:
        spans = locate(passage, text)
        assert len(spans) == 1
        found = Stream.of("".join(pieces_of(spans[0], text))).letters
        wanted = Stream.of(passage).letters
        # one line's letters may stay unfound, where a rest is too short to be told from chance (about 1 case in 300)
        assert (1 - spans[0].score) * len(wanted) <= max(0.03 * len(wanted), width)
        assert abs(len(found) - len(wanted)) <= 0.05 * len(wanted) + width
        assert found[:12] == wanted[:12]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rate=st.floats(0, 0.04))
def test_reading_errors_neither_hide_nor_move_a_passage(seed, rate):
    rng = random.Random(seed)
    before, passage, after = prose(rng, 60), prose(rng, 60), prose(rng, 60)
    text = f"{before}\n{passage}\n{after}"
    gold = "".join(rng.choice("abcdefghij") if c.isalpha() and rng.random() < rate else c for c in passage)
    (span,) = locate(gold, text)
    assert abs(span.start - len(before) - 1) <= 2
    assert abs(span.end - (len(before) + 1 + len(passage))) <= 2


@settings(max_examples=30, deadline=None)
@given(gold=st.text(max_size=200), noisy=st.text(max_size=400))
def test_spans_of_any_texts_are_well_formed(gold, noisy):
    for span in locate(gold, noisy):
        assert 0 <= span.start < span.end <= len(noisy)
        assert 0 < span.score <= 1
        assert span.start == span.pieces[0][0] and span.end == max(b for _, b in span.pieces)
        assert all(a < b for a, b in span.pieces)
        assert list(span.pieces) == sorted(span.pieces)


def test_a_hundred_pages_take_a_fifth_of_a_second():
    rng = random.Random(0)
    text = "\n".join(prose(rng, 120) for _ in range(450))[:400_000]
    gold = text[200_000:200_900]
    seconds = []
    for _ in range(5):
        start = time.process_time()
        (span,) = locate(gold, text)
        seconds.append(time.process_time() - start)
    assert text[span.start : span.end].strip() == gold.strip()
    assert min(seconds) < 0.2


def test_a_passage_that_repeats_itself_is_found():
    rows = "0 1 " * 400  # every run of letters lies at hundreds of places
    spans = locate(rows, f"Table 3. {rows}End of the table.")
    assert (spans[0].start, spans[0].score) == (9, 1.0)
