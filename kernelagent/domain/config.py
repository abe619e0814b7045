"""The configuration of a run, resolved once: defaults, then a TOML file, then flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from kernelagent.domain.budget import DEFAULT_DOLLARS, DEFAULT_TURNS, Budget
from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Baseline
from kernelagent.domain.judge_settings import DEFAULT_TARGET, SandboxChoice
from kernelagent.domain.model_options import COMPILER, Style, VllmOptions
from kernelagent.domain.options import (
    JUDGING,
    LIMITS,
    OUTPUT,
    PROBLEM,
    SEARCH,
    WRITER,
    Option,
    listed,
)
from kernelagent.domain.problem import Mode
from kernelagent.domain.rewards import RewardWeights
from kernelagent.domain.serialization import from_data

RUNS = ".kernelagent/runs"
STRATEGIES = ("auto", "sequential", "window", "best-of-n", "chains", "tree", "bandit")
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@dataclass(frozen=True)
class RunConfig:
    """Every option of a run; the same names stand in the TOML file, and with dashes on the command line.

    A field with an `Option` is a flag of `kernelagent optimize`; one without is set in the file only.
    """

    model: Annotated[
        tuple[str, ...],
        Option(
            "compiler, replay:PATH, files:DIR, vllm:CHECKPOINT or a litellm name; repeatable.",
            WRITER,
            (COMPILER, "replay:", "files:", "vllm:", "openai/", "anthropic/", "gemini/"),
        ),
    ] = (COMPILER,)
    api_base: Annotated[str | None, Option("URL of an OpenAI-compatible server.", WRITER)] = None
    strategy: Annotated[
        str | None,
        Option(
            f"{listed(STRATEGIES)}.", SEARCH, STRATEGIES, shown="auto with an LLM, else sequential"
        ),
    ] = None
    set: Annotated[
        dict[str, str], Option("An option of the strategy, as key=value; repeatable.", SEARCH)
    ] = field(default_factory=dict)
    seed: Annotated[int, Option("Seed of the strategy.", SEARCH)] = 0
    prompts: Annotated[Style, Option("strong or small: how prompts are worded.", WRITER)] = "strong"
    memory: Annotated[
        str | None,
        Option("Lessons of earlier runs: read for each turn, added to at the end.", WRITER),
    ] = None
    learn: bool = True
    """False: the memory is read and stays as it is."""
    turns: Annotated[int | None, Option("At most this many turns.", LIMITS, least=1)] = None
    budget_usd: Annotated[float | None, Option("At most this many dollars.", LIMITS)] = None
    budget_tokens: Annotated[int | None, Option("At most this many tokens.", LIMITS)] = None
    budget_minutes: Annotated[float | None, Option("At most this long.", LIMITS)] = None
    budget_gpu_seconds: Annotated[
        float | None, Option("At most this long on the device.", LIMITS)
    ] = None
    min_speedup: Annotated[
        float, Option("What counts as faster, against the baseline.", JUDGING)
    ] = 1.0
    envelope_seconds: Annotated[
        float,
        Option("How long inputs near yours are tried on the winner.", LIMITS, shown="10", least=0),
    ] = 10.0
    out: Annotated[
        str | None,
        Option("Where the module is written.", OUTPUT, shown="<file>_optimized.py here"),
    ] = None
    runtime: Annotated[
        Literal["inline", "package"],
        Option(
            "inline: the file stands alone; package: it is short and imports kernelagent-runtime.",
            OUTPUT,
        ),
    ] = "inline"
    force: Annotated[
        bool,
        Option("Write over a file of your own; write a module with findings all the same.", OUTPUT),
    ] = False
    yes: Annotated[bool, Option("Agree that the source is sent.", WRITER)] = False
    device: Annotated[
        str,
        Option("auto, cuda, cuda:N or virtual.", JUDGING, ("auto", "cuda", "cuda:0", "virtual")),
    ] = "auto"
    target: Annotated[
        str,
        Option(f"The GPU that `virtual` stands in for: {listed(TARGETS)}.", JUDGING, TARGETS),
    ] = DEFAULT_TARGET
    memory_limit: Annotated[
        str | None,
        Option(
            "What judging may take in memory, such as 8G.", LIMITS, shown="half of what is free"
        ),
    ] = None
    policy: Annotated[
        str,
        Option(
            "triton, pure, coverage:X or any.",
            JUDGING,
            ("triton", "pure", "coverage:0.8", "any"),
        ),
    ] = "triton"
    baseline: Annotated[str, Option("eager, compile or best.", JUDGING, get_args(Baseline))] = (
        "eager"
    )
    mode: Annotated[
        str,
        Option(
            "eval or train.",
            JUDGING,
            get_args(Mode),
            shorthand=("train", "Short for --mode train."),
        ),
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
    dynamic: Annotated[
        tuple[str, ...],
        Option(
            "A size that changes: an axis of the first input (0), x:1, or x:1=mask:2; repeatable.",
            PROBLEM,
        ),
    ] = ()
    runs: Annotated[str, Option("Where runs are kept.", OUTPUT)] = RUNS
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
