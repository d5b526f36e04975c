"""What a GRPO run will need: memory of the trainer and the server, tokens and seconds a step, before anything is loaded.

From the params and the model's config alone: parameters are counted on PyTorch's meta device, which holds no data.

Formulas, with P parameters, P' of them trained, b bytes of the model's type, N tokens of a pass, U of them scored, V words::

    weights      b P                         masters    4 P'  (none where what trains is fp32 already)
    gradients    4 P'                        AdamW      8 P'
    reference    b P   (beta > 0, no adapter)
    activations  N * layers * (b (2 h + 3 q + 4 k + 4 f) + 16 h)    h hidden, q and k widths of query and key, f of the MLP;
                 recomputed: that of one layer, and N * layers * b h
    logits       U V (b + 12)                fp32, their softmax and its gradient
    KV cache     2 * layers with full attention * k * b    bytes a token
    training     4 P + 2 P' FLOP a token computed    forward, gradient of inputs, gradient of weights; 2 P more
                 for a reference, and 2 P for recomputing
    sampling     2 P FLOP or one read of the weights a token and batch, whichever is slower

A layer keeps for its backward pass: two norms (fp32 input, fp32 product, output), query, key and value before and after
rotation, the attention's output, and four vectors of the MLP. Rates are the share of a device's peak that such
code reaches (`devices.py`). Figures are estimates: within a third of what was measured (docs/training.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlm_core.grpo.devices import Device
from rlm_core.params import LoraParams, Params

GIB = 2**30
PROCESS_BYTES = 1.0 * GIB
"""Python with torch, transformers and the tracking client."""
SERVER_BYTES = 1.9 * GIB
"""vLLM's processes without weights and cache."""
BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the formulas read of a model."""

    parameters: int
    layers: int
    full_layers: int
    """With full or sliding attention, and so a KV cache; the others keep a state of fixed size."""
    hidden: int
    query: int
    key: int
    mlp: int
    vocabulary: int
    linear: dict[str, tuple[int, int]]
    """Sum of inputs and of outputs of the linear layers by last name, over all layers; the output layer left out."""


def shape_of(config: Any) -> Shape:
    """Count a causal LM from its transformers config, without its weights."""
    import torch
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(text)
    linear: dict[str, tuple[int, int]] = {}
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, torch.nn.Linear) and last != "lm_head":
            before = linear.get(last, (0, 0))
            linear[last] = (before[0] + module.in_features, before[1] + module.out_features)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        layers=text.num_hidden_layers,
        full_layers=sum("linear" not in kind for kind in kinds),
        hidden=text.hidden_size,
        query=head * text.num_attention_heads,
        key=head * text.num_key_value_heads,
        mlp=text.intermediate_size,
        vocabulary=text.vocab_size,
        linear=linear,
    )


@dataclass(frozen=True, slots=True)
class Load:
    """A step's work. `typical` guesses from the limits of the params; a run that was measured can say better."""

    trees: int
    turns: float
    """A tree, its children's included."""
    turn_tokens: float
    """Completion tokens a turn."""
    read_tokens: float
    """Tokens a turn adds besides: what the REPL printed, the cue."""
    opening_tokens: float
    """System prompt and task, shared by a group."""

    @classmethod
    def typical(cls, params: Params) -> Load:
        """Turns of a fifth of their limit, half of the turns of a node, and as many tokens read as said."""
        turn = params.rollout.max_tokens_per_turn / 5
        return cls(
            trees=params.grpo.queries_per_step * params.grpo.rollouts_per_query,
            turns=max(1.0, params.rollout.max_turns / 2),
            turn_tokens=turn,
            read_tokens=turn,
            opening_tokens=160.0 if params.rollout.prompt == "compact" else 1200.0,
        )

    @property
    def sampled(self) -> float:
        return self.trees * self.turns * self.turn_tokens

    def computed(self, params: Params) -> float:
        """Tokens through the trainer: a tree's own once, the opening once a group (once a turn for `none`)."""
        own = self.trees * self.turns * (self.turn_tokens + self.read_tokens)
        if params.grpo.packing == "none":
            history = (self.turns - 1) / 2 * (self.turn_tokens + self.read_tokens)
            return self.trees * self.turns * (self.opening_tokens + history) + own
        times = self.trees if params.grpo.packing == "chain" else params.grpo.queries_per_step
        return own + times * self.opening_tokens


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes by what holds them, tokens and seconds of a step."""

    trained: int
    trainer: dict[str, float]
    """Of one process."""
    server: dict[str, float]
    kv_bytes_per_token: int
    kv_sequences: int
    """Of `serve.max_model_len` tokens that the cache holds at once."""
    sampled: float
    computed: float
    seconds_rollout: float
    seconds_train: float

    @property
    def trainer_bytes(self) -> float:
        return sum(self.trainer.values())

    @property
    def server_bytes(self) -> float:
        return sum(self.server.values())


def trained_parameters(shape: Shape, lora: LoraParams | None) -> int:
    """All, or rank * (inputs + outputs) of each layer with an adapter."""
    if lora is None:
        return shape.parameters
    names = shape.linear if lora.targets == "all-linear" else lora.targets
    unknown = sorted(set(names) - set(shape.linear))
    if unknown:
        raise ValueError(
            f"grpo.lora.targets: no layer is named {', '.join(unknown)}; there are {', '.join(shape.linear)}"
        )
    return sum(lora.rank * sum(shape.linear[name]) for name in names)


def plan_step(shape: Shape, params: Params, device: Device, *, processes: int = 1, load: Load | None = None) -> Plan:
    """The plan of one step on `device`; with `processes` over 1 weights are sharded (FSDP2) and the work is shared."""
    grpo, b = params.grpo, BYTES[params.model.dtype]
    load = load or Load.typical(params)
    trained = trained_parameters(shape, grpo.lora)
    computed = load.computed(params)
    pass_tokens = min(grpo.max_tokens_per_pass, computed / processes)
    scored = pass_tokens * min(1.0, load.sampled / computed)
    has_masters = grpo.lora is None and b < 4
    keeps_reference = grpo.beta > 0 and grpo.lora is None
    adapter = 0 if grpo.lora is None else 4 * trained
    per_token = b * (2 * shape.hidden + 3 * shape.query + 4 * shape.key + 4 * shape.mlp) + 16 * shape.hidden
    activations = pass_tokens * shape.layers * per_token
    if grpo.gradient_checkpointing:
        activations = pass_tokens * (per_token + shape.layers * b * shape.hidden)
    trainer = {
        "weights": (b * shape.parameters + adapter) / processes,
        "masters": 4 * trained * has_masters / processes,
        "gradients": 4 * trained / processes,
        "AdamW": 8 * trained / processes,
        "reference": b * shape.parameters * keeps_reference / processes,
        "activations": activations,
        "logits": scored * shape.vocabulary * (b + 12),
        "process": PROCESS_BYTES,
    }
    kv = 2 * shape.full_layers * shape.key * b
    weights = b * shape.parameters
    room = params.serve.kv_cache_gib * GIB
    if device.memory_gib is not None:
        room = max(0.0, 0.9 * device.memory_gib * GIB - weights)  # vLLM takes 0.9 of a GPU
    forwards = (grpo.beta > 0) + grpo.gradient_checkpointing  # beside the one that trains
    flop_per_token = (4 + 2 * forwards) * shape.parameters + 2 * trained
    reads = load.sampled / min(load.trees, params.serve.max_num_seqs)  # decoding steps, each a read of the weights
    decode = max(reads * weights / device.bytes_per_second, 2 * shape.parameters * load.sampled / device.sample_flops)
    prefill = 2 * shape.parameters * (computed - load.sampled) / device.sample_flops
    return Plan(
        trained=trained,
        trainer=trainer,
        server={"weights": weights, "KV cache": room, "process": SERVER_BYTES},
        kv_bytes_per_token=kv,
        kv_sequences=int(room // max(1, kv * params.serve.max_model_len)),
        sampled=load.sampled,
        computed=computed,
        seconds_rollout=decode + prefill,
        seconds_train=flop_per_token * computed / (device.train_flops * processes),
    )
