"""`optimize MODEL --submodule a.b.c`: a part of a model optimized on what it really gets, then put back.

Nothing is said about the part's gain before the whole model's answer was found right with it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.errors import (
    ExitStatus,
    KernelAgentError,
    ModelError,
    ProblemError,
    UsageError,
)
from kernelagent.domain.evaluation import Evaluation
from kernelagent.domain.events import Subscriber, WholeModelChecked
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import to_data, to_json
from kernelagent.domain.whole_model import Scan, ScanRow, WholeModel
from kernelagent.loop.choosing_parts import following, places_of
from kernelagent.loop.run import RunResult
from kernelagent.loop.run import optimize as run_optimize
from kernelagent.loop.run_setup import judge_settings
from kernelagent.prompts.last_screen import (
    how_sure,
    not_all_tried,
    putting_back,
    remarks_line,
    where_verified,
    whole_model_lines,
)
from kernelagent.prompts.wording import number
from kernelagent.report.files import write_reports
from kernelagent.storage.output_file import default_name
from kernelagent.storage.run_log import EventLog, RunFolder
from kernelagent.tools.judge_client import WholeModelProcess


@dataclass(frozen=True)
class PartResult:
    """What came of one submodule."""

    path: str
    run: str
    """Its folder; empty where no run could be begun or carried through."""
    why: str
    emitted: str | None = None
    """The file, where the whole model stayed right with it; else None."""
    whole: WholeModel | None = None
    alike: tuple[str, ...] = ()
    """Other parts of its class with the same shapes, where it was not put."""
    number: str = ""
    """Of the part alone: its time or the estimate, in words; empty where nothing was emitted, as the next two."""
    how_sure: str = ""
    where: str = ""
    """The sizes that the kernels answer."""
    to_know: str = ""
    """How many remarks there are, and where they stand."""


@dataclass(frozen=True)
class PartsResult:
    """What came of all of them."""

    model: str
    parts: tuple[PartResult, ...]
    interrupted: bool = False
    """The user stopped it."""
    schema: str = "kernelagent.submodules/1"

    @property
    def exit_status(self) -> ExitStatus:
        if any(part.emitted is not None for part in self.parts):
            return ExitStatus.OK
        return ExitStatus.INTERRUPTED if self.interrupted else ExitStatus.NOT_FOUND


def scanned(problem: ProblemSpec, config: RunConfig) -> Scan:
    """The whole model's submodules, most to gain first."""
    with WholeModelProcess(judge_settings(problem, config)) as judge:
        return judge.scan()


def by_built_in(config: RunConfig) -> bool:
    """True where nobody but the built-in policy writes."""
    return set(config.model) == {COMPILER}


def optimize_top(
    problem: ProblemSpec,
    config: RunConfig,
    scan: Scan,
    top: int,
    *,
    report: Callable[[str], None],
    subscribers: Sequence[Subscriber] = (),
    stop_asked: Callable[[], bool] = lambda: False,
) -> PartsResult:
    """The `top` parts with most to gain; a part without an accepted candidate is replaced by the next.

    Gives up after more than `top` failures. Raises the last error if no part could be optimized.
    """
    if top > 1 and config.out is not None:
        raise UsageError("--out names one file; leave it out with several submodules")
    done: list[PartResult] = []
    taken: list[ScanRow] = []
    failed: list[ScanRow] = []
    fault: KernelAgentError | None = None
    built_in = by_built_in(config)
    while len(taken) < top and len(failed) <= top and not stop_asked():
        row = following(scan, taken, failed, built_in=built_in)
        if row is None:
            break
        places = places_of(row, taken)
        report(
            f"part {len(taken) + 1} of {top}: {', '.join(places)} ({row.kind}), "
            f"{row.share:.0%} of the time, at most {row.gain_at_most or 1.0:.2f}x for the whole"
        )
        try:
            done.append(_optimized_part(problem, config, places, report, subscribers, stop_asked))
        except (ModelError, ProblemError) as error:
            fault = error
            report(f"{row.path} is left as it is: {error}")
            failed.append(row)
            done.append(PartResult(row.path, "", str(error)))
        else:
            taken.append(row)
    if not done and not stop_asked() and following(scan, (), built_in=built_in) is None:
        raise UsageError(
            f"no submodule of {scan.model} can be optimized alone; `kernelagent scan` says why"
        )
    if fault is not None and not taken:
        raise fault
    return PartsResult(problem.label, tuple(done), stop_asked())


