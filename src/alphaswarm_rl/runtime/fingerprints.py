"""What a run's row pins of code and machine, and what differs from it later."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path

import alphaswarm_rl
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.ledger import RunRow, VersionRow
from alphaswarm_rl.spec import RLExperimentSpec


@cache
def code_fingerprint() -> JsonObject:
    """Package version, git commit where the source lies in a checkout, and a hash of every installed distribution."""
    installed = sorted({f"{dist.metadata['Name'].lower()}=={dist.version}" for dist in distributions()})
    return {
        "version": version("alphaswarm-rl"),
        "git_commit": _git_commit(Path(alphaswarm_rl.__file__).parent),
        "lock_hash": hashlib.sha256("\n".join(installed).encode()).hexdigest(),
    }


def spec_code_fingerprint(spec: RLExperimentSpec) -> JsonObject:
    """The code that a spec runs on: that of the package, and the versions of its components."""
    plugins = plugin_fingerprints()
    return {**code_fingerprint(), "components": spec.component_versions, **({"plugins": plugins} if plugins else {})}


def plugin_fingerprints() -> dict[str, str | None]:
    """The plug-ins of this process by module, with the SHA-256 of their source; null where they have no file."""
    return {module: _source_sha256(sys.modules[module].__file__) for module in catalogue.plugins()}


def _source_sha256(file: str | None) -> str | None:
    """Of a module its file, of a package every Python file below it, by name."""
    if file is None:
        return None
    path = Path(file)
    found = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    digest = hashlib.sha256()
    for each in found:
        digest.update(f"{each.relative_to(path.parent)}\n{hashlib.sha256(each.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _git_commit(folder: Path) -> str | None:
    git = shutil.which("git")
    if git is None or not any((parent / ".git").exists() for parent in folder.parents):
        return None
    commit = _git(git, folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("-dirty" if _git(git, folder, "status", "--porcelain", "--", ".") else "")


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    done = subprocess.run([git, "-C", str(folder), *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() if done.returncode == 0 else None


def machine_fingerprint(device: str) -> JsonObject:
    """CPU, instruction sets, threads and device: what bit-for-bit equality depends on."""
    import torch

    return {
        **processor(),
        "isa": torch.backends.cpu.get_cpu_capability(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "device": device_name(device),
    }


def processor() -> JsonObject:
    """System and CPU, as far as they are known without torch, which takes a second to load."""
    return {
        "system": platform.system(),
        "arch": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def device_name(device: str) -> str:
    """A device that was resolved, with the name of the hardware where it is a GPU."""
    if device != "cuda":
        return device if device == "cpu" else f"{device}: {device}"
    import torch

    return f"{device}: {torch.cuda.get_device_name()}"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def component_drift(version: VersionRow, spec: RLExperimentSpec) -> list[str]:
    """Which components behave differently from when the version was first stored."""
    stored, current = version.component_versions, spec.component_versions
    return [
        f"code differs: {name.partition(':')[2]} {stored[name]} -> {current.get(name, 'gone')}"
        for name in sorted(stored)
        if current.get(name) != stored[name]
    ]


def machine_drift(row: RunRow, spec: RLExperimentSpec) -> list[str]:
    """What differs between the machine and the code a run began with and those it is resumed with."""
    pairs = ((row.machine, machine_fingerprint(row.device)), (row.code_fingerprint, spec_code_fingerprint(spec)))
    return [
        f"resumed with another {name}: {before.get(name)} -> {now[name]}"
        for before, now in pairs
        for name in now
        if before.get(name) != now[name]
    ]
