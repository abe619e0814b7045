"""Commands over many runs: a suite of problems, and runs as training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelagent.cli.options import AsJson, Config, Options, takes
from kernelagent.cli.terminal.completion import among
from kernelagent.cli.terminal.interrupt import StopOnInterrupt
from kernelagent.domain.configuration.budget import RUN_LIMITS
from kernelagent.domain.errors import UsageError
from kernelagent.domain.tables.export_formats import NAMES, format_called, formats_help

suites = typer.Typer()


@suites.command()
@takes(
    *("model", "api_base", "strategy", "set", "seed", *RUN_LIMITS, "yes", "memory", "device"),
    *("target", "memory_limit", "policy", "baseline", "sandbox", "runs"),
    words={
        name: f"{limit.unit.capitalize()} for each problem." for name, limit in RUN_LIMITS.items()
    },
)
def bench(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Folders as KernelBench has them, files, pkg.mod:Name; or: diff A B."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only these levels: L1,L2.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs side by side.", min=1)] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this suite.")] = None,
    ray: Annotated[
        str | None, typer.Option(help="Evaluate on a Ray cluster: auto, or HOST:PORT.")
    ] = None,
    total_usd: Annotated[
        float | None, typer.Option(help="Dollars for all problems together.", min=0)
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Run a whole suite of problems; `bench diff A B` compares two suites problem by problem.

    Example: kernelagent bench examples --turns 3
    """
    from kernelagent.cli.commands import bench as commands_bench

    places = paths or []
    if places[:1] == ["diff"]:
        if len(places) != 3:
            raise UsageError("compare two suites: kernelagent bench diff A B")
        status = commands_bench.diff(
            places[1], places[2], {"runs": options.flags["runs"]}, as_json=as_json
        )
    else:
        stop = StopOnInterrupt()
        status = commands_bench.bench(
            places,
            split,
            options.flags,
            config,
            resume,
            jobs,
            stop.asked,
            ray=ray,
            total_usd=total_usd,
            as_json=as_json,
        )
    raise typer.Exit(int(status))


@suites.command()
@takes("runs")
def export(
    run: Annotated[list[str], typer.Argument(help="Ids or folders of runs, or of suites.")],
    format_: Annotated[
        str, typer.Option("--format", help=formats_help(), autocompletion=among(NAMES))
    ] = NAMES[0],
    out: Annotated[
        Path | None, typer.Option(help="A file (.parquet: needs pyarrow); of a module a folder.")
    ] = None,
    prs: Annotated[bool, typer.Option("--prs", help="Mask lazy turns by PRS.")] = False,
    near_duplicates: Annotated[
        float | None, typer.Option(help="Drop trajectories this similar (0 to 1).", min=0, max=1)
    ] = None,
    keep_regressed: Annotated[
        bool, typer.Option("--keep-regressed", help="Learn from turns that got worse, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the draws of --prs.")] = 0,
    *,
    options: Options,
) -> None:
    """Turn runs into training data, or a run's module into another form; see `--format`.

    What was dropped, and why, is said on stderr. Example: kernelagent export RUN --format trl --out turns.jsonl
    """
    form = format_called(format_)
    if form.of == "module":
        from kernelagent.cli.commands import kernels as commands_kernels

        raise typer.Exit(int(commands_kernels.export(run, form, out, options.flags["runs"])))
    from kernelagent.cli.commands import export as commands_export
    from kernelagent.training.export import Choice

    choice = Choice(prs, near_duplicates, mask_regressed=not keep_regressed, seed=seed)
    raise typer.Exit(int(commands_export.export(run, format_, out, choice, options.flags["runs"])))


@suites.command()
@takes(
    *("model", "api_base", "turns", "budget_usd", "budget_tokens", "device", "target"),
    *("memory", "runs"),
    words={"memory": "Each strategy with and without these lessons."},
)
def compare(
    problems: Annotated[list[str] | None, typer.Argument(help="Files, or pkg.mod:Name.")] = None,
    strategies: Annotated[
        str, typer.Option(help="Names separated by commas, with options as in window:window=8.")
    ] = "sequential,window,auto",
    simulated: Annotated[
        int | None,
        typer.Option(
            help="Instead of PROBLEMS: so many simulated ones of each family (level-1 to level-3).",
            min=1,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs for each problem and strategy.", min=1)] = 1,
    svg: Annotated[Path | None, typer.Option(help="Write the curves there as well.")] = None,
    config: Config = None,
    as_json: AsJson = False,
    *,
    options: Options,
) -> None:
    """Run strategies under the same budget and seeds, and draw what each was worth by then.

    Example: kernelagent compare --simulated 20 --turns 20
    """
    from kernelagent.cli.commands import runs as commands_runs
    from kernelagent.loop.arguments import problem_spec

    specs = [problem_spec(problem, {}) for problem in problems or ()]
    status = commands_runs.compare(
        specs, strategies, seeds, options.flags, config, svg, simulated=simulated, as_json=as_json
    )
    raise typer.Exit(int(status))
