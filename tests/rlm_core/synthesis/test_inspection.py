"""Counts, lengths, positions and leaks of a few questions, by hand."""

from __future__ import annotations

from rlm_core.papers.records import Paper
from rlm_core.records import Evidence, Query, Span
from rlm_core.synthesis.inspection import Leak, counts, leaks, lengths, positions, report_of

RYE = "Winter rye took up most of the nitrate before the first frost came, and less of it after the thaw of the second year."
VETCH = (
    "Hairy vetch fixed nitrogen only where soil had been limed, which three of the farms in the valley had not done."
)
CLOVER = (
    "Crimson clover flowered late, and the bees of the region had by then moved on to the linden trees by the river."
)


def query(name, question, paper, text, start=0, tier="1"):
    return Query(name, question, "single", tier, (paper,), (Evidence(paper, text, Span(start, start + 10)),))


def splits(train=(), val=(), test=()):
    return {"train": list(train), "val": list(val), "test": list(test)}


def test_counts_by_split_kind_and_tier():
    rows = counts(
        splits(
            train=[query("a", "?", "p", "x" * 200), query("b", "?", "p", "x" * 400)], test=[query("c", "?", "r", "x")]
        )
    )
    assert rows[0] == {
        "split": "train",
        "kind": "single",
        "tier": "1",
        "questions": 2,
        "papers": 1,
        "passages": 1.0,
        "evidence_chars": [200, 200, 200, 200, 400],
    }
    assert [r["split"] for r in rows] == ["train", "test"]


def test_lengths_and_positions_fall_into_their_classes():
    queries = [
        query("a", "?", "p", "x" * 149, 0),
        query("b", "?", "p", "x" * 150, 39),
        query("c", "?", "p", "x" * 900, 199),
    ]
    assert {k: v for k, v in lengths(queries).items() if v} == {"under 150": 1, "150 to 300": 1, "900 and more": 1}
    found = positions(queries, {"p": Paper("p", pages=("y" * 200,))})
    assert found == {"0 to 20 %": 2, "20 to 40 %": 0, "40 to 60 %": 0, "60 to 80 %": 0, "80 to 100 %": 1}


def test_clean_splits_leak_nothing():
    apart = splits([query("a", "What did rye do?", "p", RYE)], [query("b", "Where did vetch fix?", "q", VETCH)],
                   [query("c", "When did clover flower?", "r", CLOVER)])  # fmt: skip
    assert (
        leaks(apart, {name: Paper(name, pages=(text,)) for name, text in zip("pqr", (RYE, VETCH, CLOVER), strict=True)})
        == []
    )


def test_each_kind_of_leak_is_found_and_named():
    first = query("a", "What did winter rye take up before frost?", "p", RYE)
    reworded = query("b", "What does the paper say winter rye takes up before the frost?", "q", VETCH)
    quoted = query("c", "Where does clover flower?", "r", f"{CLOVER[:20]} {RYE[:100]}")
    same_paper = query("d", "Which bees moved?", "p", CLOVER)
    library = {"p": Paper("p", pages=(RYE,)), "q": Paper("q", pages=(RYE[:110],)), "r": Paper("r", pages=(CLOVER,))}
    found = leaks(splits([first], [reworded], [quoted, same_paper]), library)
    assert {(leak.kind, leak.splits, leak.first, leak.second) for leak in found} == {
        ("paper", ("train", "test"), "p", "p"),
        ("near-duplicate paper", ("train", "val"), "p", "q"),
        ("question", ("train", "val"), "a", "b"),
        ("evidence", ("train", "test"), "a", "c"),
    }
    (evidence,) = [leak for leak in found if leak.kind == "evidence"]
    assert isinstance(evidence, Leak) and 0.5 < evidence.share < 1


def test_the_report_orders_rejections_by_number():
    figures = report_of(splits([query("a", "?", "p", RYE)]), {}, {}, {"few": 1, "many": 9})
    assert list(figures["rejected"].items()) == [("many", 9), ("few", 1)] and figures["total"] == 1
