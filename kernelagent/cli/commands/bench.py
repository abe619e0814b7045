"""`kernelagent bench` and `kernelagent bench diff`: what they do once their flags are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from kernelagent.cli.commands.optimize import confirm_sending
from kernelagent.cli.terminal.json_output import print_json
from kernelagent.domain.configuration.config import RUNS, RunConfig, resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.suite.log import SuiteFolder, started
from kernelagent.suite.problems import find_problems
from kernelagent.suite.run_suite import begin, conduct


def bench(
    places: Sequence[str],
    splits: str | None,
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
    jobs: int | None,
    stop_asked: Callable[[], bool],
    *,
    ray: str | None = None,
    total_usd: float | None = None,
    as_json: bool,
) -> ExitStatus:
    """Run a suite, or go on with one; 0 when every problem has ended, 130 when the user stopped it.

    1 when `total_usd` was spent before; when not a single run could be carried out: 3 for reasons of
    the machine or the model, else 2.
    """
    from rich.console import Console

    from kernelagent.suite.live import Live
    from kernelagent.suite.report import write_reports
    from kernelagent.suite.summary import report_of
    from kernelagent.suite.text import as_table, grids, notes, preamble

    config, folder = resolve(flags, config_file), None
    if resume is not None:
        _refuse_changes(places, splits, flags)
        folder = SuiteFolder.open(resume, suites_of(config))
    else:
        if not places:
            raise UsageError("say what to run: folders, files, or pkg.mod:Name")
        result = find_problems(places, [s for s in (splits or "").split(",") if s])
        confirm_sending(config, _scope(len(result.problems), total_usd))
    talk = Console(stderr=True)
    with ExitStack() as after:
        go, devices = conduct, 1
        if ray is not None:
            from kernelagent.suite.on_ray import conduct_on, join

            cluster = after.enter_context(join(ray, config, folder))
            go, devices = partial(conduct_on, cluster, ray), cluster.joined.devices
        if folder is None:
            at_once = jobs or min(devices, len(result.problems))
            folder = begin(suites_of(config), result, config, at_once, total_usd)
        talk.print(f"suite {folder.path}", highlight=False, markup=False, soft_wrap=True)
        live = after.enter_context(Live(talk, len(started(folder).problems)))
        # A new suite has it in its first record.
        changed = total_usd if resume is not None else None
        whole = go(folder, live, jobs=jobs, total_usd=changed, stop_asked=stop_asked)
    report = report_of(folder)
    write_reports(folder, report)
    if as_json:
        print_json(report)
    else:
        console = Console()
        for grid in grids(report):
            console.print(as_table(grid))
        shown = (*notes(report.problems), *preamble(report))
        for line in (*shown, f"report: {folder.path / 'report.html'}"):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not whole:
        again = f"to go on: kernelagent bench --resume {folder.path}"
        talk.print(again, highlight=False, markup=False, soft_wrap=True)
        return ExitStatus.NOT_FOUND if report.too_dear else ExitStatus.INTERRUPTED
    if len(report.failed) < len(report.problems):
        return ExitStatus.OK
    worst = max(row.exit_status or ExitStatus.ENVIRONMENT for row in report.problems)
    return ExitStatus(worst)


def diff(before: str, after: str, flags: Mapping[str, Any], *, as_json: bool) -> ExitStatus:
    """Two suites paired problem by problem."""
    from rich.console import Console

    from kernelagent.suite.pairs import compare
    from kernelagent.suite.text import as_table, diff_grids

    suites = suites_of(resolve(flags))
    result = compare(SuiteFolder.open(before, suites), SuiteFolder.open(after, suites))
    if as_json:
        print_json(result)
    else:
        for grid in diff_grids(result):
            Console().print(as_table(grid))
    return ExitStatus.OK


def suites_of(config: RunConfig) -> Path:
    """Where suites are kept: beside the runs, or in the folder that --runs names."""
    return Path(RUNS).with_name("suites") if config.runs == RUNS else Path(config.runs)


def _scope(problems: int, total_usd: float | None) -> str:
    """What the limits of a suite hold for."""
    every = f" for each of {problems} problems"
    return every if total_usd is None else f"{every}, {total_usd:g} dollars for all of them"


def _refuse_changes(places: Sequence[str], splits: str | None, flags: Mapping[str, Any]) -> None:
    changed = [name for name, value in flags.items() if value is not None and name != "runs"]
    if places or splits or changed:
        raise UsageError(
            "a suite goes on with the problems and options it began with; give --resume, --jobs, "
            f"--total-usd and --runs only (given: {', '.join([*places, *changed])})"
        )
