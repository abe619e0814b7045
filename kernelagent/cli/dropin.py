"""Commands around what a user takes home: `recheck`, `apply`, `import`; and where the time goes: `profile`, `scan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelagent.cli.options import NAMES, AsJson, Config, Options, Problem, takes
from kernelagent.domain.configuration.options import PROBLEM


def add_dropin_commands(app: typer.Typer) -> None:
    """Put them into the program."""
    app.command()(recheck)
    app.command()(apply)
    app.command("import")(import_)
    app.command()(profile)
    app.command()(scan)


@takes(
    *("device", "target", "policy", "baseline", "sandbox", "min_speedup"),
    "judging_seconds",
    *NAMES,
    words={"min_speedup": "What counts as faster."},
)
def recheck(
    emitted: Annotated[str, typer.Argument(help="A file that kernelagent wrote.")],
    problem: Problem,
    submodule: Annotated[
        str | None,
        typer.Option(
            help="The part of the model that the file is for.",
            rich_help_panel=PROBLEM,
            show_default="as in its certificate",
        ),
    ] = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Judge an emitted file again: 0 its gain holds, 1 no longer, 3 cannot judge here.

    What is not said is as in its certificate. For your own CI, after an upgrade of torch, triton
    or the driver. Example: kernelagent recheck swiglu_optimized.py examples/swiglu.py
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    status = commands_dropin.recheck(
        emitted, problem, options.names, options.flags, submodule, as_json=as_json
    )
    raise typer.Exit(int(status))


@takes("runs")
def apply(
    run: Annotated[str, typer.Option("--run", help="The run: an id or a folder.")],
    model: Annotated[
        str | None,
        typer.Argument(
            help="Your file, the one that was optimized.", show_default="as the run has it"
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help="Where to commit.", show_default="kernelagent/<run>")
    ] = None,
    commit: Annotated[
        bool, typer.Option("--commit", help="Commit it on a branch; your checkout stays put.")
    ] = False,
    force: Annotated[bool, typer.Option(help="Overwrite; also where the file changed.")] = False,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Put a run's module beside your file, or commit it on a branch with its certificate.

    Example: kernelagent apply examples/swiglu.py --run 20260101-120000-swiglu-00ff --commit
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    status = commands_dropin.apply(
        model,
        run,
        options.flags["runs"],
        branch=branch,
        commit=commit,
        force=force,
        as_json=as_json,
    )
    raise typer.Exit(int(status))


@takes(
    *("module", "inputs", "init", "check", "device", "target", "memory_limit", "policy"),
    *("baseline", "sandbox", "out", "force"),
)
def import_(
    kernels: Annotated[Path, typer.Argument(help="A Python file, or a folder of HF kernels.")],
    problem: Problem,
    class_: Annotated[
        str | None,
        typer.Option(
            "--class", help="Class to judge, built like the reference.", show_default="ModelNew"
        ),
    ] = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Judge kernels of anybody against your module, and write them with a certificate.

    0 accepted and written, 1 rejected, 3 cannot judge here. What needs your eyes is shown first, and is
    written with --force only. Example: kernelagent import kernels/swiglu examples/swiglu.py
    """
    from kernelagent.cli.commands import kernels as commands_kernels

    status = commands_kernels.import_(
        kernels, problem, class_, options.names, options.flags, as_json=as_json
    )
    raise typer.Exit(int(status))


@takes(
    *("device", "target", "memory_limit", "policy", "sandbox", "module", "inputs", "init"),
)
def profile(
    problem: Problem,
    candidate: Annotated[
        str | None, typer.Argument(help="A Python file with `class ModelNew`.", show_default=False)
    ] = None,
    roofline: Annotated[
        Path | None, typer.Option(help="Draw the candidate's roofline: a .svg or .png file.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Show where a module's time goes, what is the least it needs, and a candidate beside it.

    On `virtual` times are estimates and said to be so. Example: kernelagent profile examples/swiglu.py
    """
    from kernelagent.cli.commands import profile as commands_profile

    status = commands_profile.profile(
        problem, candidate, options.names, options.flags, config, roofline, as_json=as_json
    )
    raise typer.Exit(int(status))


@takes(
    *("device", "target", "module", "inputs", "init", "mode"),
    words={
        "mode": "eval or train: whether the command it ends with asks for gradients; times are a forward's."
    },
)
def scan(
    model: Problem,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Run a whole model once; which parts take the time, and what each could give at most.

    Example: kernelagent scan examples/models/decoder.py
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    status = commands_dropin.scan(model, options.names, options.flags, config, as_json=as_json)
    raise typer.Exit(int(status))
