"""How the tensors of a captured program lie in memory, and which steps read and write them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from kernelagent.models.compiler.capturing.capture import Captured, Value
from kernelagent.models.compiler.program.dataflow import names_in
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import (
    Allocate,
    Launch,
    Program,
    Size,
    Step,
    Torch,
    elements,
)
from kernelagent.models.compiler.templates.attention.attended import (
    attention_of,
    gradient_of,
    part_of,
    result_layout,
)
from kernelagent.models.compiler.templates.convolution.convolved import (
    contiguous,
    convolution_of,
    result_shape,
)
from kernelagent.models.compiler.templates.pooling.pooled import pool_of
from kernelagent.models.compiler.templates.pooling.pooled import result_shape as pooled_shape
from kernelagent.models.compiler.templates.recurrent.stepped import recurrence_of
from kernelagent.models.compiler.templates.recurrent.stepped import result_shape as states_shape

ZERO, ONE, TWO = map(ast.Constant, range(3))


@dataclass(frozen=True)
class Layout:
    """A tensor of the program: a storage, and where in it the elements stand."""

    storage: str
    """The program's first name for the memory; views and reuses share it."""
    shape: tuple[ast.expr, ...]
    strides: tuple[ast.expr, ...]
    dtype: str
    """As in the source, `torch.float32`."""
    offset: ast.expr = ZERO
    given: str | None = None
    """The kind of the module's tensor it is, `parameter` or `input`; None for a buffer of the program."""

    @property
    def starts_at_zero(self) -> bool:
        return ast.unparse(self.offset) == "0"


def apart(captured: Captured, program: Program) -> set[int]:
    """Results, by place, that lie in the memory of an earlier one, where the original's do not.

    The compiler may return the last row of all states for the last state. And all that lie in the states of
    every step of a recurrence, which would be kept for them.
    """
    layouts = Layouts(captured, program)
    states = {call.out for step in program.steps if (call := recurrence_of(step)) is not None}
    tensors = [leaf for leaf in captured.outputs if isinstance(leaf, torch.Tensor)]
    owners: dict[str, object] = {}
    copied = set()
    for at, (node, tensor) in enumerate(zip(program.results, tensors, strict=True)):
        memory = tensor.untyped_storage()._cdata
        for storage in layouts.storages(node):
            if owners.setdefault(storage, memory) != memory or storage in states:
                copied.add(at)
    return copied


def stands_in_order(layout: Layout, sizes: Sequence[Mapping[str, int]], what: str) -> bool:
    """True where the elements stand one after another, from the storage's first on, at these sizes."""
    if not layout.starts_at_zero:
        return False
    for values in sizes:
        running = 1
        for size, step in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
            length = number(size, values, what)
            if length > 1 and number(step, values, what) != running:
                return False
            running *= length
    return True


