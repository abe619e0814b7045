"""Sums and means of what a linear map gives, taken before the map: algebra that saves almost all of its work.

A sum over the outputs of `x @ w` is `x @ w.sum(1)`; one over its rows is `x.sum(0) @ w`; one over all places of a
transposed convolution without padding is a product of sums. Means alike; factors and terms that are a number, or one
for each column, may stand in between. In 16 bits the sums are kept in fp32, which is no less exact than the module.
"""

from __future__ import annotations

import math
import operator as py_operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings

MOVED = "moved reduction "
"""How the key of a choice begins that is whether a sum or a mean is taken before the map it is of."""
_ATEN = torch.ops.aten
_VIEWS = (_ATEN.view.default, _ATEN._unsafe_view.default, _ATEN.reshape.default)
_FACTORS = (_ATEN.mul.Tensor, _ATEN.div.Tensor)
_TERMS = (_ATEN.add.Tensor, _ATEN.sub.Tensor)
_CONVOLUTION = "convolution"
"""What both torch's and the policy's own operator are called."""
_PRODUCTS: Mapping[Any, int] = {_ATEN.mm.default: 0, _ATEN.addmm.default: 1}
"""Products, and where their factors begin among the arguments."""
_REDUCTIONS: Mapping[Any, str] = {_ATEN.sum.dim_IntList: "sum", _ATEN.mean.dim: "mean"}
_NARROW = (torch.float16, torch.bfloat16)
_TYPES = (torch.float32, *_NARROW)
_MORE_LAUNCHES = 2
"""Sums of weights and of terms, in kernels of their own."""


@dataclass(frozen=True)
class Moved:
    """A reduction that was moved, or stays where it is; `key` names it for choices."""

    key: str
    words: str
    done: bool


@dataclass(frozen=True)
class _Way:
    """How a reduction can be moved."""

    words: str
    saved_us: float
    """Of the product at its peak rate and of writing its results, less the launches that come instead."""
    write: Callable[[], Node]


@dataclass(frozen=True)
class _Map:
    """A linear map, what is done to each of its results, and how its results are viewed."""

    product: Node
    steps: tuple[tuple[Any, Any], ...] = ()
    """Operator and its other operand, in order: a number, or one for each column."""
    lead: tuple[Any, ...] | None = None
    """Sizes that the rows are viewed as; None where they are not."""


def with_reductions_moved(
    graph: GraphModule, gpu: DeviceCeilings, chosen: Mapping[str, bool] | None = None
) -> tuple[GraphModule, tuple[Moved, ...]]:
    """The graph with each such reduction before its map where that saves time by estimate.

    Nodes have their values in `meta`. `chosen`: which are moved, by key, where that is not what the estimate says.
    """
    result: list[Moved] = []
    # Numbered before anything is moved: a moved one may make another movable.
    for number, node in enumerate([n for n in graph.graph.nodes if n.target in _REDUCTIONS]):
        key = f"{MOVED}{number}"
        way = _way(graph, node, gpu)
        if way is None:
            continue
        done = (chosen or {}).get(key, way.saved_us > 0)
        if done:
            with graph.graph.inserting_before(node):
                moved = way.write()
            node.replace_all_uses_with(moved)
        result.append(Moved(key, way.words, done))
    if result:
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return graph, tuple(result)


def _way(graph: GraphModule, reduction: Node, gpu: DeviceCeilings) -> _Way | None:
    """How this reduction can be moved; None where it is none of a linear map."""
    value = reduction.meta["val"]
    if value.dtype not in _TYPES or reduction.kwargs.get("dtype") is not None:
        return None
    given, axes, keepdim = (*reduction.args, False)[:3]
    if not isinstance(given, Node) or not isinstance(axes, list | tuple) or not axes:
        return None
    found = _map_of(given)
    if found is None or found.product.meta["val"].dtype != value.dtype:
        return None
    if _is_written_between(found.product, reduction):
        return None
    rank = given.meta["val"].dim()
    over = sorted({int(axis) % rank for axis in axes})
    how = _How(graph, reduction, found, over, bool(keepdim))
    made = how.convolved() if _is_convolution(found.product) else how.product()
    if made is None:
        return None
    words, sizes, write = made
    operations = 2.0 * math.prod(map(_size, sizes))
    results = math.prod(map(_size, found.product.meta["val"].shape))
    rate = gpu.dot_rate("tf32" if value.dtype == torch.float32 else "bf16")
    moved = 2 * results * value.dtype.itemsize / gpu.dram_bytes_per_s
    saved = 1e6 * (operations / rate + moved) - _MORE_LAUNCHES * gpu.launch_us
    return _Way(words, saved, write)


