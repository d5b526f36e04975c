"""MRCR, Evidence Inference and the evidence split: items, scores, errors."""

from __future__ import annotations

import gzip
import json
from difflib import SequenceMatcher

import pytest
from pytest import approx

from rlm_core.evaluation import BENCHMARKS, load_benchmark
from rlm_core.evaluation.benchmarks.evidence_inference import marked_passages
from rlm_core.evaluation.benchmarks.item import BenchmarkItem, as_passages, count_tokens
from rlm_core.evaluation.benchmarks.mrcr import make_items, question_of
from rlm_core.evaluation.benchmarks.run import summarise, unscored
from rlm_core.records import Rollout, Status, Usage


def test_unknown_names_and_sizes_are_refused():
    with pytest.raises(
        ValueError,
        match="unknown benchmark 'mrcrr'; known: browsecomp-plus, evidence, evidence-inference, longbench-pro, ",
    ):
        load_benchmark("mrcrr")
    with pytest.raises(ValueError, match="size"):
        load_benchmark("mrcr", size=0)
    assert set(BENCHMARKS) >= {"evidence", "evidence-inference", "mrcr", "oolong-pairs"}


@pytest.mark.parametrize(
    ("answer", "passages"),
    [
        (None, []),
        ("", []),
        ("one", ["one"]),
        (["one", " ", "two"], ["one", "two"]),
        (("one", ["two"]), ["one", "two"]),
        ('["one", "two"]', ["one", "two"]),
        ([{"paper": "p1", "text": "one"}, {"text": "two"}], ["one", "two"]),
        ({"p1": ["one"], "p2": "two"}, ["one", "two"]),
        ({"two", "one"}, ["one", "two"]),
        ("[1] as cited", ["[1] as cited"]),
        (7, ["7"]),
    ],
)
def test_answers_become_passages(answer, passages):
    assert as_passages(answer) == passages


def test_tokens_are_counted_by_words_digits_and_marks():
    assert count_tokens("In 2023, electroencephalography") == 1 + 4 + 1 + 4  # 22 letters: 1 + 21 // 7


# ---- MRCR


@pytest.mark.parametrize("size", [1000, 32_768])
def test_mrcr_hides_each_needle_once_in_its_order(size):
    items = load_benchmark("mrcr", size=size, seed=1)
    assert [(i.metadata["needles"], i.metadata["index"]) for i in items] == [
        (n, k) for n in range(2, 9) for k in range(1, n + 1)
    ]
    for item in items:
        turns = item.context.split("User: ")
        asked = [t for t in turns if t.startswith(item.metadata["request"])]
        assert len(asked) == item.metadata["needles"]
        assert asked[item.metadata["index"] - 1].split("Assistant: ")[1].strip() == item.gold
        assert item.metadata["tokens"] == approx(size, rel=0.15)


def test_mrcr_has_distractors_of_the_same_form_and_of_the_same_topic():
    item = load_benchmark("mrcr", size=32_768)[0]
    form, topic = item.metadata["request"].removeprefix("Write a ").removesuffix(".").split(" about ")
    requests = {line for line in item.context.splitlines() if line.startswith("User: ")}
    assert sum(f"Write a {form} about" in line for line in requests) > 3
    assert sum(line.endswith(f"about {topic}.") for line in requests) > 3


