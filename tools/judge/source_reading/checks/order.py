"""The order of a set: it is another one in another process, so nothing may be made of it."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.flow import Flow, elementwise
from kernelagent.tools.judge.source_reading.following.names import Names, Scope, written_out
from kernelagent.tools.judge.source_reading.following.plain import Plain

_KINDS = frozenset({"set", "frozenset"})
_GIVE_ONE = frozenset("union intersection difference symmetric_difference copy".split())
_ASK = frozenset("issubset issuperset isdisjoint".split())
_CHANGE = frozenset(
    "add discard remove clear update intersection_update difference_update symmetric_difference_update".split()
)
_OF_ANY_ORDER = frozenset({"sorted", "min", "max"})
"""Builtins that answer the same for numbers, or texts, in whatever order."""
_MAY_BE_GIVEN = _KINDS | {"len", "bool", "isinstance", "any", "all"}
_HOLD_WHAT_THEY_MAKE = frozenset({"collections.defaultdict", "dataclasses.field"})
_BETWEEN_SETS = ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub
_VIEWS = frozenset({"keys", "items"})


class Orders(Flow):
    """Where sets go. The types themselves count as sets: whatever is called by another name for one makes one."""

    def __init__(self, names: Names, tree: ast.Module) -> None:
        super().__init__(names, tree)
        self._plain = Plain(names, texts=True)

    def begins(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name, ctx=ast.Load()):
                return name in _KINDS and scope.home(name) is None
            case ast.BinOp(op=op) if isinstance(op, _BETWEEN_SETS):
                return any(_is_view(side) for side in (node.left, node.right))
        return False

    def passes(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.Call():
                holds = self._names.paths(node.func, scope) & _HOLD_WHAT_THEY_MAKE
                given = [*node.args, *(k.value for k in node.keywords)] if holds else [node.func]
                return written_out(node) is None and any(self.carries(n, scope) for n in given)
            case ast.Attribute(attr=name):
                return name in _GIVE_ONE and self.carries(node.value, scope)
            case ast.BinOp(op=op) if isinstance(op, _BETWEEN_SETS):
                return self.carries(node.left, scope) or self.carries(node.right, scope)
        return False

    def may(self, parent: ast.AST, child: ast.expr, scope: Scope) -> bool:
        match parent:
            case ast.Assign():
                return all(_keeps(target, child) for target in parent.targets)
            case ast.AnnAssign(value=value):
                return child is not value or _keeps(parent.target, child)
            case ast.AugAssign():
                return isinstance(parent.op, _BETWEEN_SETS)
            case ast.NamedExpr() | ast.Return() | ast.Expr() | ast.Tuple() | ast.List():
                return not isinstance(child, ast.Starred)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return child is parent.returns
            case ast.arguments():
                return True
            case ast.Dict() | ast.DictComp() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return True
            case ast.If() | ast.While() | ast.IfExp() | ast.BoolOp() | ast.Assert():
                return True
            case ast.Subscript() | ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.MatchClass():
                return True
            case ast.BinOp(op=op):
                return isinstance(op, _BETWEEN_SETS)
            case ast.Set():
                return not isinstance(child, ast.Starred)
            case ast.Attribute(attr=name):
                return name in _GIVE_ONE | _ASK | _CHANGE
            case ast.Call():
                return self._may_be_given(parent, child, scope)
        return False

    def _may_be_given(self, call: ast.Call, child: ast.expr, scope: Scope) -> bool:
        called = call.func
        if isinstance(child, ast.Starred):
            return False
        if child is called or self.carries(called, scope) or self.reaches_own(call, scope):
            return True
        if isinstance(called, ast.Name):
            known = called.id in _MAY_BE_GIVEN and scope.home(called.id) is None
            if called.id in _OF_ANY_ORDER and scope.home(called.id) is None:
                return not call.keywords and self._is_of_numbers(child, scope)
            return known or bool(self._names.paths(called, scope) & _HOLD_WHAT_THEY_MAKE)
        if not isinstance(called, ast.Attribute) or called.attr not in _ASK | _CHANGE:
            return False
        return self.carries(called.value, scope)

    def _is_of_numbers(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a set is made there of numbers or texts alone."""
        match node:
            case ast.Set(elts=parts):
                return all(self._plain.holds(part, scope) for part in parts)
            case ast.SetComp(elt=part):
                return self._plain.holds(part, self._names.scopes[node])
            case ast.Call(func=ast.Name(id=name), args=[row]) if name in _KINDS:
                return self._plain.holds(row, scope)
        return False


def _is_view(node: ast.expr) -> bool:
    """Those of a dictionary: what is between two is a set."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _VIEWS
    return False


def _keeps(target: ast.expr, value: ast.expr) -> bool:
    """Whether what is assigned goes whole to one name, or each to its own."""
    if isinstance(target, ast.Tuple | ast.List):
        return bool(elementwise(target, value))
    return not (isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice))
