"""seccomp: an allow-list of system calls as a classic BPF program, installed without libseccomp.

What is not on the list fails with EPERM: sockets of every family, fork and exec, ptrace and the memory of others,
mounts, namespaces, keys, bpf, io_uring, userfaultfd, perf, memfd, System V IPC, changes of owner or mode, and every
call that a newer kernel may add. A call through another architecture's table kills the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import lru_cache

from rlm_core.repl.sandbox import libc
from rlm_core.repl.sandbox.syscalls import ALWAYS, ARCHITECTURES, CHECKED, number

_LOAD, _AND, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGS = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32_BIT = 0x40000000
_DENIED = _ERRNO | errno.EPERM
_SECCOMP_SET_MODE_FILTER_PRCTL = (22, 2)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER

_THREAD_FLAGS = (0x003D0F00, 0x007D0F00)
"""The exact flags of glibc's and musl's pthread_create; any other clone is refused, so no process can be made."""
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032, 1033, 1034)
"""Duplicate, flags, pipe size (read), seals (fail on what is no memfd): no owner or signal of async I/O, no leases, and no
locks, by which workers could talk over the library files that all of them may read."""
_CLOCKS = 16
"""Clocks below are the machine's and one's own; others, which hold a process number, tell another's processor time."""
_FUTEX, _FUTEX_COMMAND = (0, 1, 3, 4, 5, 9, 10), 0x7F
"""Wait, wake, requeue, as locks of threads need them; no priority inheritance, where most of the kernel's futex faults were."""
_MADVISE = (0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21)
"""All that needs no privilege but merging equal pages (12), which tells what others hold in memory."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, its size, bytes to read, blocking or not, close on exec or not."""
_PRCTL = (15, 16)
"""The thread's name."""

Instruction = tuple[int, int, int, int]
_INSTRUCTION = struct.Struct("=HBBI")


def supported() -> bool:
    return platform.machine() in ARCHITECTURES


def program(*, threads: bool, pid: int) -> list[Instruction]:
    """The filter for the process `pid` (as it sees itself), which may make threads or not."""
    return [*_common(threads=threads), *_about_itself(pid)]


def _common(*, threads: bool) -> list[Instruction]:
    """The part that is the same for every process."""
    code: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQ, 1, 0, ARCHITECTURES[platform.machine()]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_GE, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _DENIED),
    ]
    code += _checked("fcntl", _argument_in(1, _FCNTL, _DENIED))
    code += _checked("ioctl", _argument_in(1, _IOCTL, _ERRNO | errno.ENOTTY))
    code += _checked("prctl", _argument_in(0, _PRCTL, _DENIED))
    code += _checked("prlimit64", _argument_in(0, (0,), _DENIED))
    code += _checked("clone", _argument_in(0, _THREAD_FLAGS if threads else (), _DENIED))
    # glibc falls back to clone, whose flags a filter can read, when clone3 does not exist
    code += _checked("clone3", [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)])
    code += _checked("futex", _argument_in(1, _FUTEX, _ERRNO | errno.ENOSYS, mask=_FUTEX_COMMAND))
    code += _checked("madvise", _argument_in(2, _MADVISE, _ERRNO | errno.EINVAL))
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        code += _checked(name, _argument_below(0, _CLOCKS, _ERRNO | errno.EINVAL))
    # last: the kernel remembers which calls are always allowed, and runs the filter for the others only
    for name in ALWAYS:
        if (call := number(ALWAYS, name)) is not None:
            code += [(_JUMP_EQ, 0, 1, call), (_RETURN, 0, 0, _ALLOW)]
    return code


def _about_itself(pid: int) -> list[Instruction]:
    """Signals to and questions about the process itself, and the end: all else is refused."""
    own = _argument_in(0, (pid,), _DENIED)
    code = [*_checked("kill", own), *_checked("tgkill", own)]
    return [*code, *_checked("sched_getaffinity", _argument_in(0, (0, pid), _DENIED)), (_RETURN, 0, 0, _DENIED)]


def _checked(name: str, block: list[Instruction]) -> list[Instruction]:
    call = number(CHECKED, name)
    assert call is not None
    return [(_JUMP_EQ, 0, len(block), call), *block]


def _argument_in(index: int, values: tuple[int, ...], otherwise: int, *, mask: int | None = None) -> list[Instruction]:
    """Allow when the low 32 bits of an argument, masked, are among `values`; these arguments are all 32-bit in the kernel.

    `clone` takes 64 bits, but its high half holds no flag that the legacy call reads.
    """
    block: list[Instruction] = [(_LOAD, 0, 0, _OFFSET_ARGS + 8 * index)]
    if mask is not None:
        block.append((_AND, 0, 0, mask))
    for value in values:
        block += [(_JUMP_EQ, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    block.append((_RETURN, 0, 0, otherwise))
    return block


def _argument_below(index: int, bound: int, otherwise: int) -> list[Instruction]:
    """Allow when an argument's low 32 bits, unsigned, are below `bound`: a negative number is not."""
    return [
        (_LOAD, 0, 0, _OFFSET_ARGS + 8 * index),
        (_JUMP_GE, 1, 0, bound),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, otherwise),
    ]


def prepare() -> None:
    """Build what filters have in common, so that processes forked from this one need not."""
    for threads in (True, False):
        _packed_common(threads=threads)


@lru_cache(maxsize=2)
def _packed_common(*, threads: bool) -> bytes:
    return _pack(_common(threads=threads))


def _pack(code: list[Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)


def install(*, threads: bool, pid: int | None = None) -> None:
    """Confine the calling thread and all it starts, for good. Needs no_new_privs. Raises `OSError`."""
    packed = _packed_common(threads=threads) + _pack(_about_itself(os.getpid() if pid is None else pid))
    buffer = ctypes.create_string_buffer(packed, len(packed))
    header = struct.pack("@HP", len(packed) // _INSTRUCTION.size, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header, len(header))
    libc.prctl(*_SECCOMP_SET_MODE_FILTER_PRCTL, ctypes.addressof(pointer))
