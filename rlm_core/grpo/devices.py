"""What a device can do, for plans: its memory, and the rates that training and sampling reach on it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

TRAIN_SHARE = 0.35
"""Of a GPU's dense bf16 peak, in training: common for transformers code without fused kernels."""
SAMPLE_SHARE = 0.2
"""In batched decoding and prefill."""
CPU_TRAIN = 0.15e12
CPU_SAMPLE = 0.05e12
CPU_BYTES = 20e9
"""A core of a server processor with AVX-512 bf16, measured with SmolLM2-135M on two of them."""


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    memory_gib: float | None
    """None: the machine's own."""
    train_flops: float
    """FLOP a second."""
    sample_flops: float
    bytes_per_second: float
    """From memory, while decoding."""


# Vendors' data sheets: GiB, dense bf16 TFLOP/s, GB/s.
_GPUS = {
    "rtx4090": (24, 165, 1008),
    "l40s": (48, 362, 864),
    "a100-40": (40, 312, 1555),
    "a100-80": (80, 312, 2039),
    "h100": (80, 989, 3350),
    "h200": (141, 989, 4800),
    "b200": (180, 2250, 8000),
}
NAMES = ("cpu", *_GPUS)


def device_named(name: str, cores: int | None = None) -> Device:
    """`cpu` (of `cores` cores; those of this process if not given) or a GPU of `NAMES`."""
    if name == "cpu":
        cores = cores or len(os.sched_getaffinity(0))
        return Device(f"cpu, {cores} cores", None, cores * CPU_TRAIN, cores * CPU_SAMPLE, cores * CPU_BYTES)
    if name not in _GPUS:
        raise ValueError(f"device {name!r} is not known; there are: {', '.join(NAMES)}")
    memory, tera, giga = _GPUS[name]
    return Device(name, memory, TRAIN_SHARE * tera * 1e12, SAMPLE_SHARE * tera * 1e12, 0.7 * giga * 1e9)


def this_device() -> Device:
    """What this process trains on: a known GPU by its name, another by its memory and an A100's rates, else the CPU."""
    import torch

    if not torch.cuda.is_available():
        return device_named("cpu")
    found = torch.cuda.get_device_properties(0)
    name = found.name.lower().replace(" ", "").replace("-", "")
    known = next((key for key in _GPUS if key.partition("-")[0] in name), "a100-80")
    return replace(device_named(known), name=found.name, memory_gib=found.total_memory / 2**30)
