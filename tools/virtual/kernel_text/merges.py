"""Finds the operations in a kernel's text that may leave one of their operands as it is, so that it is noted.

Whatever a kernel computes for a rare case only has to come into its result somewhere: by `tl.where`, by a maximum or
minimum, by a product, a sum or an address. Where the case never came, that operation changed nothing, however the
case was recognised. The operand that changed nothing must be made of data: factors that are arguments may be one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

from kernelagent.tools.virtual.interpreter.loops import call
from kernelagent.tools.virtual.kernel_text.branches import Constants
from kernelagent.tools.virtual.kernel_text.conditions import is_condition
from kernelagent.tools.virtual.kernel_text.loaded import (
    Given,
    Shown,
    bindings,
    functions_that_load,
    given_to_functions,
    has_data,
    is_own,
    name_of,
    names_with_data,
    shown,
)

_KEEP_EITHER = (ast.Add, ast.Mult, ast.BitOr, ast.BitXor)
_KEEP_THE_FIRST = (ast.Sub, ast.Div, ast.FloorDiv, ast.LShift, ast.RShift)
_SMALLER_OR_LARGER = frozenset({"minimum", "maximum", "fmin", "fmax", "clamp"})
_OF_PYTHON = frozenset({"min", "max"})
_OPERANDS = ("x", "y", "min", "max")
"""What Triton calls them, where they are given by name."""
_ADD_PRODUCTS = {"fma": "z", "dot": "acc", "dot_scaled": "acc"}
"""Functions that add a product to an operand, and what Triton calls that."""
_NEVER_KEEP = frozenset(
    "load store load_tensor_descriptor store_tensor_descriptor make_block_ptr make_tensor_descriptor advance to cast "
    "join cat interleave split broadcast broadcast_to reshape view ravel trans permute expand_dims full full_like zeros "
    "zeros_like arange program_id num_programs range static_range static_print static_assert device_print device_assert "
    "debug_barrier assume multiple_of max_contiguous max_constancy constexpr inline_asm_elementwise reduce cdiv sum max "
    "min argmax argmin xor_sum reduce_or histogram sort topk flip dot_product softmax swizzle2d rand randn randint "
    "randint4x rand4x randn4x philox philox_impl pointer_type block_type tensor".split()
)
"""Functions of Triton's whose operands are no two numbers of which one may be the result, element by element."""
_SCANS = frozenset({"associative_scan", "cumsum", "cumprod"})
"""Functions that put together elements of one operand, and may leave each of them as it is."""
_THIRD = 2
"""The place of that operand, but for `dot_scaled`, which has it by name only."""


@dataclass(frozen=True)
class _Match:
    """An operation, before anything in it was rewritten."""

    node: ast.expr
    """Kept, so that no other node gets its identity."""
    method: str
    """Of `Effects`."""
    told: tuple[Any, ...]