def optimize_parts(
    problem: ProblemSpec,
    config: RunConfig,
    groups: Sequence[tuple[str, ...]],
    *,
    report: Callable[[str], None] = lambda _: None,
    subscribers: Sequence[Subscriber] = (),
    stop_asked: Callable[[], bool] = lambda: False,
) -> PartsResult:
    """One run for each group's first part, then a look at the whole model with all of them replaced."""
    if len(groups) > 1 and config.out is not None:
        raise UsageError("--out names one file; leave it out with several submodules")
    done = []
    for places in groups:
        if stop_asked():
            break
        done.append(_optimized_part(problem, config, places, report, subscribers, stop_asked))
    return PartsResult(problem.label, tuple(done), stop_asked())


def optimize_part(
    problem: ProblemSpec,
    config: RunConfig,
    places: tuple[str, ...],
    *,
    subscribers: Sequence[Subscriber] = (),
) -> tuple[PartResult, RunResult]:
    """One part, put at all its `places`, and the run that it came from."""
    return _Captured.of(problem, config, places).optimized(subscribers=subscribers)


@dataclass(frozen=True)
class _Captured:
    """A part as a problem of its own."""

    part: ProblemSpec
    config: RunConfig
    """With where its file goes."""
    settings: JudgeSettings
    """Of the whole model."""
    places: tuple[str, ...]
    alike: tuple[str, ...]
    """Parts like it at no place of `places`."""

    @classmethod
    def of(cls, problem: ProblemSpec, config: RunConfig, places: tuple[str, ...]) -> _Captured:
        path = places[0]
        word = path.replace(".", "_")
        bundle = bundle_folder(Path(config.runs), word)
        settings = judge_settings(problem, config)
        with WholeModelProcess(settings) as judge:
            alike = judge.capture(path, bundle)
        named = problem.module if problem.bundle is not None else None
        home = Path(named) if named is not None else Path(problem.label.partition(":")[0])
        return cls(
            ProblemSpec(bundle=str(bundle), module=word, submodule=path, whole=problem),
            replace(config, out=config.out or default_name(home, path)),
            settings,
            places,
            tuple(other for other in alike if other not in places),
        )

    def optimized(
        self,
        *,
        report: Callable[[str], None] = lambda _: None,
        subscribers: Sequence[Subscriber] = (),
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> tuple[PartResult, RunResult]:
        """Its run, and what came of it in the whole model."""
        result = run_optimize(
            self.part, self.config, subscribers=subscribers, stop_asked=stop_asked
        )
        if result.path is not None:
            report("the whole model runs as it is, and with the part replaced")
        done = _in_the_whole(self.settings, self.places, result, subscribers)
        return replace(done, alike=self.alike), result


def _optimized_part(
    problem: ProblemSpec,
    config: RunConfig,
    places: tuple[str, ...],
    report: Callable[[str], None],
    subscribers: Sequence[Subscriber],
    stop_asked: Callable[[], bool],
) -> PartResult:
    captured = _Captured.of(problem, config, places)
    if stop_asked():
        return PartResult(places[0], "", "stopped by the user before its first turn")
    return captured.optimized(report=report, subscribers=subscribers, stop_asked=stop_asked)[0]


def put_back(
    part: ProblemSpec, config: RunConfig, result: RunResult, subscribers: Sequence[Subscriber] = ()
) -> PartsResult:
    """What `--submodule` does after its run, for a part's run that was gone on with by `--resume`."""
    if part.whole is None or part.submodule is None:
        raise ValueError("only a part of a model can be put back into it")
    settings = judge_settings(part.whole, config)
    done = _in_the_whole(settings, (part.submodule,), result, subscribers)
    if done.emitted is not None:
        # Which parts are like it is asked anew: the run's own log knows of the part alone.
        with tempfile.TemporaryDirectory() as name, WholeModelProcess(settings) as judge:
            done = replace(done, alike=judge.capture(part.submodule, Path(name) / "part"))
    return PartsResult(part.whole.label, (done,), result.outcome == "interrupted")


def _in_the_whole(
    settings: JudgeSettings,
    places: tuple[str, ...],
    result: RunResult,
    subscribers: Sequence[Subscriber],
) -> PartResult:
    path = places[0]
    if result.path is None:
        return PartResult(path, str(result.run), result.why)
    try:
        with WholeModelProcess(settings, verifies=True) as judge:
            candidate, envelope = _candidate_of(result), _envelope(result)
            whole = judge.verify(places, candidate, _ratio(result), envelope)
    except BaseException:
        # Ctrl-C or a fault: nobody knows whether it is right in there. The run's copy is kept.
        result.path.unlink(missing_ok=True)
        raise
    (result.run / "whole_model.json").write_bytes(to_json(to_data(whole)))
    _log(RunFolder(result.run), whole, subscribers)
    if not whole.right:
        # Correct alone but wrong in the whole model: delete the output file; the run's copy is kept.
        result.path.unlink()
        return PartResult(path, str(result.run), whole.why, None, whole)
    part = PartResult(path, str(result.run), result.why, str(result.path), whole)
    return with_its_number(part, result.winner)


def with_its_number(part: PartResult, winner: Evaluation | None) -> PartResult:
    """With what the last screen says of the part alone, where a file was written."""
    if winner is None or part.emitted is None:
        return part
    sizes = where_verified(winner.envelope) + not_all_tried(winner)
    return replace(
        part,
        number=number(winner) + _of_what(winner),
        how_sure=how_sure(winner),
        where=sizes,
        to_know=remarks_line(winner),
    )


def _of_what(winner: Evaluation) -> str:
    return "; each time is of a forward with its backward" if winner.mode == "train" else ""


def _log(folder: RunFolder, whole: WholeModel, subscribers: Sequence[Subscriber]) -> None:
    """The run's last event, and its reports with it."""
    log = EventLog(folder)
    for subscriber in subscribers:
        log.subscribe(subscriber)
    try:
        log.publish(WholeModelChecked(whole))
    finally:
        log.close()
    write_reports(folder)


def text_of(result: PartsResult) -> str:
    """The result for a person."""
    lines = []
    for part in result.parts:
        if part.emitted is None or part.whole is None:
            lines += [f"{part.path}: no better module: {part.why}", *_report_line(part)]
            continue
        whole = part.whole
        right, time_ = whole_model_lines(whole)
        lines += [
            f"{part.path}: {part.emitted}",
            *([f"  the part: {part.number}"] if part.number else []),
            *([f"  how sure: {part.how_sure}"] if part.how_sure else []),
            *([f"  where: {part.where}"] if part.where else []),
            f"  whole model: {right}",
            f"  whole model's time: {time_}",
            "  put it back:",
            *(f"  {line}" for line in putting_back(Path(part.emitted), whole.paths)),
            *([f"  to know: {part.to_know}"] if part.to_know else []),
            *_report_line(part),
        ]
        if part.alike:
            lines.append(
                f"  parts of the same class and shapes (add them to the list and compare; the whole was "
                f"not run with the file there): {', '.join(part.alike)}"
            )
    return "\n".join(lines) + "\n"


def _report_line(part: PartResult) -> list[str]:
    """Where its report is, where it had a run."""
    run = Path(part.run)
    return [f"  report: {run / 'report.md'}, report.html beside it"] if part.run else []


def _candidate_of(result: RunResult) -> Candidate:
    return Candidate((result.run / "module.py").read_text(encoding="utf-8"))


def _ratio(result: RunResult) -> float | None:
    estimate = result.winner.estimate if result.winner is not None else None
    return estimate.ratio if estimate is not None else None


def _envelope(result: RunResult) -> Mapping[str, Any]:
    """The inputs that the emitted module takes."""
    return result.winner.envelope if result.winner is not None else {}


def bundle_folder(runs: Path, word: str) -> Path:
    """A new folder beside the runs for a captured module."""
    folder = runs.parent / "bundles" / f"{time.strftime('%Y%m%d-%H%M%S')}-{word}"
    number = 0
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{folder.name}-{number}")
    return folder
