"""A step that is a convolution, read: its tensors, its steps over them, and the sizes of its result."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.symbolic_functions import CONVOLUTION
from kernelagent.models.compiler.program.program import Step, called


@dataclass(frozen=True)
class Call:
    """The arguments of one convolution; numbers by spatial axis."""

    out: str
    x: ast.expr
    weight: ast.expr
    bias: ast.expr | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: ast.expr


def convolution_of(step: Step) -> Call | None:
    """The convolution that a step is; None for any other step, and where its numbers are not given."""
    found = called(step, CONVOLUTION, 9)
    if found is None:
        return None
    out, arguments = found
    x, weight, bias, *numbers, groups = arguments
    try:
        stride, padding, dilation, transposed, added = map(ast.literal_eval, numbers)
    except ValueError:
        return None
    # One number stands for all axes, as where `padding="valid"` was given.
    axes = max(map(len, (stride, padding, dilation, added)))
    stride, padding, dilation, added = (
        tuple(given) * (axes if len(given) == 1 else 1)
        for given in (stride, padding, dilation, added)
    )
    return Call(
        out,
        x,
        weight,
        None if ast.unparse(bias) == "None" else bias,
        stride,
        padding,
        dilation,
        bool(transposed),
        added,
        groups,
    )


def result_shape(
    call: Call, x: Sequence[ast.expr], weight: Sequence[ast.expr]
) -> tuple[ast.expr, ...] | None:
    """The shape of the result; None where the window's size is no number."""
    window = window_of(weight)
    if window is None or len(x) != len(weight) or len(window) != len(call.stride):
        return None
    channels = _product(weight[1], call.groups) if call.transposed else weight[0]
    sizes = [_size(call, axis, size, window[axis]) for axis, size in enumerate(x[2:])]
    return (x[0], channels, *sizes)


def window_of(weight: Sequence[ast.expr]) -> tuple[int, ...] | None:
    """The window's size along each spatial axis; None where one is no number."""
    sizes = [node.value if isinstance(node, ast.Constant) else None for node in weight[2:]]
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if len(known) == len(sizes) else None


def contiguous(shape: Sequence[ast.expr]) -> tuple[ast.expr, ...]:
    """The strides of a tensor whose elements stand one after another."""
    strides: list[ast.expr] = []
    running: ast.expr = ast.Constant(1)
    for size in reversed(shape):
        strides.insert(0, running)
        running = _product(size, running)
    return tuple(strides)


def _size(call: Call, axis: int, size: ast.expr, window: int) -> ast.expr:
    step, border = call.stride[axis], 2 * call.padding[axis]
    reach = call.dilation[axis] * (window - 1)
    if call.transposed:
        end = reach + call.output_padding[axis] + 1
        return _sum(_product(size, ast.Constant(step)), end - step - border)
    places = _sum(size, border - reach - 1)
    if isinstance(places, ast.Constant) and isinstance(places.value, int):
        return ast.Constant(places.value // step + 1)
    if step == 1:
        return _sum(size, border - reach)
    return ast.BinOp(
        ast.BinOp(places, ast.FloorDiv(), ast.Constant(step)), ast.Add(), ast.Constant(1)
    )


def _sum(node: ast.expr, number: int) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + number)
    if number == 0:
        return node
    operator = ast.Add() if number > 0 else ast.Sub()
    return ast.BinOp(node, operator, ast.Constant(abs(number)))


def _product(left: ast.expr, right: ast.expr) -> ast.expr:
    pair = [n.value if isinstance(n, ast.Constant) else None for n in (left, right)]
    if isinstance(pair[0], int) and isinstance(pair[1], int):
        return ast.Constant(pair[0] * pair[1])
    if 1 in pair:
        return right if pair[0] == 1 else left
    return ast.BinOp(left, ast.Mult(), right)
