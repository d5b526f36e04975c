"""Rollout trees as MLflow traces: root, turns and children as nested spans, the judge's criteria as feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rlm_core.records import Judgement, Rollout, Turn
from tasks.tracking import Tracker

if TYPE_CHECKING:
    from mlflow.entities import LiveSpan


def log_rollouts(
    tracker: Tracker,
    rollouts: Sequence[Rollout],
    judgements: Sequence[Judgement | None],
    *,
    step: int | None = None,
    limit: int = 8,
    figures: Sequence[Mapping[str, float | bool]] = (),
    tags: Mapping[str, str] | None = None,
) -> list[str]:
    """Log the first `limit` trees; returns their trace ids.

    `figures`: of each tree, computed without a judge, logged as feedback of code beside the judge's. `tags`: for every trace.

    A tree whose judge failed (None) gets no feedback, never a zero. Span times are laid out from the recorded
    durations, since a tree may have been rolled out long before it is logged.
    """
    if len(rollouts) != len(judgements):
        raise ValueError(
            f"{len(rollouts)} rollouts but {len(judgements)} judgements; give one each, None where it failed"
        )
    if figures and len(figures) != len(rollouts):
        raise ValueError(f"{len(rollouts)} rollouts but figures of {len(figures)}; give a mapping each, empty for none")
    import mlflow

    chosen = list(zip(rollouts, judgements, strict=True))[:limit]
    trace_ids = [_log_tree(tracker, rollout, step, tags or {}) for rollout, _ in chosen]
    if not trace_ids:
        return []
    mlflow.flush_trace_async_logging()
    for trace_id, (_, judgement) in zip(trace_ids, chosen, strict=True):
        if judgement is not None:
            _log_feedback(trace_id, judgement)
    for trace_id, computed in zip(trace_ids, figures, strict=False):
        _log_computed(trace_id, computed)
    for start in range(0, len(trace_ids), 100):
        tracker.client.link_traces_to_run(trace_ids[start : start + 100], tracker.run_id)
    return trace_ids


def _log_tree(tracker: Tracker, rollout: Rollout, step: int | None, more: Mapping[str, str]) -> str:
    import time

    import mlflow

    tags = {"query_id": rollout.query_id, "policy": rollout.policy, **more}
    if step is not None:
        tags["step"] = str(step)
    start_ns = time.time_ns() - int(_seconds(rollout) * 1e9)
    root = mlflow.start_span_no_context(
        name=f"rollout {rollout.id}",
        span_type="AGENT",
        inputs={"question": rollout.question},
        attributes=_node_attributes(rollout),
        tags=tags,
        experiment_id=tracker.experiment_id,
        start_time_ns=start_ns,
    )
    _log_node(root, rollout, start_ns)
    return str(root.trace_id)


def _log_node(span: LiveSpan, node: Rollout, start_ns: int) -> None:
    """Turns one after the other; the children of a turn inside its span, side by side."""
    import mlflow

    now = start_ns
    for index, turn in enumerate(node.turns):
        children = [c for c in node.children if c.parent_turn == index]
        seconds = turn.model_seconds + turn.repl_seconds + max((_seconds(c) for c in children), default=0.0)
        turn_span = mlflow.start_span_no_context(
            name=f"turn {index + 1}",
            span_type="LLM",
            parent_span=span,
            inputs={"cue": turn.cue},
            attributes=_turn_attributes(turn),
            start_time_ns=now,
        )
        for child in children:
            child_start = now + int(turn.model_seconds * 1e9)
            child_span = mlflow.start_span_no_context(
                name=f"child {child.id}",
                span_type="AGENT",
                parent_span=turn_span,
                inputs={"question": child.question},
                attributes=_node_attributes(child),
                start_time_ns=child_start,
            )
            _log_node(child_span, child, child_start)
        now += int(seconds * 1e9)
        turn_span.end(outputs={"text": turn.text, "observation": turn.observation}, end_time_ns=now)
    span.end(outputs={"answer": node.answer, "status": str(node.status)}, end_time_ns=max(now, start_ns + 1))


def _seconds(node: Rollout) -> float:
    own = sum(t.model_seconds + t.repl_seconds for t in node.turns)
    waits = 0.0
    for index in range(len(node.turns)):
        waits += max((_seconds(c) for c in node.children if c.parent_turn == index), default=0.0)
    return own + waits


def _node_attributes(node: Rollout) -> dict[str, str]:
    return {
        "depth": str(node.depth),
        "status": str(node.status),
        "failure": node.failure,
        "completion_tokens": str(node.usage.completion_tokens),
        "children": str(node.usage.children),
    }


def _turn_attributes(turn: Turn) -> dict[str, str]:
    return {
        "error": str(turn.error),
        "finish_reason": turn.finish_reason,
        "prompt_tokens": str(len(turn.prompt_ids)),
        "completion_tokens": str(len(turn.completion_ids)),
        "weights_version": str(turn.weights_version),
        "repl_seconds": f"{turn.repl_seconds:.3f}",
    }


def _log_feedback(trace_id: str, judgement: Judgement) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    kind = "CODE" if judgement.judge == "lexical" else "LLM_JUDGE"
    source = AssessmentSource(source_type=kind, source_id=judgement.judge or "judge")
    values = {"reward": judgement.reward, "precision": judgement.precision, "recall": judgement.recall}
    for name, value in {**values, **judgement.criteria}.items():
        rationale = judgement.rationale if name == "reward" else None
        mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source, rationale=rationale)


def _log_computed(trace_id: str, figures: Mapping[str, float | bool]) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    source = AssessmentSource(source_type="CODE", source_id="evidence")
    for name, value in figures.items():
        mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source)
