"""Put the layers on a freshly forked worker, in the one order that works, and say which layers a plan holds."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field

from rlm_core.repl.sandbox import landlock, libc, namespaces, seccomp

_UID_SPAN = 50_000
_UID_TOP = 1_900_000_000


@dataclass(slots=True)
class Plan:
    """What the fork server found to hold on this machine; every worker gets the same."""

    landlock_abi: int = 0
    seccomp: bool = False
    namespaces: bool = False
    own_root: bool = False
    first_uid: int | None = None
    """As root: workers take the user ids from here on, one each, so that user limits bind and root's files are closed."""
    readable: list[str] = field(default_factory=list)
    """Folders that stay readable: standard library, extension modules, the C libraries they need, time zones."""
    base_bytes: int = 0
    """Address space of the idle interpreter."""
    ruleset: int = -1
    """The descriptor of Landlock's rules, made by the fork server."""

    @property
    def sandboxed(self) -> bool:
        return self.landlock_abi > 0 and self.seccomp

    @property
    def counts_threads(self) -> bool:
        """Whether RLIMIT_NPROC holds for a worker on its own: it needs a user id or a user namespace of its own."""
        return self.first_uid is not None or (self.namespaces and os.geteuid() != 0)


def user_ids() -> int | None:
    """The first of a range of unprivileged user ids that a root process may hand out; None where it may not."""
    if os.geteuid() != 0 or not (libc.has_capability(libc.CAP_SETUID) and libc.has_capability(libc.CAP_SETGID)):
        return None
    try:
        with open("/proc/self/uid_map") as lines:
            ranges = [(int(line.split()[0]), int(line.split()[2])) for line in lines]
    except (OSError, ValueError, IndexError):
        return None
    start, count = max(ranges, key=lambda pair: pair[1])
    first = min(start + count, _UID_TOP) - _UID_SPAN - 1000
    return first if first > start else None


def confine(plan: Plan, limits: dict[str, int | float], serial: int) -> None:
    """Confine the calling process, which must have one thread; everything but seccomp, which `seal` adds last.

    Order: mounts (Landlock forbids them later), user id, namespace for counting, rlimits, no_new_privs, Landlock,
    capabilities. Raises `OSError`: a worker that cannot be confined must not run.
    """
    uid = plan.first_uid + serial % _UID_SPAN if plan.first_uid is not None else None
    scratch_mb = int(limits["scratch_mb"])
    os.umask(0o077)
    if plan.own_root and scratch_mb > 0:
        owner = uid if uid is not None else os.geteuid()
        namespaces.mount_scratch(scratch_mb, owner, owner if uid is not None else os.getegid())
        os.chdir(namespaces.SCRATCH)
        _name_scratch()
    else:
        os.chdir("/")
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
    landlock.restrict_self(plan.ruleset)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    else:
        if plan.namespaces and os.geteuid() != 0:
            libc.unshare(libc.CLONE_NEWUSER)  # unmapped; only so that RLIMIT_NPROC counts this worker alone
            libc.drop_bounding_set()  # the new namespace came with a full one
    limit_resources(plan, limits)
    libc.clear_capabilities()
    libc.prctl(libc.PR_SET_DUMPABLE, 0)


def limit_resources(plan: Plan, limits: dict[str, int | float]) -> None:
    """Every rlimit, hard and soft alike. Also used without a sandbox."""

    def bound(kind: int, value: int) -> None:
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))

    bound(resource.RLIMIT_AS, plan.base_bytes + (int(limits["memory_mb"]) << 20))
    bound(resource.RLIMIT_CPU, int(limits["cpu_seconds"]))
    bound(resource.RLIMIT_FSIZE, max(int(limits["scratch_mb"]), 1) << 20)
    bound(resource.RLIMIT_NOFILE, int(limits["files"]))
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_MEMLOCK, 0)
    bound(resource.RLIMIT_MSGQUEUE, 0)
    bound(resource.RLIMIT_SIGPENDING, 64)
    bound(resource.RLIMIT_NICE, 0)
    bound(resource.RLIMIT_RTPRIO, 0)
    if plan.counts_threads:
        bound(resource.RLIMIT_NPROC, 1 + int(limits["threads"]))


def seal(plan: Plan, limits: dict[str, int | float]) -> None:
    """The last layer; after it the process cannot even take the steps of `confine`."""
    seccomp.install(threads=plan.counts_threads and int(limits["threads"]) > 0)


def _name_scratch() -> None:
    os.environ["HOME"] = os.environ["TMPDIR"] = namespaces.SCRATCH
