"""What holds on this machine, for people: the layers, what each stops, and how to get one that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


class SandboxUnavailable(RuntimeError):
    """The machine cannot confine model-written code; the message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    active: bool
    required: bool
    stops: str
    remedy: str
    """What to do where it is missing."""
    detail: str = ""
    """Its version, or why it is off."""


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """The result of starting a real worker and letting it try what should be refused."""

    layers: tuple[Layer, ...]
    checks: Mapping[str, bool]
    """Each thing tried, and whether it went as it should: forbidden things refused, allowed things working."""
    error: str = ""
    """Why no worker could be started at all; empty otherwise."""

    @property
    def full(self) -> bool:
        """Every required layer is on and nothing that was tried got through."""
        return not self.error and all(x.active for x in self.layers if x.required) and not self.failed_checks

    @property
    def failed_checks(self) -> list[str]:
        return [name for name, passed in self.checks.items() if not passed]

    def explain(self) -> str:
        """For `SandboxUnavailable`: what is missing and what to do."""
        rows = ["model-written code cannot be confined on this machine:"]
        rows += [f"- {x.name} is missing. {x.remedy}" for x in self.layers if x.required and not x.active]
        rows += [f"- a worker was not stopped when it tried: {name}" for name in self.failed_checks]
        if self.error:
            rows.append(f"- {self.error}")
        rows.append("To run it unprotected all the same, set repl.sandbox: none (a warning is logged on every open).")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        layers = [{name: getattr(x, name) for name in Layer.__slots__} for x in self.layers]
        return {"layers": layers, "checks": dict(self.checks), "error": self.error}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        layers = tuple(Layer(**layer) for layer in row["layers"])
        return cls(layers, dict(row["checks"]), row.get("error", ""))


def describe(*, landlock_abi: int, seccomp: bool, namespaces: str, own_root: bool, own_user: bool) -> list[Layer]:
    """The layers of a plan. `namespaces` is empty when they are on, else why not."""
    kernel = "Use Linux 5.13 or newer"
    container = "; in a container, use a runtime whose seccomp profile allows the landlock_* calls (Docker >= 20.10.10)"
    return [
        Layer(
            "landlock", landlock_abi > 0, True,
            "opening any file but the interpreter's own libraries, writing outside the scratch folder"
            + (", signals to others" if landlock_abi >= 6 else ""),
            f"{kernel} with 'landlock' in the boot parameter lsm={container}.",
            f"ABI {landlock_abi}" if landlock_abi else "",
        ),
        Layer(
            "seccomp", seccomp, True,
            "sockets of every family, new processes, other programs, ptrace and memory of others, signals to others, "
            "mounts, keys, bpf, io_uring, changes of owner and mode, and every call not on an allow-list",
            "Use an x86_64 or aarch64 kernel with CONFIG_SECCOMP_FILTER.",
        ),
        Layer(
            "rlimits", True, True,
            "memory, processor time, open files, file size" + (", threads" if own_user else "; threads are refused"),
            "Every supported kernel has them.",
        ),
        Layer(
            "namespaces", not namespaces, False,
            "seeing network devices, processes, hostname and IPC of the machine; workers die with the fork server",
            "Allow user namespaces: sysctl user.max_user_namespaces > 0 and, on Ubuntu >= 23.10, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in Docker, --security-opt seccomp=unconfined.",
            namespaces,
        ),
        Layer(
            "own root", own_root, False,
            "seeing that a file exists at all: there is no /proc, /etc or home; gives the scratch folder its size limit",
            "Needs the namespaces above; without them there is no scratch folder, so nothing is writable.",
        ),
        Layer(
            "own user", own_user, False,
            "counting another worker's threads as one's own, owning any file; root's powers where the host is root",
            "Needs root with CAP_SETUID or the namespaces above; without it threads are refused.",
        ),
    ]  # fmt: skip
