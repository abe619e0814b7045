"""What a confined process may use, and what this machine can enforce."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import kernelagent
from kernelagent.domain.errors import EnvironmentFault

ROOT = str(Path(kernelagent.__file__).resolve().parent.parent)
"""The folder to put on the path of a fresh interpreter so that it finds this package."""
_PROBE = (
    "import sys, json, dataclasses; sys.path.insert(0, sys.argv[1]); "
    "from kernelagent.tools.sandbox import mechanisms; found = mechanisms.find(); "
    "print(json.dumps([found.tiers, found.missing]))"
)
_PROBE_S = 60


@dataclass(frozen=True)
class Confinement:
    """Limits of one process tree; `scratch`, which must exist, is the only place it may write."""

    scratch: Path
    memory_bytes: int = 8 << 30
    """Of the whole tree, beyond what it shares with the fork server."""
    cpu_seconds: int = 600
    file_bytes: int = 1 << 30
    """Of one file."""
    scratch_bytes: int = 4 << 30
    """Of all files in scratch."""
    processes: int = 256
    network: bool = False
    readable: tuple[Path, ...] = ()
    """Files and folders it may read besides the interpreter and the system's libraries."""
    runnable: tuple[Path, ...] = ()
    """Folders of programs it may run besides those."""
    devices: tuple[Path, ...] | None = None
    """Device nodes it may use; None: the NVIDIA ones of this machine."""
    forgo: tuple[str, ...] = ()
    """Tiers of the sandbox that it does without, as on a machine that lacks them."""
    sandboxed: bool = True
    """False: a scratch, an environment and descriptors of its own, but no limit and nothing refused."""

    @classmethod
    def trusted(cls, scratch: Path) -> Confinement:
        """For the user's own module: a private scratch and nothing forbidden."""
        return cls(scratch, network=True, sandboxed=False)

    def to_data(self) -> dict[str, Any]:
        """Plain values, for `from_data` in another process."""
        paths = {
            "scratch": str(self.scratch),
            "readable": [str(path) for path in self.readable],
            "runnable": [str(path) for path in self.runnable],
            "devices": None if self.devices is None else [str(path) for path in self.devices],
        }
        return asdict(self) | paths

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Confinement:
        devices = data["devices"]
        paths = {
            "scratch": Path(data["scratch"]),
            "forgo": tuple(data["forgo"]),
            "readable": tuple(Path(path) for path in data["readable"]),
            "runnable": tuple(Path(path) for path in data["runnable"]),
            "devices": None if devices is None else tuple(Path(path) for path in devices),
        }
        return cls(**{**data, **paths})


@dataclass(frozen=True)
class SandboxReport:
    """What this machine enforces on a candidate."""

    tiers: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)
    """By tier, one sentence: what is weaker without it, why it is missing and how to enable it."""

    @property
    def summary(self) -> str:
        """Short, for an evaluation's record; for example `landlock+pidns+netns+seccomp`."""
        return "+".join(tier.replace(" ", "-") for tier in self.tiers) or "none"

    @property
    def open_doors(self) -> tuple[str, ...]:
        """What a candidate could reach here that `--sandbox=require` promises it cannot."""
        has = set(self.tiers)
        closed = (
            ("files outside its scratch", "landlock" in has),
            ("the network", bool({"netns", "seccomp"} & has)),
            ("other processes", bool({"pidns", "signal scope"} & has)),
            ("the kernel's rarer calls", "seccomp" in has),
        )
        return tuple(door for door, is_closed in closed if not is_closed)


@cache
def probe() -> SandboxReport:
    """Try out what this machine can enforce, in a process of its own; raises `EnvironmentFault`."""
    answer = subprocess.run(
        [sys.executable, "-P", "-c", _PROBE, ROOT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PROBE_S,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        check=False,
    )
    if answer.returncode != 0:
        raise EnvironmentFault(
            f"the sandbox could not be tried out: the trial ended with status "
            f"{answer.returncode}: {answer.stderr.strip()[-800:]}"
        )
    tiers, missing = json.loads(answer.stdout)
    return SandboxReport(tuple(tiers), missing)


def require(report: SandboxReport) -> None:
    """Raises `EnvironmentFault` naming what a candidate could reach on this machine."""
    if not report.open_doors:
        return
    advice = "; ".join(report.missing.values())
    raise EnvironmentFault(
        f"--sandbox=require: on this machine a candidate could reach {', '.join(report.open_doors)}."
        f" {advice}. Or accept that with --sandbox=auto"
    )
