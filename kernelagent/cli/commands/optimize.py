"""What each command does once its flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelagent.cli.terminal.console import Progress
from kernelagent.cli.terminal.json_output import print_json
from kernelagent.cli.terminal.stages import stages_of
from kernelagent.domain.candidate import NoCandidate
from kernelagent.domain.configuration.config import RunConfig, resolve
from kernelagent.domain.errors import ExitStatus, UsageError
from kernelagent.domain.evaluation import Evaluation, Reason
from kernelagent.domain.events import RunStarted
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.loop.arguments import candidate_in, problem_spec
from kernelagent.loop.preflight import check_before_start
from kernelagent.loop.preflight.expectation import expectation
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.models.kinds import stays_on_this_machine
from kernelagent.prompts.beginning import limits_text
from kernelagent.prompts.last_screen import outcome_text
from kernelagent.prompts.wording import number
from kernelagent.storage.run_log import RunFolder, read_events
from kernelagent.storage.run_state import RunState, fold
from kernelagent.storage.secrets import Redactor

if TYPE_CHECKING:
    from kernelagent.tools.corpus.catalogue import Extent

_VERDICT_STATUS = {
    "accepted": ExitStatus.OK,
    "rejected": ExitStatus.NOT_FOUND,
    "error": ExitStatus.ENVIRONMENT,
}


def optimize(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
    stop_asked: Callable[[], bool],
    *,
    as_json: bool,
    quiet: bool = False,
) -> ExitStatus:
    """`kernelagent optimize`; prints the outcome, or one JSON object with --json."""
    from rich.console import Console

    from kernelagent.loop.nothing_left import go_on_with, nothing_left
    from kernelagent.loop.run import optimize as run_optimize
    from kernelagent.loop.submodule import put_back, text_of
    from kernelagent.report.record import result_record
    from kernelagent.report.reproduce import timing_command

    if resume is not None and not quiet:
        sys.stderr.write(f"going on with run {resume}: its log is read, then the problem again\n")
    spec, config, folder = new_or_resumed(problem, names, flags, config_file, resume)
    if folder is not None:
        state = fold(read_events(folder.log))
        if (why := nothing_left(spec, config, state)) is not None:
            sys.stderr.write(f"nothing is left to do in run {folder.id}: {why}\n")
            sys.stderr.write(f"{go_on_with(folder, spec, config)}\n")
            return _as_it_ended(spec, config, folder, state, as_json=as_json)
    _agree(spec, config)
    progress = Progress(Console(stderr=True))
    subscribers = () if quiet else (progress,)
    parts = None
    try:
        result = run_optimize(
            spec,
            config,
            subscribers=subscribers,
            stop_asked=stop_asked,
            folder=folder,
        )
        if spec.whole is not None:
            if result.path is not None and not quiet:
                sys.stderr.write("the whole model runs as it is, and with the part replaced\n")
            parts = put_back(spec, config, result, subscribers)
    finally:
        progress.close()
    status = result.exit_status
    if parts is not None:
        status = parts.exit_status
        if as_json:
            print_json(parts)
        else:
            sys.stdout.write(text_of(parts))
    elif as_json:
        print_json(result_record(result.state, result.run))
    else:
        again = "" if result.path is None else timing_command(spec, config, result.path)
        sys.stdout.write(outcome_text(result.winner, result.path, result.why, again))
        sys.stdout.write(f"report: {result.run / 'report.md'}, report.html beside it\n")
    if result.outcome == "interrupted" or stop_asked():
        sys.stderr.write(f"{go_on_with(RunFolder(result.run), spec, config)}\n")
    return status


def _as_it_ended(
    spec: ProblemSpec, config: RunConfig, folder: RunFolder, state: RunState, *, as_json: bool
) -> ExitStatus:
    """The last screen of a run once more, from its log."""
    from kernelagent.loop.nothing_left import ended_part
    from kernelagent.loop.submodule import text_of
    from kernelagent.report.record import result_record
    from kernelagent.report.reproduce import timing_command

    if spec.whole is not None:
        parts = ended_part(spec, folder, state)
        if as_json:
            print_json(parts)
        else:
            sys.stdout.write(text_of(parts))
        return parts.exit_status
    if as_json:
        print_json(result_record(state, folder.path))
    else:
        path = None if state.emitted is None else Path(state.emitted)
        again = "" if path is None else timing_command(spec, config, path)
        why = "" if state.finished is None else state.finished.why
        sys.stdout.write(outcome_text(state.winner, path, why, again))
        sys.stdout.write(f"report: {folder.path / 'report.md'}, report.html beside it\n")
    ended = state.finished
    return ExitStatus.NOT_FOUND if ended is None else ExitStatus(ended.exit_status)


def resolved_options(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
) -> tuple[ProblemSpec, RunConfig, RunFolder | None]:
    """What `optimize` was asked for, and agreed to where the source is sent; raises `UsageError`."""
    spec, config, folder = new_or_resumed(problem, names, flags, config_file, resume)
    _agree(spec, config)
    return spec, config, folder


def _agree(spec: ProblemSpec, config: RunConfig) -> None:
    check_before_start(spec, config)
    confirm_sending(config, characters=_length_of(spec))


def new_or_resumed(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
) -> tuple[ProblemSpec, RunConfig, RunFolder | None]:
    """The problem and the configuration of a new run, or of the one to go on with; raises `UsageError`."""
    config = resolve(flags, config_file)
    if resume is not None:
        folder = RunFolder.open(resume, Path(config.runs))
        return *of_run(folder, flags), folder
    if problem is None:
        raise UsageError("say what to optimize: a Python file, or pkg.mod:Name")
    return problem_spec(problem, names), config, None


def _length_of(spec: ProblemSpec) -> int:
    return Path(spec.path).stat().st_size if spec.path is not None else 0


def evaluate(
    problem: str,
    candidate: str,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent evaluate`; the verdict as text, or `kernelagent.evaluation/1` with --json."""
    from kernelagent.loop.emitted.emitted_candidate import read_without_drop_in
    from kernelagent.loop.queries.exclusive_gpu import alone_on
    from kernelagent.loop.run_setup import judge_settings
    from kernelagent.tools.judge_client import JudgeProcess

    config = resolve(flags, config_file)
    path = Path(candidate)
    if not path.is_file():
        raise UsageError(f"there is no candidate file {candidate}")
    spec = problem_spec(problem, names)
    check_problem(spec)
    with JudgeProcess(judge_settings(spec, config)) as judge:
        parsed = candidate_in(path)
        if isinstance(parsed, NoCandidate):
            reason = Reason("no_candidate", f"{candidate}: {parsed.why}")
            evaluation = Evaluation(verdict="rejected", device=judge.device, reason=reason)
        else:
            with alone_on(judge.device, config.device, _say_waiting):
                on_stage = stages_of(candidate, as_json=as_json)
                evaluation = judge.evaluate_final(parsed, on_stage)
            evaluation = read_without_drop_in(evaluation, parsed.source)
    if as_json:
        print_json(evaluation)
    else:
        sys.stdout.write(evaluation_text(evaluation))
    return _VERDICT_STATUS[evaluation.verdict]


