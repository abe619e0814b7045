"""The commands for authors other than an API: `mcp`, `prompt`, `record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelagent.cli.options import (
    NAMES,
    AsJson,
    Config,
    Options,
    Resume,
    Run,
    every_option_but,
    takes,
)

agents = typer.Typer()


@agents.command()
@takes(
    *every_option_but(
        *("model", "api_base", "memory", "budget_usd", "budget_tokens", "envelope_seconds"),
        "stop_at_headroom",
        *("runtime", "yes"),
    ),
    *NAMES,
)
def mcp(
    problem: Annotated[
        str | None, typer.Argument(help="A Python file, FILE.py:Name, or pkg.mod:Name.")
    ] = None,
    resume: Resume = None,
    config: Config = None,
    *,
    options: Options,
) -> None:
    """Let a coding agent write the kernels: a run whose turns are tools of an MCP server on stdio.

    Example: kernelagent mcp examples/swiglu.py --turns 8
    """
    from kernelagent.cli.commands import agents as commands_agents
    from kernelagent.cli.terminal.interrupt import StopOnInterrupt

    stop = StopOnInterrupt()
    raise typer.Exit(
        int(commands_agents.mcp(problem, options.names, options.flags, config, resume, stop.asked))
    )


@agents.command()
@takes(
    *("model", "strategy", "set", "seed", "prompts", "device", "target", "mode", "dynamic", "runs"),
    *("module", "inputs", "init"),
)
def prompt(
    problem: Annotated[str, typer.Argument(help="A problem, or a run's id or folder with TURN.")],
    turn: Annotated[
        int | None, typer.Argument(help="Of a run: what was sent on this turn.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Leave out what does not fit into so many tokens.", min=1)
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Print exactly what a model would be sent on turn 0, or what it was sent on a run's turn.

    Example: kernelagent prompt examples/swiglu.py --prompts small
    """
    from kernelagent.cli.commands import agents as commands_agents

    if turn is not None:
        status = commands_agents.prompt_sent(problem, turn, options.flags["runs"], as_json=as_json)
    else:
        status = commands_agents.first_prompt(
            problem, options.names, options.flags, config, max_tokens, as_json=as_json
        )
    raise typer.Exit(int(status))


@agents.command()
@takes("runs")
def record(
    run: Run,
    cassette: Annotated[Path, typer.Argument(help="Where the JSON lines are written.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    *,
    options: Options,
) -> None:
    """Write a run's questions and replies as a cassette, which `--model replay:FILE` plays again.

    Example: kernelagent optimize examples/swiglu.py --model replay:tests/cassettes/swiglu.jsonl
    """
    from kernelagent.cli.commands import agents as commands_agents

    raise typer.Exit(int(commands_agents.record(run, cassette, options.flags["runs"], force=force)))
