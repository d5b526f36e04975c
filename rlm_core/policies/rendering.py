"""Messages to prompt token ids, such that a later prompt extends an earlier one token by token.

A chat template renders a whole conversation as text; tokenising that again after a turn may change tokens that were
already read or sampled. `ChatRenderer` takes the template apart once, with sentinels, into the pieces around each
message, and then joins token ids: text messages are tokenised with their pieces, sampled completions are used as they
are. So for every conversation `m`, sampled completion `c` and later messages `n`::

    prompt_ids(m + [assistant c] + n)[: len(prompt_ids(m)) + len(c)] == prompt_ids(m) + c

For text messages the result equals the template's own (`apply_chat_template`), with two deliberate differences:
an assistant message stands after the same generation prompt that a sampled one had (templates with thinking put an
empty block there and strip it from the history later); and text that merely looks like a special token, say in a
document, stays text, so it cannot end a message.

A template that changes contents (other than trimming white space), that moves messages or that renders a message
differently by its place is refused with `TemplateError`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm_core.policies.base import Message, Role, as_messages

_MARK = "Xq{}\u00e9 Zt <b>&\"'\\ {{{{z}}}} #1,2\n\n  \t-3 q{}X"
"""A sentinel: mixed case, quotes, markup, braces, runs of white space, a non-ASCII letter. A template must keep it."""


class TemplateError(ValueError):
    """The chat template cannot be taken apart; the message says what it does and what to do."""


@dataclass(frozen=True, slots=True)
class TemplatePieces:
    """What the template puts around contents. For ChatML: headers `<|im_start|>ROLE\\n`, footers `<|im_end|>\\n`."""

    headers: Mapping[Role, str]
    """Of a user message after another message, and of an assistant message in the history."""
    footers: Mapping[Role, str]
    opening_system: str
    """Before a system message, which can only be the first."""
    opening_user: str
    """Before a user message without a system message; holds the template's default system message if it has one."""
    generation: str
    """What a completion follows; includes an empty thinking block where the template has one."""
    trims: frozenset[Role]
    """Roles whose content the template strips of white space at both ends."""