def _say_waiting(why: str) -> None:
    sys.stderr.write(f"kernelagent: {why}\n")


def doctor(*, as_json: bool) -> ExitStatus:
    """`kernelagent doctor`; 0 when this machine can judge on some device, 3 otherwise."""
    from kernelagent.cli.doctor import examine

    findings = examine()
    if as_json:
        print_json(findings)
    else:
        from rich.console import Console

        from kernelagent.cli.doctor import as_table

        Console().print(as_table(findings))
    return ExitStatus.OK if findings.can_judge else ExitStatus.ENVIRONMENT


def prove_judge(flags: Mapping[str, Any], extent: Extent, *, as_json: bool) -> ExitStatus:
    """`kernelagent doctor --judge`; 0 when every fixture went as it must, 1 otherwise."""
    from rich.console import Console

    from kernelagent.cli.doctor import best_device
    from kernelagent.cli.self_test import QUICK_S, Row, run_self_test, shown

    talk = Console(stderr=True)

    def tell(row: Row) -> None:
        mark = "ok" if row.as_expected else "WRONG"
        talk.print(f"{mark} {row.kind} {row.threat or ''} {row.name}: {row.got}", highlight=False)

    settings = resolve(flags)
    where = best_device() if settings.device == "auto" else settings.device
    limit_s = QUICK_S if extent == "quick" else math.inf
    proof = run_self_test(
        where, extent=extent, sandbox=settings.sandbox, enough_s=limit_s, on_row=tell
    )
    if as_json:
        print_json(proof)
    else:
        console = Console()
        for part in shown(proof):
            console.print(part, highlight=False)
    return ExitStatus.OK if proof.holds else ExitStatus.NOT_FOUND


def evaluation_text(evaluation: Evaluation) -> str:
    """The verdict for a person."""
    from kernelagent.prompts.feedback import feedback_for

    return f"{feedback_for(evaluation)}\n{number(evaluation)}\nsandbox: {evaluation.sandbox}\n"


def of_run(folder: RunFolder, flags: Mapping[str, Any]) -> tuple[ProblemSpec, RunConfig]:
    """What a run was asked to do, with the flags that are given now on top; raises `UsageError`."""
    first = next(iter(read_events(folder.log)), None)
    if first is None or not isinstance(first.event, RunStarted):
        empty = first is None
        what = "was stopped before its first event" if empty else "begins with no start of a run"
        raise UsageError(f"run {folder.id} {what}; nothing in it can go on: start it anew")
    changed = {key: value for key, value in flags.items() if value is not None}
    return first.event.problem, from_data({**first.event.config, **changed}, RunConfig)


def confirm_sending(config: RunConfig, scope: str = "", characters: int = 0) -> None:
    """Says where the source goes, and asks on a terminal; raises `UsageError` on a no.

    `scope`: what the limits hold for, if not for one run. `characters`: how long the source is.
    """
    away = [name for name in config.model if not stays_on_this_machine(name)]
    if not away:
        return
    where = Redactor()(config.api_base or "its provider's endpoint")
    sys.stderr.write(
        f"The module's source is sent to {', '.join(away)} at {where}. Limits: {limits_text(config.budget)}{scope}.\n"
        f"{expectation(config, characters)}\n"
    )
    if config.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was sent: there is no terminal to ask on; agree with --yes, or `yes = true` in the "
            "configuration"
        )
    sys.stderr.write("Go on? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not sent; nothing was done")
