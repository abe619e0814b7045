"""The attentions of a captured program and their backwards as records, with their sizes and how their operands lie."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelagent.models.compiler.capturing.refusal import AttentionUnknown
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Program
from kernelagent.models.compiler.templates import Values
from kernelagent.models.compiler.templates.attention.attended import (
    Call,
    GradientCall,
    attention_of,
    gradient_of,
    part_of,
)
from kernelagent.models.compiler.templates.layouts import (
    ZERO,
    Layout,
    Layouts,
    stands_in_order,
)
from kernelagent.models.compiler.templates.matmul.products import DTYPES

AXES = ("batch", "head", "token", "dim")


@dataclass(frozen=True)
class Part:
    """A tensor of four axes as the kernel reads or writes it."""

    node: ast.expr
    """Spelled by the host: a tensor, or a view of one where it does not start at its beginning."""
    storage: str
    strides: tuple[ast.expr, ...]
    """0 along an axis that it does not have."""
    dtype: str


@dataclass(frozen=True)
class Extent:
    """Sizes of an attention at one set of sizes."""

    batch: int
    heads: int
    shared_heads: int
    """Of keys and values, each for as many heads of queries."""
    queries: int
    keys: int
    dims: int
    value_dims: int


@dataclass(frozen=True)
class Attention:
    """`softmax(scale * query @ key^T + mask) @ value`, for each head of each batch."""

    at: int
    """Its step in the program."""
    call: Call
    query: Part
    key: Part
    value: Part
    mask: Part | None
    results: tuple[Part | None, ...]
    """The weighted values; behind them what a backward reads of each row, where that is kept. None: nobody reads it."""
    steps: frozenset[int]
    """Its own and those that name its results."""
    shape: tuple[ast.expr, ...]
    """Of the weighted values."""
    keys: ast.expr
    shared_heads: ast.expr
    dims: ast.expr
    full: Extent
    """At the user's sizes."""
    small: Extent
    """At those that are executed."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it reads."""
        given = (self.query, self.key, self.value, self.mask)
        return tuple(part for part in given if part is not None)

    @property
    def tensors(self) -> frozenset[str]:
        """The storages that it reads or writes."""
        results = [part for part in self.results if part is not None]
        return frozenset(part.storage for part in (*self.parts, *results))

    @property
    def keeps_rows(self) -> bool:
        """Of a forward: a backward reads what each row was divided by."""
        return len(self.results) > 1

    @property
    def grouped(self) -> bool:
        """Several heads of queries share one of keys and values."""
        return any(s.heads != s.shared_heads for s in (self.full, self.small))

    @property
    def same_dims(self) -> bool:
        """Values are as long as keys."""
        return all(s.dims == s.value_dims for s in (self.full, self.small))


@dataclass(frozen=True)
class Gradient:
    """One part of an attention's backward."""

    call: GradientCall
    attention: Attention
    """What it is the backward of; its results are the gradients."""
    upstream: Part
    rows: Part
    delta: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """What it reads with strides of four axes."""
        return (*self.attention.parts, self.upstream)

    @property
    def read(self) -> frozenset[str]:
        """Storages that the attention alone did not read."""
        return frozenset(part.storage for part in (self.upstream, self.rows, self.delta))


