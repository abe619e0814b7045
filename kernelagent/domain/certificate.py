"""What an emitted file says of its verdict, as data: `CERTIFICATE`, written by `emit`, read by `recheck`.

It is read as text: the file is not imported, so nothing of a candidate runs here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import Baseline, DeviceFacts, Evaluation, Hashes, Interval
from kernelagent.domain.problem import Mode
from kernelagent.domain.replies.parsing import parse
from kernelagent.domain.serialization import from_data, to_data

NAME = "CERTIFICATE"
SCHEMA = "kernelagent.certificate/1"


@dataclass(frozen=True)
class Asked:
    """What the judge had been told beside the problem; `recheck` tells it the same."""

    dynamic: tuple[str, ...] = ()
    rtol: float | None = None
    atol: float | None = None
    min_speedup: float = 1.0
    module: str | None = None
    inputs: str | None = None
    init: str | None = None
    check: str | None = None
    submodule: str | None = None
    """The part of a whole model that the file was written for."""


@dataclass(frozen=True)
class Certified:
    """The verdict an emitted file was written with."""

    run: str
    date: str
    kernelagent: str
    device: DeviceFacts
    policy: str
    baseline: Baseline
    mode: Mode
    hashes: Hashes | None = None
    faster: bool | None = None
    speedup_eager: Interval | None = None
    speedup_compile: Interval | None = None
    estimate_ratio: float | None = None
    """Eager estimate over the candidate's, on `virtual`: no measurement."""
    asked: Asked = field(default_factory=Asked)
    schema: Literal["kernelagent.certificate/1"] = "kernelagent.certificate/1"


def certified(
    evaluation: Evaluation, run: str, date: str, kernelagent: str, asked: Asked
) -> Certified:
    """The certificate of an accepted evaluation."""
    timing, estimate = evaluation.timing, evaluation.estimate
    return Certified(
        run=run,
        date=date,
        kernelagent=kernelagent,
        device=evaluation.device,
        policy=evaluation.policy,
        baseline=evaluation.baseline,
        mode=evaluation.mode,
        hashes=evaluation.hashes,
        faster=evaluation.faster,
        speedup_eager=timing.speedup_eager if timing is not None else None,
        speedup_compile=timing.speedup_compile if timing is not None else None,
        estimate_ratio=estimate.ratio if estimate is not None else None,
        asked=asked,
    )


def as_data(record: Certified) -> dict[str, Any]:
    """What stands in the file: without the fields that are None, and without the device's data sheet."""
    data: dict[str, Any] = _without_none(to_data(record))
    data["device"].pop("operations_per_s")
    return data


def certificate_in(path: Path) -> Certified:
    """The certificate of an emitted file; raises `UsageError` when there is none to read."""
    try:
        tree = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is no Python file: {error}") from error
    value = _assigned(tree, NAME)
    if value is None:
        raise UsageError(
            f"{path} carries no {NAME}: it was not written by kernelagent, or by a version before "
            f"recheck existed. `kernelagent evaluate PROBLEM {path}` judges it all the same"
        )
    try:
        return from_data(ast.literal_eval(value), Certified)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"the {NAME} in {path} is not understood: {error}") from error


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in reversed(tree.body):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else []
        if isinstance(node, ast.Assign):
            targets = node.targets  # type: ignore[assignment]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            result: ast.expr | None = node.value  # type: ignore[attr-defined]
            return result
    return None


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(v) for key, v in value.items() if v is not None}
    return value
