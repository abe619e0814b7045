"""The configuration of a run, resolved once: defaults, then a TOML file, then flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import msgspec

from kernelagent.domain.budget import DEFAULT_DOLLARS, DEFAULT_TURNS, Budget
from kernelagent.domain.errors import UsageError
from kernelagent.domain.judge_settings import DEFAULT_TARGET, SandboxChoice
from kernelagent.domain.model_options import COMPILER, Style, VllmOptions
from kernelagent.domain.rewards import RewardWeights
from kernelagent.domain.serialization import from_data

RUNS = ".kernelagent/runs"


@dataclass(frozen=True)
class RunConfig:
    """Every option of `optimize` and `evaluate`; the same names stand in the TOML file."""

    device: str = "auto"
    target: str = DEFAULT_TARGET
    policy: str = "triton"
    baseline: str = "eager"
    mode: str = "eval"
    sandbox: SandboxChoice = "auto"
    rtol: float | None = None
    atol: float | None = None
    dynamic: tuple[str, ...] = ()
    memory_limit: str | None = None
    """What the judge's processes may take together, `8G`; None: half of what is free."""
    runs: str = RUNS
    model: tuple[str, ...] = (COMPILER,)
    api_base: str | None = None
    strategy: str | None = None
    """None: `auto` with an LLM, else `sequential`."""
    set: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    prompts: Style = "strong"
    """`small`: shorter sentences and a worked example, for models that need them."""
    turns: int | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    budget_minutes: float | None = None
    budget_gpu_seconds: float | None = None
    min_speedup: float = 1.0
    envelope_seconds: float = 10.0
    """How long neighbouring inputs of the winner are tried."""
    out: str | None = None
    runtime: Literal["inline", "package"] = "inline"
    """Whether the emitted file carries its drop-in or asks the package kernelagent-runtime for it."""
    force: bool = False
    yes: bool = False
    memory: str | None = None
    """The folder of lessons that is read for every turn and learns at the end; None: no memory."""
    learn: bool = True
    """False: the memory is read and stays as it is."""
    reward: RewardWeights = field(default_factory=RewardWeights)
    vllm: VllmOptions = field(default_factory=VllmOptions)

    @property
    def budget(self) -> Budget:
        """The limits; when none is given, 20 turns and 5 dollars."""
        given = (
            self.turns,
            self.budget_usd,
            self.budget_tokens,
            self.budget_minutes,
            self.budget_gpu_seconds,
        )
        if all(limit is None for limit in given):
            return Budget(turns=DEFAULT_TURNS, dollars=DEFAULT_DOLLARS)
        return Budget(
            turns=self.turns,
            dollars=self.budget_usd,
            tokens=self.budget_tokens,
            minutes=self.budget_minutes,
            device_seconds=self.budget_gpu_seconds,
        )


def resolve(flags: Mapping[str, Any], config_file: Path | None = None) -> RunConfig:
    """Flags that were given (not None) win over the file; raises `UsageError` on what does not fit."""
    values = _from_file(config_file)
    values |= {key: value for key, value in flags.items() if value is not None}
    try:
        return from_data(values, RunConfig)
    except msgspec.ValidationError as error:
        raise UsageError(f"the configuration does not fit: {error}") from error


def _from_file(given: Path | None) -> dict[str, Any]:
    if given is not None:
        return _checked(_read(given), given)
    own = Path("kernelagent.toml")
    if own.is_file():
        return _checked(_read(own), own)
    shared = Path("pyproject.toml")
    if shared.is_file():
        return _checked(_read(shared).get("tool", {}).get("kernelagent", {}), shared)
    return {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the configuration {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the configuration {path} is not TOML: {error}") from error


def _checked(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    known = {f.name for f in fields(RunConfig)}
    renamed = {key.replace("-", "_"): value for key, value in values.items()}
    unknown = sorted(set(renamed) - known)
    if unknown:
        raise UsageError(
            f"{path} sets {', '.join(unknown)}, which is no option; options: "
            f"{', '.join(sorted(known))}"
        )
    if isinstance(renamed.get("model"), str):
        renamed["model"] = [renamed["model"]]
    return renamed
