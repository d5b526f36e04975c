"""The flow `sweep`: several sets of params, each run in a copy of the project, compared in one table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from flows.environment import ROOT, use_local_prefect

use_local_prefect()

from prefect import flow, get_run_logger  # noqa: E402
from prefect.artifacts import create_table_artifact  # noqa: E402
from pydantic import BaseModel, ConfigDict, Field  # noqa: E402

from flows.artifacts import headline, link_mlflow, mlflow_address  # noqa: E402
from flows.dvc import StageFailed  # noqa: E402
from flows.forms import CURRENT, NOTHING, Overrides, Profile, StageName, described, merged, resolve  # noqa: E402
from flows.stages import Work, flow_variables, run_stages, stage_range  # noqa: E402
from flows.workspace import copy_workspace  # noqa: E402
from rlm_core.files import read_json  # noqa: E402
from rlm_core.params import Params, validate_params  # noqa: E402
from tasks import tracking  # noqa: E402

FOLDER = Path(".cache/sweeps")
ARM = "grpo"
"""The row of the result table that variants are compared by."""


class Variant(BaseModel):
    """One set of params of a sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Of its run, of its row in the table, and of its folder under .cache/sweeps."""
    overrides: Overrides = NOTHING
    """Values that differ from the sweep's own."""


@flow
@described
def sweep(
    variants: Annotated[list[Variant], Field(min_length=1)],
    profile: Profile = CURRENT,
    from_stage: StageName = "papers",
    to_stage: StageName = "report",
    overrides: Overrides = NOTHING,
) -> str:
    """Run each variant in a copy of the project under .cache/sweeps, then compare them; returns the MLflow run's id.

    The project's params.yaml and outputs stay as they are. Copies share its DVC cache: stages that no variant changes are
    fetched, not run. A variant that fails does not stop the others; the flow fails at the end and says which did.
    """
    check_names(variants)
    stages = stage_range(from_stage, to_stage)
    settings = {v.name: combined(resolve(profile, overrides), v) for v in variants}  # all faults before any work
    base = resolve(profile, overrides)
    logger = get_run_logger()
    rows: list[dict[str, str]] = []
    tags = {**tracking.flow_tags(flow_variables()), "flow": "sweep"}
    with tracking.open_run("sweep", base, tags=tags) as tracker:
        link_mlflow(base, tracker)
        for one in variants:
            try:
                run_id = variant.with_options(flow_run_name=one.name)(
                    one.name, settings[one.name], stages, tracker.run_id
                )
                rows.append(row_of(one, "finished", run_link(base, tracker, run_id), ROOT / FOLDER / one.name))
            except StageFailed as error:
                logger.error("variant '%s': %s", one.name, error)
                rows.append(row_of(one, str(error).splitlines()[0], "", None))
        create_table_artifact(
            key="sweep", table=rows, description=f"Arm `{ARM}` of each variant, on its own questions."
        )
        tracker.log_table({key: [row[key] for row in rows] for key in rows[0]}, "sweep.json")
        if failed := [row["variant"] for row in rows if row["state"] != "finished"]:
            raise StageFailed(f"of {len(rows)} variants {len(failed)} failed: {', '.join(failed)}; the table says why")
    return tracker.run_id


@flow
def variant(name: str, params: Params, stages: list[StageName], parent_run_id: str) -> str:
    """One variant of a sweep in its own copy of the project; returns the MLflow run's id."""
    folder = ROOT / FOLDER / name
    copy_workspace(folder)
    work = Work(stages, params, root=folder, parent_run_id=parent_run_id)
    return run_stages(name, work)


def check_names(variants: list[Variant]) -> None:
    names = [v.name for v in variants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"variants need names of their own; given twice: {', '.join(twice)}")


def combined(base: Params, one: Variant) -> Params:
    """The sweep's params with the variant's over them; raises `ParamsError` naming the variant."""
    data = merged(base.model_dump(mode="json"), one.overrides.model_dump(mode="json"))
    return validate_params(data, source=f"variant '{one.name}'")


def run_link(params: Params, tracker: tracking.Tracker, run_id: str) -> str:
    return f"{mlflow_address(params)}/#/experiments/{tracker.experiment_id}/runs/{run_id}"


def row_of(one: Variant, state: str, link: str, folder: Path | None) -> dict[str, str]:
    """One row of the comparison; figures are empty where the variant came to no evaluation."""
    changed: dict[str, Any] = tracking.flatten(one.overrides.model_dump(mode="json"))
    path = None if folder is None else folder / "reports" / "evaluation.json"
    arms = read_json(path)["arms"] if path is not None and path.exists() else {}
    figures = (
        headline(arms[ARM]) if ARM in arms else dict.fromkeys(("judge", "F1", "format", "tokens", "seconds", "n"), "")
    )
    differs = ", ".join(f"{key}={value}" for key, value in changed.items()) or "nothing"
    return {"variant": one.name, "differs in": differs, "state": state, **figures, "MLflow": link and f"[run]({link})"}
