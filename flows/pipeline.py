"""The flows that run stages: `pipeline` any range of them, and one flow for each part of the work.

Their parameters are described in `flows.forms`. Each returns the id of its MLflow run.
"""

from __future__ import annotations

from flows.environment import use_local_prefect

use_local_prefect()

from prefect import flow  # noqa: E402

from flows.forms import CURRENT, NOTHING, Overrides, Profile, StageName, Where, described, resolve  # noqa: E402
from flows.stages import Work, run_stages, stage_range  # noqa: E402


@flow(flow_run_name="{from_stage}-to-{to_stage}")
@described
def pipeline(
    profile: Profile = CURRENT,
    from_stage: StageName = "papers",
    to_stage: StageName = "report",
    force: bool = False,
    gpu: Where = "here",
    overrides: Overrides = NOTHING,
) -> str:
    """Run stages in order; what has not changed since its last run is skipped."""
    work = Work(stage_range(from_stage, to_stage), resolve(profile, overrides), force=force, gpu=gpu)
    return run_stages("pipeline", work)


@flow
@described
def synthesize(profile: Profile = CURRENT, force: bool = False, overrides: Overrides = NOTHING) -> str:
    """Papers to questions with evidence: papers, parse, ocr, groups, queries."""
    return run_stages("synthesize", Work(stage_range("papers", "queries"), resolve(profile, overrides), force=force))


@flow
@described
def distill(profile: Profile = CURRENT, force: bool = False, overrides: Overrides = NOTHING) -> str:
    """The teacher's rollouts, filtered and repaired into samples to learn from: teach, distill."""
    return run_stages("distill", Work(stage_range("teach", "distill"), resolve(profile, overrides), force=force))


@flow
@described
def train(profile: Profile = CURRENT, force: bool = False, gpu: Where = "here", overrides: Overrides = NOTHING) -> str:
    """Train the model, first on the samples, then on its own rollouts: sft, grpo."""
    work = Work(stage_range("sft", "grpo"), resolve(profile, overrides), force=force, gpu=gpu)
    return run_stages("train", work)


@flow
@described
def evaluate(
    profile: Profile = CURRENT, force: bool = False, gpu: Where = "here", overrides: Overrides = NOTHING
) -> str:
    """Judge the model against the baselines and write the report: evaluate, report."""
    work = Work(stage_range("evaluate", "report"), resolve(profile, overrides), force=force, gpu=gpu)
    return run_stages("evaluate", work)
