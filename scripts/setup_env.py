"""Make `.venv/` from a lock: `python3 scripts/setup_env.py [cpu|gpu|control]`. Needs nothing but Python.

A second call with an unchanged lock returns at once.

Torch comes first and everything with `--no-deps`: the lock is complete, so nothing is resolved, and no dependency can
pull in a build of torch for another device.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".lock-sha256"
LOG = VENV / "pip.log"
SAID_EVERY_SECONDS = 15
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # where the configured indexes have no +cpu build
FREE_GIB = {"cpu": 8, "gpu": 25, "control": 2}


def fail(message):
    sys.exit("setup: " + message)


def check_owner():
    """A workspace of `rlm-forge init` shares the project's environment and must not change it."""
    if VENV.is_symlink():
        fail(
            f".venv is the environment of {VENV.resolve().parent}, and was made from other locks than this folder has. "
            "Bring both to the same version (`git pull` here, `make setup` there), or `rm .venv` and `make setup` here"
        )


def check_python():
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        fail(
            "this is Python {}.{} ({}); the locked packages need 3.11 to 3.13. "
            "Name one: make setup PYTHON=python3.11".format(*sys.version_info[:2], sys.executable)
        )


def check_platform(kind):
    if platform.system() != "Linux":
        fail(f"this is {platform.system()}; the sandbox and vLLM need Linux (a container or WSL2 will do)")
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        fail(f"the processor is {machine}; vLLM and torch have builds for x86_64 and aarch64 only")
    cpuinfo = Path("/proc/cpuinfo")
    if kind == "cpu" and machine == "x86_64" and cpuinfo.exists() and "avx2" not in cpuinfo.read_text():
        fail("this processor has no AVX2, which vLLM's CPU build needs; use a newer machine or the gpu lock")


def check_disk(kind):
    free = shutil.disk_usage(str(ROOT)).free / 2**30
    if free < FREE_GIB[kind]:
        fail(
            f"{free:.1f} GiB are free under {ROOT}; the environment and its downloads need {FREE_GIB[kind]}. "
            "Free some space, or clone to a larger disk"
        )


def pip(*arguments, packages=0):
    """The exit code; what pip says goes to `.venv/pip.log`. Of many `packages`, tells how far it is."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--disable-pip-version-check"]
    return watched(command + list(arguments), LOG, packages, SAID_EVERY_SECONDS)


def watched(command, log, packages, seconds):
    """Runs `command` with its output in the file `log`, and says every `seconds` what the log tells."""
    environment = dict(os.environ, PIP_NO_INPUT="1", PIP_PROGRESS_BAR="off")
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    return process.wait(timeout=seconds)
                except subprocess.TimeoutExpired:
                    if packages:
                        print("setup: " + progress(log.read_text(errors="replace"), packages), flush=True)
        finally:
            process.kill()


def progress(said, packages):
    """How far pip is, from what it said."""
    if "Installing collected packages" in said:
        return f"all {packages} packages are here; installing them"
    return f"{said.count('Collecting ') + said.count('already satisfied')} of {packages} packages are here"


def must(code, what):
    if code != 0:
        said = [line for line in LOG.read_text(errors="replace").splitlines() if not line.startswith(("Coll", "  "))]
        fail(f"could not install {what}; pip said ({LOG.relative_to(ROOT)} has all of it):\n" + "\n".join(said[-12:]))


def install(kind):
    lock = ROOT / "requirements" / (kind + ".txt")
    lines = [line.strip() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
    torch = [line for line in lines if line.startswith("torch==")]
    rest = VENV / "rest.txt"
    rest.write_text("\n".join(line for line in lines if line not in torch) + "\n")

    if torch:
        print(f"setup: {torch[0]} (once; all of it takes some minutes)", flush=True)
        code = pip(*torch)
        if code != 0 and "+cpu" in torch[0]:
            code = pip("--index-url", TORCH_CPU_INDEX, *torch)
        must(code, torch[0])
    more = len(lines) - len(torch)
    print(f"setup: {more} packages more", flush=True)
    must(pip("-r", str(rest), packages=more), f"the packages of {lock.relative_to(ROOT)}")
    rest.unlink()


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if kind not in FREE_GIB:
        fail(f"unknown environment {kind!r}; say one of: " + ", ".join(FREE_GIB))
    lock = ROOT / "requirements" / (kind + ".txt")
    digest = hashlib.sha256(lock.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == digest and (VENV / "bin" / "rlm-forge").exists():
        return
    check_owner()
    check_python()
    check_platform(kind)
    check_disk(kind)
    STAMP.unlink(missing_ok=True)
    if not (VENV / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    install(kind)
    must(pip("--no-build-isolation", "--editable", str(ROOT)), "the project itself")
    STAMP.write_text(digest)
    print("setup: done; `source .venv/bin/activate` puts rlm-forge, dvc and mlflow on your path", flush=True)


if __name__ == "__main__":
    main()
