"""The commands for whoever writes kernels instead of an API: `mcp`, `prompt`, `record`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelagent.cli.options import (
    AsJson,
    BaselineOption,
    Check,
    Config,
    Device,
    DeviceSeconds,
    Dynamic,
    Force,
    Init,
    Inputs,
    MemoryLimit,
    MinSpeedup,
    Minutes,
    ModeOption,
    ModuleName,
    Out,
    Policy,
    Prompts,
    Resume,
    Run,
    Runs,
    Sandbox,
    Seed,
    SetOption,
    Strategy,
    Target,
    Tolerance,
    Train,
    Turns,
    flags_of,
    names_of,
)

agents = typer.Typer()


@agents.command()
def mcp(
    problem: Annotated[str | None, typer.Argument(help="A Python file, or pkg.mod:Name.")] = None,
    strategy: Strategy = None,
    set_: SetOption = None,
    seed: Seed = None,
    prompts: Prompts = None,
    turns: Turns = None,
    budget_minutes: Minutes = None,
    budget_gpu_seconds: DeviceSeconds = None,
    min_speedup: MinSpeedup = None,
    out: Out = None,
    force: Force = False,
    resume: Resume = None,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    check: Check = None,
    device: Device = None,
    target: Target = None,
    memory_limit: MemoryLimit = None,
    policy: Policy = None,
    baseline: BaselineOption = None,
    mode: ModeOption = None,
    train: Train = False,
    sandbox: Sandbox = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    dynamic: Dynamic = None,
    runs: Runs = None,
    config: Config = None,
) -> None:
    """Let a coding agent write the kernels: a run whose turns are tools of an MCP server on stdio.

    Example: kernelagent mcp examples/swiglu.py --turns 8
    """
    flags = flags_of(locals())
    names = names_of(locals())
    from kernelagent.cli.commands import agents as commands_agents
    from kernelagent.cli.interrupt import StopOnInterrupt

    stop = StopOnInterrupt()
    raise typer.Exit(int(commands_agents.mcp(problem, names, flags, config, resume, stop.asked)))


@agents.command()
def prompt(
    problem: Annotated[str, typer.Argument(help="A problem, or a run's id or folder with TURN.")],
    turn: Annotated[
        int | None, typer.Argument(help="Of a run: what was sent on this turn.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="As for optimize.")] = None,
    strategy: Strategy = None,
    set_: SetOption = None,
    seed: Seed = None,
    prompts: Prompts = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Leave out what does not fit into so many tokens.", min=1)
    ] = None,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    device: Device = None,
    target: Target = None,
    mode: ModeOption = None,
    train: Train = False,
    dynamic: Dynamic = None,
    runs: Runs = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print exactly what a model would be sent on turn 0, or what it was sent on a run's turn.

    Example: kernelagent prompt examples/swiglu.py --prompts small
    """
    flags = flags_of(locals())
    names = names_of(locals())
    from kernelagent.cli.commands import agents as commands_agents

    if turn is not None:
        status = commands_agents.prompt_sent(problem, turn, runs, as_json=as_json)
    else:
        status = commands_agents.first_prompt(
            problem, names, flags, config, max_tokens, as_json=as_json
        )
    raise typer.Exit(int(status))


@agents.command()
def record(
    run: Run,
    cassette: Annotated[Path, typer.Argument(help="Where the JSON lines are written.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    runs: Runs = None,
) -> None:
    """Write a run's questions and replies as a cassette, which `--model replay:FILE` plays again.

    Example: kernelagent optimize examples/swiglu.py --model replay:tests/cassettes/swiglu.jsonl
    """
    from kernelagent.cli.commands import agents as commands_agents

    raise typer.Exit(int(commands_agents.record(run, cassette, runs, force=force)))
