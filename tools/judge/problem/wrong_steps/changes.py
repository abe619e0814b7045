"""What may be wrong with one call of torch by a reference: an operand left out, a bound that is another, an end forgotten.

These are the mistakes of kernels that are right on most inputs. What shows on any input is not listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

Function = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
_BINARY = frozenset(
    """add sub mul div true_divide maximum minimum fmax fmin and or xor iand ior ixor iadd isub imul itruediv truediv
    radd rmul ror rand rxor logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor remainder mod
    floor_divide floordiv fmod""".split()
)
_SWAPPED = frozenset("radd rmul ror rand rxor".split())
"""Of these, as of all of Python's own for the right side, the first argument is the second operand."""
_OF_ASSIGNMENTS = frozenset("iadd isub imul itruediv iand ior ixor".split())
"""What Python's `+=` and its like call, which work in place."""
_COMPARISONS = {
    "lt": "le", "le": "lt", "gt": "ge", "ge": "gt",
    "less": "le", "less_equal": "lt", "greater": "ge", "greater_equal": "gt",
}  # fmt: skip
"""With the one that differs where both sides are equal."""
_EQUALITIES = frozenset("eq ne not_equal equal".split())
_LEFT_OUT = frozenset(
    """relu relu6 hardtanh abs absolute nan_to_num floor ceil round trunc clamp clip clamp_min clamp_max
    masked_fill masked_scatter scatter index_put index_copy index_fill scatter_add index_add scatter_reduce
    roll flip fliplr flipud triu tril normalize""".split()
)
"""Answered by what they are given, where that is of the result's form."""
_REDUCTIONS = frozenset(
    "sum nansum mean prod max min amax amin any all logsumexp argmax argmin count_nonzero".split()
)
_SUMS = frozenset("sum nansum mean logsumexp".split())
_MOST_IN_A_SUM = 512
"""Of more elements a single one hardly shows; larger ones are tried by themselves (`lone_elements`)."""
_WITHOUT: Mapping[str, Mapping[str, Any]] = {
    "scaled_dot_product_attention": {"attn_mask": None, "is_causal": False},
    "cross_entropy": {"weight": None, "label_smoothing": 0.0},
    "nll_loss": {"weight": None},
    "binary_cross_entropy_with_logits": {"weight": None, "pos_weight": None},
}
"""Arguments, and the value with which each has no effect."""
_FEWEST = 2
_HALVED_FROM = 4
_SMALL = 1e-3
_NEARBY = (0.75, 1.25)


class DoesNotFitError(Exception):
    """This call of the step cannot be done wrong in this way."""


@dataclass(frozen=True)
class Change:
    """One way to do a step wrong."""

    words: str
    """As what is said of the step: `answered by its first operand`."""
    answer: Callable[[Function, Args, Kwargs], Any]
    """The wrong answer; raises `DoesNotFitError`."""
    in_late_rounds: bool = True
    """Whether it is also asked of the later rounds of a loop alone."""


def changes_of(name: str, args: Args, kwargs: Kwargs, result: Any) -> Iterator[Change]:
    """Those that fit a call of this function of torch, which answered `result`."""
    in_place = is_in_place(name)
    name = name.strip("_")
    if name in _BINARY and isinstance(result, torch.Tensor):
        yield from _of_operands(args, in_place=in_place, swapped=name in _SWAPPED)
    elif name in _COMPARISONS or name in _EQUALITIES:
        yield from _of_bounds(name, args)
    elif name == "where" and len(args) == 3:
        if_true = 0 if _is_mask(args[1]) and not _is_mask(args[0]) else 1
        yield Change("always answered as where its condition holds", partial(_operand, if_true))
        yield Change("always answered as where its condition fails", partial(_operand, 2))
    elif name in _REDUCTIONS:
        yield from _of_reductions(name, args, kwargs)
    elif name in _WITHOUT:
        for argument, nothing in _WITHOUT[name].items():
            if kwargs.get(argument, nothing) not in (None, False, 0.0):
                yield Change(f"without its `{argument}`", partial(_without, {argument: nothing}))
    elif name == "pad":
        value = _number(args[3] if len(args) > 3 else kwargs.get("value")) or 0.0
        other = 0.0 if value else 1.0
        yield Change(f"with {other:g} in place of {value:g}", partial(_padded, other))
    elif name == "setitem":
        yield Change("left out", lambda function, args, kwargs: None)
    elif name in _LEFT_OUT and _is_alike(args, result):
        yield Change("left out", partial(_operand, 0))
        if name in ("clamp", "clip"):
            yield from _of_clamps(args, kwargs)


def _of_operands(args: Args, *, in_place: bool, swapped: bool) -> Iterator[Change]:
    words = ("second", "first") if swapped else ("first", "second")
    for at, word in enumerate(words):
        other = args[1 - at] if len(args) > 1 else None
        if at < len(args) and isinstance(args[at], torch.Tensor) and not _is_next_to_nothing(other):
            answer = _assigned if in_place and at else partial(_operand, at)
            yield Change(f"answered by its {word} operand", answer)


def _is_next_to_nothing(operand: Any) -> bool:
    """Whether what leaves it out is right, or as good as that: a 1 or a 0, a small number that keeps from zero, no elements.

    Small numbers are asked about by themselves (`floors`).
    """
    if isinstance(operand, torch.Tensor):
        return operand.numel() == 0
    number = _number(operand)
    return number is not None and (number == 1 or abs(number) <= _SMALL)


