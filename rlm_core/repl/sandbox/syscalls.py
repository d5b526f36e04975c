"""Which system calls a worker may make, with their numbers. Everything that is not listed is refused."""

from __future__ import annotations

import platform

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""`platform.machine()` to the AUDIT_ARCH that seccomp reports. Other machines have no seccomp layer here."""

ALWAYS: dict[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64); None where the architecture lacks it
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "close": (3, 57), "close_range": (436, 436),
    "lseek": (8, 62), "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291), "stat": (4, None),
    "lstat": (6, None), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "eventfd2": (290, 19), "umask": (95, 166),
    # files: what they reach is Landlock's to decide
    "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "creat": (85, None), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "symlink": (88, None),
    "symlinkat": (266, 36), "ftruncate": (77, 46), "fallocate": (285, 47),
    "fsync": (74, 82), "fdatasync": (75, 83), "sendfile": (40, 71), "copy_file_range": (326, 285),
    # waiting
    "select": (23, None), "pselect6": (270, 72), "poll": (7, None), "ppoll": (271, 73), "epoll_create": (213, None),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "timerfd_create": (283, 85), "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87),
    "nanosleep": (35, 101),
    "sched_yield": (24, 124), "wait4": (61, 260), "waitid": (247, 95),
    # memory: bounded by RLIMIT_AS
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216),
    "brk": (12, 214), "msync": (26, 227),
    # own signals, threads and exit
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293),
    "arch_prctl": (158, None), "exit": (60, 93), "exit_group": (231, 94),
    # asking about itself and the clock
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getpgrp": (111, None), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    "getrlimit": (97, 163), "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278), "getcpu": (309, 168),
}  # fmt: skip

CHECKED: dict[str, tuple[int | None, int | None]] = {
    # allowed with certain arguments only; the conditions are in `seccomp`
    "fcntl": (72, 25), "ioctl": (16, 29), "prctl": (157, 167), "prlimit64": (302, 261), "clone": (56, 220),
    "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "madvise": (28, 233),
    "sched_getaffinity": (204, 123), "futex": (202, 98),
}  # fmt: skip

REFUSED: dict[str, tuple[int, int]] = {
    # not an allow-list entry each: what the self-test tries, to see that it is refused
    "socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "memfd_create": (319, 279), "pidfd_open": (434, 434), "open_by_handle_at": (304, 265), "setuid": (105, 146),
    "fchmod": (91, 52), "capset": (126, 91), "personality": (135, 92), "init_module": (175, 105),
    "shmget": (29, 194), "mq_open": (240, 180), "flock": (73, 32),
    "fadvise64": (221, 223), "statfs": (137, 43), "fstatfs": (138, 44), "futex_waitv": (449, 449),
}  # fmt: skip


def number(table: dict[str, tuple[int | None, int | None]] | dict[str, tuple[int, int]], name: str) -> int | None:
    """The call's number on this machine."""
    return table[name][0 if platform.machine() == "x86_64" else 1]