class ChatRenderer:
    """Renders conversations for one tokenizer. Cheap to call: tokens of text messages are remembered.

    `template_kwargs` go to the template; the default asks for no thinking. Raises `TemplateError` for a tokenizer
    without a template or with one that cannot be taken apart.
    """

    def __init__(self, tokenizer: Any, *, template_kwargs: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.template_kwargs = {"enable_thinking": False} if template_kwargs is None else dict(template_kwargs)
        if not getattr(tokenizer, "chat_template", None):
            raise TemplateError(
                f"the tokenizer {_name(tokenizer)} has no chat template; use an instruct model or add chat_template.jinja"
            )
        self.pieces = take_apart(self._template_text, name=_name(tokenizer))
        self._specials = tuple(t for t in tokenizer.all_special_tokens if t)
        self._generation_ids = self._encode(self.pieces.generation)
        self._footer_ids = self._encode(self.pieces.footers["assistant"])
        self._message_ids = functools.lru_cache(maxsize=8192)(self._encode_message)
        if not self._footer_ids:
            raise TemplateError(f"{_name(tokenizer)}: the template ends an assistant message with nothing")

    @property
    def end_of_turn_id(self) -> int:
        """The token that a model says to end its turn, e.g. that of `<|im_end|>`."""
        return self._footer_ids[0]

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a completion: the end of a turn, and the tokenizer's end of text."""
        eos = self.tokenizer.eos_token_id
        return tuple(dict.fromkeys([self.end_of_turn_id, *([] if eos is None else [eos])]))

    def prompt_ids(self, messages: Sequence[Message | Mapping[str, Any]]) -> tuple[int, ...]:
        """Token ids of the conversation, ending with the generation prompt."""
        conversation = as_messages(messages)
        _check(conversation)
        ids: list[int] = []
        for index, message in enumerate(conversation):
            if message.role == "assistant" and message.token_ids is not None:
                ids += self._generation_ids
                ids += message.token_ids
                ids += self._footer_after(message.token_ids)
            else:
                ids += self._message_ids(message.role, message.content, index == 0)
        ids += self._generation_ids
        return tuple(ids)

    def completion_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a completion given as text, ended as a model would end it. For training on texts."""
        return (*self._encode_content(text), self.end_of_turn_id)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of sampled ids, without special tokens."""
        text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _footer_after(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """The footer minus what the sampled ids already hold of it (an `<|im_end|>` that the model said itself)."""
        for count in range(len(self._footer_ids), 0, -1):
            if tuple(sampled[-count:]) == self._footer_ids[:count]:
                return self._footer_ids[count:]
        return self._footer_ids

    def _encode_message(self, role: Role, content: str, first: bool) -> tuple[int, ...]:
        if role in self.pieces.trims:
            content = content.strip()
        if role == "assistant":
            return (*self._generation_ids, *self._encode_content(content), *self._footer_ids)
        if first:
            header = self.pieces.opening_system if role == "system" else self.pieces.opening_user
        else:
            header = self.pieces.headers[role]
        footer = self.pieces.footers[role]
        if any(special in content for special in self._specials):
            return (*self._encode(header), *self._encode_content(content), *self._encode(footer))
        return self._encode(header + content + footer)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _encode_content(self, text: str) -> tuple[int, ...]:
        """Ids of text in which nothing is a special token."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def _template_text(self, messages: list[dict[str, str]], generation: bool) -> str:
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation, **self.template_kwargs
        )
        return str(text)


def take_apart(render: Callable[[list[dict[str, str]], bool], str], *, name: str = "chat template") -> TemplatePieces:
    """Find the pieces of a template. `render(messages, generation_prompt: bool) -> str` applies it.

    Renders a few short conversations whose contents are sentinels and reads what stands between them; then joins the
    pieces for longer ones and compares, which finds templates that render a message by its place.
    """

    def rendered(roles: str, generation: bool, pad: str = "") -> tuple[str, list[str]]:
        contents = [pad + _MARK.format(i, i) + pad for i in range(len(roles))]
        messages: list[dict[str, str]] = [
            {"role": _ROLES[r], "content": c} for r, c in zip(roles, contents, strict=True)
        ]
        try:
            return render(messages, generation), contents
        except Exception as error:
            shape = ", ".join(m["role"] for m in messages)
            raise TemplateError(
                f"{name} cannot render the roles {shape}: {error}; use a model whose template can"
            ) from error

    def gaps(roles: str, generation: bool = False) -> list[str]:
        text, contents = rendered(roles, generation)
        found = []
        for content in contents:
            before, mark, text = text.partition(content)
            if not mark:
                raise TemplateError(
                    f"{name} changes what messages say (looked for {content!r}, got {text or before!r}); prompts built from it "
                    "would not show contents as they are. Use a template that copies contents, e.g. ChatML"
                )
            found.append(before)
        return [*found, text]

    opening_user, user_footer = gaps("u")
    opening_again, to_generation = gaps("u", generation=True)
    _, user_to_assistant, assistant_to_user, _ = gaps("uau")
    *_, assistant_footer = gaps("ua")
    user_header = _after(assistant_to_user, assistant_footer, name, "an assistant message's end")
    generation = _after(to_generation, user_footer, name, "a user message's end")
    assistant_header = _after(user_to_assistant, user_footer, name, "a user message's end")
    opening_system, system_to_user, _ = gaps("su")
    if not system_to_user.endswith(user_header):
        raise TemplateError(
            f"{name} does not keep a system message apart from the user message after it; use one that does"
        )
    if not generation.startswith(assistant_header) or opening_again != opening_user:
        raise TemplateError(
            f"{name}: completions follow {generation!r} but the history shows {assistant_header!r}; a later prompt could not "
            "extend an earlier one"
        )
    pieces = TemplatePieces(
        headers={"user": user_header, "assistant": assistant_header},
        footers={
            "user": user_footer,
            "assistant": assistant_footer,
            "system": system_to_user[: len(system_to_user) - len(user_header)],
        },
        opening_system=opening_system,
        opening_user=opening_user,
        generation=generation,
        trims=frozenset(),
    )
    for roles in ("suau", "uauau"):
        text, contents = rendered(roles, generation=True)
        if text != _joined(pieces, roles, contents) + generation:
            raise TemplateError(
                f"{name} renders a message differently by its place in the conversation; use one that does not, e.g. ChatML"
            )
    text, contents = rendered("su", generation=False, pad=" \n ")
    trims: set[Role] = {role for role, content in zip(_ROLES_SU, contents, strict=True) if content not in text}
    kept = [c.strip() if role in trims else c for role, c in zip(_ROLES_SU, contents, strict=True)]
    if text != _joined(pieces, "su", kept):
        raise TemplateError(f"{name} changes the white space around contents in another way than by trimming both ends")
    return dataclasses.replace(pieces, trims=frozenset(trims))


_ROLES: dict[str, Role] = {"s": "system", "u": "user", "a": "assistant"}
_ROLES_SU: tuple[Role, Role] = ("system", "user")


def _joined(pieces: TemplatePieces, roles: str, contents: Sequence[str]) -> str:
    """The conversation as the pieces make it, without a generation prompt."""
    text = ""
    for index, (letter, content) in enumerate(zip(roles, contents, strict=True)):
        role = _ROLES[letter]
        opening = pieces.opening_system if role == "system" else pieces.opening_user
        text += (pieces.headers[role] if index else opening) + content + pieces.footers[role]
    return text


def _after(text: str, start: str, name: str, what: str) -> str:
    if not text.startswith(start):
        raise TemplateError(f"{name}: {what} is {start!r} at the end of a conversation but {text!r} follows inside one")
    return text[len(start) :]


def _check(conversation: Sequence[Message]) -> None:
    if not conversation:
        raise ValueError("a prompt needs at least one message")
    for index, message in enumerate(conversation):
        if message.role not in ("system", "user", "assistant"):
            raise ValueError(f"message {index} has the role {message.role!r}; known: system, user, assistant")
        if message.role == "system" and index:
            raise ValueError(f"message {index} is a system message; only the first may be one")
    if conversation[0].role == "assistant":
        raise ValueError("the first message is the assistant's; a conversation opens with a system or user message")


def _name(tokenizer: Any) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
