"""Arguments and flags that several commands take, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
