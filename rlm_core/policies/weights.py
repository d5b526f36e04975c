"""Weights on their way to a server: linked from a model folder, or written from a state dict, and checked first."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.policies.base import PolicyError
from rlm_core.policies.models import Dtype, weight_files

if TYPE_CHECKING:
    import torch

Shapes = dict[str, tuple[int, ...]]


class WeightsMismatch(PolicyError):
    """New weights have other names or shapes than the served model."""


def link_model(model: Path, target: Path) -> None:
    """A copy of a model folder in which large files are hard links where the file system allows it."""
    target.mkdir(parents=True)
    for file in model.iterdir():
        if file.is_file() and file.suffix not in (".bin", ".pt", ".gguf"):
            link_or_copy(file, target / file.name)


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link to the file itself (never to a link to it), else a copy."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def write_weights(source: Path | str | Mapping[str, torch.Tensor], target: Path, *, like: Path, dtype: Dtype) -> None:
    """Make the folder `target` hold the weights of `source`, whole, after comparing them with the model `like`.

    A state dict is written as `dtype`; tied tensors that the model's own files leave out are left out.
    Raises `WeightsMismatch`.
    """
    expected = shapes_of(like)
    work = target.with_name(f".{target.name}")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        if isinstance(source, str | os.PathLike):
            check_same(shapes_of(Path(source)), expected, what=str(source))
            for file in weight_files(Path(source)):
                link_or_copy(file, work / file.name)
            index = Path(source) / "model.safetensors.index.json"
            if index.exists():
                shutil.copyfile(index, work / index.name)
        else:
            _write_state(source, work, expected, dtype, tied=_is_tied(like))
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_state(
    state: Mapping[str, torch.Tensor], folder: Path, expected: Shapes, dtype: Dtype, *, tied: bool
) -> None:
    import torch
    from safetensors.torch import save_file

    kind: torch.dtype = getattr(torch, dtype)
    tensors = {
        name: tensor
        for name, tensor in state.items()
        if not (tied and name == "lm_head.weight" and name not in expected)
    }
    check_same({name: tuple(t.shape) for name, t in tensors.items()}, expected, what="the state dict")
    copies = {name: t.detach().to(device="cpu", dtype=kind).contiguous() for name, t in tensors.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})


def shapes_of(model: Path) -> Shapes:
    """Name and shape of every tensor of a model folder, from the headers of its files."""
    shapes: Shapes = {}
    for file in weight_files(model):
        with open(file, "rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            header: dict[str, Any] = json.loads(handle.read(length))
        shapes |= {name: tuple(row["shape"]) for name, row in header.items() if name != "__metadata__"}
    return shapes


def check_same(found: Shapes, expected: Shapes, *, what: str) -> None:
    """Raise `WeightsMismatch` naming a few differences."""
    missing = sorted(expected.keys() - found.keys())
    unknown = sorted(found.keys() - expected.keys())
    other = sorted(n for n in expected.keys() & found.keys() if expected[n] != found[n])
    if not (missing or unknown or other):
        return
    faults = [f"{label} {len(names)} (e.g. {names[0]})" for label, names in
              (("missing", missing), ("unknown", unknown), ("of another shape", other)) if names]  # fmt: skip
    raise WeightsMismatch(
        f"{what} does not fit the served model: tensors {', '.join(faults)}. Give the weights of the same architecture, "
        "adapters merged, names as save_pretrained writes them"
    )


def _is_tied(model: Path) -> bool:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return bool(config.get("tie_word_embeddings", config.get("text_config", {}).get("tie_word_embeddings", False)))


@contextlib.contextmanager
def own_slot(parent: Path) -> Iterator[Path]:
    """A folder `parent/slot-N` for this process alone, empty; N is the smallest that no living process holds.

    Held by a lock that the kernel frees when the process dies, so what a killed one left is reused. Names repeat on
    purpose: vLLM's caches of compiled code know a model by its path.
    """
    parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        folder = parent / f"slot-{number}"
        with open(parent / f"slot-{number}.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
                continue
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                yield folder.resolve()
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
