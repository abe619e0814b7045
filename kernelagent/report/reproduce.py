"""The one command that gives a reported number again."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path

from kernelagent.domain.config import RunConfig
from kernelagent.domain.judge_settings import JudgeSettings
from kernelagent.domain.options import options_of
from kernelagent.domain.problem import ProblemSpec

_OF_THIS_MACHINE = {"memory_limit", "min_speedup"}
"""What no verdict depends on, or `evaluate` does not take."""


def recheck_command(problem: ProblemSpec, config: RunConfig, module: Path) -> str:
    """The command that gives the emitted module's verdict and number again."""
    if problem.whole is not None:
        # Everything else stands in the file's certificate, and the part is captured again.
        return shlex.join(["kernelagent", "recheck", str(module), problem_word(problem.whole)])
    words = ["kernelagent", "evaluate", problem_word(problem), str(module)]
    for name, option in options_of(ProblemSpec).items():
        words += option.typed(getattr(problem, name))
    judged = {field.name for field in fields(JudgeSettings)} - _OF_THIS_MACHINE
    for name, option in options_of(RunConfig).items():
        if name in judged:
            words += option.typed(getattr(config, name))
    return shlex.join(words)


def timing_command(problem: ProblemSpec, config: RunConfig, module: Path) -> str:
    """The command that judges the emitted module again on the device that it is typed on."""
    here = RunConfig()
    return recheck_command(problem, replace(config, device=here.device, target=here.target), module)


def problem_word(problem: ProblemSpec) -> str:
    """The problem as an argument of the command line."""
    if problem.import_name is not None:
        return f"{problem.import_name}:{problem.module}" if problem.module else problem.import_name
    return problem.label
