"""The locks hold what requirements/*.in ask for, each at one version, and nothing that the overrides leave out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parents[1] / "requirements"
OVERRIDES = {"cpu": "overrides.txt", "gpu": "gpu-overrides.txt", "control": "overrides.txt"}
"""As in `make lock`."""


def read(name: str) -> list[Requirement]:
    lines = (line.split(" #")[0].strip() for line in (FOLDER / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def lock_of(kind: str) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in read(f"{kind}.txt")}


def test_make_lock_makes_these_locks() -> None:
    recipe = (FOLDER.parent / "Makefile").read_text()
    made = re.findall(r"uv pip compile -q (\w+)\.in --override ([\w-]+\.txt)", recipe)
    assert dict(made) == OVERRIDES
    assert {path.stem for path in FOLDER.glob("*.in")} == set(OVERRIDES)


@pytest.mark.parametrize("kind", OVERRIDES)
def test_a_lock_holds_what_is_asked_for(kind: str) -> None:
    lock = lock_of(kind)
    for wanted in read(f"{kind}.in"):
        locked = lock[canonicalize_name(wanted.name)]
        assert not wanted.specifier or wanted.specifier == locked.specifier, wanted


@pytest.mark.parametrize("kind", OVERRIDES)
def test_a_lock_names_one_version_of_each_package(kind: str) -> None:
    rows = read(f"{kind}.txt")
    assert len({canonicalize_name(r.name) for r in rows}) == len(rows)
    for row in rows:
        (specifier,) = row.specifier
        assert specifier.operator == "==" and "*" not in specifier.version, row


@pytest.mark.parametrize("kind", OVERRIDES)
def test_what_the_overrides_leave_out_is_not_in_a_lock(kind: str) -> None:
    never = {canonicalize_name(r.name) for r in read(OVERRIDES[kind]) if r.marker is not None}
    assert never
    assert never & lock_of(kind).keys() == set()


def test_servers_and_workers_agree() -> None:
    """What flows and stages speak to each other with has one version in all environments."""
    for name in ("prefect", "dvc", "mlflow"):
        assert len({str(lock_of(kind)[name].specifier) for kind in OVERRIDES}) == 1, name
