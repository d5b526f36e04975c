"""The stage `grpo`: on a scripted sampler with real REPL, judge and training; and on a real vLLM server with a kill -9."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from rlm_core.files import read_json, sha256_file, write_json, write_jsonl
from rlm_core.papers import Paper
from rlm_core.params import Params, validate_params
from rlm_core.policies import Action, ChatRenderer, check_model_folder, load_tokenizer, materialise_model
from rlm_core.policies.base import Message, Sampling
from rlm_core.records import Evidence, Query, Rollout, Span
from rlm_core.rollouts import RolloutConfig, run_rollouts
from tasks import grpo
from tasks.common import Stage, StageError, open_stage
from tasks.curves import Curves

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".cache" / "models"
GOLD = "Rainfall in the southern basin doubled within eleven years."
LOGPROB = -10.8
"""About log(1 / words) of the untrained model, so that ratios are near 1 and no token is clipped."""
TEXT = f"The drought emptied the reservoirs. {GOLD} Farmers planted barley."


class ScriptedSampler:
    """Stands where the vLLM server is: says the evidence or something else, by its seed, with real token ids."""

    name = "scripted"

    def __init__(self, stage: Stage) -> None:
        self.version = 0
        self.renderer = ChatRenderer(load_tokenizer(grpo.SFT))
        self.config = RolloutConfig.from_params(stage.params)
        self.weights: list[torch.Tensor] = []

    async def act(self, messages: Sequence[Message], sampling: Sampling) -> Action:
        assistant_turns = sum(m.role == "assistant" for m in messages)
        answer = GOLD if random.Random(sampling.seed).random() < 0.5 else "Barley."
        text = f"```python\nFINAL([{answer!r}])\n```" if assistant_turns else "```python\nprint(list_papers())\n```"
        ids = self.renderer.completion_ids(text)
        prompt = self.renderer.prompt_ids(messages)
        return Action(text, prompt, ids, (LOGPROB,) * len(ids), "stop", self.version, len(prompt), len(ids), 0.01)

    async def roll_out(
        self, queries: Sequence[Query], *, samples: int, seed: int, temperature: float | None = None
    ) -> list[Rollout]:
        return await run_rollouts(queries, self, self.config, samples=samples, seed=seed)

    async def publish(self, model: Any) -> int:
        self.weights.append(next(iter(model.state_dict().values())).detach().clone())
        self.version += 1
        return self.version


def write_inputs(folder: Path, base: Path) -> None:
    paper = Paper.from_dict({"id": "p", "title": "Rain", "pages": [TEXT]})
    write_json(folder / "data/parsed/p.json", paper.to_dict())
    start = TEXT.index(GOLD)
    evidence = (Evidence("p", GOLD, Span(start, start + len(GOLD), pieces=((start, start + len(GOLD)),))),)
    queries = [Query(f"q{i}", f"What of the rain ({i})?", paper_ids=("p",), evidence=evidence) for i in range(4)]
    lost = Query("lost", "What else?", paper_ids=("p",), evidence=(Evidence("p", "not in the text"),))
    write_jsonl(folder / "data/queries/train.jsonl", [q.to_dict() for q in [lost, *queries[:3]]])
    write_jsonl(folder / "data/queries/val.jsonl", [queries[3].to_dict()])
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models/sft").symlink_to(base)


def params_of(**grpo_fields: Any) -> dict[str, Any]:
    fields = {"steps": 2, "queries_per_step": 2, "rollouts_per_query": 4, "lr": 1e-3, "eval_every": 1, "eval_queries": 1,
              "eval_samples": 2, "max_tokens_per_pass": 2048, **grpo_fields}  # fmt: skip
    return {
        "model": {"dtype": "float32"},
        "serve": {"max_model_len": 1024, "max_num_seqs": 16, "kv_cache_gib": 0.25},
        "rollout": {"max_turns": 2, "max_tokens_per_turn": 24},
        "repl": {"sandbox": "auto"},
        "grpo": fields,
    }


@pytest.fixture(scope="module")
def base() -> Path:
    return materialise_model("tiny-random", folder=MODELS, dtype="float32").resolve()


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: Path) -> Params:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    write_inputs(tmp_path, base)
    return validate_params(params_of())


@pytest.fixture
def samplers(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedSampler]:
    made: list[ScriptedSampler] = []

    @contextlib.asynccontextmanager
    async def scripted(stage: Stage) -> AsyncIterator[ScriptedSampler]:
        made.append(ScriptedSampler(stage))
        yield made[-1]

    monkeypatch.setattr(grpo, "open_actor", scripted)
    return made


def test_the_stage_trains_logs_and_publishes(params: Params, samplers: list[ScriptedSampler]):
    with open_stage("grpo", params) as stage:
        grpo.run(stage)
    check_model_folder(Path("models/grpo"))
    (sampler,) = samplers
    assert sampler.version == 2 and not torch.equal(sampler.weights[0], sampler.weights[1])
    record = read_json(Path("reports/training.json"))
    assert [row["step"] for row in record["steps"]] == [0, 1]
    assert [row["step"] for row in record["validation"]] == [0, 1, 2]
    first = record["steps"][0]
    assert 0.1 <= first["reward_mean"] <= 1 and 0 <= first["evidence_f1"] <= 1
    assert first["answered_share"] == 1 and first["turns_mean"] == 2 and first["judge_failures"] == 0
    assert first["train_tokens_computed"] > 0 and first["grad_norm"] > 0
    client = stage.tracker.client
    assert len(client.get_metric_history(stage.tracker.run_id, "reward_mean")) == 2
    assert len(client.get_metric_history(stage.tracker.run_id, "val_reward_mean")) == 3
    traces = client.search_traces([stage.tracker.experiment_id])
    assert len(traces) == 2 * 8 + 3 * 2
    assert record["weights"] == "best" and record["judge"] == "lexical"


def test_a_failed_stage_goes_on_and_keeps_its_mlflow_run(params: Params, samplers: list[ScriptedSampler],
                                                          monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    original = ScriptedSampler.publish

    async def dies(self: ScriptedSampler, model: Any) -> int:
        if self.version == 1:
            raise KeyboardInterrupt
        return await original(self, model)

    monkeypatch.setattr(ScriptedSampler, "publish", dies)
    with pytest.raises(KeyboardInterrupt), open_stage("grpo", params) as cut:
        grpo.run(cut)
    assert not Path("models/grpo").exists()
    first_run = cut.tracker.run_id
    monkeypatch.setattr(ScriptedSampler, "publish", original)
    with open_stage("grpo", params) as stage:
        own_run = stage.tracker.run_id
        grpo.run(stage)
    assert stage.tracker.run_id == first_run != own_run
    assert stage.tracker.client.get_run(first_run).info.status == "FINISHED"
    assert stage.tracker.client.get_run(own_run).data.tags["continued_in"] == first_run
    record = read_json(Path("reports/training.json"))
    assert [row["step"] for row in record["steps"]] == [0, 1]
    assert points(stage, "reward_mean") == points(stage, "lr") == [0, 1]
    assert points(stage, "val_reward_mean") == [0, 1, 2]
    with open_stage("grpo", params) as whole:
        grpo.run(whole)  # nothing is left to take up: an unbroken run, of the same numbers
    again = read_json(Path("reports/training.json"))
    for a, b in zip(record["steps"], again["steps"], strict=True):
        for key in ("reward_mean", "loss", "grad_norm", "entropy", "evidence_f1"):
            assert a[key] == b[key], key


def test_what_was_trained_on_other_texts_is_not_taken_up(params: Params, samplers: list[ScriptedSampler],
                                                         monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    report = grpo._report
    monkeypatch.setattr(grpo, "_report", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), open_stage("grpo", params) as cut:
        grpo.run(cut)
    paper = Paper.from_dict({"id": "p", "title": "Rain", "pages": [TEXT + " Later it was sold."]})
    write_json(Path("data/parsed/p.json"), paper.to_dict())  # the questions are the same
    monkeypatch.setattr(grpo, "_report", report)
    with open_stage("grpo", params) as stage:
        grpo.run(stage)
    assert samplers[1].version == 2  # both steps anew; taken up, it would have been given weights once


def points(stage: Stage, key: str) -> list[int]:
    """Steps of a curve, as MLflow has them."""
    return sorted(m.step for m in stage.tracker.client.get_metric_history(stage.tracker.run_id, key))


def test_a_point_that_was_saved_and_not_logged_is_logged_once(params: Params, samplers: list[ScriptedSampler],
                                                              monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    tell = Curves.tell

    def dies(self: Curves, kind: str, step: int, figures: dict[str, float]) -> bool:
        if (kind, step) == ("train", 1):
            raise KeyboardInterrupt
        return tell(self, kind, step, figures)

    monkeypatch.setattr(Curves, "tell", dies)
    with pytest.raises(KeyboardInterrupt), open_stage("grpo", params) as cut:
        grpo.run(cut)
    assert points(cut, "lr") == [0]
    monkeypatch.setattr(Curves, "tell", tell)
    with open_stage("grpo", params) as stage:
        grpo.run(stage)
    assert points(stage, "lr") == [0, 1] and points(stage, "val_completion_tokens") == [0, 1, 2]
    assert len(samplers[1].weights) == 1  # given once more what it had ended with: both steps were on disk


def test_a_kill_behind_the_publishing_of_the_model_loses_nothing(params: Params, samplers: list[ScriptedSampler],
                                                                 monkeypatch: pytest.MonkeyPatch):  # fmt: skip
    report = grpo._report
    monkeypatch.setattr(grpo, "_report", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), open_stage("grpo", params) as cut:
        grpo.run(cut)
    first = sha256_file(Path("models/grpo/model.safetensors"))
    shutil.rmtree("models/grpo")  # as DVC does before it runs a stage again
    monkeypatch.setattr(grpo, "_report", report)
    with open_stage("grpo", params) as stage:
        grpo.run(stage)
    assert sha256_file(Path("models/grpo/model.safetensors")) == first
    assert points(stage, "lr") == [0, 1]


def test_faults_are_named(params: Params, samplers: list[ScriptedSampler]):
    no_multi = params.model_copy(update={"grpo": params.grpo.model_copy(update={"multi_share": 0.25})})
    with (
        open_stage("grpo", no_multi) as stage,
        pytest.raises(StageError, match=r"train\.jsonl: grpo\.multi_share is 0\.25"),
    ):
        grpo.run(stage)
    with pytest.raises(StageError, match=r"the disk is full \(.*No space left"), grpo._told_faults():
        raise OSError(errno.ENOSPC, "No space left on device")
    write_jsonl(Path("data/queries/train.jsonl"), [])
    with open_stage("grpo", params) as stage, pytest.raises(StageError, match="no query that can be trained on"):
        grpo.run(stage)
    Path("models/sft").unlink()
    with open_stage("grpo", params) as stage, pytest.raises(StageError, match="stage 'sft' makes it"):
        grpo.run(stage)


@pytest.mark.slow
def test_a_real_server_and_a_kill_between_steps(tmp_path: Path, base: Path):
    """Two steps on vLLM, the second rolled out ahead; killed with -9 after the first checkpoint, which holds its batch: the
    second run does the second step only, on what was rolled out before."""
    import yaml

    write_inputs(tmp_path, base)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params_of(eval_every=0, ahead=1)))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tasks.grpo"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE)

    cut = start()
    deadline = time.monotonic() + 240
    while not list(tmp_path.glob(".cache/grpo/*/step-000001/state.json")):
        assert cut.poll() is None, cut.communicate()[1].decode()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cut.send_signal(signal.SIGKILL)
    cut.wait()
    (saved,) = tmp_path.glob(".cache/grpo/*/step-000001/batch.json")
    reward = fmean(verdict["reward"] for verdict in read_json(saved)["judgements"])
    again = start()
    _, log = again.communicate(timeout=300)
    assert again.returncode == 0, log.decode()[-3000:]
    assert b"grpo: 1 of 2 steps were finished before" in log
    record = json.loads((tmp_path / "reports/training.json").read_text())
    assert [row["step"] for row in record["steps"]] == [0, 1]
    assert all(row["failed_rollouts"] == 0 and row["completion_tokens"] > 0 for row in record["steps"])
    assert [row["policy_lag"] for row in record["steps"]] == [0, 1] and record["steps"][1]["reward_mean"] == reward
    check_model_folder(tmp_path / "models/grpo")
