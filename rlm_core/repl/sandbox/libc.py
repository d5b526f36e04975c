"""System calls that Python 3.11's `os` lacks, through ctypes. Each raises `OSError` on failure."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_CAPABILITY_VERSION_3 = 0x2008_0522

CAP_SETUID, CAP_SETGID, CAP_SYS_ADMIN = 7, 6, 21


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, *args: int) -> int:
    values = [ctypes.c_ulong(a) for a in (*args, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(option, *values), f"prctl {option}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if t is None else os.fsencode(t) for t in (source, target, kind, data)]
    result = _libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    _check(result, f"mount {kind or 'bind'} on {target}")


def unmount(target: str, flags: int) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def syscall(number: int, *args: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Any call by number; integers go as 64 bits, buffers as pointers."""
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _check(_libc.syscall(ctypes.c_long(number), *values), f"syscall {number}")


def sethostname(name: bytes) -> None:
    _check(_libc.sethostname(name, ctypes.c_size_t(len(name))), "sethostname")


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


_CapPair = _CapData * 2
"""Made once: each `*` would make a type of its own."""


def has_capability(number: int) -> bool:
    """Whether the calling thread has it in its effective set."""
    data = _CapPair()
    _check(_libc.capget(ctypes.byref(_CapHeader(_CAPABILITY_VERSION_3, 0)), data), "capget")
    return bool(data[number // 32].effective >> (number % 32) & 1)


def drop_bounding_set() -> None:
    """Give up the right to ever gain a capability again. Needs CAP_SETPCAP; without it no_new_privs has to do."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for number in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) < 0:
            break  # EINVAL past the last capability, or EPERM


def clear_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets."""
    _check(_libc.capset(ctypes.byref(_CapHeader(_CAPABILITY_VERSION_3, 0)), _CapPair()), "capset")
