"""Commands around what a user takes home: `recheck`, `apply`, `import`; and where the time goes: `profile`, `scan`."""

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
    Force,
    Init,
    Inputs,
    MemoryLimit,
    ModuleName,
    Out,
    Policy,
    Problem,
    Runs,
    Sandbox,
    Target,
    flags_of,
    names_of,
)


def add_dropin_commands(app: typer.Typer) -> None:
    """Put them into the program."""
    app.command()(recheck)
    app.command()(apply)
    app.command("import")(import_)
    app.command()(profile)
    app.command()(scan)


def recheck(
    emitted: Annotated[str, typer.Argument(help="A file that kernelagent wrote.")],
    problem: Problem,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    check: Check = None,
    device: Device = None,
    target: Target = None,
    policy: Policy = None,
    baseline: BaselineOption = None,
    sandbox: Sandbox = None,
    min_speedup: Annotated[float | None, typer.Option(help="What counts as faster.")] = None,
    as_json: AsJson = False,
) -> None:
    """Judge an emitted file again: 0 its gain holds, 1 no longer, 3 cannot judge here.

    What is not said is as in its certificate. For your own CI, after an upgrade of torch, triton
    or the driver. Example: kernelagent recheck swiglu_optimized.py examples/swiglu.py
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    flags = flags_of(locals())
    names = names_of(locals())
    status = commands_dropin.recheck(emitted, problem, names, flags, as_json=as_json)
    raise typer.Exit(int(status))


def apply(
    model: Annotated[str, typer.Argument(help="Your file, the one that was optimized.")],
    run: Annotated[str, typer.Option("--run", help="The run: an id or a folder.")],
    branch: Annotated[
        str | None, typer.Option(help="Where to commit.", show_default="kernelagent/<run>")
    ] = None,
    commit: Annotated[
        bool, typer.Option("--commit", help="Commit it on a branch; your checkout stays put.")
    ] = False,
    force: Annotated[bool, typer.Option(help="Overwrite; also where the file changed.")] = False,
    runs: Runs = None,
    as_json: AsJson = False,
) -> None:
    """Put a run's module beside your file, or commit it on a branch with its certificate.

    Example: kernelagent apply examples/swiglu.py --run 20260101-120000-swiglu-00ff --commit
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    status = commands_dropin.apply(
        model, run, runs, branch=branch, commit=commit, force=force, as_json=as_json
    )
    raise typer.Exit(int(status))


def import_(
    kernels: Annotated[Path, typer.Argument(help="A Python file, or a folder of HF kernels.")],
    problem: Problem,
    class_: Annotated[
        str | None,
        typer.Option("--class", help="Constructed like the reference.", show_default="ModelNew"),
    ] = None,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    check: Check = None,
    device: Device = None,
    target: Target = None,
    policy: Policy = None,
    baseline: BaselineOption = None,
    sandbox: Sandbox = None,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Judge kernels of anybody against your module, and write them with a certificate.

    0 accepted and written, 1 rejected, 3 cannot judge here. What needs your eyes is shown first, and is
    written with --force only. Example: kernelagent import kernels/swiglu examples/swiglu.py
    """
    from kernelagent.cli.commands import kernels as commands_kernels

    flags = flags_of(locals())
    names = names_of(locals())
    status = commands_kernels.import_(kernels, problem, class_, names, flags, as_json=as_json)
    raise typer.Exit(int(status))


def profile(
    problem: Problem,
    candidate: Annotated[
        str | None, typer.Argument(help="A Python file with `class ModelNew`.", show_default=False)
    ] = None,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    device: Device = None,
    target: Target = None,
    memory_limit: MemoryLimit = None,
    policy: Policy = None,
    sandbox: Sandbox = None,
    roofline: Annotated[
        Path | None, typer.Option(help="Draw the candidate's roofline: a .svg or .png file.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show where a module's time goes, what is the least it needs, and a candidate beside it.

    On `virtual` times are estimates and said to be so. Example: kernelagent profile examples/swiglu.py
    """
    from kernelagent.cli.commands import profile as commands_profile

    flags = flags_of(locals())
    names = names_of(locals())
    status = commands_profile.profile(
        problem, candidate, names, flags, config, roofline, as_json=as_json
    )
    raise typer.Exit(int(status))


def scan(
    model: Problem,
    module: ModuleName = None,
    inputs: Inputs = None,
    init: Init = None,
    device: Device = None,
    target: Target = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole model once; which parts take the time, and what each could give at most.

    Example: kernelagent scan examples/models/decoder.py
    """
    from kernelagent.cli.commands import dropin as commands_dropin

    flags = {"device": device, "target": target}
    names = names_of(locals())
    status = commands_dropin.scan(model, names, flags, config, as_json=as_json)
    raise typer.Exit(int(status))