class Layouts:
    """Every tensor of one program by name; names are given once."""

    def __init__(self, captured: Captured, program: Program) -> None:
        self._by_name: dict[str, Layout] = {}
        self._pairs: dict[str, tuple[Layout, ...]] = {}
        texts, strides = captured.sizes.shapes, captured.sizes.strides
        for at, (argument, value) in enumerate(
            zip(program.arguments, captured.values, strict=False)
        ):
            layout = _of_value(
                argument, value, texts[at] if texts else None, strides[at] if strides else None
            )
            if layout is not None:
                self._by_name[argument] = layout
        for step in program.steps:
            self._learn(step)

    def of(self, node: ast.expr) -> Layout | None:
        """The layout of a name or of a view of one; None where it is not known."""
        if isinstance(node, ast.Name):
            return self._by_name.get(node.id)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reinterpret_tensor":
            base, shape, strides, offset = node.args
            below = self.of(base)
            if below is None or not below.starts_at_zero:
                return None
            return Layout(
                below.storage,
                elements(shape),
                elements(strides),
                below.dtype,
                offset,
                below.given,
            )
        return None

    def storages(self, node: ast.AST) -> frozenset[str]:
        """The storages of every tensor that an expression or a statement names."""
        names = (self._by_name.get(name) for name in names_in(node))
        return frozenset(layout.storage for layout in names if layout is not None)

    def is_alias(self, step: Step) -> bool:
        """True for a step that only gives a tensor, or a view of it, another name."""
        return isinstance(step, Torch) and _renamed(step) is not None

    def written(self, program: Program, step: Step) -> frozenset[str]:
        """The storages that a step may change; what is not known to be left alone counts."""
        if isinstance(step, Launch):
            return self._of_parameters(program, step, ("out_ptr", "in_out_ptr"))
        result = convolution_of(step) or attention_of(step) or pool_of(step) or recurrence_of(step)
        if result is None and (gradient := gradient_of(step)) is not None:
            result = gradient.attention
        if result is not None:
            return self.storages(ast.Name(result.out, ast.Load()))
        if isinstance(step, Torch) and not self.is_alias(step):
            value = getattr(step.statement, "value", None)
            keywords = value.keywords if isinstance(value, ast.Call) else []
            out = [keyword.value for keyword in keywords if keyword.arg == "out"]
            return self.storages(out[0]) if out else self.storages(step.statement)
        return frozenset()

    def read(self, program: Program, step: Step) -> frozenset[str]:
        """The storages whose contents a step needs."""
        if isinstance(step, Launch):
            return self._of_parameters(program, step, ("in_ptr", "in_out_ptr"))
        if isinstance(step, Torch) and not self.is_alias(step):
            value = getattr(step.statement, "value", None)
            if isinstance(value, ast.Call):
                parts = [*value.args, *(k.value for k in value.keywords if k.arg != "out")]
                return frozenset().union(*(self.storages(part) for part in parts))
            return self.storages(step.statement)
        return frozenset()

    def _of_parameters(
        self, program: Program, step: Launch, beginnings: Sequence[str]
    ) -> frozenset[str]:
        named = arguments_of(program, step).items()
        result = (self.storages(v) for p, v in named if p.startswith(tuple(beginnings)))
        return frozenset().union(*result)

    def _learn(self, step: Step) -> None:
        if isinstance(step, Allocate):
            self._by_name[step.name] = Layout(step.name, step.shape, step.strides, step.dtype)
        elif isinstance(step, Torch) and (pair := _renamed(step)) is not None:
            layout = self.of(pair[1])
            if layout is not None:
                self._by_name[pair[0]] = layout
        elif (call := convolution_of(step)) is not None:
            x, weight = self.of(call.x), self.of(call.weight)
            shape = result_shape(call, x.shape, weight.shape) if x and weight else None
            if shape is not None and x is not None:
                strides = contiguous(shape)
                self._by_name[call.out] = Layout(call.out, shape, strides, x.dtype)
        elif (pooled := pool_of(step)) is not None:
            images = self.of(pooled.x)
            if images is not None:
                places = pooled_shape(pooled, images.shape)
                strides = contiguous(places)
                self._by_name[pooled.out] = Layout(pooled.out, places, strides, images.dtype)
        elif (recurrence := recurrence_of(step)) is not None:
            gates, hidden = self.of(recurrence.gates), self.of(recurrence.hidden)
            if gates is not None and hidden is not None:
                states = states_shape(recurrence, gates.shape, hidden.shape)
                strides = contiguous(states)
                self._by_name[recurrence.out] = Layout(
                    recurrence.out, states, strides, hidden.dtype
                )
        elif (taken := part_of(step)) is not None:
            if taken.of in self._pairs:
                made = self._pairs[taken.of][taken.number]
                self._by_name[taken.name] = replace(made, storage=taken.name)
        else:
            self._learn_attention(step)

    def _learn_attention(self, step: Step) -> None:
        gradient = gradient_of(step)
        attended = attention_of(step) if gradient is None else gradient.attention
        if attended is None:
            return
        query, key, value = map(self.of, (attended.query, attended.key, attended.value))
        if query is None or key is None or value is None:
            return
        name, dtype = attended.out, query.dtype
        if gradient is None:
            likes = [(query.shape, value.shape)]
        else:
            likes = (
                [(query.shape,) * 2]
                if gradient.of_query
                else [(key.shape,) * 2, (value.shape,) * 2]
            )
        results = [Layout(name, *result_layout(*like), dtype) for like in likes]
        if gradient is None and attended.results == 2:
            rows = (*query.shape[:3], TWO)
            results.append(Layout(name, rows, contiguous(rows), "torch.float32"))
        self._pairs[name] = tuple(results)
        if len(results) == 1:
            self._by_name[name] = results[0]


