"""Sizes as variables: tensors without contents whose dimensions the compiler must not fix.

A problem that is executed at smaller sizes than the user's needs a program that holds for both. The
dimensions in which the two differ become symbols; one that the forward fixes all the same is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from sympy import Eq, Expr, Le, expand, factor, false, true  # type: ignore[import-untyped]
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.utils._sympy.functions import Mod, PythonMod
from torch.utils._sympy.printers import PythonPrinter

Bounds = tuple[tuple[str, int], ...]
_MOST_COUNTED = (1 << 31) - 1
"""The largest number of elements for which Inductor counts in 32 bits."""


class SizeIsFixed(Exception):
    """A size that must be a variable is a number in the program; the message says which."""


@dataclass(frozen=True)
class Sizes:
    """What the symbols of one program mean."""

    shapes: tuple[tuple[str, ...], ...] = ()
    """By tensor, each dimension as Python text: `3`, `s0`, `2*s0`."""
    strides: tuple[tuple[str, ...], ...] = ()
    """By tensor, each stride."""
    full: Mapping[str, int] = field(default_factory=dict)
    """Each symbol at the user's sizes."""
    small: Mapping[str, int] = field(default_factory=dict)
    """Each symbol at the sizes that are executed."""
    most: tuple[tuple[str, int], ...] = ()
    """What was assumed of other sizes: numbers, as Python text, and how large each may be."""
    multiples: tuple[tuple[str, int], ...] = ()
    """The same: numbers, and of what each must be a multiple."""


