"""From fork to serving: confine the process, load the context, then run blocks until the host hangs up.

In-process code can reach everything here, the channel included. That is accepted: the channel leads to nothing but its
own REPL on the host, which checks every frame; see docs/sandbox.md.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import marshal
import mmap
import os
import random
import select
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from rlm_core.repl import wire
from rlm_core.repl.sandbox import confine, libc
from rlm_core.repl.worker.channel import Channel, Closed
from rlm_core.repl.worker.interpreter import Interpreter
from rlm_core.repl.worker.subcalls import make_query_functions

_CHANNEL, _CONTEXT = 3, 4
_SPARE = 100
"""Descriptors are parked from here on while the low ones are arranged."""
_THREAD_STACK = 2 << 20

Limits = dict[str, int | float]
ToolFactory = Callable[[Any], dict[str, Callable[..., Any]]]


def main(
    *, channel: int, context: int, parent: int, limits: Limits, serial: int, plan: confine.Plan, make_tools: ToolFactory
) -> NoReturn:
    """The whole life of a worker, in a process forked just now.

    `channel`, `context` and `parent` are descriptors: the socket to the host, the memory file with the context
    (marshalled), the fork server's pidfd. Every other inherited descriptor is closed before any code runs.
    """
    status = 70
    try:
        channel, context = (fcntl.fcntl(fd, fcntl.F_DUPFD, _SPARE) for fd in (channel, context))
        _announce(channel)
        try:
            prepare(limits, serial, plan, parent)
        except OSError as error:
            _fail(channel, f"the worker could not be confined: {error}")
            raise Closed from None
        os.dup2(channel, _CHANNEL)
        os.dup2(context, _CONTEXT)
        os.closerange(_CONTEXT + 1, 1 << 20)
        _serve(limits, plan, make_tools)
    except Closed:
        status = 0
    except MemoryError:
        _fail(_CHANNEL, "out of memory")
    except BaseException as error:  # noqa: BLE001 - the process ends here, and the host must learn why
        _fail(_CHANNEL, f"the worker broke: {type(error).__name__}")
    finally:
        os._exit(status)


def prepare(limits: Limits, serial: int, plan: confine.Plan, parent: int) -> None:
    """Everything up to, but without, the system-call filter. Raises `OSError`."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if plan.sandboxed:
        confine.confine(plan, limits, serial)
    else:
        confine.limit_resources(plan, limits)
    # after the change of user, which clears it; then the fork server may have died just before
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    if poll.poll(0):
        os._exit(0)


def _announce(channel: int) -> None:
    """Hand the host a descriptor that names this process for ever, whatever its number and namespace."""
    me = os.pidfd_open(os.getpid())
    sock = socket.socket(fileno=channel)
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [me]).tobytes())
    try:
        sock.sendmsg([wire.encode({"op": "hello"})], [rights])
    except OSError:
        raise Closed from None
    finally:
        sock.detach()
        os.close(me)


def _serve(limits: Limits, plan: confine.Plan, make_tools: ToolFactory) -> None:
    raw_output = _arrange_streams()
    gc.enable()
    random.seed(0)  # so that a rollout can be repeated
    threading.stack_size(_THREAD_STACK)
    try:
        context = _load_context()
    except (MemoryError, OSError):  # the latter from mapping it
        _fail(_CHANNEL, f"the context does not fit into memory_mb={limits['memory_mb']}; raise that limit")
        raise Closed from None
    channel = Channel(_CHANNEL, int(limits["message_mb"]) << 20)
    reserved = {"context": context, **make_query_functions(channel.ask), **make_tools(context)}
    interpreter = Interpreter(
        reserved,
        output_chars=int(limits["output_chars"]),
        error_chars=int(limits["error_chars"]),
        answer_chars=int(limits["answer_chars"]),
        raw_output=raw_output,
    )
    if plan.sandboxed:
        confine.seal(plan, limits)
    channel.send({"op": "ready"})
    while True:
        block = channel.next_block()
        channel.send({"op": "result", "seq": block["seq"], **interpreter.run(block["code"])})


def _arrange_streams() -> int:
    """Descriptors 1 and 2 become a pipe that never blocks and holds 64 KiB; returns its reading end."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    return reading


def _load_context() -> Any:
    size = os.fstat(_CONTEXT).st_size
    with mmap.mmap(_CONTEXT, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ) as view:
        os.close(_CONTEXT)
        return marshal.loads(view)


def _fail(channel: int, message: str) -> None:
    with contextlib.suppress(OSError):
        os.write(channel, wire.encode({"op": "failed", "error": message}))
