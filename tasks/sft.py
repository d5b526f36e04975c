"""Stage `sft`: teach the base model the distilled turns, with TRL's SFTTrainer.

Reads data/sft/{train,val}.parquet and the model of `model.name`. Writes models/sft and reports/sft.json.
A killed stage goes on after its last checkpoint, with the same data order.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_core.distill.format import FormatSet, format_set, format_success
from rlm_core.distill.merging import IGNORED, TrainingRow, training_rows
from rlm_core.files import write_json
from rlm_core.policies import ModelError, load_tokenizer, materialise_model, stop_ids
from rlm_core.progress import Progress
from tasks.common import Stage, StageError, dump, log, require, stage_main
from tasks.training import file_keys, forget, model_key, one_run, resumable_folder, save_model, train_params

if TYPE_CHECKING:
    from trl import SFTTrainer

DATA = Path("data/sft")
OUT = Path("models/sft")
REPORT = Path("reports/sft.json")
DONE = "complete"
"""Marks a checkpoint that is whole: it is written last."""
MAX_VAL_ROWS = 24
"""Validation rows, the first ones: an evaluation costs a forward pass over each."""


def run(stage: Stage) -> None:
    params = stage.params
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise StageError("sft trains in one process; start it plainly: python -m tasks.sft (grpo can use several)")
    train_file, val_file = (require(DATA / f"{name}.parquet", "distill") for name in ("train", "val"))
    stage.tracker.log_datasets("training", train_file)
    stage.tracker.log_datasets("validation", val_file)
    try:
        base = materialise_model(params.model.name, dtype=params.model.dtype)
    except ModelError as error:
        raise StageError(f"model.name: {error}") from error
    train = _rows(train_file, merge=params.sft.merge_turns)
    val = _rows(val_file, merge=params.sft.merge_turns)[:MAX_VAL_ROWS]
    if not train:
        raise StageError(f"{train_file} has no rows; dvc repro distill")
    key = [model_key(base), file_keys(train_file, val_file), train_params(stage, "sft", "model")]
    folder = resumable_folder(stage, *key)
    tokens = sum(len(row["input_ids"]) for row in train)
    learned = sum(label != IGNORED for row in train for label in row["labels"])
    log.info(
        "sft: %d rows, %d tokens an epoch, %d of them learned; %d validation rows",
        len(train),
        tokens,
        learned,
        len(val),
    )
    with one_run(stage, folder):
        stage.log_metrics({"rows": len(train), "tokens": tokens, "tokens_learned": learned})
        chosen = format_set(_turns(val_file), params.sft.format_samples)
        trainer = make_trainer(stage, base, train, val, folder, chosen)
        resume = last_checkpoint(folder)
        if resume:
            log.info("sft: goes on after step %s", resume.name.removeprefix("checkpoint-"))
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        save_model(trainer.model, OUT, like=base, dtype=params.model.dtype)
        _report(stage, trainer.state.log_history, len(train), tokens, learned)
    forget(folder)


def make_trainer(
    stage: Stage,
    base: Path,
    train: Sequence[TrainingRow],
    val: Sequence[TrainingRow],
    folder: Path,
    chosen: FormatSet | None = None,
) -> SFTTrainer:
    """Completion-only loss over pre-tokenised rows; weights in the model's type, masters and optimizer in fp32.

    At each evaluation the model also writes the turns of `chosen` by itself, for the curve of format success.
    """
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl import SFTConfig

    from rlm_core.optim import MasterAdamW

    params = stage.params.sft
    if params.batch_size % params.micro_batch_size:
        raise StageError(
            f"sft.batch_size ({params.batch_size}) must be a multiple of sft.micro_batch_size ({params.micro_batch_size})"
        )
    on_gpu = torch.cuda.is_available()
    model = AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, stage.params.model.dtype))
    tokenizer = load_tokenizer(base)
    updates = -(-len(train) // params.batch_size)
    steps = params.max_steps or max(1, round(updates * params.epochs))
    config = SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=params.micro_batch_size,
        per_device_eval_batch_size=params.micro_batch_size,
        gradient_accumulation_steps=params.batch_size // params.micro_batch_size,
        max_steps=steps,
        learning_rate=params.lr,
        lr_scheduler_type="cosine",
        warmup_steps=round(params.warmup_share * steps),
        max_grad_norm=0.0,  # the optimizer clips
        bf16=False,  # the weights already are what they are to be
        use_cpu=not on_gpu,
        gradient_checkpointing=on_gpu,
        dataloader_pin_memory=on_gpu,
        max_length=None,
        packing=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        logging_steps=1,
        eval_strategy="steps" if val else "no",
        eval_steps=params.save_every,
        eval_on_start=bool(val),
        save_strategy="steps",
        save_steps=params.save_every,
        save_total_limit=2,
        seed=stage.params.seed,
        data_seed=stage.params.seed,
        report_to=[],
        disable_tqdm=True,
        logging_nan_inf_filter=False,
    )
    if config.n_gpu > 1:
        config._n_gpu = 1  # the Trainer would give each of several GPUs a batch of its own
    if on_gpu:
        model = model.to("cuda")
    optimizer = MasterAdamW(model.parameters(), lr=params.lr)
    trainer = _trainer_class()(
        model=model,
        args=config,
        train_dataset=Dataset.from_list([dict(row) for row in train]),
        eval_dataset=Dataset.from_list([dict(row) for row in val]) if val else None,
        processing_class=tokenizer,
        optimizers=(optimizer, None),
        callbacks=[_make_callback(stage, optimizer, steps, _format_measure(base, tokenizer, chosen))],
    )
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


def _trainer_class() -> Any:
    from torch.nn.functional import cross_entropy
    from trl import SFTTrainer

    class CompletionTrainer(SFTTrainer):
        """`SFTTrainer` that projects only learned positions to the vocabulary.

        TRL's own loss (1.16) is the same number, but off the GPU it scores every position, prompts included, and their
        entropies: most of the time of a small model on a CPU.
        """

        def compute_loss(
            self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            target = inputs["labels"][:, 1:]
            learned = target != IGNORED
            columns = learned.any(dim=0).nonzero()[:, 0]
            outputs = model(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                use_cache=False,
                logits_to_keep=columns,
            )
            chosen = learned[:, columns]
            total = cross_entropy(outputs.logits[chosen].float(), target[:, columns][chosen], reduction="sum")
            count = learned.sum() if num_items_in_batch is None else num_items_in_batch
            if self.args.average_tokens_across_devices and num_items_in_batch is not None:
                total = total * self.accelerator.num_processes
            loss = total / count
            return (loss, outputs) if return_outputs else loss

    return CompletionTrainer


def _format_measure(base: Path, tokenizer: Any, chosen: FormatSet | None) -> Callable[[Any], float] | None:
    """A function of the model; None when there is nothing to write."""
    if chosen is None or not chosen.prompts:
        return None
    ends = sorted(stop_ids(base))
    return lambda model: format_success(model, tokenizer, chosen, ends)


def _make_callback(stage: Stage, optimizer: Any, steps: int, measure: Callable[[Any], float] | None) -> Any:
    from transformers import TrainerCallback

    class Curves(TrainerCallback):
        """Figures to MLflow, progress to the log, the mark on whole checkpoints."""

        progress: Progress | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.progress = Progress("sft", steps, "steps", done=state.global_step)

        def on_log(
            self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
        ) -> None:
            figures = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, int | float) and k != "epoch"}
            if "loss" in figures:
                figures["grad_norm"] = optimizer.last_grad_norm
                state.log_history[-1]["grad_norm"] = optimizer.last_grad_norm
            if figures:
                stage.log_metrics(figures, step=state.global_step)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if measure is not None:
                state.log_history[-1]["format_success"] = share = measure(kwargs["model"])
                stage.log_metrics({"format_success": share}, step=state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            assert self.progress is not None
            last = next((row["loss"] for row in reversed(state.log_history) if "loss" in row), None)
            self.progress.advance(note="" if last is None else f"loss {last:.3f}")

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            assert self.progress is not None
            self.progress.finish()

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / DONE).touch()

    return Curves()


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; what a kill left half-written is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for path in found:
        if not (path / DONE).exists():
            shutil.rmtree(path)
    whole = [path for path in found if path.exists()]
    return whole[-1] if whole else None


def _turns(file: Path) -> list[tuple[list[int], list[int]]]:
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["prompt_ids", "completion_ids"]).to_pylist()
    return [(row["prompt_ids"], row["completion_ids"]) for row in table]


def _rows(file: Path, *, merge: bool) -> list[TrainingRow]:
    return training_rows(_turns(file), merge=merge)


def _report(stage: Stage, history: list[dict[str, Any]], rows: int, tokens: int, learned: int) -> None:
    steps = [row for row in history if "loss" in row]
    validation = [row for row in history if "eval_loss" in row]
    record = {
        "steps": steps,
        "validation": validation,
        "rows": rows,
        "tokens": tokens,
        "tokens_learned": learned,
        "params": dump(stage.params.sft),
    }
    write_json(REPORT, record)
    stage.log_artifact(REPORT)
    figures = {"train_loss": steps[-1]["loss"]} if steps else {}
    if validation:
        figures |= {"val_loss_before": validation[0]["eval_loss"], "val_loss": validation[-1]["eval_loss"]}
        written = [row["format_success"] for row in validation if "format_success" in row]
        if written:
            figures |= {"val_format_success_before": written[0], "val_format_success": written[-1]}
    stage.log_metrics(figures)
    stage.tracker.log_model(OUT, "sft", figures)


if __name__ == "__main__":
    stage_main("sft", run)