class SymbolicTensors:
    """Fake twins of the tensors a program takes, with symbols where the smaller ones differ."""

    def __init__(self, tensors: Sequence[torch.Tensor], smaller: Sequence[torch.Tensor]) -> None:
        """Raises `SizeIsFixed` where the two have not even the same number of dimensions."""
        self._env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self._smaller = smaller
        self.tensors = [
            self._twin(at, *pair) for at, pair in enumerate(zip(tensors, smaller, strict=True))
        ]

    def _twin(self, at: int, tensor: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != small.dim():
            raise SizeIsFixed(
                f"a tensor has {tensor.dim()} dimensions, and {small.dim()} where it is executed"
            )
        dynamic = [
            DimDynamic.STATIC if big == few else DimDynamic.DYNAMIC
            for big, few in zip(tensor.shape, small.shape, strict=True)
        ]
        lengths = {1, *(n * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))}
        if DimDynamic.DYNAMIC in dynamic and not lengths.issuperset(tensor.stride()):
            raise SizeIsFixed(
                f"a tensor is a part of a larger one, with strides of {tuple(tensor.stride())} that do "
                f"not follow from its sizes {tuple(tensor.shape)}"
            )
        context: Any = StatelessSymbolicContext(dynamic_sizes=dynamic)
        made: torch.Tensor = self.mode.from_tensor(
            tensor, symbolic_context=context, source=ConstantSource(f"t{at}")
        )
        return made

    def sizes(self) -> Iterator[tuple[int, int, Any]]:
        """Each variable dimension: its size, the smaller one, and its symbol as an integer."""
        for tensor, small in zip(self.tensors, self._smaller, strict=True):
            for size, few in zip(tensor.shape, small.shape, strict=True):
                if isinstance(size, torch.SymInt):
                    yield int(size.node.hint), int(few), size

    def require_both(self) -> None:
        """Raises `SizeIsFixed` where what was traced so far holds for the user's sizes alone."""
        small: dict[Any, int] = {}
        for tensor, few in zip(self.tensors, self._smaller, strict=True):
            for size, fewer in zip(tensor.shape, few.shape, strict=True):
                if isinstance(size, torch.SymInt):
                    small[size.node.expr] = int(fewer)
        for guard in self._env.guards:
            # A symbol that turned out to be another one later stands in a guard as it was.
            expr = self._env.replace(guard.expr)
            if isinstance(expr, Eq) and expr.xreplace(small) == false:
                raise SizeIsFixed(
                    f"its forward holds only where {guard.expr.lhs} is {guard.expr.rhs}, which it is not at the "
                    f"sizes that are executed"
                )

    def settled(self) -> Sizes:
        """What was learnt while the program was made; raises `SizeIsFixed`."""
        full: dict[str, int] = {}
        small: dict[str, int] = {}
        shapes = []
        for tensor, few in zip(self.tensors, self._smaller, strict=True):
            shape = []
            for size, fewer in zip(tensor.shape, few.shape, strict=True):
                if not isinstance(size, torch.SymInt):
                    shape.append(str(int(size)))
                    continue
                formula = self._env.replace(size.node.expr)
                hint = int(size.node.hint)
                if formula.is_number:
                    raise SizeIsFixed(
                        f"its forward holds for a size of {hint} alone, and it is executed with {fewer}"
                    )
                if formula.is_Symbol:
                    full[str(formula)], small[str(formula)] = hint, int(fewer)
                shape.append(str(formula))
            shapes.append(tuple(shape))
        strides = tuple(tuple(map(self._text, t.stride())) for t in self.tensors)
        return Sizes(tuple(shapes), strides, full, small, *self._assumed(full, small))

    def _assumed(self, full: Mapping[str, int], small: Mapping[str, int]) -> tuple[Bounds, Bounds]:
        """Upper bounds and divisors that tracing and compiling took for granted at the given sizes.

        That two sizes are the same is in the shapes already, and that one is not another is no limit but a
        branch not taken. What is not so at the sizes that are executed, the judge has seen to do no harm.
        """
        most: dict[str, int] = {}
        multiples: dict[str, int] = {}
        for guard in self._env.guards:
            expr = self._env.replace(guard.expr)
            if expr in (true, false) or any(_at(expr, known) != true for known in (full, small)):
                continue
            match expr:
                case Le(lhs=lhs, rhs=rhs):
                    offset, size = expand(lhs - rhs).as_coeff_Add()
                    if offset.is_Integer and offset < 0 and size.free_symbols:
                        size, limit = as_counted(size, -int(offset))
                        text = _printed(size)
                        most[text] = min(limit, most.get(text, limit))
                case Eq(lhs=(Mod() | PythonMod()) as rest, rhs=rhs) if (
                    rhs == 0 and rest.args[1].is_Integer
                ):
                    multiples[_printed(rest.args[0])] = int(rest.args[1])
        return tuple(most.items()), tuple(multiples.items())

    def of(self, tensors: Sequence[torch.Tensor]) -> Sizes:
        """The same of other tensors of the program, once it is made."""
        settled = self.settled()
        shapes = tuple(tuple(map(self._text, t.shape)) for t in tensors)
        strides = tuple(tuple(map(self._text, t.stride())) for t in tensors)
        return replace(settled, shapes=shapes, strides=strides)

    def at_the_users_sizes(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the program without contents and without symbols."""
        shape, strides = (
            [int(n.node.hint) if isinstance(n, torch.SymInt) else int(n) for n in numbers]
            for numbers in (tensor.shape, tensor.stride())
        )
        return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")

    def _text(self, size: Any) -> str:
        if isinstance(size, torch.SymInt):
            return str(self._env.replace(size.node.expr))
        return str(int(size))


def _at(expr: Expr, known: Mapping[str, int]) -> Expr:
    """What it is at these sizes."""
    return expr.xreplace({s: known[str(s)] for s in expr.free_symbols if str(s) in known})


def as_counted(size: Expr, most: int) -> tuple[Expr, int]:
    """A bound as a reader knows it: `(width + 1) * (height + 1)` elements rather than a sum of one less."""
    whole = factor(size + _MOST_COUNTED - most)
    if most < _MOST_COUNTED and whole.is_Mul and len(_factors(whole)) > 1:
        return whole, _MOST_COUNTED
    return factor(size), most


def _factors(product: Expr) -> list[Expr]:
    return [part for part in product.args if not part.is_number]


def _printed(expr: Expr) -> str:
    return str(PythonPrinter().doprint(expr))


@contextmanager
def sizes_as_variables(
    module: torch.nn.Module, smaller: torch.nn.Module, sizes: Sequence[tuple[int, int, Any]]
) -> Iterator[None]:
    """While it is traced, the module's own numbers follow the symbols: the groups of a convolution."""
    kept: list[tuple[torch.nn.Module, str, Any]] = []
    others = dict(smaller.named_modules())
    for path, part in module.named_modules():
        few = vars(others[path]) if path in others else {}
        for name, value in list(vars(part).items()):
            replaced = _followed(value, few.get(name), sizes)
            if replaced is not value:
                kept.append((part, name, value))
                part.__dict__[name] = replaced
    try:
        yield
    finally:
        for part, name, value in kept:
            part.__dict__[name] = value


def _followed(value: Any, few: Any, sizes: Sequence[tuple[int, int, Any]]) -> Any:
    if isinstance(value, tuple | list) and isinstance(few, tuple | list) and len(value) == len(few):
        parts = [_followed(v, f, sizes) for v, f in zip(value, few, strict=True)]
        same = all(part is v for part, v in zip(parts, value, strict=True))
        return value if same else type(value)(parts) if type(value) in (tuple, list) else value
    if type(value) is not int or type(few) is not int or value == few:
        return value
    for big, small, symbol in sizes:
        if (big, small) == (value, few):
            return symbol
    for big, small, symbol in sizes:
        times, rest = divmod(value, big)
        if times and not rest and times * small == few:
            return times * symbol
        share, rest = divmod(big, value)
        if share and not rest and share * few == small:
            return symbol // share
    return value