class Site(Protocol):
    """What `unneeded` asks of a template's site."""

    @property
    def steps(self) -> frozenset[int]: ...

    @property
    def tensors(self) -> frozenset[str]: ...


def arguments_of(program: Program, step: Launch) -> dict[str, ast.expr]:
    """A launch's arguments by the kernel's parameters, block sizes left out."""
    function = program.kernels[step.kernel].function
    parameters = [p.arg for p in function.args.args if not p.arg.endswith("BLOCK")]
    return dict(zip(parameters, step.arguments, strict=True))


def mentioned(program: Program) -> Iterator[tuple[int, ast.AST]]:
    """Every expression of the steps and of the results, by step; results come after the last."""
    for at, step in enumerate(program.steps):
        if isinstance(step, Launch):
            yield from ((at, argument) for argument in step.arguments)
        elif isinstance(step, Torch):
            yield at, step.statement
        elif isinstance(step, Size):
            yield at, step.value
    yield from ((len(program.steps), result) for result in program.results)


def unneeded(captured: Captured, program: Program, sites: Sequence[Site]) -> frozenset[int]:
    """Indices of the steps that can be dropped once `sites` replace a part of the program.

    Those that the sites take over, and the allocations and aliases of buffers that nothing else uses.
    """
    layouts = Layouts(captured, program)
    gone = frozenset[int]().union(*(site.steps for site in sites))
    used = set().union(*(site.tensors for site in sites))
    for at, node in mentioned(program):
        step = program.steps[at] if at < len(program.steps) else None
        if at not in gone and (step is None or not layouts.is_alias(step)):
            used |= layouts.storages(node)
    unused = set()
    for at, step in enumerate(program.steps):
        if isinstance(step, Allocate) and step.name not in used:
            unused.add(at)
        elif isinstance(step, Torch) and layouts.is_alias(step):
            storages = layouts.storages(step.statement)
            # A name is given to what is there already; without its buffer it means nothing.
            if storages and not storages & used:
                unused.add(at)
    return gone | unused


def _of_value(
    argument: str, value: Value, texts: tuple[str, ...] | None, steps_of: tuple[str, ...] | None
) -> Layout | None:
    tensor = value.tensor
    shape = texts if texts is not None else tuple(map(str, tensor.shape))
    if all(text.isdigit() for text in shape):
        own = [str(step) for step in tensor.stride()]
        strides = _contiguous(shape) if tensor.is_contiguous() else own
    elif tensor.is_contiguous():
        strides = _contiguous(shape)
    elif value.kind in ("saved", "kept") and steps_of is not None:
        # Our own code keeps it as the compiler has it.
        strides = list(steps_of)
    else:
        return None
    sizes, steps = (
        tuple(ast.parse(text, mode="eval").body for text in row) for row in (shape, strides)
    )
    return Layout(argument, sizes, steps, str(tensor.dtype), given=value.kind)


def _contiguous(shape: Sequence[str]) -> list[str]:
    """Strides of a tensor whose elements stand one after another, as text."""
    strides: list[str] = []
    running, factors = 1, list[str]()
    for text in reversed(shape):
        strides.insert(0, " * ".join([*factors, *([str(running)] if running > 1 else [])]) or "1")
        if text.isdigit():
            running *= int(text)
        else:
            factors.append(f"({text})")
    return strides


def _renamed(step: Torch) -> tuple[str, ast.expr] | None:
    """`buf1 = buf0`, or a view of it under a name of its own."""
    statement = step.statement
    if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
        return None
    value = statement.value
    view = isinstance(value, ast.Call) and ast.unparse(value.func) == "reinterpret_tensor"
    return (statement.targets[0].id, value) if isinstance(value, ast.Name) or view else None
