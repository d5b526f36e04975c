"""The set-up script, which runs before there is an environment."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def setup_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_env", ROOT / "scripts" / "setup_env.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LOG", tmp_path / "pip.log")
    return module


def test_long_installs_say_how_far_they_are(setup_env: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    fake = "print('Collecting a\\nRequirement already satisfied: b', flush=True); import time; time.sleep(0.6)"
    fake += "; print('Installing collected packages: a, b', flush=True); time.sleep(0.6); raise SystemExit(3)"
    code = setup_env.watched([sys.executable, "-c", fake], setup_env.LOG, 5, 0.2)
    said = capfd.readouterr().out
    assert code == 3
    assert "setup: 2 of 5 packages are here" in said
    assert "setup: all 5 packages are here; installing them" in said


def test_a_failed_install_tells_pips_error_and_not_what_it_fetched(setup_env: ModuleType) -> None:
    lines = ["Collecting a==1", "  Downloading a-1.whl (3 kB)", "ERROR: No matching distribution found for b==2"]
    setup_env.LOG.write_text("\n".join(lines))
    with pytest.raises(SystemExit, match="No matching distribution found for b==2") as error:
        setup_env.must(1, "the packages")
    assert "pip.log" in str(error.value) and "Downloading" not in str(error.value)


def test_a_python_without_packages_is_refused_with_the_way_out(
    setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit, match=r"this is Python 3\.9 .* make setup PYTHON=python3\.11"):
        setup_env.check_python()


def test_a_full_disk_is_told_before_anything_is_fetched(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_env.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 2**30})())
    with pytest.raises(SystemExit, match=r"1\.0 GiB are free .* need 8"):
        setup_env.check_disk("cpu")


def test_the_environment_of_another_folder_is_left_alone(setup_env: ModuleType, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".venv").mkdir(parents=True)
    setup_env.VENV = tmp_path / ".venv"
    setup_env.check_owner()
    setup_env.VENV.symlink_to(project / ".venv")
    with pytest.raises(SystemExit, match=rf"the environment of {project}, .* `make setup` there"):
        setup_env.check_owner()
