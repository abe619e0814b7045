"""The inputs a candidate is judged on: drawn anew for each seed, shrunk where the device needs it.

A problem whose real size would keep an interpreter busy for hours is run with a smaller leading
dimension. The full sizes are kept as meta tensors, for everything that needs no execution.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from kernelagent.errors import ProblemError
from kernelagent.tools.judge.load import Arguments, LoadedProblem, users_traceback
from kernelagent.tools.virtual.eager import eager_rows

INTERPRETED_BYTES = 4 << 20
"""Input and output bytes of one forward that `virtual` executes in about a second."""
INTERPRETED_FLOPS = 1 << 30
_SLICED_BYTES = 2 << 30
_FACTORIES = frozenset(
    "rand randn randint empty zeros ones full normal arange linspace randperm eye tensor".split()
)
_SIZED_BY_FIRST = frozenset({"arange", "linspace", "randperm", "eye", "tensor"})
Scope = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Shrunk:
    """The leading dimension in question: `was` elements in the user's inputs, `now` in those run."""

    was: int
    now: int


@dataclass(frozen=True)
class InputSource:
    """One input set: how to draw it, and what it looks like at full size."""

    name: str
    full: Arguments
    """At the user's sizes; meta tensors when `shrunk`."""
    draw: Callable[[int], Arguments]
    """Fresh inputs on the device for a seed, at the size that is executed."""
    shrunk: Shrunk | None = None


def input_sources(
    problem: LoadedProblem,
    module: torch.nn.Module,
    device: str,
    scope: Scope,
    *,
    may_shrink: bool,
) -> tuple[InputSource, ...]:
    """All input sets of the problem; raises `ProblemError` when one is too large and cannot shrink."""
    described = _without_contents(problem, scope) if may_shrink else None
    if described is None:
        with scope():
            described = problem.input_sets()
    sources = []
    for name, full in described.items():
        shrunk = _needed_shrink(name, full, module) if may_shrink else None
        if shrunk is None:
            source = InputSource(name, _on_meta(full), _drawer(problem, name, device, scope, None))
        else:
            draw = _shrunk_drawer(problem, module, name, full, device, scope, shrunk)
            source = InputSource(name, _on_meta(full), draw, shrunk)
        sources.append(source)
    return tuple(sources)


