"""What the judge is asked to be: device, policy, baseline, mode, sandbox, tolerances."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Baseline
from kernelagent.domain.problem import Mode, ProblemSpec

SandboxChoice = Literal["auto", "require", "off"]
DEFAULT_TARGET = "sm_90"


@dataclass(frozen=True)
class JudgeSettings:
    """Everything a verdict depends on but the candidate."""

    problem: ProblemSpec
    device: str = "auto"
    """`auto`, `cuda`, `cuda:N` or `virtual`."""
    target: str = DEFAULT_TARGET
    """What `virtual` stands in for."""
    policy: str = "triton"
    """`triton`, `pure`, `coverage:X` or `any`."""
    baseline: Baseline = "eager"
    mode: Mode = "eval"
    sandbox: SandboxChoice = "auto"
    rtol: float | None = None
    atol: float | None = None
    min_speedup: float = 1.0
    dynamic: tuple[str, ...] = ()
    """Dimensions that change from call to call, as `DynamicDimension.read` has them."""
    memory_limit: str | None = None
    """What all processes of the judge may take together, as `bytes_of` reads it; None: half of what
    is free."""
    judging_seconds: float = 120.0
    """How long judging one candidate may take on `virtual`, whose interpreter is slow."""

    def __post_init__(self) -> None:
        kind, _, index = self.device.partition(":")
        if kind not in {"auto", "cuda", "virtual"} or (index and not index.isdigit()):
            raise UsageError(f"--device {self.device}: use auto, cuda, cuda:N or virtual")
        coverage_floor(self.policy)
        for text in self.dynamic:
            DynamicDimension.read(text)
        if self.memory_limit is not None:
            bytes_of(self.memory_limit)
        if not self.judging_seconds > 0:
            raise UsageError(f"--judging-seconds {self.judging_seconds:g}: write a number above 0")


def bytes_of(text: str) -> int:
    """`4G`, `3.5GB`, `800M` or a number of bytes; raises `UsageError`."""
    result = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if result is None or float(result[1]) == 0:
        raise UsageError(f"--memory-limit {text}: write a size such as 8G or 800M")
    return int(float(result[1]) * 1000 ** " KMGT".index(result[2].upper() or " "))


@dataclass(frozen=True)
class DynamicDimension:
    """One size of the inputs that changes from call to call, in all its places."""

    text: str
    places: tuple[tuple[str | None, int], ...]
    """Argument names (None: the first tensor) and axes."""

    @classmethod
    def read(cls, text: str) -> DynamicDimension:
        """`AXIS`, `argument:AXIS`, or several places joined by `=`; raises `UsageError`."""
        places = []
        for place in text.split("="):
            argument, colon, axis = place.rpartition(":")
            if not axis.removeprefix("-").isdigit() or (colon and not argument):
                raise UsageError(
                    f"--dynamic {text}: write an axis of the first input (0), argument:axis (x:1), "
                    f"or places that change together (x:1=mask:2)"
                )
            places.append((argument or None, int(axis)))
        return cls(text, tuple(places))


def coverage_floor(policy: str) -> float | None:
    """The share of device time that `coverage:X` asks for, None for the other policies."""
    name, _, share = policy.partition(":")
    if name == "coverage":
        try:
            floor = float(share)
        except ValueError:
            floor = -1.0
        if not 0.0 <= floor <= 1.0:
            raise UsageError(f"--policy {policy}: write coverage:X with X between 0 and 1")
        return floor
    if policy not in {"triton", "pure", "any"}:
        raise UsageError(f"--policy {policy}: use triton, pure, coverage:X or any")
    return None
