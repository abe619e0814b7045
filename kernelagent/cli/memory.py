"""The command `kernelagent memory`: what earlier runs taught, to read, to add to, to forget."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelagent.cli.options import AsJson, Options, takes

memories = typer.Typer()


@memories.command()
@takes("runs")
def memory(
    act: Annotated[str, typer.Argument(help="list, show, learn or forget.")],
    names: Annotated[list[str] | None, typer.Argument(help="Lessons; for learn: runs.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="The folder of lessons.", show_default=".kernelagent/memory"),
    ] = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Read or change the lessons of earlier runs: a folder of TOML files, which you may edit, too.

    Example: kernelagent memory list
    """
    from kernelagent.cli.commands import memory as commands_memory

    status = commands_memory.memory(
        act, names or [], memory, options.flags["runs"], as_json=as_json
    )
    raise typer.Exit(int(status))
