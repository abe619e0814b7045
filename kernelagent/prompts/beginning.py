"""What a run was asked for, said before anything of the user's is executed: its file, its model, its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernelagent.domain.configuration.budget import RUN_LIMITS, Budget, BudgetOptions
from kernelagent.domain.configuration.model_options import COMPILER
from kernelagent.domain.problem import NamesInFile, ProblemSpec


def problem_line(problem: ProblemSpec, names: NamesInFile | None) -> str:
    """`swiglu.py: class Swiglu, inputs from get_inputs`, as far as the file's text settles it."""
    if problem.whole is not None and problem.submodule is not None:
        return f"{problem.submodule} of {problem.whole.label}"
    if names is None:
        return problem.label
    known = (
        ("class ", names.module),
        ("inputs from ", names.inputs),
        ("constructor arguments from ", names.init),
    )
    parts = ", ".join(f"{word}{name}" for word, name in known if name is not None)
    return f"{problem.label}: {parts}" if parts else problem.label


def asked_line(config: Mapping[str, Any]) -> str | None:
    """Device, models, strategy and limits of a run's configuration; None where it has none of them."""
    words = [f"{name} {config[name]}" for name in ("device", "strategy") if config.get(name)]
    if config.get("model"):
        words.insert(1, f"model {', '.join(config['model'])}")
    if not words:
        return None
    if config.get("mode") == "train":
        words.append("with its backward pass")
    given = {name: config.get(name) for name in RUN_LIMITS}
    limits = limits_text(BudgetOptions(**given).budget)
    if set(config.get("model") or ()) == {COMPILER}:
        # It costs nothing: a limit in dollars alone says something.
        free = replace(BudgetOptions(**given).budget, dollars=None)
        limits = limits_text(free) or limits
    return f"{', '.join(words)}; at most {limits}"


def limits_text(budget: Budget) -> str:
    """The limits that are set, for a person."""
    limits = {limit.unit: getattr(budget, limit.name) for limit in RUN_LIMITS.values()}
    return ", ".join(
        f"{most:g} {unit.removesuffix('s') if most == 1 else unit}"
        for unit, most in limits.items()
        if most is not None
    )
