"""The command `kernelagent`: parses flags and returns exit statuses; the work is done in `commands`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import kernelagent
from kernelagent.cli.agents import agents
from kernelagent.cli.dropin import add_dropin_commands
from kernelagent.cli.keys import keyring
from kernelagent.cli.memory import memories
from kernelagent.cli.options import (
    JUDGE,
    NAMES,
    RUN,
    AsJson,
    Config,
    Options,
    Problem,
    Quiet,
    Resume,
    Run,
    switch,
    takes,
)
from kernelagent.cli.suites import suites
from kernelagent.cli.terminal.help import say_plainly
from kernelagent.cli.terminal.interrupt import StopOnInterrupt
from kernelagent.cli.terminal.order import put_in_order
from kernelagent.domain.configuration.options import PROBLEM, SCREEN
from kernelagent.domain.errors import ExitStatus, KernelAgentError, UsageError

if TYPE_CHECKING:
    from kernelagent.tools.corpus.catalogue import Extent

app = typer.Typer(
    name="kernelagent",
    help="Optimize a PyTorch module with Triton kernels that a model writes and a judge verifies.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(agents)
app.add_typer(suites)
app.add_typer(memories)
app.add_typer(keyring, name="keys")
add_dropin_commands(app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kernelagent {kernelagent.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Verified, faster drop-in modules; every number with its baseline, device and interval."""


