"""The arms of an evaluation: who answers, with which model, under which limits.

| arm | what answers |
|---|---|
| `base`, `sft`, `grpo` | an RLM with the model before training, after distillation, after RL |
| `no_subcalls` | an RLM with the best trained model that may ask nobody and is told of no function to ask with |
| `codeact` | the best model acting by code in a REPL, the papers' text in its prompt, no tools, no recursion |
| `codeact_bm25` | the same with a BM25 retriever in the REPL instead of the text |
| `summary_agent` | the best model reading the papers in pieces, its notes written anew after each |
| `full_context` | one call of the best model on the papers' text, cut to fit its context |
| `teacher` | who taught: the endpoint of `teach`, or the scripted policy with `teach.noise` |
| `expert` | the scripted policy without noise: no model |
| `bm25_topk` | the k passages that BM25 ranks first, k and passage length chosen on validation queries: no model |

An `ArmParams` section makes any other: an endpoint, without recursion, without strategy, at another temperature.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlm_core.files import content_key, sha256_file
from rlm_core.params import ArmName, ArmParams, EndpointParams, TeachParams
from rlm_core.rollouts import RolloutConfig

Harness = Literal["rlm", "codeact", "codeact_bm25", "summary_agent", "full_context", "bm25"]
Model = Literal["base", "sft", "grpo"]
Actor = Literal["base", "sft", "grpo", "expert", "endpoint", "none"]

MODELS: tuple[Model, ...] = ("base", "sft", "grpo")
"""Least to most trained."""

WITHOUT_MODEL: frozenset[str] = frozenset({"teacher", "expert", "bm25_topk"})
"""Named arms that need no model."""


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """What an arm needs."""

    name: str
    harness: Harness
    actor: Actor
    endpoint: EndpointParams | None = None
    recursion: bool = True
    strategy: bool | None = None
    """None: as the rollouts' config has it."""
    temperature: float | None = None
    """None: the evaluation's."""
    context_tokens: int | None = None
    """What an endpoint reads and writes in one call; None: as much as the local server."""
    noise: float = 0.0
    """Of the scripted expert: share of turns with a mistake."""

    @property
    def model(self) -> Model | None:
        """The model folder that the arm needs loaded."""
        return next((model for model in MODELS if model == self.actor), None)

    @property
    def is_further(self) -> bool:
        """One of the arms that `evaluate.temperatures` adds."""
        return (
            self.model is not None
            and self.temperature is not None
            and self.name == further_name(self.model, self.temperature)
        )

    @property
    def may_call_children(self) -> bool:
        return self.harness == "rlm" and self.recursion

    def config(self, config: RolloutConfig) -> RolloutConfig:
        """The arm's own limits. Without sub-calls, prompts do not mention the functions that make them."""
        changes: dict[str, object] = {}
        if not self.recursion:
            changes |= {"max_depth": 0, "max_children": 0, "max_children_per_call": 0}
        if self.strategy is not None:
            changes["strategy"] = self.strategy
        if self.temperature is not None:
            changes["temperature"] = self.temperature
        return dataclasses.replace(config, **changes)  # type: ignore[arg-type]


_NAMED: Mapping[str, tuple[Harness, Literal["best", "base", "sft", "grpo", "expert", "none"]]] = {
    "base": ("rlm", "base"),
    "sft": ("rlm", "sft"),
    "grpo": ("rlm", "grpo"),
    "expert": ("rlm", "expert"),
    "no_subcalls": ("rlm", "best"),
    "codeact": ("codeact", "best"),
    "codeact_bm25": ("codeact_bm25", "best"),
    "summary_agent": ("summary_agent", "best"),
    "full_context": ("full_context", "best"),
    "bm25_topk": ("bm25", "none"),
}


def needs_model(arm: ArmName | ArmParams) -> bool:
    """Whether the arm needs a model folder of this project."""
    if isinstance(arm, ArmParams):
        return arm.policy not in ("expert", "endpoint")
    return arm not in WITHOUT_MODEL


