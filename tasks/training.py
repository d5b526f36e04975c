"""What the two training stages share: their MLflow run across a kill, the folder they publish, their resumable state."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlm_core.files import content_key, read_json, sha256_file, write_json
from tasks.common import Stage, dump, log


def resumable_folder(stage: Stage, *parts: Any) -> Path:
    """`.cache/STAGE/KEY`, where KEY holds all that shapes the result; what other keys left behind is removed."""
    folder = stage.cache / content_key(stage.name, *parts)
    for old in stage.cache.iterdir():
        if old.is_dir() and old != folder:
            shutil.rmtree(old)
    folder.mkdir(exist_ok=True)
    return folder


def forget(folder: Path) -> None:
    """Remove what a finished stage needs no more: run again, it trains again."""
    shutil.rmtree(folder, ignore_errors=True)


def file_keys(*paths: Path) -> list[str]:
    """The contents of files, for a key."""
    return [sha256_file(path) for path in paths]


def model_key(folder: Path) -> list[str]:
    """The contents of a model folder's weights, for a key."""
    return file_keys(*sorted(folder.glob("*.safetensors")))


@contextlib.contextmanager
def one_run(stage: Stage, folder: Path) -> Iterator[None]:
    """Curves of a stage that was killed and run again go on in the MLflow run that they began in.

    The run's id is kept in `folder`. When there is one, this attempt's own run is tagged `continued_in` and the stage
    logs to the first one until the end, which sets its status.
    """
    file = folder / "mlflow-run.json"
    tracker = stage.tracker
    if not file.exists() or not tracker.exists(first := read_json(file)["run_id"]):
        write_json(file, {"run_id": tracker.run_id})
        yield
        return
    tracker.adopt(first)
    log.info("%s: goes on in MLflow run %s", stage.name, tracker.run_id)
    status = "FAILED"
    try:
        yield
        status = "FINISHED"
    finally:
        tracker.end(status)


def save_model(model: Any, folder: Path, *, like: Path, dtype: str) -> None:
    """Write a model folder that vLLM serves, whole or not at all: weights as `dtype`, tokenizer and template of `like`."""
    import torch

    work = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    kind = getattr(torch, dtype)
    state = {name: tensor.detach().to(kind) for name, tensor in model.state_dict().items()}
    model.save_pretrained(work, state_dict=state)
    _set_dtype(work / "config.json", dtype)
    for file in like.iterdir():
        if (
            file.is_file()
            and not (work / file.name).exists()
            and not file.name.endswith((".safetensors", ".index.json"))
        ):
            shutil.copy2(file, work / file.name)
    publish_folder(work, folder)


def _set_dtype(file: Path, dtype: str) -> None:
    config = read_json(file)
    for key in ("dtype", "torch_dtype"):
        if key in config:
            config[key] = dtype
    write_json(file, config)


def publish_folder(work: Path, folder: Path) -> None:
    """Rename `work` to `folder`, in place of what was there."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        folder.rename(old)
    work.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def train_params(stage: Stage, *names: str) -> list[Any]:
    """Params sections as plain data, for a key."""
    return [stage.params.seed, *(dump(getattr(stage.params, name)) for name in names)]
