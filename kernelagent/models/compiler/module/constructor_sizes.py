"""How the sizes of a module's state follow from its constructor's arguments, or from the original itself.

Known from two builds, at the user's sizes and at those that are executed: a dimension in which they
differ is written as a formula of the constructor's whole numbers that holds for both, or, where
`ModelNew` is made of the original, as that dimension of the original's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import Any

import torch

from kernelagent.models.compiler.capturing.capture import MOST_WRITTEN_OUT, PolicyCannot
from kernelagent.models.compiler.module.constructor import Shapes

_MOST_TOKENS = 8
"""Beside a picture's patches: of the class, registers."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class _Number:
    """One whole number that the constructor is given."""

    text: str
    full: int
    small: int


def followed(
    module: torch.nn.Module, smaller: torch.nn.Module, given: Arguments, less: Arguments
) -> Shapes:
    """The state's shapes that differ, as text; raises `PolicyCannot` where no formula is known."""
    numbers = list(_numbers(type(module), given, less))
    return {
        path: tuple(
            str(full)
            if full == few
            else _formula(full, few, numbers, f"{type(module).__name__}.{path}")
            for full, few in zip(shape, small, strict=True)
        )
        for path, shape, small in _differing(module, smaller)
    }


def of_the_original(module: torch.nn.Module, smaller: torch.nn.Module, original: str) -> Shapes:
    """The state's shapes that differ, as text that reads them off the variable `original`."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {
        path: tuple(
            str(full)
            if full == few
            else f'{original}.get_{"parameter" if path in parameters else "buffer"}("{path}").shape[{dim}]'
            for dim, (full, few) in enumerate(zip(shape, small, strict=True))
        )
        for path, shape, small in _differing(module, smaller)
    }


def _differing(
    module: torch.nn.Module, smaller: torch.nn.Module
) -> Iterator[tuple[str, torch.Size, torch.Size]]:
    what = type(module).__name__
    small = dict(_state(smaller))
    for path, tensor in _state(module):
        other = small.get(path)
        if other is None or other.dim() != tensor.dim():
            raise PolicyCannot(
                what, f"{path} is not there or another at the sizes that are executed"
            )
        if other.shape == tensor.shape:
            continue
        if path not in module.state_dict() and tensor.numel() <= MOST_WRITTEN_OUT:
            raise PolicyCannot(
                what, f"the values of {path} depend on sizes, and another size of it is executed"
            )
        yield path, tensor.shape, other.shape


def _state(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _numbers(kind: type, given: Arguments, less: Arguments) -> Iterator[_Number]:
    constructor = inspect.signature(kind.__init__)  # type: ignore[misc]
    full, small = (constructor.bind(None, *args, **kwargs) for args, kwargs in (given, less))
    for name in list(full.arguments)[1:]:
        yield from _leaves(name, full.arguments[name], small.arguments[name])


def _leaves(text: str, full: Any, small: Any) -> Iterator[_Number]:
    if isinstance(full, list | tuple):
        for at, pair in enumerate(zip(full, small, strict=True)):
            yield from _leaves(f"{text}[{at}]", *pair)
    elif isinstance(full, int) and not isinstance(full, bool):
        yield _Number(text, full, small)


def _formula(full: int, small: int, numbers: Sequence[_Number], what: str) -> str:
    """The shortest kind first: a number, a multiple and an offset, a share, of two: product and sum; patches."""
    differing = [n for n in numbers if n.full != n.small]
    for n in differing:
        if (n.full, n.small) == (full, small):
            return n.text
    for n in differing:
        times, rest = divmod(full - small, n.full - n.small)
        if times and not rest:
            return _linear(times, n.text, full - times * n.full)
    for n in differing:
        share = n.full // full if full else 0
        if share and n.full == share * full and n.small == share * small:
            return f"{n.text} // {share}"
    for first, second in combinations_with_replacement(numbers, 2):
        products = first.full * second.full, first.small * second.small
        sums = first.full + second.full, first.small + second.small
        for (big, few), text in (
            (products, f"{first.text} * {second.text}"),
            (sums, f"({first.text} + {second.text})"),
        ):
            times, rest = divmod(full, big) if big else (0, 1)
            if times and not rest and times * few == small:
                return text if times == 1 else f"{times} * {text}"
            share, rest = divmod(big, full)
            if share and not rest and share * small == few:
                return f"{text} // {share}"
    for text in _patches(full, small, numbers):
        return text
    raise PolicyCannot(
        what,
        f"a size of {full} is {small} where it is executed, and does not follow from the "
        f"constructor's arguments",
    )


def _patches(full: int, small: int, numbers: Sequence[_Number]) -> Iterator[str]:
    """How many parts of one length there are in another, or their square, and tokens beside them."""
    for whole, part in permutations(numbers, 2):
        if not (part.full and part.small) or whole.full % part.full or whole.small % part.small:
            continue
        more, few = whole.full // part.full, whole.small // part.small
        # What was always the same number must be it: it is no argument that may be another.
        length = part.text if part.full != part.small else str(part.full)
        share = f"({whole.text} // {length})"
        for power, text in ((1, share), (2, f"{share} ** 2")):
            beside = full - more**power
            if more != few and beside == small - few**power and 0 <= beside <= _MOST_TOKENS:
                yield _linear(1, text, beside)


def _linear(times: int, text: str, offset: int) -> str:
    product = text if times == 1 else f"{times} * {text}"
    if not offset:
        return product
    return f"{product} + {offset}" if offset > 0 else f"{product} - {-offset}"
