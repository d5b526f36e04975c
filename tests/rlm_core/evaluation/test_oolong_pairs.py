"""OOLONG-Pairs: conditions against the published ones, gold against brute force, scores by hand."""

from __future__ import annotations

import itertools
import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from rlm_core.evaluation import load_benchmark
from rlm_core.evaluation.benchmarks.labelled_questions import TEMPLATES, WORDS, Templates, read_labelled
from rlm_core.evaluation.benchmarks.oolong_pairs import line_of, pairs_of, score_pairs, user_counts
from rlm_core.evaluation.benchmarks.oolong_tasks import CONDITIONS, LABELS, BothUsers, gold_pairs, users_of

NUM, LOC, ENT, HUM, ABB, DES = (
    "numeric value",
    "location",
    "entity",
    "human being",
    "abbreviation",
    "description and abstract concept",
)


def brute_force(entries: list[dict], task: int) -> set[tuple[int, int]]:
    """All pairs by reading the condition for each ordered pair of users, entry by entry."""

    def having(user: int, label: str) -> list[str]:
        return [e["date"] for e in entries if e["user"] == user and e["label"] == label]

    def both(any_of: tuple[str, str], label: str | None = None, op: str = "", day: str = ""):
        def holds(a: int, b: int) -> bool:
            for user in (a, b):
                if not (having(user, any_of[0]) or having(user, any_of[1])):
                    return False
                for date in having(user, label) if label else []:
                    if not (date > day if op == "after" else date < day):
                        return False
            return True

        return holds

    def n(user: int, label: str) -> int:
        return len(having(user, label))

    rules = {
        1: both((NUM, LOC)),
        2: both((ENT, HUM)),
        3: both((DES, ABB)),
        4: both((HUM, LOC), HUM, "after", "2023-01-06"),
        5: both((ENT, NUM), ENT, "before", "2023-03-15"),
        6: both((LOC, ABB)),
        7: both((DES, NUM), NUM, "after", "2023-02-01"),
        8: both((HUM, DES)),
        9: both((ENT, LOC), LOC, "after", "2023-04-10"),
        10: both((NUM, ABB), ABB, "before", "2023-05-20"),
        11: lambda a, b: n(a, ENT) >= 1 and n(a, ABB) >= 1 and n(b, ENT) == 1,
        12: lambda a, b: n(a, NUM) >= 2 and n(b, LOC) >= 1 and n(b, HUM) >= 1,
        13: lambda a, b: n(a, DES) == 1 and n(b, ABB) >= 1 and n(b, ENT) >= 1,
        14: lambda a, b: n(a, HUM) >= 1 and n(a, NUM) >= 1 and n(b, LOC) == 2,
        15: lambda a, b: n(a, ENT) >= 1 and n(a, LOC) >= 1 and n(a, ABB) >= 1 and n(b, NUM) == 1,
        16: lambda a, b: n(a, DES) >= 1 and n(a, HUM) >= 1 and n(b, ENT) >= 2 and n(b, ABB) == 1,
        17: lambda a, b: n(a, NUM) == 1 and n(b, LOC) >= 1 and n(b, DES) >= 1,
        18: lambda a, b: n(a, ABB) >= 1 and n(a, HUM) == 1 and n(b, ENT) >= 1 and n(b, NUM) >= 1,
        19: lambda a, b: n(a, LOC) >= 2 and n(a, ENT) >= 1 and n(b, DES) == 1 and n(b, ABB) == 1,
        20: lambda a, b: n(a, NUM) >= 1 and n(a, HUM) >= 1 and n(b, LOC) >= 1 and n(b, ENT) >= 1 and n(b, ABB) == 1,
    }
    users = sorted({e["user"] for e in entries})
    return {(a, b) for a, b in itertools.combinations(users, 2) if rules[task](a, b) or rules[task](b, a)}


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.integers(1, 6),
            "label": st.sampled_from(LABELS),
            "date": st.sampled_from(
                ["2023-01-06", "2023-01-07", "2023-02-01", "2023-03-14", "2023-03-15", "2023-05-21"]
            ),
            "text": st.just("?"),
        }
    ),
    max_size=40,
)


@given(ENTRIES, st.sampled_from(sorted(CONDITIONS)))
def test_gold_equals_brute_force(entries, task):
    assert gold_pairs(users_of(entries), task) == brute_force(entries, task)


