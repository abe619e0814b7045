"""Which expressions are no more than numbers, shapes, data types or texts, whatever their names are bound to."""

from __future__ import annotations

import ast

from kernelagent.domain.tables.dtypes import FLOATS
from kernelagent.tools.judge.source_reading.following.names import (
    Imported,
    Kept,
    Names,
    Own,
    Scope,
    Value,
)

_SHOWS = frozenset({"str", "repr", "format"})
_OF_SHAPES = frozenset("shape dtype ndim itemsize nbytes bits eps tiny smallest_normal".split())
_GIVE_NUMBERS = frozenset(
    "size stride numel dim element_size nelement ndimension bit_length startswith endswith count find index isdigit "
    "is_contiguous is_floating_point is_complex".split()
)
_OF_TEXTS = frozenset(
    "format join replace strip lstrip rstrip lower upper split title capitalize removeprefix removesuffix".split()
)
_OF_CONTAINERS = frozenset("keys values items get pop copy".split())
_NUMBERS = frozenset("len int float bool round range isinstance".split())
"""Builtins whose results are numbers or texts; what texts are made of is looked at where they are made."""
_OF_PLAIN = frozenset(
    "abs sum max min sorted list tuple reversed zip enumerate divmod pow dict".split()
)
_NUMBER_PATHS = ("math.", "triton.cdiv", "triton.next_power_of_2", "torch.finfo", "torch.iinfo")
_DTYPES = {row.name for row in FLOATS} | frozenset(
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool half float double long int short complex64 complex128 "
    "inf nan pi e".split()
)

_TRITONS = frozenset(
    "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4nv float8e4b8 float8e4b15 float8e5 float8e5b16 "
    "float16 bfloat16 float32 float64".split()
)
"""Triton's data types, as torch's are: nothing of their own."""


class Plain:
    """Which expressions are numbers, shapes or data types, or rows of these; with `texts`, also those that are texts."""

    def __init__(self, names: Names, *, texts: bool) -> None:
        self._names = names
        self._texts = texts
        self._known: dict[tuple[ast.expr, Scope], bool] = {}
        self._table: dict[tuple[ast.expr, Scope], bool] = {}
        self._looked_at: set[tuple[ast.expr, Scope]] = set()
        self._fell = False

    def holds(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is one of these, whatever its names are bound to."""
        place = node, scope
        if place in self._known:
            return self._known[place]
        while True:
            self._looked_at, self._fell = set(), False
            result = self._of(node, scope)
            if not self._fell:
                self._known |= self._table
                self._table = {}
                return result

    def _of(self, node: ast.expr, scope: Scope) -> bool:
        """In a circle, as in `n = n + 1`, the others decide: an expression holds until something in it does not."""
        place = node, scope
        if place in self._known:
            return self._known[place]
        before = self._table.setdefault(place, True)
        if before and place not in self._looked_at:
            self._looked_at.add(place)
            self._names.spend()
            if not self._once(node, scope):
                self._table[place], self._fell = False, True
        return self._table[place]

    def _once(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Constant():
                return self._texts or not isinstance(node.value, str | bytes)
            case ast.JoinedStr():
                return self._texts
            case ast.Name():
                return self._name_is_plain(node, scope)
            case ast.BinOp():
                return self._all((node.left, node.right), scope)
            case ast.Compare():
                return self._all((node.left, *node.comparators), scope)
            case ast.BoolOp():
                return self._all(node.values, scope)
            case ast.UnaryOp():
                return self._of(node.operand, scope)
            case ast.IfExp():
                return self._all((node.body, node.orelse), scope)
            case ast.Subscript() | ast.Starred() | ast.NamedExpr():
                return self._of(node.value, scope)
            case ast.Tuple() | ast.List():
                return self._all(node.elts, scope)
            case ast.Dict():
                return self._all([n for n in (*node.keys, *node.values) if n is not None], scope)
            case ast.ListComp() | ast.GeneratorExp():
                return self._of(node.elt, self._names.scopes[node])
            case ast.Attribute():
                return self._attribute_is_plain(node, scope)
            case ast.Call():
                return self._call_is_plain(node, scope)
        return False

    def _all(self, nodes: tuple[ast.expr, ...] | list[ast.expr], scope: Scope) -> bool:
        return all(self._of(node, scope) for node in nodes)

    def _name_is_plain(self, node: ast.Name, scope: Scope) -> bool:
        home = scope.home(node.id)
        return home is not None and all(
            self._binding_is_plain(b, home) for b in home.bindings[node.id]
        )

    def _binding_is_plain(self, binding: object, scope: Scope) -> bool:
        match binding:
            case Kept():
                return self._of(binding.default, scope.parent or scope)
            case Imported():
                return _is_plain_path(binding.path)
            case ast.expr():
                return self._of(binding, scope)
        return False

    def _attribute_is_plain(self, node: ast.Attribute, scope: Scope) -> bool:
        meanings = self._names.meanings(node.value, scope)
        paths = [m.path for m in meanings if isinstance(m, Imported)]
        if paths and not any(isinstance(m, Value | Own) for m in meanings):
            return all(_is_plain_path(f"{path}.{node.attr}") for path in paths)
        bindings = self._names.attributes.get(node.attr, ())
        if not bindings:
            return node.attr in _OF_SHAPES
        return all(self._binding_is_plain(b, s) for b, s in bindings)

    def _call_is_plain(self, node: ast.Call, scope: Scope) -> bool:
        called = node.func
        if paths := self._names.paths(called, scope):
            return all(_is_plain_path(path) for path in paths)
        if isinstance(called, ast.Name) and scope.home(called.id) is None:
            if called.id in _NUMBERS or called.id in _SHOWS:
                return self._texts or called.id in _NUMBERS
            given = [*node.args, *(k.value for k in node.keywords if k.arg != "key")]
            return called.id in _OF_PLAIN and self._all(given, scope)
        if isinstance(called, ast.Attribute) and called.attr not in self._names.attributes:
            if called.attr in _GIVE_NUMBERS or called.attr in _OF_TEXTS:
                return self._texts or called.attr in _GIVE_NUMBERS
            of_held = called.attr in _OF_CONTAINERS and self._of(called.value, scope)
            return of_held and self._all(node.args, scope)
        return self._results_are_plain(called, scope)

    def _results_are_plain(self, called: ast.expr, scope: Scope) -> bool:
        meanings = self._names.meanings(called, scope)
        if isinstance(called, ast.Attribute):
            meanings = {m for m in meanings if not isinstance(m, Value)}
        own = {m.name for m in meanings if isinstance(m, Own) and m.kind == "function"}
        if not own or len(own) < len(meanings):
            return False
        functions = [
            n for n in self._names.scopes if isinstance(n, ast.FunctionDef) and n.name in own
        ]
        returned = [
            (r.value, self._names.scopes[f])
            for f in functions
            for r in ast.walk(f)
            if isinstance(r, ast.Return) and r.value is not None
        ]
        lazy = any(isinstance(n, ast.Yield | ast.YieldFrom) for f in functions for n in ast.walk(f))
        return not lazy and all(self._of(value, inner) for value, inner in returned)


def _is_plain_path(path: str) -> bool:
    if path.startswith("torch.") and path.removeprefix("torch.") in _DTYPES:
        return True
    if path.startswith("triton.language.") and path.removeprefix("triton.language.") in _TRITONS:
        return True
    return path.startswith(_NUMBER_PATHS)
