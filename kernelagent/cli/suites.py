"""Commands over many runs: a suite of problems, and runs as training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelagent.cli.interrupt import StopOnInterrupt
from kernelagent.cli.options import (
    AsJson,
    BaselineOption,
    Config,
    Device,
    Memory,
    MemoryLimit,
    Policy,
    Runs,
    Sandbox,
    Target,
    flags_of,
)
from kernelagent.domain.errors import UsageError

suites = typer.Typer()


@suites.command()
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
    model: Annotated[list[str] | None, typer.Option(help="As for optimize.")] = None,
    api_base: Annotated[str | None, typer.Option(help="As for optimize.")] = None,
    strategy: Annotated[str | None, typer.Option(help="As for optimize.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value for it.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the strategy.")] = None,
    turns: Annotated[int | None, typer.Option(help="At most so many, each problem.", min=1)] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Dollars for each problem.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="Tokens for each problem.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(help="For each problem.")] = None,
    budget_gpu_seconds: Annotated[float | None, typer.Option(help="For each problem.")] = None,
    total_usd: Annotated[
        float | None, typer.Option(help="Dollars for all problems together.", min=0)
    ] = None,
    yes: Annotated[bool, typer.Option(help="Do not ask before the source is sent.")] = False,
    memory: Memory = None,
    device: Device = None,
    target: Target = None,
    memory_limit: MemoryLimit = None,
    policy: Policy = None,
    baseline: BaselineOption = None,
    sandbox: Sandbox = None,
    runs: Runs = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Run a whole suite of problems; `bench diff A B` compares two suites problem by problem.

    Example: kernelagent bench examples --turns 3
    """
    flags = flags_of(locals())
    from kernelagent.cli.commands import bench as commands_bench

    places = paths or []
    if places[:1] == ["diff"]:
        if len(places) != 3:
            raise UsageError("compare two suites: kernelagent bench diff A B")
        status = commands_bench.diff(places[1], places[2], {"runs": runs}, as_json=as_json)
    else:
        stop = StopOnInterrupt()
        status = commands_bench.bench(
            places,
            split,
            flags,
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
def export(
    run: Annotated[list[str], typer.Argument(help="Ids or folders of runs, or of suites.")],
    format_: Annotated[
        str, typer.Option("--format", help="jsonl, trl, verl or hf-kernels.")
    ] = "jsonl",
    out: Annotated[
        Path | None, typer.Option(help="A file (.parquet: needs pyarrow); for hf-kernels a folder.")
    ] = None,
    prs: Annotated[bool, typer.Option("--prs", help="Mask lazy turns by PRS.")] = False,
    near_duplicates: Annotated[
        float | None, typer.Option(help="Drop trajectories this similar (0 to 1).", min=0, max=1)
    ] = None,
    keep_regressed: Annotated[
        bool, typer.Option("--keep-regressed", help="Learn from turns that got worse, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the draws of --prs.")] = 0,
    runs: Runs = None,
) -> None:
    """Turn runs into training data; what was dropped, and why, is said on stderr.

    `--format hf-kernels` writes a run's module (or an emitted file) as a folder that Hugging Face's
    `kernels` loads. Example: kernelagent export RUN --format trl --out turns.jsonl
    """
    if format_ == "hf-kernels":
        from kernelagent.cli.commands import kernels as commands_kernels

        raise typer.Exit(int(commands_kernels.export(run, out, runs)))
    from kernelagent.cli.commands import export as commands_export
    from kernelagent.training.export import Choice

    choice = Choice(prs, near_duplicates, mask_regressed=not keep_regressed, seed=seed)
    raise typer.Exit(int(commands_export.export(run, format_, out, choice, runs)))
