"""Rollout trees as MLflow traces: root, turns and children as nested spans, the judge's criteria as feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlm_core.records import Judgement, Rollout, Turn
from tasks.tracking import Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
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
) -> None:
    """Log the first `limit` trees.

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
    if not rollouts or not limit:
        return
    marks = dict(tags or {}) if step is None else {**(tags or {}), "step": str(step)}
    tracker.log_traces(
        trees=[tree.to_dict() for tree in rollouts[:limit]],
        judgements=[verdict and verdict.to_dict() for verdict in judgements[:limit]],
        figures=[dict(row) for row in figures[:limit]],
        tags=marks,
    )


def send_traces(client: MlflowClient, experiment_id: str, run_id: str, record: Mapping[str, Any]) -> None:
    """Carry out a record of `log_rollouts`. Raises `ConnectionError` if the store did not keep every trace."""
    from mlflow.exceptions import MlflowException

    trees = [Rollout.from_dict(row) for row in record["trees"]]
    trace_ids = [_log_tree(experiment_id, tree, record["tags"], record["at"]) for tree in trees]
    try:
        for trace_id in trace_ids:
            client.get_trace(trace_id)
    except MlflowException as error:  # exporting a span raises nothing, so it is counted
        raise ConnectionError(f"a trace was not kept: {error}") from error
    for trace_id, row in zip(trace_ids, record["judgements"], strict=True):
        if row is not None:
            _log_feedback(trace_id, Judgement.from_dict(row))
    for trace_id, computed in zip(trace_ids, record["figures"], strict=False):
        _log_computed(trace_id, computed)
    for start in range(0, len(trace_ids), 100):
        client.link_traces_to_run(trace_ids[start : start + 100], run_id)


def _log_tree(experiment_id: str, rollout: Rollout, tags: Mapping[str, str], at_ms: int) -> str:
    import mlflow

    start_ns = at_ms * 1_000_000 - int(_seconds(rollout) * 1e9)
    root = mlflow.start_span_no_context(
        name=f"rollout {rollout.id}",
        span_type="AGENT",
        inputs={"question": rollout.question},
        attributes=_node_attributes(rollout),
        tags={"query_id": rollout.query_id, "policy": rollout.policy, **tags},
        experiment_id=experiment_id,
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
        rationale = judgement.rationale if name == "reward" else judgement.reasons.get(name)
        mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source, rationale=rationale)


def _log_computed(trace_id: str, figures: Mapping[str, float | bool]) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    source = AssessmentSource(source_type="CODE", source_id="evidence")
    for name, value in figures.items():
        mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=source)
