"""An OpenAI-compatible server whose every reply takes the same time: `python -m benchmarks.slow_model SECONDS`.

It plays the model of `benchmarks.rollouts`: a root of 3 turns whose first asks 8 children, children of 2 turns. The model name
`rlms` gets the same program in the dialect of the package `rlms`. Prints its address; ends when its standard input closes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

CHILDREN = 8
ROOT = (
    f'answers = rlm_query_batched(["part"] * {CHILDREN})\nprint(len(answers))',
    "total = sum(a for a in answers if isinstance(a, int))\nprint(total)",
    "FINAL(total)",
)
CHILD = ("n = len(context)\nprint(n)", "FINAL(1)")
TURNS = (len(ROOT), len(CHILD))
RLMS_ROOT = (
    f"answers = rlm_query_batched([context] * {CHILDREN})\nprint(len(answers))",
    'total = sum(int(a) for a in answers if a == "1")\nprint(total)',
    'answer["content"] = total\nanswer["ready"] = True',
)
"""A child of `rlms` has no other context than its prompt: it gets the text, as ours do."""
RLMS_CHILD = ("n = len(context)\nprint(n)", 'answer["content"] = 1\nanswer["ready"] = True')


def reply(model: str, messages: list[dict[str, str]]) -> str:
    question = next(m["content"] for m in messages if m["role"] == "user")
    turn = sum(m["role"] == "assistant" for m in messages)
    if model == "rlms":
        language, script = "repl", RLMS_ROOT if question.startswith("Answer the following:") else RLMS_CHILD
    else:
        language, script = "python", CHILD if question.startswith("Question: part") else ROOT
    return f"```{language}\n{script[min(turn, len(script) - 1)]}\n```"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Answer the requests of one connection, one after the other."""
    try:
        while line := await reader.readline():
            length = 0
            while (header := await reader.readline()).strip():
                name, _, value = header.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            body = json.loads(await reader.readexactly(length)) if line.startswith(b"POST") else {"messages": []}
            await asyncio.sleep(seconds)
            writer.write(_response(body))
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def _response(body: dict[str, Any]) -> bytes:
    text = reply(body.get("model", ""), body["messages"])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    data = json.dumps({"id": "slow", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)


async def main(seconds: float) -> None:
    server = await asyncio.start_server(lambda r, w: serve(r, w, seconds), "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