@pytest.mark.parametrize("seed", [0, 1])
def test_items_gold_equals_brute_force_on_generated_entries(seed):
    for item in load_benchmark("oolong-pairs", size=4096, seed=seed):
        assert item.gold == brute_force(item.metadata["entries"], item.metadata["task"])


def one(user: int, label: str, date: str = "2023-06-01") -> dict:
    return {"user": user, "label": label, "date": date, "text": "?"}


def test_a_rule_on_days_holds_for_a_user_without_such_entries_and_leaves_out_the_day_itself():
    entries = [
        one(1, LOC),
        one(2, HUM, "2023-01-07"),
        one(3, HUM, "2023-01-06"),
        one(4, HUM),
        one(4, HUM, "2022-12-31"),
    ]
    # 1 has no human being: the rule holds; 3 is on the day, 4 has one before it
    assert gold_pairs(users_of(entries), 4) == {(1, 2)}


def test_either_user_may_be_the_one_but_not_both_at_once():
    entries = [one(9, NUM), one(9, NUM), one(2, LOC), one(2, HUM), one(5, NUM), one(5, NUM), one(5, LOC), one(5, HUM)]
    # task 12: "one" is 9 or 5, "other" is 2 or 5; never 5 with itself
    assert gold_pairs(users_of(entries), 12) == {(2, 9), (5, 9), (2, 5)}


def test_conditions_equal_the_published_ones(shared_eval):
    published = json.loads((shared_eval / "oolong_pairs_conditions.json").read_text())
    assert tuple(published["labels"]) == LABELS
    assert [task["id"] for task in published["tasks"]] == sorted(CONDITIONS)
    for task in published["tasks"]:
        condition = CONDITIONS[task["id"]]
        if task["kind"] == "both_users":
            assert isinstance(condition, BothUsers)
            dated = condition.dated
            assert list(condition.any_of) == task["any_of"]
            assert (dated and {"label": dated.label, "op": dated.side, "date": dated.day}) == task["all_of_label_dates"]
        else:
            for needs, rows in ((condition.one, task["one"]), (condition.other, task["other"])):
                assert [{"label": x.label, "op": "==" if x.exactly else ">=", "n": x.count} for x in needs] == rows


@pytest.mark.parametrize("size", [1024, 8192, 65536])
def test_sets_have_20_tasks_of_the_size_asked_for_with_answers(size):
    items = load_benchmark("oolong-pairs", size=size, seed=7)
    assert [item.metadata["task"] for item in items] == list(range(1, 21))
    assert items[0].metadata["tokens"] == approx(size, rel=0.1)
    pairs = items[0].metadata["users"] * (items[0].metadata["users"] - 1) // 2
    assert all(0 < len(item.gold) <= pairs for item in items)
    assert size < 8192 or all(len(item.gold) < 0.7 * pairs for item in items)  # eight users may all qualify
    assert all(a < b for item in items for a, b in item.gold)


def test_lines_hold_date_user_and_question_but_no_label():
    entry = {"date": "2022-12-12", "user": 63685, "label": LOC, "text": "Where is Petra ?"}
    assert line_of(entry) == "Date: Dec 12, 2022 || User: 63685 || Instance: Where is Petra ?"
    item = load_benchmark("oolong-pairs", size=2048)[0]
    pattern = re.compile(r"Date: [A-Z][a-z]{2} \d\d, \d{4} \|\| User: \d+ \|\| Instance: \S.+")
    lines = item.context.splitlines()
    assert len(lines) == len(item.metadata["entries"])
    assert all(pattern.fullmatch(line) for line in lines)


