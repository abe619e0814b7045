"""The convolutions of a captured program as records, one to three spatial axes, transposed ones included.

The result is one matrix for each image: rows are output channels, columns are its places.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Program
from kernelagent.models.compiler.templates import Values
from kernelagent.models.compiler.templates.convolution.convolved import (
    Call,
    convolution_of,
    window_of,
)
from kernelagent.models.compiler.templates.layouts import (
    ONE,
    ZERO,
    Layout,
    Layouts,
    stands_in_order,
)
from kernelagent.models.compiler.templates.matmul.products import DTYPES, Dims, Mixed, Operand

_MOST_AXES = 3


@dataclass(frozen=True)
class Shape:
    """Sizes of a convolution at one set of sizes."""

    images: int
    channels_in: int
    channels_out: int
    groups: int
    places_in: tuple[int, ...]
    """By spatial axis."""
    places_out: tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """A step that convolves images that stand one after another, with its sizes."""

    at: int
    """Its step in the program."""
    call: Call
    window: tuple[int, ...]
    x: Operand
    weight: Operand
    bias: Operand | None
    out: Operand
    x_shape: tuple[ast.expr, ...]
    out_shape: tuple[ast.expr, ...]
    sizes: Shape
    """At the user's sizes."""
    fewer: Shape
    """At those that are executed."""

    @property
    def depthwise(self) -> bool:
        """Each output channel is made of one input channel, at both sizes."""
        both = (self.sizes, self.fewer)
        alone = all(s.groups == s.channels_in > 1 for s in both)
        return alone and len({s.channels_out // s.channels_in for s in both}) == 1

    @property
    def taps(self) -> int:
        """Elements of the window."""
        return math.prod(self.window)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What it reads."""
        return tuple(o for o in (self.x, self.weight, self.bias) if o is not None)

    @property
    def batch(self) -> ast.expr:
        """How many images."""
        return self.x_shape[0]

    @property
    def contiguous(self) -> bool:
        return True

    @property
    def mixed(self) -> Mixed:
        """Tiles go on from one image to the next."""
        return "rows" if self.depthwise else "columns"

    @property
    def full(self) -> Dims:
        """As matrices, at the user's sizes."""
        return self._dims(self.sizes)

    @property
    def small(self) -> Dims:
        """As matrices, at the sizes that are executed."""
        return self._dims(self.fewer)

    def _dims(self, s: Shape) -> Dims:
        inner = s.channels_in // s.groups * self.taps
        return Dims(s.images, s.channels_out, math.prod(s.places_out), inner)


def convolutions(
    program: Program, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Iterator[Convolution]:
    """Each convolution that a kernel of ours may compute, in order; `sizes`: the user's and the executed."""
    for at, step in enumerate(program.steps):
        call = convolution_of(step)
        if call is not None:
            made = _convolution(at, call, layouts, sizes, what)
            if made is not None:
                yield made


def _convolution(
    at: int, call: Call, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Convolution | None:
    x, weight, out = (layouts.of(n) for n in (call.x, call.weight, _name(call.out)))
    if x is None or weight is None or out is None or not 3 <= len(x.shape) <= 2 + _MOST_AXES:
        return None
    bias = None if call.bias is None else layouts.of(call.bias)
    window = window_of(weight.shape)
    known = [x, weight, out, *([] if bias is None else [bias])]
    if (call.bias is not None and bias is None) or window is None:
        return None
    if len({layout.dtype for layout in known}) != 1 or x.dtype not in DTYPES:
        return None
    if not all(stands_in_order(layout, sizes, what) for layout in known):
        return None

    def measured(values: Values) -> Shape:
        def those(shape: Sequence[ast.expr]) -> tuple[int, ...]:
            return tuple(number(size, values, what) for size in shape)

        images, channels_in, *places_in = those(x.shape)
        _, channels_out, *places_out = those(out.shape)
        groups = number(call.groups, values, what)
        return Shape(images, channels_in, channels_out, groups, tuple(places_in), tuple(places_out))

    full, fewer = map(measured, sizes)
    if any(min(s.images, *s.places_in, *s.places_out, s.channels_in) < 1 for s in (full, fewer)):
        return None
    return Convolution(
        at,
        call,
        window,
        _operand(call.x, x),
        _operand(call.weight, weight),
        None if bias is None or call.bias is None else _operand(call.bias, bias),
        _operand(_name(call.out), out),
        x.shape,
        out.shape,
        full,
        fewer,
    )


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _operand(node: ast.expr, layout: Layout) -> Operand:
    """A view that starts at its storage's beginning needs no view on the host: the shape says the rest."""
    while isinstance(node, ast.Call):
        node = node.args[0]
    return Operand(node, layout.storage, ZERO, ONE, ONE, layout.dtype, layout.given)
