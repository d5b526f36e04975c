"""A scripted policy: a real alternative to a model for teaching, with its limits stated.

It reads what a model would read (the question, the prompt's limits, the observations) and nothing else: no gold, no side
channel. One paper: search for the question's key phrase, read the hits, answer with the passages that fit. Several papers,
where children are allowed: list the papers, ask a child for each, join their answers. It cannot judge meaning: it finds
passages by their words. Its code is short and regular, so that a small model can learn it.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rlm_core.files import content_key
from rlm_core.policies.base import Action, Message, Sampling, as_messages
from rlm_core.policies.expert_phrases import content_words, key_phrases
from rlm_core.policies.expert_scene import Hit, Scene, Step, read_scene

VERSION = 1
"""Raised with every change of what the expert writes; part of the keys of stored rollouts."""
SHOWN = 4
"""Hits that a search prints."""
ENOUGH_TRIES = 3
"""Search terms tried before the best of what was found is taken, or nothing."""

CLEARLY_MORE = 2
"""Words of the question by which a passage must lead to be taken before the one that the search ranked first."""


class Renderer(Protocol):
    """The part of a `ChatRenderer` that fills in token ids."""

    def prompt_ids(self, messages: Sequence[Message | Mapping[str, Any]]) -> tuple[int, ...]: ...
    def completion_ids(self, text: str) -> tuple[int, ...]: ...


class ExpertPolicy:
    """`noise`: share of turns with a mistake. Mistakes depend on the seed, the call's own seed and what was read."""

    def __init__(
        self, noise: float = 0.0, seed: int = 0, renderer: Renderer | None = None, name: str = "expert"
    ) -> None:
        if not 0 <= noise <= 1:
            raise ValueError(f"noise is a share of turns, 0 to 1, got {noise}")
        self.noise, self.seed, self.renderer, self.name = noise, seed, renderer, name

    async def act(self, messages: Sequence[Message | Mapping[str, Any]], sampling: Sampling | None = None) -> Action:
        """The next turn. Raises `PolicyError` for a prompt that is not a node's (a plain `llm_query`)."""
        start = time.monotonic()
        sampling = sampling or Sampling()
        messages = as_messages(messages)
        scene = read_scene(messages)
        rng = random.Random(content_key(self.seed, sampling.seed, [(m.role, m.content) for m in messages]))
        text = plan(scene)
        if rng.random() < self.noise:
            text = spoil(text, scene, rng)
        return self._action(messages, text, time.monotonic() - start)

    def _action(self, messages: Sequence[Message], text: str, seconds: float) -> Action:
        if self.renderer is None:
            return Action(text, seconds=seconds)
        prompt_ids = self.renderer.prompt_ids(messages)
        completion_ids = self.renderer.completion_ids(text)
        return Action(
            text,
            prompt_ids=prompt_ids,
            completion_ids=completion_ids,
            prompt_tokens=len(prompt_ids),
            completion_tokens=len(completion_ids),
            seconds=seconds,
        )


def plan(scene: Scene) -> str:
    """The turn that a careful expert takes next."""
    return _code(_ask_children(scene) if scene.dispatches else _search_and_pick(scene))


def _ask_children(scene: Scene) -> str:
    """List, ask a child for each paper, join."""
    asked = [step for step in scene.steps if "rlm_query_batched(" in step.text]
    if any(re.search(r"^\d+ passages", step.observation) for step in asked) or len(asked) > 1:
        return 'FINAL_VAR("found")'
    listed = any("list_papers()" in step.text and not step.failed for step in scene.steps)
    if not listed and not scene.last:
        return "papers = list_papers()\nprint(papers)"
    lines = [] if listed else ["papers = list_papers()"]
    lines += [
        "found = []",
        f"for i in range(0, len(papers), {scene.at_once}):",
        f"    batch = papers[i:i + {scene.at_once}]",
        f"    for answer in rlm_query_batched([{_quote(scene.question)}] * len(batch), batch):",
        "        if isinstance(answer, list):",
        "            found += answer",
        "FINAL(found)" if scene.last else 'print(len(found), "passages")',
    ]
    return "\n".join(lines)