def seed_everything(seed: int) -> None:
    """The generators a user's input function may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))


def _drawer(
    problem: LoadedProblem, name: str, device: str, scope: Scope, mode: Shrunk | None
) -> Callable[[int], Arguments]:
    def draw(seed: int) -> Arguments:
        seed_everything(seed)
        with scope(), nullcontext() if mode is None else _SmallerFactories(mode):
            args, kwargs = problem.input_sets()[name]
        return _moved((args, kwargs), device)

    return draw


def _shrunk_drawer(
    problem: LoadedProblem,
    module: torch.nn.Module,
    name: str,
    full: Arguments,
    device: str,
    scope: Scope,
    shrunk: Shrunk,
) -> Callable[[int], Arguments]:
    made_smaller = _drawer(problem, name, device, scope, shrunk)
    if _fits(module, _or_none(made_smaller, 0), shrunk):
        return made_smaller
    if _bytes_of(full) <= _SLICED_BYTES:
        whole = _drawer(problem, name, device, scope, None)
        count = sum(isinstance(v, torch.Tensor) for v in tree_leaves(full))
        for chosen in (None, *range(count)):
            sliced = _slicer(whole, shrunk, chosen)
            if _fits(module, _or_none(sliced, 0), shrunk):
                return sliced
    raise ProblemError(
        f"input set {name!r} is too large to execute without a GPU "
        f"({_bytes_of(full) / 1e6:,.0f} MB), and its leading dimension of {shrunk.was} cannot be "
        f"made smaller: the forward does not accept {shrunk.now}. Give smaller inputs with "
        f"--inputs FUNCTION, or use a machine with a GPU and --device cuda"
    )


def _slicer(
    whole: Callable[[int], Arguments], shrunk: Shrunk, chosen: int | None
) -> Callable[[int], Arguments]:
    """Cut the leading dimension of all tensors that have it, or of the `chosen`-th tensor only."""

    def draw(seed: int) -> Arguments:
        position = -1

        def cut(value: Any) -> Any:
            nonlocal position
            if not isinstance(value, torch.Tensor):
                return value
            position += 1
            has_it = value.dim() > 0 and value.shape[0] == shrunk.was
            wanted = chosen is None or position == chosen
            return value[: shrunk.now].clone() if has_it and wanted else value

        return _pair(tree_map(cut, whole(seed)))

    return draw


def _needed_shrink(name: str, full: Arguments, module: torch.nn.Module) -> Shrunk | None:
    try:
        moved, operations = _work(full, module)
    except Exception:  # noqa: BLE001 - a forward that cannot run without contents: judge by its inputs
        moved, operations = 2 * _bytes_of(full), 0
    factor = max(moved / INTERPRETED_BYTES, operations / INTERPRETED_FLOPS)
    if factor <= 1:
        return None
    leading = _leading_dimension(full)
    if leading is None:
        raise ProblemError(
            f"input set {name!r} moves {moved / 1e6:,.0f} MB and has no dimension to shrink; give "
            f"smaller inputs with --inputs FUNCTION, or use a machine with a GPU and --device cuda"
        )
    fewer = int(leading / factor)
    now = max(4, fewer // 16 * 16 if fewer >= 32 else fewer)
    return Shrunk(leading, now) if now < leading else None


def _leading_dimension(full: Arguments) -> int | None:
    tensors = [v for v in tree_leaves(full) if isinstance(v, torch.Tensor) and v.dim() > 0]
    largest = max(tensors, key=lambda t: t.numel() * t.element_size(), default=None)
    return int(largest.shape[0]) if largest is not None else None


def _work(full: Arguments, module: torch.nn.Module) -> tuple[int, int]:
    """Bytes in and out of one forward and its floating point operations, without computing it."""
    args, kwargs = _on_meta(full)
    outputs: list[Any] = []
    rows = eager_rows(lambda *a, **k: outputs.append(meta_twin(module)(*a, **k)), args, kwargs)
    return _bytes_of(full) + _bytes_of(outputs), sum(row.dot_flops for row in rows)


def _fits(module: torch.nn.Module, arguments: Arguments | None, shrunk: Shrunk) -> bool:
    """True when the reference accepts these inputs and they really are smaller."""
    if arguments is None or not any(
        isinstance(v, torch.Tensor) and v.dim() > 0 and v.shape[0] == shrunk.now
        for v in tree_leaves(arguments)
    ):
        return False
    args, kwargs = _on_meta(arguments)
    try:
        with torch.no_grad():
            meta_twin(module)(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the user's forward may refuse the size in any way
        return False
    return True


def meta_twin(module: torch.nn.Module) -> torch.nn.Module:
    """The module with tensors that have shapes and hold nothing."""
    return copy.deepcopy(module).to("meta")


def _or_none(draw: Callable[[int], Arguments], seed: int) -> Arguments | None:
    try:
        return draw(seed)
    except ProblemError:
        return None


def _without_contents(problem: LoadedProblem, scope: Scope) -> Mapping[str, Arguments] | None:
    """The input sets as meta tensors, without their memory; None where the generator needs values."""
    try:
        with scope(), torch.device("meta"):
            made = problem.input_sets()
    except ProblemError:
        return None
    return made


class _SmallerFactories(TorchFunctionMode):
    """Makes factories that ask for `was` in their first size give `now`."""

    def __init__(self, shrunk: Shrunk) -> None:
        super().__init__()
        self._shrunk = shrunk

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _FACTORIES and name not in _SIZED_BY_FIRST:
            args = tuple(self._smaller(value, i, args) for i, value in enumerate(args))
            if "size" in named:
                named["size"] = self._shape(named["size"])
        return func(*args, **named)

    def _smaller(self, value: Any, position: int, args: tuple[Any, ...]) -> Any:
        if isinstance(value, list | tuple | torch.Size):
            return self._shape(value)
        sizes_follow = position == 0 and all(isinstance(v, int) for v in args)
        return self._shrunk.now if sizes_follow and value == self._shrunk.was else value

    def _shape(self, shape: Any) -> Any:
        if len(shape) > 0 and shape[0] == self._shrunk.was:
            return (self._shrunk.now, *shape[1:])
        return shape


def _on_meta(value: Any) -> Any:
    return tree_map(lambda v: v.to("meta") if isinstance(v, torch.Tensor) else v, value)


def _moved(arguments: Arguments, device: str) -> Arguments:
    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        try:
            return value.detach().to(device).requires_grad_(value.requires_grad)
        except RuntimeError as error:
            raise ProblemError(
                f"an input cannot be moved to {device}:\n{users_traceback(error)}"
            ) from error

    return _pair(tree_map(move, arguments))


def _pair(value: Any) -> Arguments:
    args, kwargs = value
    return args, kwargs


def _bytes_of(value: Any) -> int:
    return sum(
        v.numel() * v.element_size() for v in tree_leaves(value) if isinstance(v, torch.Tensor)
    )
