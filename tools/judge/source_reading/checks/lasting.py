"""What lasts longer than it looks: an object that holds itself, a context that nobody leaves, a backward's own record.

A shallow copy of a module (`copy.copy`, the replicas of `DataParallel`) has the attributes of the original, and finds the
original where that has put itself into one. The record of an autograd function is there for each backward of its graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernelagent.tools.judge.source_reading.following.constructing import CONSTRUCTORS
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.following.names import (
    Function,
    Names,
    Own,
    Scope,
)
from kernelagent.tools.judge.source_reading.kinds import Code

_STACK = "contextlib.ExitStack"
_ASK = frozenset({"super", "isinstance", "callable", "len", "iter", "hasattr", "getattr"})
"""Builtins that keep nothing of what they are given."""
_AT_ONCE = 8
"""Names that are followed from one to the next."""


class Lasting:
    """Answers for one text."""

    def __init__(self, names: Names, lives: Lifetimes, parents: Mapping[ast.AST, ast.AST]) -> None:
        self._names = names
        self._lives = lives
        self._parents = parents

    def found(self) -> Iterator[tuple[ast.AST, Code]]:
        """Each with the kind of remark it deserves."""
        for node, scope in self._names.scopes.items():
            if id(node) in self._lives.never_runs or not isinstance(node, ast.FunctionDef):
                continue
            if (scope.parent or scope).kind == "class" and node.name in CONSTRUCTORS:
                yield from ((part, "shares_state") for part in self._holds_itself(node))
            yield from ((part, "acts_later") for part in self._stacks(node, scope))

    def _holds_itself(self, node: ast.FunctionDef) -> Iterator[ast.AST]:
        first = node.args.args[0].arg if node.args.args else ""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id == first and isinstance(part.ctx, ast.Load):
                parent = self._parents[part]
                if not isinstance(parent, ast.Attribute | ast.Return) and self._is_kept(part):
                    yield parent

    def _is_kept(self, node: ast.Name) -> bool:
        parent = self._parents[node]
        if isinstance(parent, ast.keyword):
            parent = self._parents[parent]
        if not isinstance(parent, ast.Call):
            return not isinstance(parent, ast.Compare | ast.Subscript)
        called = parent.func
        if isinstance(called, ast.Name) and called.id in _ASK | {"setattr"}:
            return called.id == "setattr" and parent.args[2:] == [node]
        if isinstance(called, ast.Attribute) and called.attr in CONSTRUCTORS:
            return False
        meanings = self._names.meanings(called, self._scope_of(node))
        own = [m for m in meanings if isinstance(m, Own)]
        # What the text's own functions do to an argument is read there.
        return not own or any(m.kind == "class" for m in own)

    def _scope_of(self, node: ast.AST) -> Scope:
        while node not in self._names.scopes:
            node = self._parents[node]
        return self._names.scopes[node]

    def _stacks(self, node: ast.FunctionDef, scope: Scope) -> Iterator[ast.AST]:
        """Stacks of contexts that no `with` is left for: they end when they are freed, or never."""
        for part in ast.walk(node):
            made = isinstance(part, ast.Call) and self._names.paths(part.func, scope) == {_STACK}
            if made and not isinstance(self._parents[part], ast.withitem):
                yield part


def is_of_record(node: ast.expr, record: str | None, scope: Scope, left: int = _AT_ONCE) -> bool:
    """Whether an expression is an attribute of the record of an autograd function, or a part of one."""
    inside = False
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node, inside = node.value, True
    if not isinstance(node, ast.Name) or record is None or not left:
        return False
    if node.id == record:
        return inside
    home = scope.home(node.id)
    if home is None or not isinstance(home.node, Function):
        return False
    bindings = [b for b in home.bindings[node.id] if isinstance(b, ast.expr)]
    return any(is_of_record(b, record, home, left - 1) for b in bindings)
