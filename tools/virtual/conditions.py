"""Finds the conditions in a kernel's text, so that which way each comes out is noted.

A condition is a comparison, or what `&`, `|`, `~`, `and`, `or` and `not` make of several. Data decide it
where something that was loaded or a fraction is in it, places and sizes where not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.virtual.loops import call

_LOADS = frozenset({"load", "load_tensor_descriptor"})
_ASSERTED = frozenset({"device_assert", "static_assert", "assume"})
_SHOWN = 60


def mark(function: ast.FunctionDef, first_line: int) -> None:
    """Put a call of `Logic.chosen` around each condition, in place; `first_line`: of the text, in its file."""
    marker = _Marker(_loaded_names(function), first_line)
    function.body = [marker.visit(statement) for statement in function.body]


class _Marker(ast.NodeTransformer):
    def __init__(self, loaded: frozenset[str], first_line: int) -> None:
        self._loaded = loaded
        self._first_line = first_line

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._marked(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return (
            self._marked(node) if any(map(_is_condition, node.values)) else self.generic_visit(node)
        )

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._marked(node) if _is_condition(node) else self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return self._marked(node) if _is_condition(node) else self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """What ends a loop comes out both ways, or the loop does not end."""
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node if _name_of(node.func) in _ASSERTED else self.generic_visit(node)

    def _marked(self, node: ast.expr) -> ast.AST:
        compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
        if compared and all(map(_is_of_infinity, compared)):
            # Infinities and NaN are inputs of their own, and what differs there is told by itself.
            return node
        line = node.lineno + self._first_line - 1
        text = ast.unparse(node)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        by_data = _has_data(node, self._loaded) or _is_no_mask(node)
        told = [ast.Constant(part) for part in (line, text, by_data)]
        return ast.copy_location(call("chosen", [*told, node]), node)


def _is_condition(node: ast.expr) -> bool:
    """By its form; whether it is one shows when it is computed."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not | ast.Invert) and _is_condition(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr)
    return isinstance(node, ast.Compare | ast.BoolOp)


def _is_of_infinity(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    if len({ast.dump(side) for side in sides}) == 1:
        return True
    calls = [part for side in sides for part in ast.walk(side) if isinstance(part, ast.Call)]
    return any(
        _name_of(part.func) == "float" and any(isinstance(a, ast.Constant) for a in part.args)
        for part in calls
    )


def _loaded_names(function: ast.FunctionDef) -> frozenset[str]:
    """Variables that hold what was loaded, or what was computed of it, anywhere in the function."""
    bound = list(_bound(function))
    loaded: set[str] = set()
    grown = True
    while grown:
        grown = False
        for names, value in bound:
            if not names <= loaded and _has_data(value, loaded):
                loaded |= names
                grown = True
    return frozenset(loaded)


def _bound(function: ast.FunctionDef) -> Iterator[tuple[set[str], ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield set().union(*map(_names_in, node.targets)), node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                yield _names_in(node.target), node.value
        elif isinstance(node, ast.For):
            yield _names_in(node.target), node.iter


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _is_no_mask(node: ast.AST) -> bool:
    """Places and sizes are whole numbers."""
    return any(isinstance(p, ast.Constant) and isinstance(p.value, float) for p in ast.walk(node))


def _has_data(node: ast.AST, loaded: set[str] | frozenset[str]) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in loaded:
            return True
        if isinstance(part, ast.Call):
            name = _name_of(part.func)
            if name in _LOADS or name.startswith("atomic_"):
                return True
    return False


def _name_of(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
