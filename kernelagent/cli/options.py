"""The flags that several commands share, each with its help in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelagent.cli.completion import (
    BASELINES,
    DEVICES,
    MODELS,
    MODES,
    POLICIES,
    PROMPTS,
    RUNTIMES,
    SANDBOXES,
    STRATEGIES,
    TARGETS,
    among,
    listed,
    runs,
)
from kernelagent.domain.errors import UsageError

FIND, WRITE, SEARCH, LIMITS, JUDGING, RESULT, SCREEN = (
    "Your module",
    "Who writes the kernels",
    "How turns are chosen",
    "Limits (default: 20 turns, and 5 dollars with a priced model)",
    "How it is judged",
    "What is written",
    "What you see",
)
"""Panels of `--help`, in the order in which they are thought about."""


def option(
    help_: str,
    panel: str,
    *names: str,
    default: str | None = None,
    values: tuple[str, ...] = (),
    **more: Any,
) -> Any:
    """One option: its help, its panel, its default where that stands in the configuration, its values."""
    if values:
        more["autocompletion"] = among(values)
    return typer.Option(
        *names, help=help_, rich_help_panel=panel, show_default=default or False, **more
    )


def switch(help_: str, panel: str, *names: str) -> Any:
    """An option without a value."""
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar="", show_default=False)


Problem = Annotated[
    str,
    typer.Argument(
        help="A Python file with `class Model` and `get_inputs()`, or pkg.mod:Name.",
        show_default=False,
    ),
]
ModuleName = Annotated[
    str | None, option("The nn.Module to optimize.", FIND, "--module", default="Model")
]
Inputs = Annotated[
    str | None, option("Function that returns the example inputs.", FIND, default="get_inputs")
]
Init = Annotated[
    str | None,
    option("Function that returns the constructor arguments.", FIND, default="get_init_inputs"),
]
Check = Annotated[
    str | None,
    option("Your own test fn(output, *inputs), run by the judge in addition.", FIND),
]
Device = Annotated[
    str | None, option("auto, cuda, cuda:N or virtual.", JUDGING, default="auto", values=DEVICES)
]
Target = Annotated[
    str | None,
    option(
        f"The GPU that `virtual` stands in for: {listed(TARGETS)}.",
        JUDGING,
        default="sm_90",
        values=TARGETS,
    ),
]
Policy = Annotated[
    str | None,
    option("triton, pure, coverage:X or any.", JUDGING, default="triton", values=POLICIES),
]
BaselineOption = Annotated[
    str | None,
    option("eager, compile or best.", JUDGING, "--baseline", default="eager", values=BASELINES),
]
ModeOption = Annotated[
    str | None, option("eval or train.", JUDGING, "--mode", default="eval", values=MODES)
]
Train = Annotated[bool, switch("Short for --mode train.", JUDGING, "--train")]
Sandbox = Annotated[
    str | None, option("auto, require or off.", JUDGING, default="auto", values=SANDBOXES)
]
Tolerance = Annotated[
    float | None, option("An additional bound; loosening is disclosed.", JUDGING, default="none")
]
Dynamic = Annotated[
    list[str] | None,
    option(
        "A size that changes: an axis of the first input (0), x:1, or x:1=mask:2; repeatable.", FIND
    ),
]
MemoryLimit = Annotated[
    str | None,
    option("What judging may take in memory, such as 8G.", LIMITS, default="half of what is free"),
]
Runs = Annotated[str | None, option("Where runs are kept.", RESULT, default=".kernelagent/runs")]
Config = Annotated[
    Path | None,
    option("TOML file; flags win over it.", SCREEN, "--config", default="kernelagent.toml"),
]
AsJson = Annotated[bool, switch("One JSON object on stdout, nothing else.", SCREEN, "--json")]
Quiet = Annotated[bool, switch("No progress: only the last words.", SCREEN, "--quiet", "-q")]
Run = Annotated[str, typer.Argument(help="A run's id or folder.", autocompletion=runs)]
Models = Annotated[
    list[str] | None,
    option(
        "compiler, replay:PATH, files:DIR, vllm:CHECKPOINT or a litellm name; repeatable.",
        WRITE,
        "--model",
        default="compiler",
        values=MODELS,
    ),
]
ApiBase = Annotated[str | None, option("URL of an OpenAI-compatible server.", WRITE)]
Yes = Annotated[bool, switch("Agree that the source is sent.", WRITE, "--yes")]
Strategy = Annotated[
    str | None,
    option(
        f"{listed(STRATEGIES)}.",
        SEARCH,
        default="auto with an LLM, else sequential",
        values=STRATEGIES,
    ),
]
SetOption = Annotated[
    list[str] | None,
    option("An option of the strategy, as key=value; repeatable.", SEARCH, "--set"),
]
Seed = Annotated[int | None, option("Seed of the strategy.", SEARCH, default="0")]
Turns = Annotated[int | None, option("At most this many turns.", LIMITS, min=1)]
Dollars = Annotated[float | None, option("At most this many dollars.", LIMITS)]
Tokens = Annotated[int | None, option("At most this many tokens.", LIMITS)]
Minutes = Annotated[float | None, option("At most this long.", LIMITS)]
DeviceSeconds = Annotated[float | None, option("At most this long on the device.", LIMITS)]
MinSpeedup = Annotated[
    float | None, option("What counts as faster, against the baseline.", JUDGING, default="1.0")
]
EnvelopeSeconds = Annotated[
    float | None,
    option("How long inputs near yours are tried on the winner.", LIMITS, default="10", min=0),
]
Out = Annotated[
    str | None, option("Where the module is written.", RESULT, default="<file>_optimized.py here")
]
Force = Annotated[
    bool,
    switch(
        "Write over a file of your own; write a module with findings all the same.",
        RESULT,
        "--force",
    ),
]
Runtime = Annotated[
    str | None,
    option(
        "inline: the file stands alone; package: it is short and imports kernelagent-runtime.",
        RESULT,
        default="inline",
        values=RUNTIMES,
    ),
]
Resume = Annotated[
    str | None, option("Go on with this run (id or path).", SEARCH, autocompletion=runs)
]
Submodule = Annotated[
    str | None, option("Only this part of a whole model, for example layers.0.mlp.", FIND)
]
Top = Annotated[int | None, option("The parts with most to gain, so many.", FIND, min=1)]
Tui = Annotated[bool, switch("Watch and steer it on one screen.", SCREEN, "--tui")]
Memory = Annotated[
    str | None,
    option("Lessons of earlier runs: read for each turn, added to at the end.", WRITE),
]
Prompts = Annotated[
    str | None,
    option("strong or small: how prompts are worded.", WRITE, default="strong", values=PROMPTS),
]

_OF_A_RUN = (
    *("model", "api_base", "strategy", "seed", "prompts", "turns", "out", "runs"),
    "runtime",
    *("budget_usd", "budget_tokens", "budget_minutes", "budget_gpu_seconds"),
    *("min_speedup", "envelope_seconds", "device", "target", "policy", "baseline", "mode"),
    *("sandbox", "rtol", "atol", "dynamic", "memory", "memory_limit"),
)
_SWITCHES = ("force", "yes")
_NAMES = ("module", "inputs", "init", "check")


def flags_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A command's parameters that are options of a run, as `resolve` takes them; None: not given.

    For `locals()` at the head of a command. Raises `UsageError` on a --set that is no key=value.
    """
    flags = {name: parameters[name] for name in _OF_A_RUN if name in parameters}
    # A switch that is off was not given: the configuration file may have it on.
    flags |= {name: parameters[name] or None for name in _SWITCHES if name in parameters}
    if "set_" in parameters:
        flags["set"] = _pairs(parameters["set_"])
    if parameters.get("train"):
        flags["mode"] = "train"
    return flags


def names_of(parameters: Mapping[str, Any]) -> dict[str, str | None]:
    """How a command was told to find the problem inside its file."""
    return {name: parameters.get(name) for name in _NAMES}


def _pairs(given: list[str] | None) -> dict[str, str] | None:
    """What --set was given; raises `UsageError` on what is no key=value."""
    if given is None:
        return None
    result = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write key=value")
        result[key] = value
    return result
