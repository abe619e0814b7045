"""Sums of sizes that a forward computes several times, computed once and named.

Where feature maps are concatenated, a number of channels is a sum of many sizes, and stands in every shape, stride,
offset and launch after that.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from kernelagent.models.compiler.kernels.naming import unique
from kernelagent.models.compiler.program.algebra import factored

_NAME = "channels"
_FEWEST_TERMS = 3
"""A shorter sum is as easily read as a name."""


def named_once(lines: Sequence[str], sizes: Collection[str], taken: Collection[str]) -> list[str]:
    """The statements with each sum of sizes that stands in several places under one name.

    `sizes`: the variables that hold sizes; `taken`: the names that there are.
    """
    text = "\n".join(lines)
    written = text.splitlines()
    texts = {ast.dump(s): written[s.lineno - 1 : s.end_lineno] for s in ast.parse(text).body}
    statements = [_Factored(sizes).visit(s) for s in ast.parse(text).body]
    made: set[str] = set()
    for key in _repeated(statements, sizes):
        known = {*sizes, *made}
        # A longer sum that has a name by now may have taken all places of this one.
        if sum(key == other for s in statements for other in _sums(s, known)) < 2:
            continue
        name = unique(_NAME, {*taken, *known})
        first = next(at for at, s in enumerate(statements) if key in _sums(s, known))
        node = next(node for node in ast.walk(statements[first]) if _key(node, known) == key)
        assigned = ast.parse(f"{name} = {ast.unparse(node)}").body[0]
        statements = [_Named(key, name, known).visit(statement) for statement in statements]
        statements.insert(first, assigned)
        made.add(name)
    # From the longest sum to the shortest they were found; a reader meets them in another order.
    order = [s.targets[0].id for s in statements if _assigns(s, made)]
    again = dict(zip(order, sorted(made, key=lambda name: (len(name), name)), strict=True))
    return [
        line
        for s in statements
        for line in texts.get(ast.dump(s)) or _written(_Renamed(again).visit(s)).splitlines()
    ]


def _assigns(statement: ast.stmt, names: Collection[str]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in names
    return False


def _written(statement: ast.stmt) -> str:
    """The statement as text; a launch has its grid in brackets."""
    statement = ast.fix_missing_locations(statement)
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Subscript(slice=ast.Tuple() as grid) as launched)):
            call = ast.unparse(statement).removeprefix(ast.unparse(launched))
            kernel, axes = ast.unparse(launched.value), [ast.unparse(axis) for axis in grid.elts]
            return f"{kernel}[({', '.join(axes)}{',' if len(axes) == 1 else ''})]{call}"
    return ast.unparse(statement)


def _repeated(statements: Sequence[ast.stmt], sizes: Collection[str]) -> list[tuple[str, ...]]:
    """The sums that stand in several places, the longest first."""
    counts = Counter(key for statement in statements for key in _sums(statement, sizes))
    return sorted((key for key, count in counts.items() if count > 1), key=lambda key: -len(key))


def _sums(statement: ast.stmt, sizes: Collection[str]) -> Iterator[tuple[str, ...]]:
    return (key for node in ast.walk(statement) if (key := _key(node, sizes)) is not None)


def _key(node: ast.AST, sizes: Collection[str]) -> tuple[str, ...] | None:
    """The terms of a sum of sizes in order, whatever order they are written in; None for anything else."""
    terms = _terms(node)
    if len(terms) < _FEWEST_TERMS or not all(term in sizes for term in terms):
        return None
    return tuple(sorted(terms))


def _terms(node: ast.AST) -> list[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node.id] if isinstance(node, ast.Name) else [""]


class _Factored(ast.NodeTransformer):
    """Writes sums of products of sizes as products of sums, where that is shorter."""

    def __init__(self, sizes: Collection[str]) -> None:
        self._sizes = sizes

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if not self._counts(node):
            self.generic_visit(node)
            return node
        return ast.parse(factored(ast.unparse(node)), mode="eval").body

    def _counts(self, node: ast.expr) -> bool:
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
                return self._counts(node.left) and self._counts(node.right)
            case ast.UnaryOp(op=ast.USub()):
                return self._counts(node.operand)
            case ast.Name(id=name):
                return name in self._sizes
        return isinstance(node, ast.Constant) and isinstance(node.value, int)


class _Named(ast.NodeTransformer):
    """Puts the name in the places of one sum."""

    def __init__(self, key: tuple[str, ...], name: str, sizes: Collection[str]) -> None:
        self._key = key
        self._name = name
        self._sizes = sizes

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if _key(node, self._sizes) == self._key:
            return ast.Name(self._name, ast.Load())
        self.generic_visit(node)
        return node


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node
