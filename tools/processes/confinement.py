"""What a confined process may use, and what this machine can enforce."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kernelagent.errors import EnvironmentFault


@dataclass(frozen=True)
class Confinement:
    """Limits of one process tree; `scratch` is the only place it may write."""

    scratch: Path
    memory_bytes: int = 8 << 30
    cpu_seconds: int = 600
    file_bytes: int = 1 << 30
    processes: int = 256

    @classmethod
    def trusted(cls, scratch: Path) -> Confinement:
        return cls(scratch)


@dataclass(frozen=True)
class SandboxReport:
    tiers: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        return "+".join(self.tiers) or "none"


def probe() -> SandboxReport:
    return SandboxReport(("rlimits",), {})


def require(report: SandboxReport) -> None:
    if report.missing:
        raise EnvironmentFault("the sandbox is not complete: " + ", ".join(report.missing))