def _search_and_pick(scene: Scene) -> str:
    """Search for the best phrase not tried yet until something fits, then answer.

    A child is asked about every paper of a group, also those that have nothing: it takes only a subject's very words, not
    one word of it alone.
    """
    phrases = key_phrases(scene.question)
    if scene.is_child:
        phrases = [phrase for phrase in phrases if " " in phrase] or phrases[:1]
    tried = [step.keyword.lower() for step in scene.steps if step.keyword]
    left = [phrase for phrase in phrases if phrase.lower() not in tried]
    newest = scene.steps[-1] if scene.steps else None
    asked = newest is not None and newest.keyword.lower() in {p.lower() for p in phrases}
    if newest is not None and asked and newest.hits and (newest.literal or not scene.is_child):
        return _answer(pick(newest, scene))
    if scene.last or not left or len(set(tried)) >= ENOUGH_TRIES:
        return _answer([])
    return f"hits = search({_quote(left[0])})\nprint(hits[:{SHOWN}])"


def pick(step: Step, scene: Scene) -> list[Hit]:
    """The first passage, which the search ranked best, unless another one shows clearly more of the question's words.

    Without children to ask, several papers are read at once: then it is the first of each paper.
    """
    firsts = {hit.paper: hit for hit in reversed(step.hits)}
    if len(firsts) > 1:
        return sorted(firsts.values(), key=lambda hit: hit.number)
    words = {word[:6] for word in content_words(scene.question)}

    def shared(hit: Hit) -> int:
        return len(words & {word[:6] for word in content_words(hit.text)})

    best = max(step.hits, key=shared)
    return [best if shared(best) >= shared(step.hits[0]) + CLEARLY_MORE else step.hits[0]]


def _answer(hits: Sequence[Hit]) -> str:
    return f"FINAL([{', '.join(f'hits[{hit.number}]' for hit in hits)}])"


def _quote(text: str) -> str:
    """A Python string, in the plainest quotes that hold it."""
    if '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f"'{text}'" if "'" not in text and "\\" not in text else json.dumps(text, ensure_ascii=False)


def _code(code: str) -> str:
    return f"```python\n{code}\n```"


def spoil(text: str, scene: Scene, rng: random.Random) -> str:
    """The same turn with a mistake that models make: code that raises, a useless keyword, a wrong passage, a wrong FINAL."""
    if "rlm_query_batched(" in text or "list_papers()" in text:
        return rng.choice([text.replace("papers", "paper_list", 1), text.replace("list_papers()", "list_papers", 1)])
    if "search(" in text:
        words = [word for word in scene.question.split() if word.isalpha()] or ["paper"]
        useless = re.sub(r"search\(.*\)\n", f'search("{rng.choice(words[:3])}")\n', text)
        wrong_name, wrong_variable = text.replace("search(", "search_papers("), text.replace("print(hits", "print(hit")
        unfenced = text.removeprefix("```python\n").removesuffix("\n```")
        return rng.choice([useless, useless, wrong_name, wrong_variable, unfenced])
    hits = scene.steps[-1].hits if scene.steps else []
    wrong = [hit for hit in hits if f"hits[{hit.number}]" not in text]
    choices = [
        text.replace('FINAL_VAR("found")', "FINAL_VAR(found)").replace("FINAL([", "FINAL_VAR([", 1),
        re.sub(r"FINAL\(\[(.+)\]\)", r'FINAL("\1")', text).replace('FINAL_VAR("found")', 'FINAL("found")'),
        text.replace("hits[", "passages[").replace('"found"', '"answer"'),
    ]
    if wrong:
        choices += [_code(_answer([rng.choice(wrong)]))] * 2
    return rng.choice(choices)
