"""The fork server: a warm, single-threaded interpreter that forks a confined worker in a few milliseconds.

Started by `bootstrap`, with a clean environment, no site-packages and no descriptor but its control socket.
It ends, and every worker with it, when the host process ends in whatever way: it watches the host's pidfd and the
control socket, workers carry a parent-death signal, and with namespaces it is the first process of its own.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from rlm_core.papers.tools import make_tools
from rlm_core.repl import wire
from rlm_core.repl.sandbox import confine, landlock, libc, namespaces, report, seccomp, selftest
from rlm_core.repl.worker import main

_REQUEST_BYTES = 4096


class Zygote:
    """Serves fork requests until the host is gone."""

    def __init__(self, control: socket.socket, host: int, *, sandbox: bool, without: frozenset[str]) -> None:
        self._control, self._host = control, host
        self._sandbox, self._without = sandbox, without
        self._plan = confine.Plan()
        self._workers: dict[int, tuple[socket.socket, str | None]] = {}
        self._serial = int.from_bytes(os.urandom(2), "little")
        """Picks a worker's user id; started anywhere, so that two hosts on a machine rarely share ids."""
        self._namespaces_error = ""

    def plan(self) -> None:
        """Find out which layers this machine gives, enter the namespaces, open the Landlock rules."""
        plan, without = self._plan, self._without
        plan.base_bytes = address_space()
        if not self._sandbox:
            return
        plan.landlock_abi = 0 if "landlock" in without else landlock.abi()
        plan.seccomp = seccomp.supported() and "seccomp" not in without
        plan.readable = readable_folders()
        self._enter_namespaces()
        if "own user" in without:
            plan.first_uid = None
        if plan.first_uid is not None and not plan.own_root and not world_readable(plan.readable):
            plan.first_uid = None  # an unprivileged user could not even import the standard library
        if plan.landlock_abi:
            rules = [(path, landlock.READ) for path in plan.readable] + [("/dev/null", landlock.READ_WRITE_FILE)]
            if plan.own_root:
                rules.append((namespaces.SCRATCH_PARENT, landlock.SCRATCH))
            plan.ruleset = landlock.make_ruleset(plan.landlock_abi, rules)
        if plan.seccomp:
            seccomp.prepare()
        libc.drop_bounding_set()  # once for all workers; what this process may do itself stays

    def _enter_namespaces(self) -> None:
        plan = self._plan
        self._namespaces_error = "switched off" if "namespaces" in self._without else namespaces.try_out(plan.readable)
        if not self._namespaces_error or self._namespaces_error.startswith(namespaces.NO_ROOT):
            namespaces.enter()
            plan.namespaces = True
            self._become_first_process()
        plan.first_uid = confine.user_ids()
        if not self._namespaces_error and "own root" not in self._without:
            namespaces.change_root(plan.readable)
            plan.own_root = True

    def _become_first_process(self) -> None:
        """Fork into the new process namespace; the outer process only waits, and passes the end on."""
        outer = os.pidfd_open(os.getpid())
        child = os.fork()
        if child:
            self._control.close()
            os.close(self._host)
            os.close(outer)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
            os._exit(0)
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        poll = select.poll()
        poll.register(outer, select.POLLIN)
        if poll.poll(0):
            os._exit(0)
        os.close(outer)

    def report(self) -> dict[str, Any]:
        """The plan in words, and what a real worker found when it tried what should be refused."""
        plan = self._plan
        checks, error = self._self_test() if plan.sandboxed else ({}, "")
        layers = report.describe(
            landlock_abi=plan.landlock_abi,
            seccomp=plan.seccomp,
            namespaces="" if plan.namespaces else (self._namespaces_error or "not tried"),
            own_root=plan.own_root,
            own_user=plan.counts_threads,
        )
        return report.SandboxReport(tuple(layers), checks, error).to_dict()

    def _self_test(self) -> tuple[dict[str, bool], str]:
        limits: dict[str, int | float] = {
            "memory_mb": 128, "cpu_seconds": 30, "files": 64, "scratch_mb": 1, "threads": 4
        }  # fmt: skip
        reading, writing = os.pipe()
        me = os.pidfd_open(os.getpid())
        child = os.fork()
        if child == 0:
            outcome: dict[str, Any]
            try:
                main.prepare(limits, self._serial, self._plan, me)
                confine.seal(self._plan, limits)
                outcome = {
                    "checks": selftest.run(
                        scratch_mb=1 if self._plan.own_root else 0,
                        threads=4 if self._plan.counts_threads else 0,
                        memory_mb=128,
                        stdlib=self._plan.readable[0],
                    )
                }
            except BaseException as error:  # noqa: BLE001 - reported, and the process ends here
                outcome = {"error": f"the self-test of a worker failed: {type(error).__name__}: {error}"}
            os.write(writing, json.dumps(outcome).encode())
            os._exit(0)
        os.close(writing)
        os.close(me)
        self._serial += 1
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        if not text:
            return {}, f"the self-test of a worker ended with wait status {status}"
        outcome = json.loads(text)
        return outcome.get("checks", {}), outcome.get("error", "")

    def serve(self) -> NoReturn:
        """Fork a worker for each request; say how each ended on its own channel. Ends with the host."""
        wake_reading, wake_writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writing, warn_on_full_buffer=False)
        poll = select.poll()
        for descriptor in (self._control.fileno(), self._host, wake_reading):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        me = os.pidfd_open(os.getpid())
        gc.collect()
        gc.disable()
        gc.freeze()  # keeps the collector of a worker from touching, and so copying, what it shares with the others
        try:
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if self._host in ready:
                    break
                if wake_reading in ready:
                    with contextlib.suppress(OSError):
                        os.read(wake_reading, 4096)
                    self._reap()
                if self._control.fileno() in ready and not self._accept(me):
                    break
        finally:
            for pid in self._workers:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
            for _, folder in self._workers.values():
                if folder:
                    shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)

    def _accept(self, me: int) -> bool:
        """Serve one request; False when the host has hung up."""
        try:
            text, rights, _, _ = self._control.recvmsg(_REQUEST_BYTES, socket.CMSG_SPACE(2 * array.array("i").itemsize))
        except OSError:
            return False
        if not text:
            return False
        descriptors = array.array("i")
        for _, _, data in rights:
            descriptors.frombytes(data)
        if len(descriptors) < 2:  # no free number for them here; the host sees its channel close
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        channel, context = descriptors
        request = json.loads(text)
        folder = None if self._sandbox else tempfile.mkdtemp(prefix="rlm-repl-")
        self._serial += 1
        try:
            pid = os.fork()
        except OSError:
            os.close(channel)
            os.close(context)
            return True
        if pid == 0:
            if folder:
                os.chdir(folder)
            main.main(
                channel=channel,
                context=context,
                parent=me,
                limits=request["limits"],
                serial=self._serial,
                plan=self._plan,
                make_tools=make_tools,
            )
        os.close(context)
        self._workers[pid] = (socket.socket(fileno=channel), folder)
        return True

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            pid = ended.si_pid
            channel, folder = self._workers.pop(pid, (None, None))
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # its number cannot be another's before it is waited for
            _, status = os.waitpid(pid, 0)
            if channel is not None:
                with contextlib.suppress(OSError):
                    channel.send(wire.TRAILER.pack(wire.TRAILER_MAGIC, status), socket.MSG_DONTWAIT)
                channel.close()
            if folder:
                shutil.rmtree(folder, ignore_errors=True)


