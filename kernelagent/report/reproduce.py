"""The one command that gives a reported number again."""

from __future__ import annotations

import shlex
from collections.abc import Set
from dataclasses import fields, replace
from pathlib import Path

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.configuration.options import options_of
from kernelagent.domain.problem import ProblemSpec

_OF_THIS_MACHINE = {"memory_limit", "min_speedup"}
"""What no verdict depends on, or `evaluate` does not take."""
_JUDGED = frozenset(field.name for field in fields(JudgeSettings)) - _OF_THIS_MACHINE
_SEARCHED = frozenset({"strategy", "set", "seed", "turns", "candidates", "tool_calls"})
"""What decides how often a model is asked, and for what."""


def recheck_command(problem: ProblemSpec, config: RunConfig, module: Path) -> str:
    """The command that gives the emitted module's verdict and number again."""
    if problem.whole is not None:
        # Everything else stands in the file's certificate, and the part is captured again: but for one of a live model.
        live = problem.whole.bundle is not None
        where = problem_word(problem if live else problem.whole)
        return shlex.join(["kernelagent", "recheck", str(module), where])
    words = ["kernelagent", "evaluate", problem_word(problem), str(module)]
    return shlex.join([*words, *_names(problem), *_options(config, _JUDGED)])


def replay_command(problem: ProblemSpec, config: RunConfig, run: str) -> str:
    """The command that judges every reply of a run again, in the same order."""
    asked = problem.whole or problem
    words = ["kernelagent", "optimize", problem_word(asked)]
    if problem.submodule is not None:
        words += ["--submodule", problem.submodule]
    words += ["--model", f"replay:{Path(config.runs) / run}"]
    return shlex.join([*words, *_names(asked), *_options(config, _JUDGED | _SEARCHED)])


def _names(problem: ProblemSpec) -> list[str]:
    every = options_of(ProblemSpec).items()
    return [word for name, option in every for word in option.typed(getattr(problem, name))]


def _options(config: RunConfig, names: Set[str]) -> list[str]:
    every = options_of(RunConfig).items()
    return [
        word
        for name, option in every
        if name in names
        for word in option.typed(getattr(config, name))
    ]


def timing_command(problem: ProblemSpec, config: RunConfig, module: Path) -> str:
    """The command that judges the emitted module again on the device that it is typed on."""
    here = RunConfig()
    return recheck_command(problem, replace(config, device=here.device, target=here.target), module)


def problem_word(problem: ProblemSpec) -> str:
    """The problem as an argument of the command line."""
    if problem.import_name is not None:
        return f"{problem.import_name}:{problem.module}" if problem.module else problem.import_name
    return problem.label
