"""CodeAct as a baseline: an agent that acts by Python code in a REPL (Wang et al., arXiv 2402.01030), without recursion.

As the RLM paper runs it (arXiv 2512.24601, section 3.2 and appendix C.1): the text is not in the REPL but in the prompt, cut
to fit; the variant with BM25 has no text in the prompt and a retriever in the REPL. Turns, limits, sandbox and the way to
answer are the RLM's own, so that what differs is where the text is and what the agent may do with it. The REPL's tools for
papers are named in no prompt and have nothing to read, and sub-calls are refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from rlm_core.evaluation.benchmarks.item import count_tokens
from rlm_core.evaluation.reading import ATTEMPTS, SHRINK, fit
from rlm_core.evaluation.retrieval import PassageIndex
from rlm_core.policies.base import Policy, policy_name
from rlm_core.prompts import Task
from rlm_core.records import Query, Rollout, Status
from rlm_core.repl import ExecutionResult, SubcallError
from rlm_core.rollouts import Budget, RolloutConfig
from rlm_core.rollouts.loop import run_node
from rlm_core.rollouts.node import Node
from rlm_core.rollouts.tree import Tree
from rlm_core.rollouts.worker import Worker

PASSAGE_CHARS = 300
"""Of the passages that the retriever gives."""
MOST_PASSAGES = 20

_SUMMARY = f"Return the k passages (at most {MOST_PASSAGES}) that BM25 ranks best for the query, best first."
RETRIEVER = f'''def retrieve(query, k=5, *, _ask=llm_query, _dumps=json.dumps):
    """{_SUMMARY}"""
    return _ask(_dumps({{"query": str(query), "k": int(k)}}))
'''
"""Run in the REPL before the agent's own code: the retriever asks the host by the channel of sub-calls."""

VERSION = 1
"""Of prompts and retriever, for cache keys."""


async def answer(
    query: Query,
    sample: int,
    policy: Policy,
    config: RolloutConfig,
    *,
    max_model_len: int,
    index: PassageIndex | None = None,
) -> Rollout:
    """One agent on one query. `index` makes it the variant with BM25; without, the prompt holds the text.

    The text is cut by an estimate of tokens, then shorter while the policy says that the first prompt is too long.
    """
    assert query.context is not None, f"query {query.id} has no context; attach_context first"
    config = dataclasses.replace(config, max_depth=0, max_children=0, max_children_per_call=0)
    tree = Tree(policy, config)
    system = system_prompt(query, config, retriever=index is not None)
    room = text_room(config, max_model_len) - count_tokens(system + query.question) - 64
    node, share = await _run(tree, query, sample, system, room, index)
    for _ in range(ATTEMPTS):
        if index is not None or not _did_not_fit(tree, node):
            break
        room = int(room * SHRINK)
        node, share = await _run(tree, query, sample, system, room, index)
    provenance = {"sample": sample, "share_read": share, "config": config.shape}
    return node.freeze(cue_kept=config.cue_kept, policy=policy_name(policy), provenance=provenance)


def text_room(config: RolloutConfig, max_model_len: int) -> int:
    """Tokens of a context that system prompt and text may fill: what the turns may write and be shown stays free, but no
    more than half of the context."""
    a_turn = config.max_tokens_per_turn + config.output_chars // 3
    return max_model_len - min(max_model_len // 2, (config.max_turns + 1) * a_turn)


def system_prompt(query: Query, config: RolloutConfig, *, retriever: bool) -> str:
    """The agent's role, limits and way to answer."""
    where = "You find passages with the function below." if retriever else "Their text stands in the task, cut to fit."
    task = "Find the passages of the papers that are evidence for the question."
    form = "The answer is a Python list of strings: the passages, each copied word for word. An empty list is a valid answer."
    if Task(query.question, query.context).papers is None:
        task, form = "Answer the question about a text.", "The answer has the form that the question asks for."
        where = where.replace("Their text", "The text")
    lines = [
        f"You are an agent that acts by writing Python code. {task} {where}",
        "In each turn think in a sentence, then write one block that starts with ```python and ends with ``` on lines of "
        "their own. It is run, variables stay, and you are shown what it prints "
        f"(up to {config.output_chars:,} characters). You have {config.max_turns} turns of at most "
        f"{config.max_tokens_per_turn:,} tokens each.",
    ]
    if retriever:
        lines.append(f"retrieve(query, k=5): {_SUMMARY}")
    lines.append(f"When you know the answer, call FINAL(answer) in a block. {form}")
    return "\n".join(lines)


def user_prompt(query: Query, room: int, *, retriever: bool) -> tuple[str, float]:
    """The task, and the share of the text's characters that is in it: 0 for the retriever's, which has titles alone."""
    assert query.context is not None
    question = f"Question: {query.question}"
    if not retriever:
        text, share = fit(query.context, max(room, 16))
        return f"{text}\n\n{question}", share
    if isinstance(query.context, str):
        return question, 0.0
    titles = "\n".join(f"- {paper.get('title') or paper_id}" for paper_id, paper in query.context.items())
    return f"{question}\n\nPapers:\n{titles}", 0.0


async def _run(
    tree: Tree, query: Query, sample: int, system: str, room: int, index: PassageIndex | None
) -> tuple[Node, float]:
    config = tree.config
    user, share = user_prompt(query, room, retriever=index is not None)
    budget = Budget.of_tree(
        max_tokens=config.max_tokens,
        max_subcalls=0,
        max_depth=0,
        tokens_per_turn=config.max_tokens_per_turn,
        deadline=tree.now() + config.wall_seconds,
    )
    node = Node(
        id=f"{query.id}.{sample}",
        task=Task(query.question),
        budget=budget,
        query_id=query.id,
        opening=(("system", system), ("user", user)),
        has_run_code=index is None,  # an agent that has the text before it may answer at once
    )
    await run_node(tree, node, BareWorker.open(config, index))
    return node, share


def _did_not_fit(tree: Tree, node: Node) -> bool:
    """The very first prompt was too long; nothing was written."""
    return not node.turns and node.status is Status.OUT_OF_BUDGET and tree.now() < node.budget.deadline


class Retrieval:
    """Answers the REPL's calls: the retriever's where there is an index, no others."""

    def __init__(self, index: PassageIndex | None) -> None:
        self.index = index

    async def __call__(self, name: str, args: Mapping[str, Any]) -> Any:
        try:
            asked = json.loads(args.get("prompt", ""))
            query, k = str(asked["query"]), int(asked["k"])
        except (ValueError, TypeError, KeyError):
            raise SubcallError(f"{name}: there is no such function") from None
        if self.index is None:
            raise SubcallError(f"{name}: there is no such function")
        return self.index.top(query, max(1, min(k, MOST_PASSAGES)))


class BareWorker(Worker):
    """A REPL without a context; with an index, `retrieve` is defined before the agent's first block and after a restart."""

    _setup = ""
    _is_set_up = False

    @classmethod
    def open(cls, config: RolloutConfig, index: PassageIndex | None) -> BareWorker:
        worker = cls.start("", config, Retrieval(index))
        assert isinstance(worker, cls)
        worker._setup = RETRIEVER if index is not None else ""
        return worker

    async def execute(self, code: str) -> ExecutionResult:
        note = ""
        if self._setup and not self._is_set_up:
            note = (await super().execute(self._setup)).stdout
        result = await super().execute(code)
        self._is_set_up = not result.killed
        return dataclasses.replace(result, stdout=note + result.stdout)