@app.command()
@takes(*RUN, *NAMES)
def optimize(
    problem: Annotated[
        str | None, typer.Argument(help="A Python file, FILE.py:Name, or pkg.mod:Name.")
    ] = None,
    resume: Resume = None,
    submodule: Annotated[
        str | None,
        typer.Option(
            help="Only this part of a whole model, for example layers.0.mlp.",
            rich_help_panel=PROBLEM,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="The parts with most to gain, so many.", rich_help_panel=PROBLEM, min=1),
    ] = None,
    tui: Annotated[bool, switch("Watch and steer it on one screen.", SCREEN, "--tui")] = False,
    quiet: Quiet = False,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Write a faster, verified drop-in for a module.

    Example: kernelagent optimize examples/rms_norm_residual.py
    """
    from kernelagent.cli.commands import optimize as commands

    if tui:
        from kernelagent.tui import launch

        if as_json or submodule is not None or top is not None:
            raise UsageError("--tui watches one whole run: leave --json, --submodule and --top out")
        watched = launch.optimize(
            *commands.resolved_options(problem, options.names, options.flags, config, resume)
        )
        raise typer.Exit(int(watched))
    stop = StopOnInterrupt()
    if submodule is not None or top is not None:
        from kernelagent.cli.commands.dropin import optimize_parts

        if resume is not None:
            raise UsageError("--resume goes on with a whole run; leave --submodule and --top out")
        parts = optimize_parts(
            problem,
            options.names,
            options.flags,
            config,
            submodule,
            top,
            stop.asked,
            as_json=as_json,
            quiet=quiet,
        )
        raise typer.Exit(int(parts))
    status = commands.optimize(
        problem,
        options.names,
        options.flags,
        config,
        resume,
        stop.asked,
        as_json=as_json,
        quiet=quiet,
    )
    raise typer.Exit(int(status))


@app.command()
@takes(*(name for name in JUDGE if name != "min_speedup"), *NAMES)
def evaluate(
    problem: Problem,
    candidate: Annotated[str, typer.Argument(help="A Python file with `class ModelNew`.")],
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Judge one candidate: 0 accepted, 1 rejected, 2 wrong usage, 3 cannot judge here.

    Example: kernelagent evaluate examples/swiglu.py swiglu_optimized.py
    """
    from kernelagent.cli.commands import optimize as commands

    status = commands.evaluate(
        problem, candidate, options.names, options.flags, config, as_json=as_json
    )
    raise typer.Exit(int(status))


@app.command()
@takes("device", "sandbox")
def doctor(
    judge: Annotated[
        bool, typer.Option("--judge", help="Try the shipped cheats and honest kernels on it.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --judge: a sample of them, for 5 minutes at most.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --judge: all of them, not some of each threat.")
    ] = False,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Say what this machine can do, what is missing, and how to get it.

    With --judge: 0 when every cheat is refused and every honest kernel accepted here, 1 otherwise.
    Example: kernelagent doctor --judge --quick
    """
    from kernelagent.cli.commands import optimize as commands

    if quick and not judge:
        raise UsageError("--quick belongs to --judge: kernelagent doctor --judge --quick")
    if full and not judge:
        raise UsageError("--full belongs to --judge: kernelagent doctor --judge --full")
    if full and quick:
        raise UsageError("--full judges all, --quick a sample: give one of them")
    if judge:
        extent: Extent = "quick" if quick else "full" if full else "threats"
        status = commands.prove_judge(options.flags, extent, as_json=as_json)
    else:
        status = commands.doctor(as_json=as_json)
    raise typer.Exit(int(status))


@app.command()
@takes("runs")
def runs(
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete runs that came to nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """List the runs that are kept here.

    Example: kernelagent runs --prune
    """
    from kernelagent.cli.commands import runs as commands_runs

    status = commands_runs.runs(options.flags["runs"], prune=prune, yes=yes, as_json=as_json)
    raise typer.Exit(int(status))


@app.command()
@takes("runs")
def show(
    run: Run,
    turn: Annotated[int | None, typer.Argument(help="One turn of it.")] = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Show a run, or one of its turns with code and findings."""
    from kernelagent.cli.commands import runs as commands_runs

    raise typer.Exit(int(commands_runs.show(run, turn, options.flags["runs"], as_json=as_json)))


@app.command()
@takes("runs")
def report(
    run: Run,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Write a run's report again, as Markdown, HTML and JSON, and print it.

    Example: kernelagent report 20260101-120000-model-1a2b | less
    """
    from kernelagent.cli.commands import runs as commands_runs

    raise typer.Exit(int(commands_runs.report(run, options.flags["runs"], as_json=as_json)))


@app.command()
@takes("runs")
def diff(
    run: Run,
    before: Annotated[int, typer.Argument(help="A turn.")],
    after: Annotated[int, typer.Argument(help="Another.")],
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Show what changed between the candidates of two turns."""
    from kernelagent.cli.commands import runs as commands_runs

    raise typer.Exit(
        int(commands_runs.diff(run, before, after, options.flags["runs"], as_json=as_json))
    )


@app.command("tui")
@takes("runs")
def tui_(
    target: Annotated[
        str | None, typer.Argument(help="A run's id or folder, or a problem to start with.")
    ] = None,
    config: Config = None,
    *,
    options: Options,
) -> None:
    """Watch and steer a run, live or past, or start one.

    Example: kernelagent tui examples/swiglu.py
    """
    from kernelagent.domain.configuration.config import resolve
    from kernelagent.tui.launch import watch

    raise typer.Exit(int(watch(target, resolve(options.flags, config))))


@app.command()
@takes("runs")
def steer(
    run: Run,
    act: Annotated[
        str,
        typer.Argument(help="pause, resume, stop, hint, pin, unpin, ban, unban, budget or emit."),
    ],
    words: Annotated[
        list[str] | None, typer.Argument(help="The hint, the turn, the direction, or turns=+5.")
    ] = None,
    *,
    options: Options,
) -> None:
    """Steer a run that goes on, from another terminal; it obeys between two steps.

    Example: kernelagent steer RUN hint "load each row once"
    """
    from kernelagent.cli.commands import runs as commands_runs

    raise typer.Exit(int(commands_runs.steer(run, act, words or [], options.flags["runs"])))


put_in_order(app)
say_plainly(app)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: the one place where an error becomes an exit status."""
    try:
        status = app(arguments, standalone_mode=False)
    except KernelAgentError as error:
        sys.stderr.write(f"kernelagent: {error}\n")
        sys.exit(int(error.exit_status))
    except KeyboardInterrupt:
        sys.stderr.write("kernelagent: stopped\n")
        sys.exit(int(ExitStatus.INTERRUPTED))
    except typer.Abort:
        sys.exit(int(ExitStatus.USAGE))
    except Exception as error:  # the command's border; what is not click's is raised again
        # click's own usage errors know how to show themselves; anything else is our bug.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        sys.exit(int(ExitStatus.USAGE))
    sys.exit(status if isinstance(status, int) else 0)