def test_equal_arguments_give_equal_sets_and_another_seed_another_set():
    first, again, other = (load_benchmark("oolong-pairs", size=1024, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first[0].context != other[0].context


@given(st.integers(26, 3000), st.integers(0, 100))
def test_users_share_out_exactly_the_entries_there_are(num_entries, seed):
    counts = user_counts(num_entries, Random(seed))
    assert sum(sum(user.values()) for user in counts) == num_entries
    assert all(user and min(user.values()) >= 1 for user in counts)


def test_a_size_too_small_is_refused():
    with pytest.raises(ValueError, match="size >= 900"):
        load_benchmark("oolong-pairs", size=100)


# ---- scores

GOLD = {(1, 2), (1, 3), (2, 3)}


@pytest.mark.parametrize(
    "answer",
    [
        GOLD,
        [[1, 2], [1, 3], [2, 3]],
        [(2, 1), (3, 1), (3, 2)],
        "(1, 2)\n(1, 3)\n(2, 3)",
        "The pairs are (1, 2), (1,3) and (2 , 3).",
        "1, 2\n1, 3\n2, 3",
        "[[1, 2], [1, 3], [2, 3]]",
        '["(1, 2)", "(1, 3)", "(2, 3)"]',
        ["(1, 2)", "(1, 3)", "(2, 3)"],
        ("1, 2", "1, 3", "2, 3"),
        [["1", "2"], ["1", "3"], ["2", "3"]],
        {"pairs": [[1, 2], [1, 3], [2, 3]]},
        [[1, 2], [1, 2], [1, 3], [2, 3]],
    ],
)
def test_all_ways_to_write_the_answer_score_full(answer):
    assert score_pairs(GOLD, answer) == 1.0


def test_scores_by_hand():
    assert score_pairs(GOLD, [(1, 2), (7, 8)]) == approx(2 * 1 / (2 + 3))
    assert score_pairs(GOLD, (1, 2)) == approx(2 * 1 / (1 + 3))  # one pair alone
    assert score_pairs(GOLD, None) == score_pairs(GOLD, "no pairs") == score_pairs(GOLD, []) == 0.0
    assert score_pairs(GOLD, [1, 2, 3]) == score_pairs(GOLD, 12) == 0.0
    assert score_pairs(set(), []) == 1.0
    assert score_pairs(set(), [(1, 2)]) == 0.0


@given(st.sets(st.tuples(st.integers(0, 99999), st.integers(0, 99999)).filter(lambda p: p[0] < p[1]), max_size=20))
def test_pairs_survive_every_writing(pairs):
    ordered = sorted(pairs)
    written = "\n".join(f"({a}, {b})" for a, b in ordered)
    assert pairs_of(written) == pairs_of(json.dumps(ordered)) == pairs_of(ordered) == pairs


# ---- questions


def test_own_questions_fill_every_blank_and_labels_share_none():
    rng = Random(0)
    drawn = {label: {Templates().draw(label, rng) for _ in range(300)} for label in LABELS}
    assert set(TEMPLATES) == set(LABELS)
    assert all("{" not in question for questions in drawn.values() for question in questions)
    assert not any(drawn[a] & drawn[b] for a, b in itertools.combinations(LABELS, 2))
    assert all(len(set(words)) == len(words) for words in WORDS.values())


TREC = "\n".join(
    [
        "DESC:manner How did serfs live ?",
        "ENTY:animal What bird swims ?",
        "HUM:ind Who sang ?",
        "NUM:date When was it ?",
        "LOC:other Where is Jos\xe9 ?",
        "ABBR:exp What is NASA ?",
    ]
)


def test_a_trec_file_replaces_the_questions(tmp_path):
    path = tmp_path / "train.label"
    path.write_bytes(TREC.encode("latin-1"))
    assert read_labelled(path)[LOC] == ["Where is José ?"]
    items = load_benchmark("oolong-pairs", path=path, size=1024)
    assert {e["text"] for e in items[0].metadata["entries"] if e["label"] == HUM} == {"Who sang ?"}


def test_labelled_json_lines_work_too(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(json.dumps({"label": label, "text": f"About {label} ?"}) for label in LABELS))
    items = load_benchmark("oolong-pairs", path=path, size=1024)
    assert items[0].score(items[0].gold) == 1.0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.label", TREC.replace("HUM:ind", "PER:ind"), r"q.label:3: expected 'LABEL:fine question'"),
        ("q.label", "HUM:ind Who ?", "no question labelled"),
        ("q.jsonl", '{"label": "NUM"}', r"q.jsonl:1: expected a JSON object with 'label' and 'text'"),
    ],
)
def test_bad_question_files_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        load_benchmark("oolong-pairs", path=tmp_path / name, size=1024)


def test_a_missing_question_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere\.label"):
        load_benchmark("oolong-pairs", path=tmp_path / "nowhere.label")