class Merges:
    """Those of one function."""

    def __init__(
        self,
        function: ast.FunctionDef,
        first_line: int,
        scope: Mapping[str, Any],
        given: frozenset[str] = frozenset(),
        constants: Constants = MappingProxyType({}),
    ) -> None:
        """`given`: its parameters that are called with what was loaded; `constants`: those that are compiled in. Rewrites `a += b` in place."""
        self._function, self._first_line, self._scope = function, first_line, scope
        self._shown = Shown()
        self._bound = list(bindings(function, constants))
        self._loaded = names_with_data(self._bound, functions_that_load(scope) | given)
        self.given_further: Given = given_to_functions(function, scope, self._loaded)
        function.body = [_Spelled(self._loaded).visit(statement) for statement in function.body]
        result = (self._find(n) for statement in function.body for n in ast.walk(statement))
        self._by_node = {id(item.node): item for item in result if item is not None}
        self._begun = frozenset(self._names_begun())

    def put(self) -> None:
        """Put calls of `Effects` in place of them."""
        writer = _Writer(self._by_node, self._begun, self._loaded)
        self._function.body = [writer.visit(statement) for statement in self._function.body]

    def _names_begun(self) -> Iterator[str]:
        """Names that hold data later, and something else at first, as a sum before its loop does."""
        for names, value in self._bound:
            if not has_data(value, self._loaded):
                yield from names & self._loaded

    def _find(self, node: ast.AST) -> _Match | None:
        if isinstance(node, ast.BinOp):
            return None if is_condition(node) else self._operation(node)
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        name = self._known_as(node.func)
        if name == "where":
            return self._selection(node)
        if name in _ADD_PRODUCTS:
            return self._added(node, name)
        of_python = name in _OF_PYTHON and isinstance(node.func, ast.Name)
        if of_python or name in _SMALLER_OR_LARGER:
            return self._bounded(node)
        if name == "atomic_cas" and self._is_of_triton(node.func):
            return _Match(node, "exchanged", self._place(node))
        return self._of_any_function(node, name)

    def _of_any_function(self, node: ast.Call, name: str) -> _Match | None:
        """By whatever function of Triton's that is given several numbers, data among them."""
        known = name in _NEVER_KEEP or name.startswith(("atomic_", "_"))
        if known or not self._is_of_triton(node.func):
            return None
        parts = [*node.args, *(part.value for part in node.keywords if part.arg is not None)]
        of_data = [has_data(part, self._loaded) for part in parts]
        scans = name in _SCANS and of_data[:1] == [True]
        kept = tuple(
            shown(part) if (scans and at == 0) or any(of_data[:at] + of_data[at + 1 :]) else ""
            for at, part in enumerate(parts)
        )
        if len(parts) < 2 or not any(kept):
            return None
        return _Match(node, "called", (*self._place(node), kept))

    def _is_of_triton(self, called: ast.expr) -> bool:
        """Whether it is a function of one of Triton's modules, as `tl.add` and `libdevice.fdim` are."""
        if isinstance(called, ast.Name):
            value = self._scope.get(called.id)
            module = str(getattr(value, "__module__", ""))
            return module.startswith("triton.") and not isinstance(value, type)
        path: list[str] = []
        while isinstance(called, ast.Attribute):
            path.insert(0, called.attr)
            called = called.value
        value = self._scope.get(called.id) if isinstance(called, ast.Name) else None
        of_triton = isinstance(value, ModuleType) and value.__name__.startswith("triton.")
        for part in path if of_triton else ():
            value = getattr(value, part, None)
        return of_triton and value is not None and not is_own(value) and not isinstance(value, type)

    def _known_as(self, called: ast.expr) -> str:
        """What a function is, whatever the text calls it; of the text's own: nothing."""
        if not isinstance(called, ast.Name):
            return name_of(called)
        value = self._scope.get(called.id)
        if is_own(value):
            return ""
        return str(getattr(value, "__name__", called.id))

    def _operation(self, node: ast.BinOp) -> _Match | None:
        kind = type(node.op)
        left, right = has_data(node.left, self._loaded), has_data(node.right, self._loaded)
        first = shown(node.left) if right and kind in (*_KEEP_EITHER, *_KEEP_THE_FIRST) else ""
        second = shown(node.right) if left and kind in _KEEP_EITHER else ""
        if not first and not second:
            return None
        return _Match(node, "combined", (*self._place(node), kind.__name__, first, second))

    def _selection(self, node: ast.Call) -> _Match | None:
        named = {part.arg: part.value for part in node.keywords}
        parts = [*node.args, *(named[n] for n in ("condition", "x", "y") if n in named)]
        if len(parts) != 3 or not has_data(parts[0], self._loaded):
            return None
        return _Match(node, "selected", (*self._place(node), shown(parts[1]), shown(parts[2])))

    def _bounded(self, node: ast.Call) -> _Match | None:
        named = {part.arg: part.value for part in node.keywords}
        parts = [*node.args, *(named[n] for n in _OPERANDS if n in named)]
        if len(parts) < 2 or not any(has_data(part, self._loaded) for part in parts):
            return None
        operands = tuple((shown(p), _number(p), self._is_size(p)) for p in parts)
        return _Match(node, "bounded", (*self._place(node), operands))

    def _added(self, node: ast.Call, name: str) -> _Match | None:
        kept = next((p.value for p in node.keywords if p.arg == _ADD_PRODUCTS[name]), None)
        if kept is None and name != "dot_scaled" and len(node.args) > _THIRD:
            kept = node.args[_THIRD]
        if kept is None or not any(has_data(part, self._loaded) for part in node.args[:_THIRD]):
            return None
        return _Match(node, "added", (*self._place(node), shown(kept), _ADD_PRODUCTS[name]))

    def _is_size(self, node: ast.expr) -> bool:
        """Whether it may be a size or a number of places, as in `tl.minimum(index, n - 1)`."""
        numbers = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        return not has_data(node, self._loaded) and set(numbers) <= {0, 1}

    def _place(self, node: ast.expr) -> tuple[int, str]:
        return node.lineno + self._first_line - 1, self._shown(node)


class _Spelled(ast.NodeTransformer):
    """`a += b` as `a = a + b`."""

    def __init__(self, loaded: frozenset[str]) -> None:
        self._loaded = loaded

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name) or node.target.id not in self._loaded:
            return node
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], value), node)


class _Writer(ast.NodeTransformer):
    def __init__(
        self, by_node: Mapping[int, _Match], begun: frozenset[str], loaded: frozenset[str]
    ) -> None:
        self._by_node, self._begun, self._loaded = by_node, begun, loaded

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        result = self._by_node.get(id(node))
        return node if result is None else _reported(result, [node.left, node.right], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        result = self._by_node.get(id(node))
        return node if result is None else _reported(result, [node.func, *node.args], node.keywords)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        begins = all(isinstance(t, ast.Name) and t.id in self._begun for t in node.targets)
        if begins and not has_data(node.value, self._loaded):
            node.value = ast.copy_location(call("begun", [node.value]), node.value)
            return node
        return self.generic_visit(node)


def _reported(result: _Match, operands: list[ast.expr], keywords: list[ast.keyword]) -> ast.expr:
    reported = [_written(part) for part in result.told]
    return ast.copy_location(call(result.method, [*reported, *operands], keywords), result.node)


def _written(value: Any) -> ast.expr:
    if isinstance(value, tuple):
        return ast.Tuple([_written(part) for part in value], ast.Load())
    return ast.Constant(value)


def _number(node: ast.expr) -> float | None:
    """A number that stands in the text."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return float(value) if isinstance(value, int | float) else None