def address_space() -> int:
    """Bytes mapped by this process."""
    with open("/proc/self/statm") as text:
        return int(text.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def readable_folders() -> list[str]:
    """The standard library first, then every folder that a mapped library came from, then time zones."""
    stdlib = str(Path(os.__file__).resolve().parent)
    folders = [stdlib]
    with open("/proc/self/maps") as lines:
        files = {line.split(maxsplit=5)[5].strip() for line in lines if ".so" in line and "/" in line}
    folders += sorted({str(Path(name).resolve().parent) for name in files if Path(name).is_file()})
    folders += [p for p in ("/usr/share/zoneinfo",) if Path(p).is_dir()]
    kept: list[str] = []
    for folder in folders:
        if not any(folder == k or folder.startswith(k + "/") for k in kept):
            kept.append(folder)
    return kept


def world_readable(folders: list[str]) -> bool:
    """Whether any user may reach each of the folders."""
    return all(
        step.stat().st_mode & 0o005 == 0o005 for folder in folders for step in (Path(folder), *Path(folder).parents)
    )


def raise_file_limit() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def start(argument: str) -> NoReturn:
    """`argument` is JSON: control (descriptor), host (process id), sandbox, without (layers to leave out)."""
    options = json.loads(argument)
    control = socket.socket(fileno=options["control"])
    try:
        host = os.pidfd_open(options["host"])
    except OSError:
        host = -1
    raise_file_limit()
    zygote = Zygote(control, host, sandbox=options["sandbox"], without=frozenset(options["without"]))
    zygote.plan()
    text = json.dumps(zygote.report()).encode()
    control.sendall(struct.pack("<I", len(text)) + text)
    del sys.path[0]  # the project's folder, which `bootstrap` put there and workers cannot read
    zygote.serve()
