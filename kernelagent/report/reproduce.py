"""The one command that gives a reported number again."""

from __future__ import annotations

import shlex
from pathlib import Path

from kernelagent.domain.config import RunConfig
from kernelagent.domain.problem import ProblemSpec


def recheck_command(problem: ProblemSpec, config: RunConfig, module: Path) -> str:
    """The command that gives the emitted module's verdict and number again."""
    words = ["kernelagent", "evaluate", problem_word(problem), str(module)]
    for flag, value in (
        ("--module", problem.module),
        ("--inputs", problem.inputs),
        ("--init", problem.init),
        ("--check", problem.check),
    ):
        if value is not None:
            words += [flag, value]
    default = RunConfig()
    for name in ("device", "target", "policy", "baseline", "sandbox"):
        if getattr(config, name) != getattr(default, name):
            words += [f"--{name}", str(getattr(config, name))]
    return shlex.join(words)


def problem_word(problem: ProblemSpec) -> str:
    """The problem as an argument of the command line."""
    if problem.import_name is not None:
        return f"{problem.import_name}:{problem.module}" if problem.module else problem.import_name
    return problem.label