def test_mrcr_scores_by_similarity_with_the_asked_needle():
    first, second = make_items(4096, needles=2, seed=0)
    assert first.score(first.gold) == first.score([first.gold]) == first.score(json.dumps([first.gold])) == 1.0
    assert first.score(f"  {first.gold}\n") == 1.0
    half = first.gold[: len(first.gold) // 2]
    assert first.score(half) == approx(SequenceMatcher(None, half, first.gold).ratio())
    assert first.score(second.gold) < 0.5
    assert first.score(None) == first.score("") == first.score(first.context * 2) == 0.0


def test_mrcr_questions_name_the_occurrence_from_one():
    assert "the third poem about tapirs" in question_of("poem", "tapirs", 3)


@pytest.mark.parametrize(
    ("size", "needles", "message"), [(1000, 9, "2 to 8"), (1000, 1, "2 to 8"), (10, 2, "1000 tokens")]
)
def test_mrcr_refuses_what_it_cannot_make(size, needles, message):
    with pytest.raises(ValueError, match=message):
        make_items(size, needles, 0)


def test_mrcr_reads_no_file(tmp_path):
    with pytest.raises(ValueError, match="reads no file"):
        load_benchmark("mrcr", path=tmp_path)


def test_mrcr_is_deterministic():
    assert load_benchmark("mrcr", size=2000, seed=4) == load_benchmark("mrcr", size=2000, seed=4)
    assert load_benchmark("mrcr", size=2000, seed=4)[0].context != load_benchmark("mrcr", size=2000, seed=5)[0].context


# ---- Evidence Inference

TEXT = (
    "TITLE:\nA trial\n\nABSTRACT.METHODS:\nWe tried.\n\nBODY.RESULTS:\nPain fell by half. Sleep improved. Costs rose."
)


def mark(text: str, user: str) -> dict:
    start = TEXT.index(text)
    return {"start": start, "end": start + len(text), "text": text, "user": user}


def paper(paper_id: str = "PMC1", **changes) -> dict:
    prompt = {
        "prompt_id": "7",
        "outcome": "pain",
        "intervention": "drug",
        "comparator": "placebo",
        "evidence": [mark("Pain fell by half.", "0"), mark("Pain fell by half. Sleep improved.", "6")],
    }
    return {"pmcid": paper_id, "title": "A trial", "text": TEXT, "questions": [{**prompt, **changes}]}


def write(path, *papers):
    path.write_text("".join(json.dumps(p) + "\n" for p in papers))
    return path


def test_spans_of_an_annotator_that_overlap_are_joined():
    marks = [mark("half. Sleep", "0"), mark("Pain fell by half.", "0"), mark("Costs rose.", "0")]
    assert marked_passages({"evidence": marks}, TEXT) == {"0": ["Pain fell by half. Sleep", "Costs rose."]}


def test_an_answer_is_compared_with_the_annotator_it_agrees_with_best(tmp_path):
    pytest.importorskip("rlm_core.rewards")
    (item,) = load_benchmark("evidence-inference", path=write(tmp_path / "e.jsonl", paper()))
    assert item.gold == ["Pain fell by half."]
    assert item.score(item.gold) == item.score("Pain fell by half. Sleep improved.") == approx(1.0)
    assert item.score(None) == 0.0
    assert item.score(["Costs rose."]) == 0.0
    assert item.metadata["annotators"]["6"] == ["Pain fell by half. Sleep improved."]
    assert item.context["PMC1"]["abstract"] == "ABSTRACT.METHODS:\nWe tried."


def test_distractor_papers_fill_the_size(tmp_path):
    tokens = count_tokens(TEXT)
    path = write(tmp_path / "e.jsonl", paper(), *[{**paper(f"PMC{i}"), "questions": []} for i in range(2, 9)])
    (alone,) = load_benchmark("evidence-inference", path=path, size=1)
    (filled,) = load_benchmark("evidence-inference", path=path, size=3 * tokens)
    assert list(alone.context) == ["PMC1"]
    assert len(filled.context) == 3
    assert "PMC1" in filled.context
    assert filled.metadata["tokens"] == 3 * tokens


def test_questions_without_evidence_are_left_out(tmp_path):
    assert load_benchmark("evidence-inference", path=write(tmp_path / "e.jsonl", paper(evidence=[]))) == []


def test_bad_files_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="pass path="):
        load_benchmark("evidence-inference")
    with pytest.raises(ValueError, match=r"no such file: .*gone\.jsonl"):
        load_benchmark("evidence-inference", path=tmp_path / "gone.jsonl")
    wrong = paper(evidence=[{**mark("Sleep improved.", "0"), "start": 3}])
    with pytest.raises(ValueError, match=r"bad.jsonl:1: prompt 7: the span 3\.\."):
        load_benchmark("evidence-inference", path=write(tmp_path / "bad.jsonl", wrong))
    with pytest.raises(ValueError, match=r"short.jsonl:1: not in the expected schema: KeyError\('text'\)"):
        load_benchmark("evidence-inference", path=write(tmp_path / "short.jsonl", {"pmcid": "x"}))
    (tmp_path / "plain.jsonl.gz").write_text("not gzip")
    with pytest.raises(ValueError, match="cannot read"):
        load_benchmark("evidence-inference", path=tmp_path / "plain.jsonl.gz")
    with gzip.open(tmp_path / "empty.jsonl.gz", "wt") as out:
        out.write("\n")
    with pytest.raises(ValueError, match="holds no papers"):
        load_benchmark("evidence-inference", path=tmp_path / "empty.jsonl.gz")


def test_the_published_file_loads_with_all_spans_checked(shared_eval):
    items = load_benchmark("evidence-inference", path=shared_eval / "evidence_inference_dev.jsonl.gz", size=1)
    assert len(items) == 503
    assert len({item.id for item in items}) == 503
    assert all(len(item.context) == 1 and item.gold for item in items)


def test_gold_scores_full_on_the_published_file(shared_eval):
    pytest.importorskip("rlm_core.rewards")
    items = load_benchmark("evidence-inference", path=shared_eval / "evidence_inference_dev.jsonl.gz", size=30_000)
    for item in items[::25]:
        assert item.score(item.gold) == item.score(tuple(item.gold)) == item.score(json.dumps(item.gold)) == approx(1.0)


# ---- the project's own split


def test_the_evidence_benchmark_says_which_stage_is_missing(tmp_path):
    with pytest.raises(ValueError, match="dvc repro queries"):
        load_benchmark("evidence", path=tmp_path)


def test_a_model_that_never_came_to_speak_has_no_score() -> None:
    """A server too slow for one answer within the limits says nothing about its model: no zero, and asked again."""
    item = BenchmarkItem("i", "?", "context", "gold", lambda answer: float(answer == "gold"), {})
    silent = Rollout("i.0", status=Status.OUT_OF_BUDGET, failure="the time is up")
    spoke = Rollout("i.1", status=Status.OUT_OF_BUDGET, failure="the time is up", usage=Usage(model_calls=1))
    report = summarise([item], [[silent, spoke]])
    assert (report["items"][0]["scores"], report["failed_rollouts"], report["scored"]) == ([None, 0.0], 1, 1)
    assert unscored(silent) == ["no model call was answered: the time is up"]
    none = summarise([item], [[silent]])
    assert (none["score_mean"], none["scored"]) == (None, 0)