def _of_bounds(name: str, args: Args) -> Iterator[Change]:
    tensor = args[0] if args else None
    if len(args) < 2 or not isinstance(tensor, torch.Tensor) or tensor.dtype == torch.bool:
        return
    if name in _COMPARISONS:
        other = getattr(torch, _COMPARISONS[name])
        said = "the other way where both sides are equal"
        answer = partial(_compared_by, other)
        yield Change(said, answer, in_late_rounds=False)
    bound = _number(args[1])
    if bound is None or not math.isfinite(bound):
        return
    for near in _bounds_near(bound, whole=not tensor.is_floating_point()):
        said = f"with {near:g} in place of {bound:g}"
        yield Change(said, partial(_with_second, near), in_late_rounds=False)


def _bounds_near(bound: float, *, whole: bool) -> Iterator[float]:
    if not whole:
        yield from (bound * share for share in _NEARBY if bound)
        return
    yield from (int(bound) - 1, int(bound) + 1)
    if bound >= _HALVED_FROM:
        yield from (int(bound) // 2, 2 * int(bound))


def _of_reductions(name: str, args: Args, kwargs: Kwargs) -> Iterator[Change]:
    if not args or not isinstance(args[0], torch.Tensor) or args[0].dim() == 0:
        return
    if len(args) > 1 and isinstance(args[1], torch.Tensor):
        yield from _of_operands(args, in_place=False, swapped=False)
        return
    most = _MOST_IN_A_SUM if name in _SUMS else math.inf
    if _FEWEST <= _reduced(args, kwargs)[1] <= most:
        yield Change("without the first element", partial(_shortened, 1))
        yield Change("without the last element", partial(_shortened, 0))


def _of_clamps(args: Args, kwargs: Kwargs) -> Iterator[Change]:
    low, high = _clamped(args, kwargs)
    if low is not None and high is not None:
        yield Change("without its lower bound", partial(_clamped_by, 1))
        yield Change("without its upper bound", partial(_clamped_by, 0))


def _is_alike(args: Args, result: Any) -> bool:
    first = args[0] if args else None
    if not isinstance(first, torch.Tensor) or not isinstance(result, torch.Tensor):
        return False
    return first.shape == result.shape and first.dtype == result.dtype


def _operand(at: int, function: Function, args: Args, kwargs: Kwargs) -> torch.Tensor:
    """The operand in the form of the result; in place nothing is done, so that it is the first."""
    chosen = args[at]
    if at == 0 and is_in_place(getattr(function, "__name__", "")):
        return args[0]  # type: ignore[no-any-return]
    result = function(*args, **kwargs)
    if not isinstance(result, torch.Tensor):
        raise DoesNotFitError
    value = chosen if isinstance(chosen, torch.Tensor) else torch.as_tensor(chosen)
    try:
        return value.to(result).expand_as(result).clone()
    except RuntimeError as error:
        raise DoesNotFitError from error


def is_in_place(name: str) -> bool:
    """Whether this function of torch writes to its first argument."""
    plain = name.strip("_")
    assigns = plain in _OF_ASSIGNMENTS or plain == "setitem"
    return assigns or (name.endswith("_") and not name.endswith("__"))


def _is_mask(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.bool


def _assigned(function: Function, args: Args, kwargs: Kwargs) -> torch.Tensor:
    return args[0].copy_(args[1])  # type: ignore[no-any-return]


def _compared_by(other: Function, function: Function, args: Args, kwargs: Kwargs) -> Any:
    return other(args[0], args[1])


def _with_second(second: float, function: Function, args: Args, kwargs: Kwargs) -> Any:
    return function(args[0], second, *args[2:], **kwargs)


def _without(nothing: Kwargs, function: Function, args: Args, kwargs: Kwargs) -> Any:
    return function(*args, **{**kwargs, **nothing})


def _padded(value: float, function: Function, args: Args, kwargs: Kwargs) -> Any:
    if kwargs.get("mode", args[2] if len(args) > 2 else "constant") != "constant":
        raise DoesNotFitError
    return function(args[0], kwargs.get("pad", args[1] if len(args) > 1 else None), value=value)


def _clamped(args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
    low = args[1] if len(args) > 1 else kwargs.get("min")
    high = args[2] if len(args) > 2 else kwargs.get("max")
    return low, high


def _clamped_by(which: int, function: Function, args: Args, kwargs: Kwargs) -> Any:
    bound = _clamped(args, kwargs)[which]
    return args[0].clamp(**{("min", "max")[which]: bound})


def _reduced(args: Args, kwargs: Kwargs) -> tuple[int | None, int]:
    """The dimension that is shortened, None for all of them as one, and its length."""
    dims = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
    tensor = args[0]
    if isinstance(dims, int) and not isinstance(dims, bool):
        return dims, tensor.shape[dims]
    if isinstance(dims, list | tuple) and dims:
        longest = max(dims, key=lambda dim: tensor.shape[dim])
        return longest, tensor.shape[longest]
    return None, tensor.numel()


def _shortened(start: int, function: Function, args: Args, kwargs: Kwargs) -> Any:
    dim, length = _reduced(args, kwargs)
    if length < _FEWEST:
        raise DoesNotFitError
    tensor = args[0].reshape(-1) if dim is None else args[0]
    shorter = tensor.narrow(dim or 0, start, length - 1)
    result = function(shorter, *args[1:], **kwargs)
    if start and getattr(function, "__name__", "").startswith("arg"):
        return result + start
    return result


def _number(value: Any) -> float | None:
    """A plain number, or None."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain else None
