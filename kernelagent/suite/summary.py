"""A suite's report: all its problems added up, as a function of its logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.suite.curves import Curve, curves_of
from kernelagent.suite.log import (
    ClusterChanged,
    ClusterJoined,
    Record,
    SuiteFinished,
    SuiteFolder,
    SuiteResumed,
    SuiteStarted,
    TooDear,
    read_suite,
    started,
    total_of,
)
from kernelagent.suite.results import ProblemResult, devices_of, results_of
from kernelagent.suite.statistics import RESAMPLES, Group, group, resampled

SCHEMA = "kernelagent.bench/1"


@dataclass(frozen=True)
class Spend:
    """Sums over the problems."""

    turns: int
    tokens: int
    dollars: float
    unpriced_tokens: int
    run_wall_s: float
    """Sum over runs; with several jobs it exceeds the elapsed time."""
    suite_wall_s: float
    """Sum over the calls of `bench` that ended; the time of a killed call is not included."""
    device_s: float


@dataclass(frozen=True)
class SuiteReport:
    """`kernelagent bench --json`."""

    suite: str
    folder: str
    finished: bool
    device: DeviceFacts | None
    model: tuple[str, ...]
    strategy: str | None
    jobs: int
    resumed: int
    all: Group
    without_degenerate: Group
    """Without the problems that admission calls degenerate; equal to `all` when there are none."""
    degenerate: tuple[str, ...]
    failed: tuple[str, ...]
    """Problems whose run could not be carried out; they count as not correct."""
    spend: Spend
    problems: tuple[ProblemResult, ...]
    curves: tuple[Curve, ...]
    left_out: tuple[str, ...]
    other_devices: tuple[DeviceFacts, ...] = ()
    """Devices or versions beside `device` that some verdicts hold for: the statistics mix them."""
    cluster: ClusterJoined | None = None
    """The Ray cluster that evaluations were sent to, as it was joined last."""
    cluster_changes: tuple[str, ...] = ()
    total_usd: float | None = None
    """Dollars for all problems together; None: no such limit."""
    too_dear: str | None = None
    """Why problems were not begun although the suite was not stopped."""
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    schema: str = SCHEMA


def report_of(folder: SuiteFolder, *, resamples: int = RESAMPLES) -> SuiteReport:
    """The suite as of now, from its log and its runs' logs alone."""
    first, records, rows = started(folder), read_suite(folder), results_of(folder)
    sound = [row for row in rows if not row.degenerate]
    config, devices = first.config, devices_of(folder)
    joined = [record for record in records if isinstance(record, ClusterJoined)]
    return SuiteReport(
        suite=first.suite,
        folder=str(Path(folder.path)),
        finished=all(row.status != "unfinished" for row in rows),
        device=devices[0] if devices else None,
        model=tuple(config.get("model", ())),
        strategy=config.get("strategy"),
        jobs=first.jobs,
        resumed=sum(isinstance(r, SuiteResumed) for r in records),
        all=group(rows, resamples),
        without_degenerate=group(sound, resamples),
        degenerate=tuple(row.key for row in rows if row.degenerate),
        failed=tuple(row.key for row in rows if row.status == "failed"),
        spend=Spend(
            turns=sum(row.turns for row in rows),
            tokens=sum(row.tokens for row in rows),
            dollars=sum(row.dollars for row in rows),
            unpriced_tokens=sum(row.unpriced_tokens for row in rows),
            run_wall_s=sum(row.wall_s for row in rows),
            suite_wall_s=sum(r.seconds for r in records if isinstance(r, SuiteFinished)),
            device_s=sum(row.device_s for row in rows),
        ),
        problems=rows,
        curves=curves_of(rows, resampled(len(rows), resamples)),
        left_out=first.left_out,
        other_devices=devices[1:],
        cluster=joined[-1] if joined else None,
        cluster_changes=tuple(r.message for r in records if isinstance(r, ClusterChanged)),
        total_usd=total_of(records),
        too_dear=_too_dear(records),
        config=config,
        versions=first.versions,
    )


def _too_dear(records: Sequence[Record]) -> str | None:
    """What ended the suite's last part, if that was its own dollars."""
    reported = None
    for record in records:
        if isinstance(record, SuiteStarted | SuiteResumed):
            reported = None
        elif isinstance(record, TooDear):
            reported = record.why
    return reported
