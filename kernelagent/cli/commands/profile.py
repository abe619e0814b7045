"""What `profile` does once its flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelagent.cli.terminal.json_output import print_json
from kernelagent.domain.candidate import NoCandidate
from kernelagent.domain.configuration.config import resolve
from kernelagent.domain.errors import ExitStatus, NoTrace, UsageError
from kernelagent.domain.profile import ModuleEstimate, Profile, ReferenceProfile
from kernelagent.loop.arguments import candidate_in, problem_spec
from kernelagent.loop.preflight.problem_file import check_problem
from kernelagent.loop.queries.exclusive_gpu import alone_on
from kernelagent.prompts.feedback import feedback_for

if TYPE_CHECKING:
    from kernelagent.tools.judge_client import JudgeProcess


def profile(
    problem: str,
    candidate: str | None,
    names: Mapping[str, str | None],
    flags: Mapping[str, Any],
    config_file: Path | None,
    roofline: Path | None,
    *,
    as_json: bool,
) -> ExitStatus:
    """`kernelagent profile`; 0 when all that was asked for was profiled, 1 for a rejected candidate."""
    from kernelagent.loop.emitted.emitted_candidate import read_without_drop_in
    from kernelagent.loop.run_setup import judge_settings
    from kernelagent.tools.estimate_client import estimates_for
    from kernelagent.tools.judge_client import JudgeProcess

    config, spec = resolve(flags, config_file), problem_spec(problem, names)
    check_problem(spec)
    parsed = None if candidate is None else candidate_in(_existing(candidate))
    if isinstance(parsed, NoCandidate):
        raise UsageError(f"{candidate}: {parsed.why}")
    settings = judge_settings(spec, config)
    estimates: tuple[ModuleEstimate, ...] = ()
    if not settings.device.startswith("cuda") and settings.mode == "eval":
        prepared = estimates_for(settings)
        if prepared is not None and parsed is None:
            name = prepared.name
            result = Profile(name, prepared.device, prepared.reference)
            return _report(replace(result, estimates=prepared.estimates), roofline, as_json=as_json)
        estimates = () if prepared is None else prepared.estimates
    opened = JudgeProcess(settings)
    with opened as judge, alone_on(judge.device, config.device):
        reference, untraced = of_reference(judge, needed=parsed is None)
        outcome = None if parsed is None else judge.evaluate(parsed, lambda _: None)
        if parsed is not None and outcome is not None and outcome.accepted:
            outcome = judge.count(parsed, outcome) if judge.device.kind == "cuda" else outcome
            outcome = read_without_drop_in(outcome, parsed.source)
        result = Profile(judge.facts.name, judge.device, reference, outcome, estimates, untraced)
    return _report(result, roofline, as_json=as_json)


def of_reference(
    judge: JudgeProcess, *, needed: bool
) -> tuple[tuple[ReferenceProfile, ...], str | None]:
    """The reference's rows, or none and why they cannot be traced here; raises that if they are `needed`."""
    try:
        return judge.profile_reference(), None
    except NoTrace as fault:
        if needed:
            raise
        return (), str(fault)


def _report(result: Profile, roofline: Path | None, *, as_json: bool) -> ExitStatus:
    outcome = result.candidate
    if as_json:
        print_json(result)
    else:
        _show(result)
    accepted = outcome is None or outcome.accepted
    if roofline is not None and outcome is not None and accepted:
        from kernelagent.report.terminal.profile_text import save_roofline

        save_roofline(outcome, roofline)
    return ExitStatus.OK if accepted else ExitStatus.NOT_FOUND


def _existing(candidate: str) -> Path:
    path = Path(candidate)
    if not path.is_file():
        raise UsageError(f"there is no candidate file {candidate}")
    return path


def _show(result: Profile) -> None:
    from rich.console import Console

    from kernelagent.report.terminal.profile_text import (
        print_estimate,
        print_profile,
        print_reference,
    )

    console = Console()
    console.print(f"{result.problem} on {result.device.name}", markup=False, highlight=False)
    for estimate in result.estimates:
        print_estimate(console, estimate)
    if result.untraced is not None:
        text = f"The reference is not profiled: {result.untraced}"
        console.print(text, markup=False, highlight=False)
    for item in result.reference:
        print_reference(console, item)
    if result.candidate is not None and result.candidate.accepted:
        print_profile(console, result.candidate)
    if result.candidate is not None:
        console.print("What a model would be told:", markup=False, highlight=False)
        console.print(feedback_for(result.candidate), markup=False, highlight=False)
