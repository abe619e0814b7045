"""What `profile` does once its flags are read; stdout is data, stderr is talk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelagent.arbitration import alone_on
from kernelagent.candidate import NoCandidate
from kernelagent.commands import candidate_in, problem_spec
from kernelagent.commands_dropin import print_json
from kernelagent.config import resolve
from kernelagent.errors import ExitStatus, UsageError
from kernelagent.feedback import feedback_for
from kernelagent.profile import Profile


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
    from kernelagent.derived import judge_settings
    from kernelagent.tools.judge_client import JudgeProcess

    config, spec = resolve(flags, config_file), problem_spec(problem, names)
    parsed = None if candidate is None else candidate_in(_existing(candidate))
    if isinstance(parsed, NoCandidate):
        raise UsageError(f"{candidate}: {parsed.why}")
    opened = JudgeProcess(judge_settings(spec, config))
    with opened as judge, alone_on(judge.device, config.device):
        reference = judge.profile_reference()
        found = None if parsed is None else judge.evaluate(parsed, lambda _: None)
        if parsed is not None and found is not None and found.accepted:
            found = judge.count(parsed, found) if judge.device.kind == "cuda" else found
        result = Profile(judge.facts.name, judge.device, reference, found)
    if as_json:
        print_json(result)
    else:
        _show(result)
    accepted = found is None or found.accepted
    if roofline is not None and found is not None and accepted:
        from kernelagent.profile_text import save_roofline

        save_roofline(found, roofline)
    return ExitStatus.OK if accepted else ExitStatus.NOT_FOUND


def _existing(candidate: str) -> Path:
    path = Path(candidate)
    if not path.is_file():
        raise UsageError(f"there is no candidate file {candidate}")
    return path


def _show(result: Profile) -> None:
    from rich.console import Console

    from kernelagent.profile_text import print_profile, print_reference

    console = Console()
    console.print(f"{result.problem} on {result.device.name}", markup=False, highlight=False)
    for one in result.reference:
        print_reference(console, one)
    if result.candidate is not None and result.candidate.accepted:
        print_profile(console, result.candidate)
    if result.candidate is not None:
        console.print("What a model would be told:", markup=False, highlight=False)
        console.print(feedback_for(result.candidate), markup=False, highlight=False)
