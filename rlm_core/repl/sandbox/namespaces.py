"""Namespaces of the fork server: no network, an own process tree, and a root folder that holds the interpreter only.

Made once, shared by all workers (each adds its own scratch mount). An extra to Landlock and seccomp: where the kernel
or a container refuses them, workers run without, and without a scratch folder.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rlm_core.repl.sandbox import libc

_FLAGS = (
    libc.CLONE_NEWNS
    | libc.CLONE_NEWNET
    | libc.CLONE_NEWIPC
    | libc.CLONE_NEWUTS
    | libc.CLONE_NEWPID
    | libc.CLONE_NEWCGROUP
)
_STATVFS_TO_MOUNT = {1: 1, 2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""ST_RDONLY, NOSUID, NODEV, NOEXEC, NOATIME, NODIRATIME, RELATIME: flags that a user namespace may not clear."""

SCRATCH_PARENT = "/scratch"
SCRATCH = f"{SCRATCH_PARENT}/own"
"""Where a worker's own scratch folder is mounted; Landlock's rule names the folder above, before there is a mount."""
NO_ROOT = "no own root"


def enter() -> None:
    """Unshare everything; as root directly, otherwise in a user namespace of one's own. Raises `OSError`.

    The caller itself stays in its process namespace: its next child becomes the first process of the new one.
    """
    if libc.has_capability(libc.CAP_SYS_ADMIN):
        with contextlib.suppress(OSError):
            libc.unshare(_FLAGS)
            libc.sethostname(b"repl")
            return
    user, group = os.geteuid(), os.getegid()
    libc.unshare(_FLAGS | libc.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    libc.sethostname(b"repl")


def try_out(readable: list[str]) -> str:
    """Do all of this in a process that is thrown away, since a half-made change cannot be undone.

    Returns "" when all works, why not otherwise; that starts with `NO_ROOT` when only the change of root fails.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        message = ""
        try:
            enter()
            try:
                change_root(readable)
            except OSError as error:
                message = f"{NO_ROOT}: {error.strerror or error}"
        except OSError as error:
            message = error.strerror or str(error)
        finally:
            os.write(writing, message.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read().decode()
    os.waitpid(child, 0)
    return message


def change_root(readable: list[str]) -> None:
    """Make a new root that shows only `readable` (read-only, at their own paths), /dev/null and an empty scratch point.

    Nothing else exists for the process and its children afterwards: no /proc, no /etc, no home. Raises `OSError`.
    """
    libc.mount(None, "/", None, libc.MS_REC | libc.MS_PRIVATE)
    # opened first: the new root is mounted over a folder that may hold some of them
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in [*readable, "/dev/null"]}
    base = _mount_point()
    descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_CLOEXEC)
    libc.mount("tmpfs", base, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "size=1m,mode=0755")
    old_umask = os.umask(0o022)
    try:
        for path, descriptor in sources.items():
            target = base + path
            if path == "/dev/null":
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                Path(target).touch()
            else:
                Path(target).mkdir(parents=True, exist_ok=True)
            _bind_read_only(f"/proc/self/fd/{descriptor}", target, keep_device=path == "/dev/null")
            os.close(descriptor)
        Path(base + SCRATCH).mkdir(parents=True)
        for path in readable:
            site = f"{base}{path}/site-packages"
            if Path(site).is_dir():
                libc.mount("tmpfs", site, "tmpfs", libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV, "size=4k,mode=0755")
    finally:
        os.umask(old_umask)
        os.close(descriptors)
    flags = libc.MS_REMOUNT | libc.MS_BIND | libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV
    libc.mount(None, base, None, flags)
    os.chdir(base)
    _pivot_root()
    os.chdir("/")


def mount_scratch(size_mb: int, uid: int, gid: int) -> None:
    """Give the calling process a scratch folder that no other process sees. Raises `OSError`."""
    libc.unshare(libc.CLONE_NEWNS)
    flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    files = 64 + 16 * size_mb
    libc.mount("tmpfs", SCRATCH, "tmpfs", flags, f"size={size_mb}m,nr_inodes={files},mode=0700,uid={uid},gid={gid}")


def _mount_point() -> str:
    for path in ("/tmp", "/mnt", "/var/tmp", "/run", "/srv", "/opt"):
        if Path(path).is_dir():
            return path
    raise OSError(2, "no folder to mount the new root over")


def _bind_read_only(source: str, target: str, *, keep_device: bool) -> None:
    libc.mount(source, target, None, libc.MS_BIND)
    flags = libc.MS_REMOUNT | libc.MS_BIND | libc.MS_NOSUID
    flags |= 0 if keep_device else libc.MS_RDONLY | libc.MS_NODEV
    current = os.statvfs(target).f_flag
    for bit, mount_bit in _STATVFS_TO_MOUNT.items():
        if current & bit:
            flags |= mount_bit
    libc.mount(None, target, None, flags)


def _pivot_root() -> None:
    number = 155 if os.uname().machine == "x86_64" else 41
    libc.syscall(number, b".", b".")
    libc.unmount(".", libc.MNT_DETACH)
