"""Whose gradients are asked for: it may decide which of them are made, and nothing else.

Each selection of the arguments that learn is another case, and there are far more than are tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.judge.source_reading.following.flow import Flow, elementwise
from kernelagent.tools.judge.source_reading.following.names import Scope

_ROWS = frozenset({"tuple", "list", "zip", "enumerate", "reversed"})
_WHETHER = frozenset({"any", "bool"})
_NAME = "needs_input_grad"


class AskedGradients(Flow):
    """Where the answers of `needs_input_grad` go."""

    def begins(self, node: ast.expr, scope: Scope) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == _NAME

    def passes(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.carries(inner, scope)
            case ast.Call(func=ast.Name(id=name), args=given) if name in _ROWS | _WHETHER:
                whole = name == "any" and all(self._is_whole(part, scope) for part in given)
                return not whole and any(self.carries(part, scope) for part in given)
        return False

    def may(self, parent: ast.AST, child: ast.expr, scope: Scope) -> bool:
        match parent:
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() | ast.Return() | ast.Expr():
                return True
            case ast.Tuple() | ast.List() | ast.Starred() | ast.Subscript():
                return not isinstance(parent, ast.Subscript) or child is parent.value
            case ast.For() | ast.comprehension() | ast.ListComp() | ast.GeneratorExp():
                return True
            case ast.BoolOp(op=operator):
                # Both of two is a selection; either of two is not.
                several = sum(self.carries(value, scope) for value in parent.values) > 1
                return isinstance(operator, ast.Or) or not several
            case ast.UnaryOp(op=ast.Not()):
                return True
            case ast.IfExp(body=first, orelse=second):
                return child is not parent.test or _is_none(first) or _is_none(second)
            case ast.If():
                return self._only_makes(parent, scope)
            case ast.Call():
                named = isinstance(parent.func, ast.Name) and scope.home(parent.func.id) is None
                known = named and getattr(parent.func, "id", "") in _ROWS | _WHETHER
                return known or self.reaches_own(parent, scope)
        return False

    def _is_whole(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is all the answers: whether any gradient is asked for is one question, and both answers are tried."""
        match node:
            case ast.Attribute(attr=name):
                return name == _NAME
            case ast.Name(id=name):
                home = scope.home(name)
                made = [] if home is None else home.bindings[name]
                return bool(made) and all(
                    isinstance(b, ast.Attribute) and b.attr == _NAME for b in made
                )
        return False

    def _assign(self, target: ast.expr, value: ast.expr, scope: Scope) -> None:
        """Of what is gone through in step, only the answers are answers."""
        match value:
            case ast.Call(func=ast.Name(id="zip"), args=rows):
                if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(rows):
                    for part, row in zip(target.elts, rows, strict=True):
                        super()._assign(part, row, scope)
                    return
            case ast.Call(func=ast.Name(id="enumerate"), args=[row]):
                if pairs := elementwise(target, ast.Tuple([ast.Constant(0), row], ast.Load())):
                    super()._assign(*pairs[1], scope)
                    return
        super()._assign(target, value, scope)

    def _only_makes(self, node: ast.If, scope: Scope) -> bool:
        """Whether a gradient is made there where it is asked for, or the call ends where none is."""
        if not all(map(_assigns_none, node.orelse)):
            return False
        if isinstance(node.test, ast.UnaryOp):
            return all(map(_returns_none, node.body))
        inner = (n for part in node.body for n in ast.walk(part))
        return not any(isinstance(n, ast.If | ast.IfExp) and self._asks(n, scope) for n in inner)

    def _asks(self, node: ast.If | ast.IfExp, scope: Scope) -> bool:
        """One question within another is a selection."""
        return any(
            self.carries(part, scope) for part in ast.walk(node.test) if isinstance(part, ast.expr)
        )


def _assigns_none(node: ast.stmt) -> bool:
    """`gradient = None`: as much is said where nothing is."""
    return isinstance(node, ast.Assign) and _is_none(node.value)


def _returns_none(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Return):
        return False
    parts: Iterator[ast.expr | None] = iter(
        node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    )
    return all(part is None or _is_none(part) for part in parts)


def _is_none(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Tuple(elts=parts):
            return all(map(_is_none, parts))
    return False