def plan_arms(
    arms: Sequence[ArmName | ArmParams],
    models: Sequence[Model],
    temperatures: Sequence[float] = (),
    teach: TeachParams | None = None,
) -> list[ArmPlan]:
    """The plans of the arms, arms of one model side by side so that each is loaded once.

    `models` are those that there are. At each of `temperatures` the arms base, sft and grpo are planned once more, as
    `NAME_tT`. `teach` says who the arm `teacher` is. Raises `ValueError` for an arm whose model is missing and for two
    arms of one name.
    """
    known = [model for model in MODELS if model in models]
    plans = [_plan(arm, known, teach or TeachParams()) for arm in arms]
    plans += [
        ArmPlan(further_name(name, value), "rlm", name, temperature=value)
        for name in MODELS
        if name in arms
        for value in dict.fromkeys(temperatures)
    ]
    names = [plan.name for plan in plans]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two arms are called {', '.join(doubled)}; rename one of evaluate.arms")
    return sorted(plans, key=lambda plan: MODELS.index(plan.model) if plan.model else len(MODELS))


def further_name(model: Model, temperature: float) -> str:
    """The name of a model's arm at a further temperature: `grpo_t0.5`."""
    return f"{model}_t{temperature:g}"


def _plan(arm: ArmName | ArmParams, known: Sequence[Model], teach: TeachParams) -> ArmPlan:
    if arm == "teacher":
        if teach.policy == "expert":
            return ArmPlan(arm, "rlm", "expert", noise=teach.noise)
        return ArmPlan(arm, "rlm", "endpoint", endpoint=teach.endpoint)
    if isinstance(arm, str):
        harness, actor = _NAMED[arm]
        return ArmPlan(arm, harness, _resolved(arm, actor, known), recursion=arm != "no_subcalls")
    return ArmPlan(
        arm.name,
        arm.harness,
        _resolved(arm.name, arm.policy, known),
        endpoint=arm.endpoint,
        recursion=arm.recursion,
        strategy=arm.strategy,
        temperature=arm.temperature,
        context_tokens=arm.context_tokens,
    )


def _resolved(name: str, actor: Actor | Literal["best"], known: Sequence[Model]) -> Actor:
    if actor == "best":
        if not known:
            raise ValueError(f"arm {name}: no model to run it with")
        return known[-1]
    if actor in MODELS and actor not in known:
        raise ValueError(f"arm {name}: there is no {actor} model; known: {', '.join(known) or 'none'}")
    return actor


def order_of(plans: Sequence[ArmPlan], arms: Sequence[ArmName | ArmParams]) -> list[str]:
    """The names of all planned arms as tables show them: as listed, further temperatures of an arm right after it."""
    listed = [arm if isinstance(arm, str) else arm.name for arm in arms]
    further = [plan for plan in plans if plan.is_further and plan.name not in listed]
    return [name for first in listed for name in (first, *(plan.name for plan in further if plan.actor == first))]


def weights_digest(folder: Path) -> str:
    """A key of all files of a model folder: other weights, another key."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return content_key([(str(path.relative_to(folder)), sha256_file(path)) for path in files])


def describe(plan: ArmPlan, models: Mapping[str, str]) -> str:
    """What stands for the arm's model in tables."""
    if plan.endpoint is not None:
        return plan.endpoint.model
    if plan.model is not None:
        return models[plan.model]
    if plan.actor == "expert":
        return f"none (scripted, {plan.noise:.0%} noise)" if plan.noise else "none (scripted)"
    return "none (BM25)"


def settings_of(plan: ArmPlan, config: RolloutConfig) -> dict[str, object]:
    """What tells the arm apart from others, as plain data for the evaluation file; None where it does not apply."""
    own = plan.config(config)
    samples = plan.model is not None or plan.endpoint is not None
    return {
        "harness": plan.harness,
        "actor": plan.actor,
        "recursion": plan.may_call_children if plan.harness == "rlm" else None,
        "strategy": own.strategy if plan.harness == "rlm" else None,
        "temperature": own.temperature if samples else None,
    }