def _size(size: Any) -> int:
    """At the user's sizes."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def _map_of(node: Node) -> _Map | None:
    """The map that this is, with numbers and views behind it, if nothing else reads any of it."""
    if node.op != "call_function" or len(node.users) != 1:
        return None
    if node.target in _PRODUCTS or _is_convolution(node):
        return _Map(node)
    before = _map_of(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if before is None:
        return None
    if node.target in _VIEWS:
        return _viewed(before, node)
    if node.target in (*_FACTORS, *_TERMS) and not node.kwargs and len(node.args) == 2:
        other = node.args[1]
        if node.meta["val"].dim() != node.args[0].meta["val"].dim():  # type: ignore[union-attr]
            return None
        if isinstance(other, int | float) or _is_by_column(other, before.product):
            return _Map(before.product, (*before.steps, (node.target, other)), before.lead)
    return None


def _is_written_between(first: Node, last: Node) -> bool:
    """Whether anything is changed in place between the two, which what is moved would then read."""
    node = first
    while node is not last:
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            return True
        node = node.next
    return False


def _is_convolution(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._opname == _CONVOLUTION


def _viewed(before: _Map, node: Node) -> _Map | None:
    """Rows in several axes; columns stay the last one."""
    sizes = node.args[1]
    if before.lead is not None or before.product.target not in _PRODUCTS:
        return None
    if not isinstance(sizes, list | tuple) or len(sizes) < 2:
        return None
    shape, columns = node.meta["val"].shape, before.product.meta["val"].shape[-1]
    if str(shape[-1]) != str(columns) or any(size == -1 for size in sizes):
        return None
    return _Map(before.product, before.steps, tuple(sizes[:-1]))


def _is_by_column(other: Any, product: Node) -> bool:
    """A tensor with one number for each column of a product, or one for all."""
    value = other.meta.get("val") if isinstance(other, Node) else None
    if not isinstance(value, torch.Tensor) or product.target not in _PRODUCTS:
        return False
    if value.dtype != product.meta["val"].dtype or not value.is_floating_point():
        return False
    *before, last = [1, *map(str, value.shape)]
    columns = str(product.meta["val"].shape[-1])
    return all(str(size) == "1" for size in before) and str(last) in ("1", columns)


@dataclass(frozen=True)
class _How:
    """One reduction and the map before it."""

    graph: GraphModule
    reduction: Node
    found: _Map
    over: Sequence[int]
    keepdim: bool

    def product(self) -> tuple[str, Sequence[Any], Callable[[], Node]] | None:
        """For a product of matrices: over its columns, or over some of its rows' axes."""
        lead = self.found.lead
        rank = 2 if lead is None else len(lead) + 1
        columns = self.over == [rank - 1]
        if not columns and rank - 1 in self.over:
            return None
        sizes = [*self._weights().meta["val"].shape, self.found.product.meta["val"].shape[0]]
        cols = _size(sizes[1])
        terms = any(step in _TERMS for step, _ in self.found.steps)
        has_term = terms or self.found.product.target is _ATEN.addmm.default
        if has_term and not self._bias_is_by_column():
            return None
        name = _REDUCTIONS[self.reduction.target]
        if columns:
            words = f"the {name} over the {cols} outputs of a product is one product with the {name} of its weights"
            return words, sizes, self._over_columns
        if has_term and name == "sum" and not all(isinstance(n, int) for n in self._lengths()):
            return None
        return f"the {name} over rows of a product is taken before it", sizes, self._over_rows

    def _weights(self) -> Node:
        right = self.found.product.args[_PRODUCTS[self.found.product.target] + 1]
        assert isinstance(right, Node)
        return right

    def _bias_is_by_column(self) -> bool:
        """What the product itself adds is one number for each column."""
        product = self.found.product
        if product.target is not _ATEN.addmm.default:
            return True
        plain = all(product.kwargs.get(name, 1) == 1 for name in ("alpha", "beta"))
        return plain and _is_by_column(product.args[0], product)

    def _factors(self) -> tuple[Node, Node]:
        left = self.found.product.args[_PRODUCTS[self.found.product.target]]
        assert isinstance(left, Node)
        return self._wide(left), self._wide(self._weights())

    def _columns(self, weights: Node) -> tuple[Node, Node | None]:
        """The weights and the terms by column, with all that is done to the results."""
        product = self.found.product
        first = self._call(_ATEN.slice.Tensor, weights, 0, 0, 1)
        nothing = self._call(_ATEN.zeros_like.default, first)
        term: Node | None = None
        if product.target is _ATEN.addmm.default:
            assert isinstance(product.args[0], Node)
            term = self._call(_ATEN.add.Tensor, nothing, self._row(product.args[0]))
        for operator, other in self.found.steps:
            by = self._row(other) if isinstance(other, Node) else other
            if operator in _TERMS:
                term = self._call(operator, nothing if term is None else term, by)
                continue
            weights = self._call(operator, weights, by)
            term = None if term is None else self._call(operator, term, by)
        return weights, term

    def _over_columns(self) -> Node:
        left, right = self._factors()
        weights, term = self._columns(right)
        reduce = self.reduction.target
        result = self._call(_ATEN.mm.default, left, self._call(reduce, weights, [1], True))
        if term is not None:
            result = self._call(_ATEN.add.Tensor, result, self._call(reduce, term, [1], True))
        return self._as_the_module_has_it(result)

    def _over_rows(self) -> Node:
        left, right = self._factors()
        weights, term = self._columns(right)
        inner = self._length(right, 0)
        reduce = self.reduction.target
        lead = self.found.lead
        if lead is not None:
            left = self._call(_ATEN.reshape.default, left, [*lead, inner])
        summed = self._call(reduce, left, list(self.over), True)
        flat = self._call(_ATEN.reshape.default, summed, [-1, inner])
        result = self._call(_ATEN.mm.default, flat, weights)
        if term is not None:
            times = math.prod(self._lengths()) if _REDUCTIONS[reduce] == "sum" else 1
            term = self._call(_ATEN.mul.Tensor, term, times) if times != 1 else term
            result = self._call(_ATEN.add.Tensor, result, term)
        return self._as_the_module_has_it(result)

    def _length(self, of: Node, axis: int) -> Any:
        """A size as the graph has it."""
        size = of.meta["val"].shape[axis]
        return size if isinstance(size, int) else self._call(_ATEN.sym_size.int, of, axis)

    def _lengths(self) -> list[Any]:
        """Sizes of the axes that are reduced."""
        given = self.reduction.args[0]
        assert isinstance(given, Node)
        return [given.meta["val"].shape[axis] for axis in self.over]

    def convolved(self) -> tuple[str, Sequence[Any], Callable[[], Node]] | None:
        """For a transposed convolution of which every input reaches every tap: over all places."""
        product = self.found.product
        *_, padding, _, transposed, _, groups = product.args[:9]
        value = product.meta["val"]
        places = list(range(2, value.dim()))
        numbers = all(not isinstance(other, Node) for _, other in self.found.steps)
        if not transposed or groups != 1 or any(padding) or self.over != places:  # type: ignore[arg-type]
            return None
        name = _REDUCTIONS[self.reduction.target]
        terms = product.args[2] is not None or any(step in _TERMS for step, _ in self.found.steps)
        known = all(isinstance(size, int) for size in value.shape[2:])
        if not numbers or value.dtype != torch.float32 or (name == "sum" and terms and not known):
            return None
        words = f"the {name} of all places of a transposed convolution is a product of sums"
        # Each input is multiplied with each tap.
        inputs, taps = (product.args[at].meta["val"].shape for at in (0, 1))  # type: ignore[union-attr]
        return words, [inputs[0], *inputs[2:], *taps], self._over_places

    def _over_places(self) -> Node:
        x, weight, bias = self.found.product.args[:3]
        assert isinstance(x, Node)
        assert isinstance(weight, Node)
        axes = list(self.over)
        taps = self._call(_ATEN.sum.dim_IntList, weight, axes)
        result = self._call(_ATEN.mm.default, self._call(_ATEN.sum.dim_IntList, x, axes), taps)
        mean = _REDUCTIONS[self.reduction.target] == "mean"
        if mean:
            result = self._call(_ATEN.div.Tensor, result, self._places(x, weight))
        # A sum has each term as often as there are places.
        times = 1.0 if mean else float(math.prod(map(_size, self._lengths())))
        if isinstance(bias, Node):
            added = self._call(_ATEN.mul.Tensor, bias, times)
            result = self._call(_ATEN.add.Tensor, result, added)
        for operator, other in self.found.steps:
            result = self._call(operator, result, other if operator in _FACTORS else other * times)
        return self._as_the_module_has_it(result)

    def _places(self, x: Node, weight: Node) -> Any:
        """How many places a transposed convolution without padding has, from its input's sizes."""
        steps, _, dilations, _, beyond = self.found.product.args[3:8]
        count: Any = 1
        for at, (step, dilation, more) in enumerate(zip(steps, dilations, beyond, strict=True)):  # type: ignore[arg-type]
            reach = dilation * (int(weight.meta["val"].shape[2 + at]) - 1) + more + 1
            size = self._length(x, 2 + at)
            if isinstance(size, int):
                length: Any = (size - 1) * step + reach
            else:
                scaled = self._call(py_operator.mul, size, step)
                length = self._call(py_operator.add, scaled, reach - step)
            both = isinstance(count, int) and isinstance(length, int)
            count = count * length if both else self._call(py_operator.mul, length, count)
        return count

    def _as_the_module_has_it(self, result: Node) -> Node:
        """In the reduction's own type and shape."""
        value = self.reduction.meta["val"]
        if result.meta["val"].dtype != value.dtype:
            result = self._call(_ATEN._to_copy.default, result, dtype=value.dtype)
        if self.found.lead is not None:
            return self._call(_ATEN.reshape.default, result, self._shape(self.found.lead))
        if not _is_convolution(self.found.product):
            return result if self.keepdim else self._call(_ATEN.squeeze.dims, result, [*self.over])
        for axis in self.over if self.keepdim else ():
            result = self._call(_ATEN.unsqueeze.default, result, axis)
        return result

    def _shape(self, lead: Sequence[Any]) -> list[Any]:
        """Sizes of what the reduction gives, as the graph names them."""
        given = self.reduction.args[0]
        assert isinstance(given, Node)
        named = [*lead, given.meta["val"].shape[-1]]
        kept = [1 if axis in self.over else size for axis, size in enumerate(named)]
        sizes = kept if self.keepdim else [s for a, s in enumerate(kept) if a not in self.over]
        # Only that of the columns can vary without a name: it is what remains.
        return [-1 if isinstance(size, torch.SymInt) else size for size in sizes]

    def _wide(self, node: Node) -> Node:
        """In fp32, if it is narrower."""
        if node.meta["val"].dtype not in _NARROW:
            return node
        return self._call(_ATEN._to_copy.default, node, dtype=torch.float32)

    def _row(self, node: Node) -> Node:
        """One number for each column, as a matrix of one row."""
        return self._call(_ATEN.reshape.default, self._wide(node), [1, -1])

    def _call(self, operator: Any, *arguments: Any, **named: Any) -> Node:
        node = self.graph.graph.call_function(operator, arguments, named)
        values = torch.fx.node.map_arg(arguments, lambda argument: argument.meta["val"])
        node.meta["val"] = operator(*values, **named)
        return node
