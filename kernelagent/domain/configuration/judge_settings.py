"""What the judge is asked to be: device, policy, baseline, mode, sandbox, tolerances."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from kernelagent.domain.configuration.options import JUDGING, LIMITS, PROBLEM, Option, listed
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Baseline
from kernelagent.domain.problem import Mode, ProblemSpec

SandboxChoice = Literal["auto", "require", "off"]
DEFAULT_TARGET = "sm_90"
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
GPUS = tuple(
    "h200 h100 h100-pcie h100-nvl h20 gh200 a100 a100-pcie a100-40 a30 rtx-3090-ti rtx-3090 rtx-a6000 "
    "a40 a10g a10 rtx-4090 l40s l40 l4 b200 rtx-5090 t4".split()
)
"""Those with a row in `tools/virtual/cost/gpus.toml`, as `--target` takes them."""
LAST_JUDGING = 2
"""A winner that is judged again may take so many times a turn's judging: it makes nearly twice the calls."""


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """What a verdict depends on beside problem and candidate: options of a run, and the judge's own."""

    device: Annotated[
        str,
        Option("auto, cuda, cuda:N or virtual.", JUDGING, ("auto", "cuda", "cuda:0", "virtual")),
    ] = "auto"
    target: Annotated[
        str,
        Option(
            f"The GPU that `virtual` stands in for: {', '.join(GPUS)}; or its architecture: "
            f"{listed(TARGETS)}.",
            JUDGING,
            (*GPUS, *TARGETS),
        ),
    ] = DEFAULT_TARGET
    policy: Annotated[
        str,
        Option(
            "triton, pure, coverage:X or any.",
            JUDGING,
            ("triton", "pure", "coverage:0.8", "any"),
        ),
    ] = "triton"
    baseline: Annotated[Baseline, Option("eager, compile or best.", JUDGING)] = "eager"
    mode: Annotated[
        Mode,
        Option("eval or train.", JUDGING, shorthand=("train", "Short for --mode train.")),
    ] = "eval"
    sandbox: Annotated[SandboxChoice, Option("auto, require or off.", JUDGING)] = "auto"
    rtol: Annotated[
        float | None,
        Option("An additional bound; loosening is disclosed.", JUDGING, shown="none"),
    ] = None
    atol: Annotated[
        float | None,
        Option("An additional bound; loosening is disclosed.", JUDGING, shown="none"),
    ] = None
    min_speedup: Annotated[
        float, Option("What counts as faster, against the baseline.", JUDGING)
    ] = 1.0
    dynamic: Annotated[
        tuple[str, ...],
        Option(
            "A size that changes: an axis of the first input (0), x:1, or x:1=mask:2; repeatable.",
            PROBLEM,
        ),
    ] = ()
    """As `DynamicDimension.read` has them."""
    memory_limit: Annotated[
        str | None,
        Option(
            "What judging may take in memory, such as 8G.", LIMITS, shown="half of what is free"
        ),
    ] = None
    """Of all processes of the judge together, as `bytes_of` reads it."""
    judging_seconds: Annotated[
        float,
        Option(
            "How long judging one candidate may take on `virtual`, up to 4 times as long where others keep the machine busy; the winner, judged again, twice as long.",
            LIMITS,
            least=1,
        ),
    ] = 120.0
    """The interpreter of `virtual` is slow."""


@dataclass(frozen=True)
class JudgeSettings(JudgeOptions):
    """Everything a verdict depends on but the candidate."""

    problem: ProblemSpec

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
