"""The arms that are compared on the test queries."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from rlm_core.params.endpoint import EndpointParams
from rlm_core.params.section import Section

ArmName = Literal[
    "base",
    "sft",
    "grpo",
    "teacher",
    "expert",
    "bm25_topk",
    "full_context",
    "no_subcalls",
    "codeact",
    "codeact_bm25",
    "summary_agent",
]
"""Arms that need no settings; `rlm_core.evaluation.arms` says what each is."""


class ArmParams(Section):
    """An arm with settings of its own, e.g. another model by URL, or the trained one without strategy, greedy."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=40)
    """What tables and metrics call it; none of the named arms."""
    policy: Literal["best", "base", "sft", "grpo", "expert", "endpoint"] = "best"
    """Who acts; `best` is the most trained model that there is, `expert` the scripted program."""
    endpoint: EndpointParams | None = None
    """For `endpoint`: the model. Its prices give the arm's cost."""
    harness: Literal["rlm", "codeact", "codeact_bm25", "summary_agent", "full_context"] = "rlm"
    """How it works: a recursive REPL with tools; a REPL beside the text in the prompt; a REPL with BM25 retrieval; reading
    in pieces with notes; one call on as much as fits."""
    recursion: bool = True
    """For `rlm`: false allows no sub-calls, and prompts name none."""
    strategy: bool | None = None
    """For `rlm`: put the strategy into the prompt or not; null takes `rollout.strategy`."""
    temperature: float | None = Field(None, ge=0)
    """0 is greedy; null takes `evaluate.temperature`."""
    context_tokens: int | None = Field(None, ge=256)
    """For `endpoint`: tokens of prompt and completion that it reads; null takes `serve.max_model_len`."""

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.name in get_args(ArmName):
            raise ValueError(f"arm '{self.name}' is a named arm; give settings of your own another name")
        if (self.policy == "endpoint") != (self.endpoint is not None):
            raise ValueError(
                f"arm '{self.name}': policy 'endpoint' and the section endpoint go together; set both or none"
            )
        if self.policy != "endpoint" and self.context_tokens is not None:
            raise ValueError(
                f"arm '{self.name}': context_tokens is for policy 'endpoint'; serve.max_model_len for others"
            )
        if self.policy == "expert" and (self.harness != "rlm" or self.temperature is not None):
            raise ValueError(f"arm '{self.name}': the expert plays 'rlm' only, and has no temperature")
        if self.harness != "rlm" and (not self.recursion or self.strategy is not None):
            raise ValueError(f"arm '{self.name}': recursion and strategy are for harness 'rlm', not '{self.harness}'")
        return self


Arm = Annotated[
    Annotated[ArmName, Tag("<name>")] | Annotated[ArmParams, Tag("<arm>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<arm>"),
]


class EvaluateParams(Section):
    arms: tuple[Arm, ...] = ("base", "sft", "grpo", "expert", "bm25_topk", "full_context", "no_subcalls")
    """Policies and baselines compared on the same queries. Names: base, sft, grpo, teacher, expert, bm25_topk, full_context,
    no_subcalls, codeact, codeact_bm25, summary_agent; or sections `{name, policy, endpoint, harness, recursion, strategy,
    temperature}`, for an endpoint or other settings."""
    max_queries: int | None = Field(None, ge=1)
    """Test queries, drawn deterministically; null takes all."""
    samples_per_query: int = Field(1, ge=1)
    """Rollouts a query and arm; pass@k needs more than one."""
    temperature: float = Field(1.0, ge=0)
    """Of every arm that samples from a model and has none of its own; 0 is greedy."""
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """The arms base, sft and grpo are answered at these too, as `grpo_t0` and so on (0 is greedy): a gain that is left at
    0 is learned, one that is gone was a sharper distribution. Each costs another pass over the queries an arm."""
    bootstrap_samples: int = Field(2000, ge=100)
    """Resamples behind each 95 % interval."""
    concurrency: int = Field(64, ge=1)
    """Trees at once."""

    @model_validator(mode="after")
    def _arms_have_names_of_their_own(self) -> Self:
        names = [arm if isinstance(arm, str) else arm.name for arm in self.arms]
        if not names:
            raise ValueError("evaluate.arms is empty; name at least one arm")
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"evaluate.arms names {', '.join(doubled)} twice; give each arm a name of its own")
        return self
