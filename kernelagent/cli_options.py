"""The flags that several commands share, each with its help in one place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelagent.errors import UsageError

Problem = Annotated[
    str,
    typer.Argument(
        help="A Python file with `class Model` and `get_inputs()`, or pkg.mod:Name.",
        show_default=False,
    ),
]
ModuleName = Annotated[str | None, typer.Option("--module", help="The nn.Module to optimize.")]
Inputs = Annotated[str | None, typer.Option(help="Function that returns the example inputs.")]
Init = Annotated[str | None, typer.Option(help="Function that returns the constructor arguments.")]
Check = Annotated[
    str | None,
    typer.Option(help="Your own test fn(output, *inputs), run by the judge in addition."),
]
Device = Annotated[
    str | None, typer.Option(help="auto, cuda, cuda:N or virtual.", show_default="auto")
]
Target = Annotated[
    str | None, typer.Option(help="The GPU that `virtual` stands in for.", show_default="sm_90")
]
Policy = Annotated[
    str | None, typer.Option(help="triton, pure, coverage:X or any.", show_default="triton")
]
BaselineOption = Annotated[
    str | None, typer.Option("--baseline", help="eager, compile or best.", show_default="eager")
]
ModeOption = Annotated[str | None, typer.Option("--mode", help="eval or train.")]
Train = Annotated[bool, typer.Option("--train", help="Short for --mode train.")]
Sandbox = Annotated[str | None, typer.Option(help="auto, require or off.", show_default="auto")]
Tolerance = Annotated[
    float | None, typer.Option(help="An additional bound; loosening is disclosed.")
]
Dynamic = Annotated[
    list[str] | None,
    typer.Option(
        help="A size that changes: an axis of the first input (0), x:1, or x:1=mask:2; repeatable."
    ),
]
Runs = Annotated[
    str | None, typer.Option(help="Where runs are kept.", show_default=".kernelagent/runs")
]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file; flags win over it.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
Run = Annotated[str, typer.Argument(help="A run's id or folder.")]
Strategy = Annotated[str | None, typer.Option(help="How turns are chosen.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="key=value for it.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the strategy.")]
Turns = Annotated[int | None, typer.Option(help="At most this many turns.", min=1)]
Minutes = Annotated[float | None, typer.Option(help="At most this long.")]
DeviceSeconds = Annotated[float | None, typer.Option(help="At most this long on the device.")]
MinSpeedup = Annotated[float | None, typer.Option(help="What counts as faster.")]
Out = Annotated[str | None, typer.Option(help="Where the module is written.")]
Force = Annotated[bool, typer.Option(help="Overwrite; emit despite findings.")]
Resume = Annotated[str | None, typer.Option(help="Go on with this run (id or path).")]
Memory = Annotated[
    str | None,
    typer.Option(help="Lessons of earlier runs: read for each turn, added to at the end."),
]
Prompts = Annotated[
    str | None, typer.Option(help="strong or small: how prompts are worded.", show_default="strong")
]

_OF_A_RUN = (
    *("model", "api_base", "strategy", "seed", "prompts", "turns", "out", "runs"),
    *("budget_usd", "budget_tokens", "budget_minutes", "budget_gpu_seconds"),
    *("min_speedup", "envelope_seconds", "device", "target", "policy", "baseline", "mode"),
    *("sandbox", "rtol", "atol", "dynamic", "memory"),
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
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write key=value")
        found[key] = value
    return found
