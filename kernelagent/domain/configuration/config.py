"""The configuration of a run, resolved once: defaults, then a TOML file, then flags."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kernelagent.domain.configuration.budget import BudgetOptions
from kernelagent.domain.configuration.judge_settings import JudgeOptions
from kernelagent.domain.configuration.model_options import COMPILER, STYLES, VllmOptions
from kernelagent.domain.configuration.options import (
    LIMITS,
    OUTPUT,
    SEARCH,
    WRITER,
    Option,
    listed,
    options_of,
)
from kernelagent.domain.errors import UsageError
from kernelagent.domain.rewards import RewardWeights
from kernelagent.domain.serialization import from_data

RUNS = ".kernelagent/runs"
STRATEGIES = ("auto", "sequential", "window", "best-of-n", "chains", "tree", "bandit")


@dataclass(frozen=True)
class RunConfig(JudgeOptions, BudgetOptions):
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
    prompts: Annotated[
        str,
        Option(
            "How prompts are worded: strong, small, or a folder with your templates.",
            WRITER,
            STYLES,
        ),
    ] = "strong"
    memory: Annotated[
        str | None,
        Option("Lessons of earlier runs: read for each turn, added to at the end.", WRITER),
    ] = None
    learn: bool = True
    """False: the memory is read and stays as it is."""
    envelope_seconds: Annotated[
        float,
        Option("How long inputs near yours are tried on the winner.", LIMITS, shown="10", least=0),
    ] = 10.0
    tool_calls: Annotated[
        int,
        Option(
            "How often a writer may call a tool before each turn; 0: no tools.", LIMITS, least=0
        ),
    ] = 8
    tool_seconds: Annotated[
        float,
        Option("How long those calls may take together.", LIMITS, shown="180", least=0),
    ] = 180.0
    stop_at_headroom: Annotated[
        float,
        Option(
            "End once at most this share of a turn's time is left to gain, such as 0.05; 0: never.",
            LIMITS,
            shown="0",
            least=0,
            most=1,
        ),
    ] = 0.0
    candidates: Annotated[
        int,
        Option(
            "How many files a reply may hold; each gets a look, and the best is judged.",
            WRITER,
            shown="1",
            least=1,
        ),
    ] = 1
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
    runs: Annotated[str, Option("Where runs are kept.", OUTPUT)] = RUNS
    reward: RewardWeights = field(default_factory=RewardWeights)
    vllm: VllmOptions = field(default_factory=VllmOptions)


def resolve(flags: Mapping[str, Any], config_file: Path | None = None) -> RunConfig:
    """Flags that were given (not None) win over the file; raises `UsageError` on what does not fit."""
    values = _from_file(config_file)
    values |= {key: value for key, value in flags.items() if value is not None}
    try:
        config = from_data(values, RunConfig)
    except msgspec.ValidationError as error:
        raise why_unfit(error) from error
    for name, option in options_of(RunConfig).items():
        value, least = getattr(config, name), option.option.least
        if least is not None and isinstance(value, int | float) and value < least:
            raise UsageError(f"{option.flag}: {value:g} is less than {least:g}, the least it takes")
        most = option.option.most
        if most is not None and isinstance(value, int | float) and value > most:
            raise UsageError(f"{option.flag}: {value:g} is more than {most:g}, the most it takes")
    return config


def why_unfit(error: msgspec.ValidationError) -> UsageError:
    """The error for a value that is none of its option's."""
    what, _, where = str(error).partition(" - at ")
    option = options_of(RunConfig).get(where.strip("`").removeprefix("$."))
    if option is None:
        return UsageError(f"the configuration does not fit: {error}")
    return UsageError(f"{option.flag}: {what}; `kernelagent optimize --help` has its values")


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
