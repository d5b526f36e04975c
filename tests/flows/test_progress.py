"""Progress lines of stages become percentages; other lines do not."""

from __future__ import annotations

import logging

import pytest

from flows.progress import Step, read_step
from rlm_core.progress import Progress


def test_lines_of_the_progress_counter_are_read(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, logger="rlm.progress"),
        Progress("ocr", 8, "pages", every_seconds=0.0) as counter,
    ):
        for _ in range(8):
            counter.advance()
    steps = [read_step(f"21:00:00 I {message}") for message in caplog.messages]
    assert [step.percent for step in steps if step] == [12.5, 25, 37.5, 50, 62.5, 75, 87.5, 100, 100]
    assert all(step and step.text.startswith("ocr: ") for step in steps)


def test_the_text_keeps_rate_time_left_and_note() -> None:
    line = "12:00:01 I grpo: 3/16 steps, 0.02/s, about 10:50 left; reward 0.41"
    assert read_step(line) == Step(18.75, "grpo: 3/16 steps, 0.02/s, about 10:50 left; reward 0.41")


def test_a_label_of_several_words() -> None:
    assert read_step("12:00:01 I arm base: 1/4 rollouts, 2/s, 0.5 s") == Step(
        25.0, "arm base: 1/4 rollouts, 2/s, 0.5 s"
    )
    assert read_step("arm base: 1/4 rollouts, 2/s, 0.5 s") == Step(25.0, "arm base: 1/4 rollouts, 2/s, 0.5 s")


@pytest.mark.parametrize(
    "line",
    ["12:00:01 I grpo: goes on in MLflow run 1/2", "12:00:01 I ocr: 0/0 pages, 0/s", "> exec python -m tasks.grpo", ""],
)
def test_other_lines_tell_no_progress(line: str) -> None:
    assert read_step(line) is None
