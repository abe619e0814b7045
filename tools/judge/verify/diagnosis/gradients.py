"""Gradients in words: which are missing, what they are called, which were verified."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from kernelagent.tools.calls.backwards import APART, FIRST
from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.calls.training_step import (
    DIFFERENTIABLE,
    FORWARD,
    GRADIENTS,
    HELD,
    KEPT,
    ON_CONTEXT,
    TOGETHER,
)
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.verify.rejection import Rejected

_CALLED = "gradient of "
_VISIBLE = 0.01


def require_gradients(trial: Trial, answer: Any) -> None:
    """Raises `Rejected` in words of its own where a gradient is missing altogether."""
    expected = trial.expected.output
    where = {"input_set": trial.input_set, "probe": trial.probe}
    if not _is_answer(answer, expected):
        raise Rejected("unverifiable", "a training step came back without its gradients", where)
    for at, (want, got) in enumerate(
        zip(expected[DIFFERENTIABLE], answer[DIFFERENTIABLE], strict=True)
    ):
        if want and not got:
            raise Rejected(
                "wrong_structure",
                f"output {at} is detached: it has no gradient where the reference's has one; put "
                f"the kernels into a torch.autograd.Function with a backward",
                where,
            )
    for kind, gradients in expected[GRADIENTS].items():
        for name, want in gradients.items():
            got = answer[GRADIENTS][kind].get(name)
            if (want is None) == (got is None):
                continue
            message = (
                "there is none" if got is None else "there is one, where the reference has none"
            )
            raise Rejected(
                "wrong_structure", f"the gradient of {name}: {message}", {"gradient": name, **where}
            )
    if answer[KEPT] is not True and expected[KEPT]:
        raise Rejected(
            "input_mutated",
            "the backward writes to its upstream gradient, which the rest of the graph may still need; "
            "write to fresh memory",
            where,
        )
    shared = [pair for pair in answer[TOGETHER] if tuple(pair) not in set(expected[TOGETHER])]
    if shared:
        first, other = shared[0]
        raise Rejected(
            "output_aliased",
            f"the gradients of {first} and {other} lie in the same memory: who writes to one, as an "
            f"optimizer does, changes the other",
            where,
        )


def require_fresh_gradients(trial: Trial, answer: Any) -> None:
    """Raises `Rejected` where two backwards of one step left the same, though they must not."""
    wanted, got = trial.expected.output[GRADIENTS], answer[GRADIENTS]
    if FIRST not in wanted:
        return
    for name, first in wanted[FIRST].items():
        if first is None or _same(first, wanted[APART][name]):
            continue
        if _same(got[FIRST][name], got[APART][name]) and bool(got[FIRST][name].any()):
            raise Rejected(
                "stale_output" if _is_of(got[FIRST][name], name, wanted) else "insensitive",
                f"the gradient of {name} is the same in two backwards with different upstream "
                f"gradients; compute it from the upstream gradient of each",
                {"gradient": name, "input_set": trial.input_set, "probe": trial.probe},
            )


def _is_of(gradient: torch.Tensor, name: str, wanted: Mapping[str, Any]) -> bool:
    """Whether it is right for one of the backwards of its step."""
    return any(_near(gradient, outcome[name]) for outcome in wanted.values())


def _near(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Roughly equal. A repeated gradient that is right for one backward is stale, any other is insensitive."""
    return bool(
        parts_first(tensor - other).double().norm() <= _VISIBLE * parts_first(other).double().norm()
    )


def _same(first: Any, other: Any) -> bool:
    return isinstance(first, torch.Tensor) and torch.equal(first, other)


def _is_answer(answer: Any, expected: Any) -> bool:
    return (
        isinstance(answer, dict)
        and answer.keys() == expected.keys()
        and len(answer[DIFFERENTIABLE]) == len(expected[DIFFERENTIABLE])
        and answer[GRADIENTS].keys() == expected[GRADIENTS].keys()
        and isinstance(answer[ON_CONTEXT], int)
        and isinstance(answer[TOGETHER], list | tuple)
        and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in answer[TOGETHER])
        and all(isinstance(row, list | tuple) and _is_size(*row) for row in answer[HELD])
    )


def _is_size(name: Any = None, shown: Any = None, held: Any = None, *more: Any) -> bool:
    return isinstance(name, str) and type(shown) is int and type(held) is int and not more


def held_by_gradients(trial: Trial, answer: Any) -> str | None:
    """What to tell of a `.grad` that keeps far more memory than it has, and than the reference's does."""
    usual = {name: held for name, _, held in trial.expected.output[HELD]}
    for name, shown, held in answer[HELD]:
        if held > max(shown, usual.get(name, shown)):
            return (
                f"the gradient of {name} lies in {held:,} bytes of memory, of which gradients show {shown:,}: the "
                f"rest is not freed as long as `.grad` is there"
            )
    return None


def as_watched(answer: Any, expected: Any) -> Any:
    """An answer with what `require_gradients` has looked at as the reference left it."""
    seen = (KEPT, TOGETHER, ON_CONTEXT, HELD)
    return {**answer, **{what: expected[what] for what in seen}}


def kept_on_contexts(trial: Trial, answer: Any) -> str | None:
    """What to tell of tensors that torch does not know to be kept; None where there are no more than the reference's."""
    kept = answer[ON_CONTEXT] - trial.expected.output[ON_CONTEXT]
    if kept <= 0:
        return None
    return (
        f"between a forward and its backward {kept:,} bytes of tensors are kept as attributes of an autograd "
        f"function's context: torch does not see where such a tensor is changed in place before the backward, "
        f"hooks for saved tensors pass it by, and a result that is kept so lives until Python collects garbage; "
        f"use ctx.save_for_backward"
    )


def spoken(text: str) -> str:
    """The judge's names of a step's parts in a reader's words."""
    text = text.replace(f"output['{FORWARD}']", "output")
    return re.sub(rf"output\['{GRADIENTS}'\]\['[\w ]+'\]\['([^']+)'\]", rf"{_CALLED}\1", text)


def verified_gradients(names: Iterable[str]) -> tuple[str, ...]:
    """Of the names of compared outputs, what gradients were taken of, each once."""
    result = (name.removeprefix(_CALLED) for name in names if name.startswith(_CALLED))
    return tuple(dict.fromkeys(re.sub(r"\[.*", "", name) for name in result))
