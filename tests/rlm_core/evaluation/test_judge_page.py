"""The page of a judge's check: what decides, and the confusion by case, by hand."""

from __future__ import annotations

from rlm_core.evaluation.report.judge_page import confusion_rows, measures, render_judge_page
from tests.stubs.report import HOSTILE, judge_report


def test_what_decides_stands_beside_its_limit() -> None:
    found = {what: (value, limit, kept) for what, value, limit, kept in measures(judge_report())}
    # always 9 for 10 10 1 1 10 10 1 1: no agreement beyond chance
    assert found["precision: weighted kappa with the labels"] == ("0.00", "at least 0.60", False)
    assert found["answers without a verdict"] == ("10 %", "at most 5 %", False)  # one of ten
    assert found["worthless answers talked to 0.5 or more"] == ("100 %", "at most 0 %", False)
    assert found["verdicts that cross 0.5 when asked again"] == ("0 %", "at most 5 %", True)
    assert found["change of the reward by order"] == ("-", "at most 0.10", True)  # no reordered answer: nothing to miss


def test_every_measure_that_is_missed_is_a_fault_of_the_report() -> None:
    report = judge_report()
    assert len(report["faults"]) == sum(not kept for *_, kept in measures(report))


def test_confusion_by_case() -> None:
    rows = {row["kind"]: row for row in confusion_rows(judge_report(), "recall")}
    half = rows["half"]
    assert (half["n"], half["deserves"]) == (2, "5")
    assert [cell["n"] for cell in half["cells"]] == [0, 0, 0, 2, 0, 0, 0, 0, 0, 0]  # twice 4
    assert [cell["right"] for cell in half["cells"]].index(True) == 4
    assert [cell["level"] for cell in half["cells"]][3] == 10
    assert (rows["paraphrase"]["n"], rows["paraphrase"]["deserves"]) == (1, "-")  # the other got no verdict


def test_the_page_holds_what_was_found_and_no_markup_of_others() -> None:
    page = render_judge_page(judge_report())
    assert page == render_judge_page(judge_report())
    assert (
        HOSTILE not in page
        and "<script" not in page
        and "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    )
    for told in ("Not to be used as it is.", "Calibration of precision", "Confusion by case", "injection plea"):
        assert told in page
    assert "This judge may be used." in render_judge_page({**judge_report(), "passed": True, "faults": []})
