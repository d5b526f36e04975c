"""What a client may ask of /v1/chat/completions, read strictly enough that nothing asked for is silently left out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_REFUSED = ("tools", "functions", "response_format", "logprobs", "audio")
"""Fields that would change an answer in a way that this endpoint cannot give."""


class BadRequest(Exception):
    """A request that cannot be answered; becomes a JSON error."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code


class ContentPart(BaseModel):
    type: str
    text: str = ""


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart] | None = None


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """The last user message is the question. Earlier ones are not read: every question begins its own exploration."""

    model_config = ConfigDict(extra="allow")

    messages: list[ChatMessage] = Field(min_length=1)
    model: str | None = None
    papers: list[str] | None = Field(None, min_length=1)
    """Ids of the papers to read; null reads all. An extension."""
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float = Field(0.0, ge=0, le=2)
    seed: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=1)
    """Of the whole tree."""
    max_tokens: int | None = Field(None, ge=1)
    """The same, by its older name."""
    n: Literal[1] = 1


def read_request(data: Any) -> ChatRequest:
    """Validate a body; raises `BadRequest` naming the field."""
    try:
        request = ChatRequest.model_validate(data)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "body"
        raise BadRequest(f"{where}: {fault['msg']}", param=where) from None
    for name in _REFUSED:
        if (request.model_extra or {}).get(name):
            raise BadRequest(
                f"{name}: this endpoint answers with evidence and cannot do that; leave it out", param=name
            )
    return request


def question_of(request: ChatRequest) -> str:
    """The text of the last user message."""
    asked = [message for message in request.messages if message.role == "user"]
    if not asked:
        raise BadRequest("messages: none has role 'user'", param="messages")
    content = asked[-1].content or ""
    if not isinstance(content, str):
        if odd := [part.type for part in content if part.type != "text"]:
            raise BadRequest(f"messages: a part of type '{odd[0]}' cannot be read, only text", param="messages")
        content = "\n".join(part.text for part in content)
    if not content.strip():
        raise BadRequest("messages: the last user message is empty", param="messages")
    return content.strip()
