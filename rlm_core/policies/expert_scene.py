"""What the scripted expert understands of a prompt: the question, the limits, and what its turns printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rlm_core.policies.base import Message, PolicyError

_SEARCH = re.compile(r"search\(([\"'])((?:\\.|(?!\1).)*)\1")
_HIT = re.compile(r"^\[(\d+)\] \((.*?)\) (.*)$", re.MULTILINE)
_CUE = re.compile(r"(?:\n\n|^)(Turn \d+ of \d+(?:: answer now)?|[^\n]*Answer now with FINAL\(\.\.\.\)\.)$")
_AT_ONCE = re.compile(r"at most (\d+) a call|At most (\d+) prompts in one")
_QUESTION = re.compile(r"^Question: (.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)
_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage as it was printed."""

    number: int
    paper: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A turn that is over: what was written and what was shown of it."""

    text: str
    observation: str

    @property
    def failed(self) -> bool:
        """It raised, or was not run at all."""
        return bool(_ERROR.search(self.observation))

    @property
    def keyword(self) -> str:
        """What it searched for; empty if it did not, or failed."""
        match = _SEARCH.search(self.text)
        return match.group(2).replace('\\"', '"') if match and not self.failed else ""

    @property
    def hits(self) -> list[Hit]:
        return [Hit(int(number), paper, text) for number, paper, text in _HIT.findall(self.observation)]

    @property
    def literal(self) -> bool:
        """The search found its very words, not just something near."""
        return bool(self.hits) and not self.observation.startswith("no exact match")


@dataclass(frozen=True, slots=True)
class Scene:
    """What the messages of a node say."""

    question: str
    steps: tuple[Step, ...]
    is_child: bool
    dispatches: bool
    """There are several papers and children may be asked."""
    at_once: int
    """Children that one call may ask."""
    last: bool
    """This is the last turn."""


def read_scene(messages: Sequence[Message]) -> Scene:
    """Take the messages of a node apart. Raises `PolicyError` for any other conversation."""
    system = messages[0].content if messages and messages[0].role == "system" else ""
    users = [m.content for m in messages if m.role == "user"]
    cue = _CUE.search(users[-1]) if users else None
    shown = [_CUE.sub("", user) for user in users]
    asked = _QUESTION.search(shown[0]) if shown else None
    if not system or not asked:
        raise PolicyError("the scripted expert plays the nodes of a rollout; it answers no plain prompts (llm_query)")
    texts = [m.content for m in messages if m.role == "assistant"]
    limit = _AT_ONCE.search(system)
    several = "`context` is" not in shown[0] or re.search(r"of \d+ papers,", shown[0]) is not None
    return Scene(
        question=" ".join(asked.group(1).split()),
        steps=tuple(Step(text, observation) for text, observation in zip(texts, shown[1:], strict=True)),
        is_child="empty list" in system and ("child" in system.split("\n")[0] or "another model" in system),
        dispatches="rlm_query_batched" in system and several,
        at_once=int(limit.group(1) or limit.group(2)) if limit else 1,
        last=bool(cue and "nswer now" in cue.group(1)),
    )
