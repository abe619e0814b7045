"""Which expressions may do something besides having a value: all but calls of what is known only to answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.allowed import DUNDERS
from kernelagent.tools.judge.source_reading.following.names import (
    Binding,
    Imported,
    Names,
    Own,
    Scope,
)
from kernelagent.tools.judge.source_reading.following.pure import (
    BUILTINS_THAT_ONLY_ANSWER,
    CHANGING_METHODS,
    METHODS_THAT_ONLY_ANSWER,
    only_answers,
)

_GOES_ON = frozenset("iter zip map filter enumerate reversed".split())
"""Builtins whose results are used up by looking at them."""
_MAKERS = frozenset({"list", "dict", "set"})
_AT_OTHER_TIMES = frozenset({"__init__", "__post_init__", "__enter__", "__exit__", "__call__"})
_BY_OPERATORS = DUNDERS - _AT_OTHER_TIMES


class Effects:
    """Answers for one text."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._fills_in = _fills_in(names)
        self._functions: dict[str, bool] = {}
        """Names of the text's own functions: whether they may."""
        every = [n for n in names.scopes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        self._functions = {function.name: False for function in every}
        grown = True
        while grown:
            more = {f.name for f in every if self._of_function(f)}
            grown = any(not self._functions[name] for name in more)
            self._functions |= dict.fromkeys(more, True)
        self._of_operators = any(self._functions.get(name) for name in _BY_OPERATORS)

    def within(self, node: ast.Assert, scope: Scope) -> bool:
        """Whether an assertion may do more than check, so that leaving it out would change what the text computes."""
        parts = [part for part in (node.test, node.msg) if part is not None]
        nodes = [pair for part in parts for pair in self._scoped(part, scope)]
        return self._of_operators or any(
            isinstance(inner, ast.NamedExpr) or self._has(inner, at) for inner, at in nodes
        )

    def _scoped(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        scope = self._names.scopes.get(node, scope)
        yield node, scope
        for child in ast.iter_child_nodes(node):
            yield from self._scoped(child, scope)

    def _of_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        scope = self._names.scopes[node]
        if node.decorator_list and not all(_is_plain_decorator(d) for d in node.decorator_list):
            return True
        return any(
            self._has(inner, at) and not self._is_of_its_own(inner, at, scope)
            for part in node.body
            for inner, at in self._scoped(part, scope)
        )

    def _is_of_its_own(self, node: ast.AST, at: Scope, function: Scope) -> bool:
        """Whether it changes only a list that the function has made."""
        match node:
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id=name)))
                | ast.Attribute(value=ast.Name(id=name), ctx=ast.Load())
                | ast.Subscript(value=ast.Name(id=name))
                | ast.AugAssign(target=ast.Name(id=name))
            ):
                return at.home(name) is function and _is_made(function.bindings[name])
        return False

    def _has(self, node: ast.AST, scope: Scope) -> bool:
        match node:
            case ast.Call():
                return self._call_has(node, scope)
            case ast.Name(ctx=ast.Load()):
                return self._goes_on(node, scope)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                # A property is called where it is read, and a method may be handed on to what calls it.
                return name in CHANGING_METHODS or self._functions.get(name, False)
            case ast.Subscript(ctx=ast.Load()):
                return self._fills_in and not _is_of_a_shape(node.value)
            case ast.Attribute() | ast.Subscript():
                return True
            case ast.AugAssign(target=target):
                return not isinstance(target, ast.Name) or not _is_number(node.value)
            case ast.With() | ast.AsyncWith():
                return self._functions.get("__enter__", False)
            case ast.Global() | ast.Nonlocal() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return True
        return False

    def _call_has(self, node: ast.Call, scope: Scope) -> bool:
        if any(k.arg in ("out", "inplace") for k in node.keywords):
            return True
        called = node.func
        if isinstance(called, ast.Name) and scope.home(called.id) is None:
            asks = called.id in BUILTINS_THAT_ONLY_ANSWER
            return not asks or (called.id != "isinstance" and self._hands_on(node, scope))
        if self._hands_on(node, scope):
            return True
        meanings = self._names.meanings(called, scope)
        own = [m for m in meanings if isinstance(m, Own)]
        paths = [m.path for m in meanings if isinstance(m, Imported)]
        if not all(m.kind == "function" and not self._functions.get(m.name, True) for m in own):
            return True
        if not all(map(only_answers, paths)):
            return True
        if isinstance(called, ast.Attribute):
            known = called.attr in METHODS_THAT_ONLY_ANSWER or bool(own or paths)
            return self._functions.get(called.attr, not known)
        if isinstance(called, ast.Name) and (home := scope.home(called.id)) is not None:
            # A lambda's body is looked at where it stands, outside of the assertion.
            lambdas = [b for b in home.bindings[called.id] if isinstance(b, ast.Lambda)]
            known = len(lambdas) + len(own) + len(paths) >= len(home.bindings[called.id])
            return not known or any(
                self._has(n, at) for b in lambdas for n, at in self._scoped(b.body, scope)
            )
        return not (own or paths)

    def _hands_on(self, node: ast.Call, scope: Scope) -> bool:
        """Whether a call is given a function that may do something, or a class, and may call it."""
        given = [*node.args, *(k.value for k in node.keywords)]
        return any(
            isinstance(m, Own) and m.kind != "instance" and self._functions.get(m.name, True)
            for part in given
            for m in self._names.meanings(part, scope)
        )

    def _goes_on(self, node: ast.Name, scope: Scope) -> bool:
        home = scope.home(node.id)
        return home is not None and any(
            isinstance(b, ast.GeneratorExp)
            or (
                isinstance(b, ast.Call)
                and isinstance(b.func, ast.Name)
                and (b.func.id in _GOES_ON or self._functions.get(b.func.id, False))
            )
            for b in home.bindings[node.id]
        )


def _is_plain_decorator(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("staticmethod", "classmethod", "property")


def _fills_in(names: Names) -> bool:
    """Whether a dictionary may be there that gets an entry where one is asked for."""
    return any(
        isinstance(b, Imported) and b.path in ("collections", "collections.defaultdict")
        for scope in names.scopes.values()
        for bindings in scope.bindings.values()
        for b in bindings
    )


def _is_of_a_shape(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _is_made(bindings: Sequence[Binding]) -> bool:
    """Whether all that a name is bound to is written out there, so that nobody else holds it."""
    made = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.BinOp
    return bool(bindings) and all(
        isinstance(b, made | ast.Constant)
        or (isinstance(b, ast.Call) and isinstance(b.func, ast.Name) and b.func.id in _MAKERS)
        for b in bindings
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
