"""The names that programs outside the project call, used as such a program would use them, with numbers worked out by hand."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from pytest import approx

from rlm_core.evaluation import bootstrap_ci, load_benchmark
from rlm_core.grpo import group_advantages, policy_loss, turn_samples
from rlm_core.papers import Paper, parse_pdf
from rlm_core.policies import Action, ExpertPolicy, OpenAIPolicy, Sampling, TransformersPolicy, VllmPolicy
from rlm_core.protocol import parse_turn
from rlm_core.records import Query
from rlm_core.repl import Repl, ReplLimits
from rlm_core.rewards import JudgeError, LexicalJudge, RubricJudge, evidence_f1
from rlm_core.rollouts import Rollout, RolloutConfig, run_rollout
from rlm_core.synthesis import locate

A = "The treatment lowered blood pressure by 12 mmHg in the first group of patients."
B = "A second cohort of mice showed no difference in weight after eight weeks of feeding."
PAPERS = {"p1": {"title": "On foxes", "abstract": "Foxes jump.", "text": f"Intro. {A} End."}}


def block(code: str) -> str:
    return f"```python\n{code}\n```"


class Scripted:
    """A policy of the least kind: texts only, chosen by the question that the node was asked."""

    def __init__(self, scripts: dict[str, list[str]]) -> None:
        self.scripts = scripts

    async def act(self, messages: Any, sampling: Any) -> Action:
        opening = " ".join(m.content for m in messages if m.role == "user")
        script = next(texts for word, texts in self.scripts.items() if word in opening)
        return Action(text=script[sum(m.role == "assistant" for m in messages)])


# --- REPL and protocol --------------------------------------------------------------------------


async def test_a_repl_holds_its_context_and_answers() -> None:
    async with Repl.open(PAPERS, limits=ReplLimits(wall_seconds=5, memory_mb=256, output_chars=400)) as repl:
        result = await repl.execute("x = len(context)\nprint(x, list_papers(), get_paper_abstract('p1'))")
        assert result.stdout == "1 p1: On foxes Foxes jump.\n"
        assert (result.error, result.final, result.has_final, result.killed) == (None, None, False, False)
        assert result.seconds >= 0
        assert "ZeroDivisionError" in ((await repl.execute("y = 2\n1 / 0")).error or "")
        assert (await repl.execute("FINAL_VAR('y')")).final == 2
        assert "x" in ((await repl.execute("FINAL_VAR('nope')")).error or "")
        none = await repl.execute("FINAL(None)")
        assert (none.final, none.has_final) == (None, True)
        assert len((await repl.execute("print('a' * 100000)")).stdout) < 500
        found = await repl.execute("FINAL([extract_section('The treatment', 'mmHg'), search('blood pressure')[0]])")
        assert found.final[0] == "The treatment lowered blood pressure by 12 mmHg" and A in found.final[1]
    async with Repl.open("naïve text", limits=ReplLimits(wall_seconds=0.5)) as repl:
        assert (await repl.execute("print(context)")).stdout == "naïve text\n"
        assert (await repl.execute("while True: pass")).killed


@pytest.mark.parametrize(
    ("text", "blocks", "final"),
    [
        ("Look.\n```python\na = 1\n```\nand\n```\nb = 2\n```\n", ["a = 1", "b = 2"], None),
        ('````python\nprint("""\n```\n""")\n````', ['print("""\n```\n""")'], None),
        ("FINAL(it's (here))", [], ("value", "it's (here)")),
        ("Done.\n\nFINAL_VAR(answer)", [], ("var", "answer")),
        ("```python\nx = 1\n```\nFINAL(x)", ["x = 1"], None),
        ("```text\nFINAL(1)\n```", [], None),
        ("I would call FINAL(1) now", [], None),
        ("", [], None),
    ],
)
def test_parse_turn(text: str, blocks: list[str], final: tuple[str, str] | None) -> None:
    parsed = parse_turn(text)
    assert parsed.code_blocks == blocks
    assert (parsed.final and (parsed.final.kind, parsed.final.text)) == final
    assert isinstance(parsed.prose, str)


# --- rollouts -----------------------------------------------------------------------------------


async def test_a_tree_of_three_levels() -> None:
    policy = Scripted(
        {
            "LEAF": [block("FINAL(context)")],
            "MIDDLE": [block("r = rlm_query('LEAF', 'deep')\nFINAL([r, len(context)])")],
            "ROOT": [block("print(1)"), block("FINAL(rlm_query_batched(['MIDDLE', 'LEAF'], ['xyz', 'shallow']))")],
        }
    )
    rollout = await run_rollout(Query(id="q", question="ROOT", context=PAPERS), policy, RolloutConfig(wall_seconds=30))
    assert rollout.answer == [["deep", 3], "shallow"]
    assert [(n.depth, n.answer) for n in rollout.walk()] == [
        (0, [["deep", 3], "shallow"]),
        (1, ["deep", 3]),
        (2, "deep"),
        (1, "shallow"),
    ]
    parents = {n.id: n.parent_id for n in rollout.walk()}
    assert all(child.parent_id == node.id for node in rollout.walk() for child in node.children)
    assert parents[rollout.id] is None and rollout.status == "answered"
    assert (rollout.usage.children, rollout.usage.turns) == (3, 5)
    assert rollout.turns[0].observation == "1"
    assert Rollout.from_dict(json.loads(json.dumps(rollout.to_dict()))) == rollout


# --- the objective ------------------------------------------------------------------------------


def node(name: str, turns: list[tuple[list[int], list[int]]], *children: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"prompt_ids": p, "completion_ids": c, "logprobs": [-4.0] * len(c), "text": "t", "observation": ""}
        for p, c in turns
    ]
    return {"id": name, "turns": rows, "children": list(children)}


OPENING = [5, 6, 7, 8]
TREES = [
    node(
        "a",
        [([*OPENING, 1], [10, 11]), ([*OPENING, 1, 10, 11, 3], [12, 13, 14])],
        node("a0", [(OPENING, [20])], node("a00", [([7], [8, 9])])),
        node("a1", [([*OPENING, 1], [10, 11])] * 4),
    ),
    node("b", [([*OPENING, 2], [30])]),
    node("c", [([1], [2])]),
]


def test_weights_by_hand() -> None:
    trees = [Rollout.from_dict(tree) for tree in TREES]
    assert [n.depth for n in trees[0].walk()] == [0, 1, 2, 1] and trees[0].children[0].parent_id == "a"
    advantages = group_advantages([1.0, 0.0, None])
    assert advantages == [0.5, -0.5, None]
    samples = turn_samples(trees, advantages)
    # 2 trees with an advantage; a has 2 turns, and 2 children of 1/2 each
    expected = [("a", 1 / 4)] * 2 + [("a0", 1 / 4), ("a00", 1 / 4)] + [("a1", 1 / 16)] * 4 + [("b", 1 / 2)]
    assert [(s.node_id, s.weight) for s in samples] == [(name, approx(weight)) for name, weight in expected]
    assert [s.advantage for s in samples] == [0.5] * 8 + [-0.5]


def test_a_group_without_signal_gives_nothing() -> None:
    for rewards in ([0.7, 0.7, None], [1.0], [None, None], []):
        assert group_advantages(rewards) == [None] * len(rewards)
    trees = [Rollout.from_dict(tree) for tree in TREES]
    assert turn_samples(trees, [None, None, None]) == []


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_the_loss_equals_one_forward_a_turn(kind: str) -> None:
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    samples = turn_samples([Rollout.from_dict(tree) for tree in TREES], [0.5, -0.5, None])
    wanted = torch.zeros(())
    for s in samples:
        ids = torch.tensor([[*s.prompt_ids, *s.completion_ids]])
        logp = model(ids).logits[0, len(s.prompt_ids) - 1 : -1].log_softmax(-1)
        logp = logp.gather(1, torch.tensor(s.completion_ids)[:, None])[:, 0]
        rho = (logp - torch.tensor(s.logprobs)).exp()
        wanted = wanted - s.weight * torch.min(rho * s.advantage, rho.clamp(0.8, 1.2) * s.advantage).mean()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(wanted, list(model.parameters()))])
    for packing in ("tree", "chain", "none"):
        loss = policy_loss(model, samples, packing=packing)
        assert loss.shape == () and loss.item() == approx(wanted.item(), abs=1e-5)
        got = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        assert (got - gradient).norm() < 1e-5 * gradient.norm()
    assert policy_loss(model, []).item() == 0.0


# --- evidence -----------------------------------------------------------------------------------


def test_locate_and_evidence_f1() -> None:
    noisy = A.replace("treatment", "treat-\nment")
    (span,) = locate(A, f"Intro. {noisy} End.")
    assert (span.start, span.end, span.pieces) == (7, 7 + len(noisy), ((7, 7 + len(noisy)),))
    assert locate(A, B) == locate("", A) == locate(A, "") == []
    left = ["the treatment lowered the blood", "pressure of all the patients", "within twelve short weeks"]
    right = ["mice were housed four to a cage", "and fed a standard diet with", "water freely available"]
    columns = "\n".join(f"{a}   {b}" for a, b in zip(left, right, strict=True))
    (span,) = locate(" ".join(left), columns)
    assert [columns[a:b] for a, b in span.pieces] == left
    assert (span.start, span.end) == (span.pieces[0][0], span.pieces[-1][1])
    a, b = (sum(c.isalnum() for c in text) for text in (A, B))
    assert evidence_f1([B, noisy], [A, B]).f1 == 1.0
    half = evidence_f1([A], [A, B])
    assert (half.precision, half.recall, half.f1) == (1.0, approx(a / (a + b)), approx(2 * a / (2 * a + b)))
    assert evidence_f1([], [A]).f1 == evidence_f1([B], [A]).f1 == 0.0


async def test_the_lexical_judge() -> None:
    judge = LexicalJudge()
    top, bottom = await judge.score("q", [A], [A]), await judge.score("q", [], [A])
    assert (top.precision, top.recall, top.reward) == (10, 10, 1.0)
    assert (bottom.precision, bottom.recall, bottom.reward) == (1, 1, approx(0.1))
    assert isinstance(top.rationale, str)
    with pytest.raises(JudgeError):
        await judge.score("q", [A], [])


# --- evaluation ---------------------------------------------------------------------------------


def pairs_by_force(entries: list[dict[str, Any]], condition: dict[str, Any]) -> set[tuple[int, int]]:
    """The pairs that meet a published condition, each pair looked at alone."""
    users: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        users[entry["user"]].append(entry)

    def count(user: int, label: str) -> int:
        return sum(e["label"] == label for e in users[user])

    def meets(user: int, needs: list[dict[str, Any]]) -> bool:
        return all(
            count(user, n["label"]) >= n["n"] if n["op"] == ">=" else count(user, n["label"]) == n["n"] for n in needs
        )

    def fits(user: int) -> bool:
        rule = condition["all_of_label_dates"]
        dated = [e["date"] for e in users[user] if rule and e["label"] == rule["label"]]
        kept = all(day > rule["date"] if rule["op"] == "after" else day < rule["date"] for day in dated)
        return kept and any(count(user, label) for label in condition["any_of"])

    def holds(a: int, b: int) -> bool:
        if condition["kind"] == "both_users":
            return fits(a) and fits(b)
        one, other = condition["one"], condition["other"]
        return (meets(a, one) and meets(b, other)) or (meets(b, one) and meets(a, other))

    return {(a, b) for a, b in itertools.combinations(sorted(users), 2) if holds(a, b)}


@pytest.mark.parametrize(("size", "seed"), [(900, 0), (4000, 1)])
def test_oolong_pairs_gold(shared_eval: Path, size: int, seed: int) -> None:
    conditions = json.loads((shared_eval / "oolong_pairs_conditions.json").read_text())["tasks"]
    items = load_benchmark("oolong-pairs", size=size, seed=seed)
    assert [item.metadata["task"] for item in items] == list(range(1, 21))
    for item, condition in zip(items, conditions, strict=True):
        assert item.gold == pairs_by_force(item.metadata["entries"], condition)
        assert item.score(item.gold) == item.score("\n".join(f"({a}, {b})" for a, b in item.gold)) == 1.0
        assert item.score(None) == item.score("") == 0.0


def test_mrcr_gold_is_the_asked_needle() -> None:
    for item in load_benchmark("mrcr", size=3000):
        replies = item.context.split(f"User: {item.metadata['request']}\n\nAssistant: ")[1:]
        needles = [reply.split("\n\nUser: ")[0].strip() for reply in replies]
        assert len(needles) == item.metadata["needles"]
        assert item.gold == needles[item.metadata["index"] - 1]
        assert item.score(item.gold) == 1.0 and item.score(None) == 0.0


def test_evidence_inference_gold_is_in_the_paper(shared_eval: Path) -> None:
    items = load_benchmark("evidence-inference", path=shared_eval / "evidence_inference_dev.jsonl.gz", size=8000)
    for item in items[::20]:
        assert all(gold in item.context[item.metadata["paper_id"]]["text"] for gold in item.gold)
        assert item.score(item.gold) == 1.0 and item.score([]) == 0.0


def test_bootstrap_ci() -> None:
    assert bootstrap_ci([0.5] * 4) == (0.5, 0.5)
    values = [0.1, 0.5, 0.9, 0.3, 0.7]
    low, high = bootstrap_ci(values)
    assert 0.1 <= low < 0.5 < high <= 0.9
    assert bootstrap_ci(values) == (low, high)


# --- papers and policies ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["noisy", "columns"])
def test_parse_pdf(shared_corpus: Path, mode: str) -> None:
    paper = parse_pdf(shared_corpus / "jose" / "jose.00193.pdf", mode=mode)
    assert isinstance(paper, Paper) and paper.title and len(paper.text) > 5000 and paper.pages and paper.sections
    assert Paper.from_dict(json.loads(json.dumps(paper.to_dict()))) == paper


def test_every_policy_has_act() -> None:
    for policy in (OpenAIPolicy, VllmPolicy, TransformersPolicy, ExpertPolicy):
        assert callable(policy.act)
    assert callable(RubricJudge.score) and Sampling().max_tokens > 0
