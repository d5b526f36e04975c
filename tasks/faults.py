"""What stops a stage and is no fault of its code: a full disk, a folder it may not write, a damaged file; put as what to do."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from rlm_core.files import DamagedFile

_AGAIN = "run again: what is finished is kept"
_REMEDIES = {
    errno.ENOSPC: f"make room, then {_AGAIN}",
    errno.EDQUOT: f"your quota is used up: make room or have it raised, then {_AGAIN}",
    errno.EFBIG: f"raise the limit on a file's size (`ulimit -f`), then {_AGAIN}",
    errno.EROFS: "the file system is read-only: mount it for writing, or work in another folder",
    errno.EACCES: "give this user the right to read and write it",
    errno.EPERM: "give this user the right to read and write it",
    errno.EIO: "the disk fails: look at the system's log, and copy what you need",
    errno.EMFILE: f"raise the limit on open files (`ulimit -n`), then {_AGAIN}",
    errno.ENFILE: f"too many files are open on this machine: end other programs, then {_AGAIN}",
}


def fault_of(error: BaseException) -> str | None:
    """What, where and what to do, if the machine or a file is at the root of an error; None where the code may be."""
    for cause in _chain(error):
        if isinstance(cause, DamagedFile):
            return str(cause)
        if isinstance(cause, OSError) and (remedy := _REMEDIES.get(cause.errno or 0)):
            return _say(str(cause.strerror), cause.filename, cause.errno, remedy)
        # libraries in other languages hand on the text alone
        if "No space left on device" in str(cause):
            return _say("No space left on device", None, errno.ENOSPC, _REMEDIES[errno.ENOSPC])
    return None


def _say(what: str, filename: object, number: int | None, remedy: str) -> str:
    place = Path(filename) if isinstance(filename, str) else Path.cwd()
    free = f" ({_free_mib(place)} MiB are free there)" if number in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"{place}: {what}{free}; {remedy}"


def _free_mib(place: Path) -> int:
    there = next((p for p in (place.absolute(), *place.absolute().parents) if p.exists()), Path("/"))
    return int(shutil.disk_usage(there).free // 2**20)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, the latest first."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
