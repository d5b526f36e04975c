"""Benchmarks read from files of the user's: small files in the published schemas, written here, scored by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rlm_core.evaluation import load_benchmark
from rlm_core.evaluation.benchmarks import longbench_pro, longcot, oolong
from rlm_core.evaluation.benchmarks.browsecomp_plus import choose


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "\n".join(json.dumps(row) for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def oolong_row(number: int, answer: str, answer_type: str, length: int = 1024) -> dict[str, Any]:
    return {
        "id": number, "context_len": length, "dataset": "trec_coarse", "context_window_id": 7,
        "context_window_text": "Date: Feb 02, 2023 || User: 11 || Instance: Where is Rome ?",
        "question": "Which label is the most common?", "task_group": "counting", "task": "TASK_TYPE.MOST_FREQ",
        "answer": answer, "answer_type": answer_type, "input_subset": "False", "num_labels": 6,
    }  # fmt: skip


def test_oolong(tmp_path: Path) -> None:
    rows = [
        oolong_row(1, "['location']", "ANSWER_TYPE.LABEL"),
        oolong_row(2, "[12]", "ANSWER_TYPE.NUMERIC"),
        oolong_row(3, "[datetime.date(2023, 2, 5)]", "ANSWER_TYPE.DATE"),
        oolong_row(4, "['more common than']", "ANSWER_TYPE.COMPARISON"),
        oolong_row(5, "[3]", "ANSWER_TYPE.NUMERIC", length=4096),
        oolong_row(6, "[3]", "ANSWER_TYPE.NUMERIC", length=512),
    ]
    for name in ("rows.jsonl", "rows.jsonl.gz"):
        items = load_benchmark("oolong", write_jsonl(tmp_path / name, rows), 2048)
        assert [item.id for item in items] == [f"oolong-{n}" for n in (1, 2, 3, 4)]  # the longest that fits
    label, number, day, compared = items
    assert all(item.score(item.gold) == 1.0 for item in items)
    assert [label.score(a) for a in ("Label: Location", "human being", None, [])] == [1, 0, 0, 0]
    # 0.75 to the power of |12 - 10|
    assert [number.score(a) for a in (12, "Answer: 10", "none")] == [1, 0.75**2, 0]
    assert [day.score(a) for a in ("Date: Feb 05, 2023", "2023-02-05", "2023-02-06", "soon")] == [1, 1, 0, 0]
    assert [compared.score(a) for a in ("Answer: entity is more common than location", "less common than")] == [1, 0]
    assert label.metadata["task_group"] == "counting"
    with pytest.raises(ValueError, match="no context of at most 100 tokens; the file has 512, 1024, 4096"):
        load_benchmark("oolong", tmp_path / "rows.jsonl", 100)


def test_oolong_gold_forms() -> None:
    assert [oolong.gold_of(a) for a in ("['a b']", ["x"], "[5]", "plain")] == ["a b", "x", "5", "plain"]


def longbench_row(number: int, task: str, answer: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}", "context": "a long document", "language": "English", "token_length": "8k",
        "primary_task": "T3. Evidence-Grounded QA", "secondary_task": task, "contextual_requirement": "Full",
        "question_nonthinking": "Which? [Answer]", "question_thinking": "Think. Which?", "answer": answer,
        "difficulty": "Easy", **changes,
    }  # fmt: skip


def test_longbench_pro(tmp_path: Path) -> None:
    rows = [
        longbench_row(1, "T3.2 Single-Hop Fact QA", ["B"]),
        longbench_row(2, "T5.1 Full-Sentence Citation Alignment", ["[1]", "[2]"]),
        longbench_row(3, "T4.2 Query-Focused Summary", ["a summary"]),
        longbench_row(4, "T3.2 Single-Hop Fact QA", ["B"], language="Chinese"),
        longbench_row(5, "T3.2 Single-Hop Fact QA", ["B"], token_length="256k"),
    ]
    path = tmp_path / "longbench_pro.json"
    path.write_text(json.dumps(rows))
    items = load_benchmark("longbench-pro", path, 32_768)
    assert [item.id for item in items] == ["longbench-pro-r1", "longbench-pro-r2"]
    assert all(item.score(item.gold) == 1.0 for item in items)
    assert [items[0].score(a) for a in ("I think so.\n[Answer]\nb", "C", None)] == [1, 0, 0]
    assert items[1].score("[Answer]\n[1]\n[3]") == 0.5  # one of two right, one of two found
    with pytest.raises(ValueError, match="unknown secondary_task 'T99 New'"):
        longbench_pro.metric_of("T99 New")


@pytest.mark.parametrize(
    ("metric", "given", "value"),
    [
        (longbench_pro.pairs_in_order, ["a", "c", "b"], 2 / 3),  # ab, ac of ab, ac, bc
        (longbench_pro.pairs_in_order, ["a", "b"], 1 / 3),
        (longbench_pro.contained, ["the a", "b."], 2 / 3),
        (longbench_pro.ndcg, ["a", "b", "c"], 1.0),
        # gains 3, 2, 1; best 3/1 + 2/log2(3) + 1/2
        (longbench_pro.ndcg, ["x", "a"], (3 / 1.584962500721156) / (3 + 2 / 1.584962500721156 + 0.5)),
        (longbench_pro.set_f1, ["a", "b", "x"], 2 / 3),
    ],
)
def test_metrics_of_longbench_pro(metric: Any, given: list[str], value: float) -> None:
    assert metric(["a", "b", "c"], given) == pytest.approx(value)


def document(doc_id: str, text: str) -> dict[str, str]:
    return {"docid": doc_id, "url": f"http://{doc_id}", "text": text}


def test_browsecomp_plus(tmp_path: Path) -> None:
    gold = document("g", "The tower of Ostrava was built by Jan Novak.")
    near = document("n", "A tower of Ostrava is tall and old.")
    far = document("f", "Soup is made of leeks.")
    other = document("o", "Leeks grow in sand.")
    rows = [
        {"query_id": "1", "query": "Who built the tower of Ostrava?", "answer": "Jan Novak", "gold_docs": [gold],
         "evidence_docs": [gold], "negative_docs": [far, near]},
        {"query_id": "2", "query": "What is soup made of?", "answer": "leeks", "gold_docs": [far],
         "evidence_docs": [far, other]},
    ]  # fmt: skip
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    first, second = load_benchmark("browsecomp-plus", path, 20)
    assert set(first.context) == {"g", "n"}  # BM25's nearest fits, the others do not
    assert set(second.context) >= {"f", "o"}
    assert first.metadata["gold_docs"] == ["g"]
    assert set(load_benchmark("browsecomp-plus", path, 1)[0].context) == {"g"}  # its own are never left out
    assert set(load_benchmark("browsecomp-plus", path, 10_000)[0].context) == {"g", "n", "f", "o"}
    answers = ("Jan Novak", "It was Jan  NOVAK.", "Novak", None, "Jan Novak " * 30)
    assert [first.score(a) for a in answers] == [1, 1, 0, 0, 0]
    assert load_benchmark("browsecomp-plus", path, 20)[0].context == first.context
    assert choose(["a"], ["b", "a", "c"], {i: {"text": "one two"} for i in "abc"}, 4) == ["a", "b"]


def test_longcot_mini(tmp_path: Path) -> None:
    questions = [
        {
            "question_id": "m1",
            "domain": "math",
            "difficulty": "easy",
            "prompt": "2x = 6?",
            "problem": None,
            "answer": "x^2 + 3",
        },
        {
            "question_id": "c1",
            "domain": "cs",
            "difficulty": "easy",
            "prompt": "Sort.",
            "problem": {},
            "answer": {"a": [1, 2]},
        },
        {
            "question_id": "l1",
            "domain": "logic",
            "difficulty": "easy",
            "prompt": "Move.",
            "problem": {},
            "answer": None,
        },
        {"question_id": "h1", "domain": "cs", "difficulty": "hard", "prompt": "Hard.", "problem": {}, "answer": 3},
    ]
    path = tmp_path / "easy.json"
    path.write_text(json.dumps({"questions": questions}))
    math, cs = load_benchmark("longcot-mini", path)
    assert (math.id, cs.id) == ("longcot-mini-m1", "longcot-mini-c1")
    assert [math.score(a) for a in (math.gold, "so solution = x^2+3", "solution = x^3", None)] == [1, 1, 0, 0]
    answers = (cs.gold, 'solution = {"a": [1, 2]}', "solution = {'a': (1, 2)}", "solution = {'a': [2, 1]}", "[1, 2]")
    assert [cs.score(a) for a in answers] == [1, 1, 1, 0, 0]
    assert "sub-call" in longcot.HINT


@pytest.mark.parametrize("name", ["oolong", "longbench-pro", "browsecomp-plus", "longcot-mini"])
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} reads a file of yours: give its path"):
        load_benchmark(name)
    with pytest.raises(ValueError, match="no such file"):
        load_benchmark(name, tmp_path / "none.jsonl")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": 1}\n{oops')
    with pytest.raises(ValueError, match=r"broken\.jsonl:2: not JSON"):
        load_benchmark(name, broken)
    broken.write_text('{"id": 1}')
    with pytest.raises(ValueError, match=r"row 1 lacks .*; its keys are id"):
        load_benchmark(name, broken)
    broken.write_text("[1]")
    with pytest.raises(ValueError, match="row 1 is list, expected an object"):
        load_benchmark(name, broken)
