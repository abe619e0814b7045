"""What each command does once its flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelagent.candidate import Candidate, NoCandidate, parse_reply
from kernelagent.config import RunConfig, resolve
from kernelagent.console import Progress, number, summary
from kernelagent.errors import ExitStatus, UsageError
from kernelagent.evaluation import Evaluation, Reason
from kernelagent.events import RunStarted
from kernelagent.models import stays_on_this_machine
from kernelagent.problem import ProblemSpec
from kernelagent.records import from_data, to_data, to_json
from kernelagent.redaction import Redactor
from kernelagent.runlog import RunFolder, read_events

_VERDICT_STATUS = {
    "accepted": ExitStatus.OK,
    "rejected": ExitStatus.NOT_FOUND,
    "error": ExitStatus.ENVIRONMENT,
}


def problem_spec(problem: str, names: Mapping[str, str | None]) -> ProblemSpec:
    """A file, a saved module's folder or `pkg.mod[:Name]`; raises `UsageError` when it is none."""
    if Path(problem, "bundle.json").is_file():
        return ProblemSpec(bundle=problem)
    if problem.endswith(".py") and not Path(problem).is_file():
        raise UsageError(f"there is no file {problem}")
    if Path(problem).exists():
        return ProblemSpec(path=problem, **names)
    module, colon, name = problem.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"there is no file {problem!r}, and it is no pkg.mod:Name either")
    if colon:
        names = {**names, "module": name}
    return ProblemSpec(import_name=module, **names)


