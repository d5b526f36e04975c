"""Landlock: the worker may open only what a rule names, and may signal and connect to nothing outside its domain.

Source: Documentation/userspace-api/landlock.rst of the kernel. Each ABI adds rights; those that the running kernel does
not know are left out, and the seccomp layer refuses the calls in question anyway (truncate, sockets, kill).
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from rlm_core.repl.sandbox import libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << n for n in range(6))
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM, _REFER, _TRUNCATE, _IOCTL_DEV = (
    1 << n for n in range(6, 16)
)
_FS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_FS_LATEST = (1 << 16) - 1  # ABI 5 adds ioctl on devices

READ = _READ_FILE | _READ_DIR
READ_WRITE_FILE = _READ_FILE | _WRITE_FILE
SCRATCH = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
"""No executing, no sockets, pipes or devices, even in the scratch folder."""
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Those that a rule on a file (not a folder) may carry."""


def abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    try:
        return libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def make_ruleset(version: int, rules: list[tuple[str, int]]) -> int:
    """A descriptor of the rules, pairs of (path, rights), for `restrict_self` of any process forked later.

    A rule on a folder holds for what is mounted below it later, too. Raises `OSError`.
    """
    handled = _FS_BY_ABI.get(version, _FS_LATEST)
    fields = [handled]
    if version >= 4:
        fields.append(0b11)  # TCP bind and connect
    if version >= 6:
        fields.append(0b11)  # abstract unix sockets and signals
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = libc.syscall(
        _CREATE_RULESET, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0
    )
    for path, rights in rules:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            allowed = rights & handled & (~0 if is_folder else _FILE_RIGHTS)
            rule = struct.pack("=Qi", allowed, descriptor)
            libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
        finally:
            os.close(descriptor)
    return ruleset


def restrict_self(ruleset: int) -> None:
    """Confine the calling thread, for good. Needs no_new_privs. Raises `OSError`."""
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
