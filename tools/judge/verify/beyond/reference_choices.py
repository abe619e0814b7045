"""Conditions of the reference's own text that came out one way in every judged call.

A candidate may leave out what such a condition chooses between, and nothing in its own text tells of that. So the
reference is followed as well, on what the candidate was judged on.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelagent.tools.candidate_runner.host.torch_choices import TorchChoices
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.verify.beyond.untried_choices import UntriedChoices

_CALLS_WITHOUT_ANY = 4
"""A reference that has asked for no condition so often is followed no longer."""
_MOST_CALLS = 64
_TORCH = str(Path(torch.__file__).parent)
_ASKS = (".any()", ".all()")
"""With these a module checks what it is given: a line that does chooses between no two results."""
_OF_FAULTS = frozenset("isnan isinf isfinite isposinf isneginf".split())
"""Inputs with NaN and infinities are told of by themselves."""


class ReferenceChoices:
    """What was seen of them so far; grows call by call."""

    def __init__(self, most_calls: int = _MOST_CALLS) -> None:
        """`most_calls`: so many forwards are followed."""
        self._most_calls = most_calls
        self._calls = 0
        self._choices = UntriedChoices()

    def note(self, oracle: Oracle, arguments: Arguments) -> None:
        """Follow one forward; a reference that has no answer here tells nothing."""
        if self._is_known() or (file := file_of_forward(oracle.module)) is None:
            return
        self._calls += 1
        choices = TorchChoices(file)
        try:
            with _Noting(choices):
                oracle.eager(arguments)
        except REFUSALS:
            return
        rows = choices.rows()
        checks = {line for line, text, _ in rows if text.endswith(_ASKS)}
        self._choices.note_of_torch(row for row in rows if row[0] not in checks)

    def _is_known(self) -> bool:
        enough = self._calls >= _CALLS_WITHOUT_ANY and self._choices.sentence() is None
        return enough or self._calls >= self._most_calls

    def sentence(self) -> str | None:
        """What to tell of them; None: every condition came out both ways."""
        told = self._choices.sentence()
        return None if told is None else f"in your module {told}"


def file_of_forward(module: torch.nn.Module) -> str | None:
    """Where the forward of its class is written; None where that is in torch, or nowhere."""
    forward = inspect.getattr_static(type(module), "forward", None)
    code = getattr(inspect.unwrap(forward), "__code__", None) if callable(forward) else None
    if not isinstance(code, CodeType) or code.co_filename.startswith(_TORCH):
        return None
    return code.co_filename


class _Noting(TorchFunctionMode):
    """Hands what the reference asks torch for, of several elements, to `choices`."""

    def __init__(self, choices: TorchChoices) -> None:
        super().__init__()
        self._choices = choices

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        single = isinstance(result, torch.Tensor) and result.numel() == 1
        asks = name in ("any", "all")
        if (asks or not single) and name.strip("_") not in _OF_FAULTS:
            self._choices.note(name, (args, kwargs), result)
        return result