def optimize(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
    stop_asked: Callable[[], bool],
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent optimize`; prints the outcome, or one JSON object with --json."""
    from rich.console import Console

    from kernelagent.report.record import result_record
    from kernelagent.run import optimize as run_optimize

    spec, config, folder = ordered(problem, names, flags, config_file, resume)
    progress = Progress(Console(stderr=True))
    try:
        result = run_optimize(
            spec, config, subscribers=(progress,), stop_asked=stop_asked, folder=folder
        )
    finally:
        progress.close()
    if as_json:
        _print_json(result_record(result.state, result.run))
    else:
        sys.stdout.write(outcome_text(result.outcome, result.winner, result.path, result.why))
        sys.stdout.write(f"report: {result.run / 'report.md'}, report.html beside it\n")
    return result.exit_status


def ordered(
    problem: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    resume: str | None,
) -> tuple[ProblemSpec, RunConfig, RunFolder | None]:
    """What `optimize` was asked for, and agreed to where the source is sent; raises `UsageError`."""
    config = resolve(flags, config_file)
    folder = None
    if resume is not None:
        folder = RunFolder.open(resume, Path(config.runs))
        spec, config = of_run(folder, flags)
    elif problem is None:
        raise UsageError("say what to optimize: a Python file, or pkg.mod:Name")
    else:
        spec = problem_spec(problem, names)
    confirm_sending(config)
    return spec, config, folder


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
    from kernelagent.arbitration import alone_on
    from kernelagent.derived import judge_settings
    from kernelagent.tools.judge_client import JudgeProcess

    config = resolve(flags, config_file)
    path = Path(candidate)
    if not path.is_file():
        raise UsageError(f"there is no candidate file {candidate}")
    spec = problem_spec(problem, names)
    with JudgeProcess(judge_settings(spec, config)) as judge:
        parsed = candidate_in(path)
        if isinstance(parsed, NoCandidate):
            reason = Reason("no_candidate", f"{candidate}: {parsed.why}")
            evaluation = Evaluation(verdict="rejected", device=judge.device, reason=reason)
        else:
            with alone_on(judge.device, config.device, _say_waiting):
                evaluation = judge.certify(parsed, lambda _: None)
    if as_json:
        _print_json(evaluation)
    else:
        sys.stdout.write(evaluation_text(evaluation))
    return _VERDICT_STATUS[evaluation.verdict]


def _say_waiting(why: str) -> None:
    sys.stderr.write(f"kernelagent: {why}\n")


def doctor(*, as_json: bool) -> ExitStatus:
    """`kernelagent doctor`; 0 when this machine can judge on some device, 3 otherwise."""
    from kernelagent.doctor import examine

    findings = examine()
    if as_json:
        _print_json(findings)
    else:
        from rich.console import Console

        from kernelagent.doctor import as_table

        Console().print(as_table(findings))
    return ExitStatus.OK if findings.can_judge else ExitStatus.ENVIRONMENT


def prove_judge(
    device: str | None, sandbox: str | None, *, quick: bool, as_json: bool
) -> ExitStatus:
    """`kernelagent doctor --judge`; 0 when every fixture went as it must, 1 otherwise."""
    from rich.console import Console

    from kernelagent.doctor import best_device
    from kernelagent.proof import Row, prove, shown

    talk = Console(stderr=True)

    def tell(row: Row) -> None:
        mark = "ok" if row.as_expected else "WRONG"
        talk.print(f"{mark} {row.kind} {row.threat or ''} {row.name}: {row.got}", highlight=False)

    settings = resolve({"device": device, "sandbox": sandbox})
    where = best_device() if settings.device == "auto" else settings.device
    proof = prove(where, quick=quick, sandbox=settings.sandbox, on_row=tell)
    if as_json:
        _print_json(proof)
    else:
        console = Console()
        for part in shown(proof):
            console.print(part, highlight=False)
    return ExitStatus.OK if proof.holds else ExitStatus.NOT_FOUND


def candidate_in(path: Path) -> Candidate | NoCandidate:
    """A candidate file: Python, or a reply in Markdown with a code block."""
    text = path.read_text(encoding="utf-8")
    return parse_reply(text) if path.suffix in {".md", ".txt"} else Candidate(text)


def evaluation_text(evaluation: Evaluation) -> str:
    """The verdict for a person."""
    from kernelagent.feedback import feedback_for

    return f"{feedback_for(evaluation)}\n{number(evaluation)}\nsandbox: {evaluation.sandbox}\n"


def outcome_text(outcome: str, winner: Evaluation | None, path: Path | None, why: str) -> str:
    """The last words of a run: what was written, what was verified, and the number."""
    if path is None or winner is None:
        return f"no better module: {why}\n"
    kernels = ", ".join(dict.fromkeys(k.name for k in winner.kernels))
    sets = "; ".join(
        f"{s.name} {s.arguments}" + (f", executed at {s.executed}" if s.executed else "")
        for s in winner.input_sets
    )
    word = "verified, not timed" if winner.timing is None else "verified and certified faster"
    lines = [
        f"{word}: {path}",
        f"  kernels: {kernels}",
        f"  verified: {summary(winner).partition(';')[0]}, on {sets}",
        f"  number: {number(winner)}",
    ]
    lines += [f"  note: {d.message}" for d in winner.disclosures]
    return "\n".join(lines) + "\n"


def of_run(folder: RunFolder, flags: Mapping[str, Any]) -> tuple[ProblemSpec, RunConfig]:
    """What a run was asked to do, with the flags that are given now on top; raises `UsageError`."""
    first = next(iter(read_events(folder.log)), None)
    if first is None or not isinstance(first.event, RunStarted):
        empty = first is None
        what = "was stopped before its first event" if empty else "begins with no start of a run"
        raise UsageError(f"run {folder.id} {what}; nothing in it can go on: start it anew")
    changed = {key: value for key, value in flags.items() if value is not None}
    return first.event.problem, from_data({**first.event.config, **changed}, RunConfig)


def confirm_sending(config: RunConfig, scope: str = "") -> None:
    """Says where the source goes, and asks on a terminal; raises `UsageError` on a no.

    `scope`: what the limits hold for, if not for one run.
    """
    away = [name for name in config.model if not stays_on_this_machine(name)]
    if not away:
        return
    where = Redactor()(config.api_base or "its provider's endpoint")
    sys.stderr.write(
        f"The module's source is sent to {', '.join(away)} at {where}. Limits: {_limits(config)}{scope}.\n"
    )
    if config.yes or not sys.stdin.isatty():
        return
    sys.stderr.write("Go on? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("not sent; nothing was done")


def _limits(config: RunConfig) -> str:
    """The limits that are set, for a person."""
    set_ones = {k: v for k, v in asdict(config.budget).items() if v is not None}
    return ", ".join(f"{value:g} {name.replace('_', ' ')}" for name, value in set_ones.items())


def _print_json(record: object) -> None:
    sys.stdout.buffer.write(to_json(to_data(record)) + b"\n")
    sys.stdout.flush()