def attentions(
    program: Program, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Iterator[Attention]:
    """Each attention that a kernel of ours may compute; `sizes`: the user's and the executed. Raises `AttentionUnknown`."""
    for at, step in enumerate(program.steps):
        call = attention_of(step)
        if call is not None:
            made = _attention(at, call, program, layouts, sizes, what)
            if made is not None:
                yield made
            elif call.results > 1:
                raise AttentionUnknown(what)


def gradients(
    program: Program, layouts: Layouts, sizes: tuple[Values, Values], what: str
) -> Iterator[tuple[int, Gradient]]:
    """Each part of a backward with its step; raises `AttentionUnknown`."""
    for at, step in enumerate(program.steps):
        call = gradient_of(step)
        if call is None:
            continue
        attention = _attention(at, call.attention, program, layouts, sizes, what)
        upstream, rows, delta = map(layouts.of, (call.upstream, call.rows, call.delta))
        if attention is None or upstream is None or rows is None or delta is None:
            raise AttentionUnknown(what)
        if not all(stands_in_order(layout, sizes, what) for layout in (rows, delta)):
            raise AttentionUnknown(what)
        parts = ((call.upstream, upstream), (call.rows, rows), (call.delta, delta))
        yield at, Gradient(call, attention, *(_part(node, layout) for node, layout in parts))


def _attention(
    at: int,
    call: Call,
    program: Program,
    layouts: Layouts,
    sizes: tuple[Values, Values],
    what: str,
) -> Attention | None:
    query, key, value = (layouts.of(n) for n in (call.query, call.key, call.value))
    if query is None or key is None or value is None:
        return None
    named = _named(at, call, program)
    results: list[Part | None] = []
    for place in range(call.results):
        node = named.get(place, (at, None))[1]
        layout = None if node is None else layouts.of(node)
        if node is not None and layout is None:
            return None
        results.append(None if node is None or layout is None else _part(node, layout))
    if {len(layout.shape) for layout in (query, key, value)} != {4}:
        return None
    if len({layout.dtype for layout in (query, key, value)}) != 1 or query.dtype not in DTYPES:
        return None

    def measured(values: Values) -> Extent:
        def of(node: ast.expr) -> int:
            return number(node, values, what)

        batch, heads, queries, dims = map(of, query.shape)
        return Extent(
            batch, heads, of(key.shape[1]), queries, of(key.shape[2]), dims, of(value.shape[3])
        )

    full, small = map(measured, sizes)
    for s in (full, small):
        if min(s.batch, s.shared_heads, s.queries, s.keys, s.dims, s.value_dims) < 1:
            return None
        if s.heads % s.shared_heads:
            return None
    mask = None
    if call.mask is not None:
        wanted = (*query.shape[:3], key.shape[2])
        mask = _mask(call.mask, layouts.of(call.mask), wanted, sizes, what)
        if mask is None:
            return None
    return Attention(
        at,
        call,
        _part(call.query, query),
        _part(call.key, key),
        _part(call.value, value),
        mask,
        tuple(results),
        frozenset({at, *(step for step, _ in named.values())}),
        (*query.shape[:3], value.shape[3]),
        key.shape[2],
        key.shape[1],
        query.shape[3],
        full,
        small,
    )


def _named(at: int, call: Call, program: Program) -> dict[int, tuple[int, ast.expr]]:
    """By its number the name of each result that anybody reads, and the step that names it."""
    if call.results == 1:
        return {0: (at, ast.Name(call.out, ast.Load()))}
    parts = ((n, part_of(step)) for n, step in enumerate(program.steps))
    return {
        part.number: (n, ast.Name(part.name, ast.Load()))
        for n, part in parts
        if part is not None and part.of == call.out
    }


def _mask(
    node: ast.expr,
    layout: Layout | None,
    wanted: Sequence[ast.expr],
    sizes: tuple[Values, Values],
    what: str,
) -> Part | None:
    """Of fewer or shorter axes, with a stride of 0 along those; None where its form is not known."""
    if layout is None or layout.dtype not in (*DTYPES, "torch.bool") or len(layout.shape) > 4:
        return None
    strides: list[ast.expr] = [ZERO] * (4 - len(layout.shape))
    for size, step, full in zip(layout.shape, layout.strides, wanted[len(strides) :], strict=True):
        pairs = [(number(size, v, what), number(full, v, what)) for v in sizes]
        if all(own == other for own, other in pairs):
            strides.append(step)
        elif all(own == 1 for own, _ in pairs):
            strides.append(ZERO)
        else:
            return None
    return _part(node, layout, tuple(strides))


def _part(node: ast.expr, layout: Layout, strides: tuple[ast.expr, ...] | None = None) -> Part:
    """A view that starts at its storage's beginning needs no view on the host: strides say the rest."""
    node = _whole(node) if layout.starts_at_zero else node
    return Part(node, layout.storage, strides or layout.strides, layout.dtype)


def _whole(node: ast.expr) -> ast.expr:
    """The tensor that a view of all of it is made of."""
    while isinstance(node, ast.Call):
        node = node.args[0]
    return node
