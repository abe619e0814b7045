"""Follows values of one kind through a text: into names, attributes, containers, and the text's own functions."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.checks.kernel_writes import parameter_order
from kernelagent.tools.judge.source_reading.following.names import (
    Comprehension,
    Function,
    Names,
    Own,
    Scope,
    TooIntricate,
    written_out,
)

_MOST_ROUNDS = 40
"""Names that are followed from one to the next, where each stands before the one it gets its value from."""


class Flow(ABC):
    """Which expressions of a text may have a value of one kind, or hold one, and where such a value is used.

    A list, tuple or dictionary that holds one counts as one.
    """

    def __init__(self, names: Names, tree: ast.Module) -> None:
        self._names = names
        self._bound: set[tuple[Scope, str]] = set()
        self._attributes: set[str] = set()
        self._results: set[str] = set()
        """Own functions that return one."""
        self._known: dict[tuple[ast.expr, Scope], bool] = {}
        self._functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = defaultdict(list)
        for node in names.scopes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name].append(node)
        self._follow(list(_with_scopes(tree, names.scopes[tree], names)))

    @abstractmethod
    def begins(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression makes such a value, whatever it is made of."""

    @abstractmethod
    def passes(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression of this kind gives such a value, where it is made of one."""

    @abstractmethod
    def may(self, parent: ast.AST, child: ast.expr, scope: Scope) -> bool:
        """Whether such a value may stand there without a word."""

    def misused(self, node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
        """The parts of a node that are such values, and that may not stand there."""
        if isinstance(node, ast.keyword):
            # Its call decides.
            return
        inner = self._names.scopes.get(node, scope) if _has_scope(node) else scope
        for child in _parts(node):
            if self.carries(child, inner) and not self.may(node, child, inner):
                yield child

    def carries(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression may have such a value."""
        place = node, scope
        known = self._known.get(place)
        if known is None:
            self._known[place] = False
            known = self._known[place] = self._once(node, scope)
        return known

    def _once(self, node: ast.expr, scope: Scope) -> bool:
        if self.begins(node, scope):
            return True
        match node:
            case ast.Name():
                return (scope.home(node.id), node.id) in self._bound
            case ast.Attribute():
                return self._is_kept(node.value, node.attr, scope) or self.passes(node, scope)
            case ast.Subscript() | ast.Starred() | ast.NamedExpr() | ast.Await():
                return self.carries(node.value, scope)
            case ast.IfExp():
                return self.carries(node.body, scope) or self.carries(node.orelse, scope)
            case ast.BoolOp() | ast.Tuple() | ast.List() | ast.Dict():
                parts = node.elts if isinstance(node, ast.Tuple | ast.List) else node.values
                return any(self.carries(part, scope) for part in parts)
            case ast.ListComp() | ast.GeneratorExp():
                return self.carries(node.elt, self._names.scopes[node])
            case ast.DictComp():
                return self.carries(node.value, self._names.scopes[node])
            case ast.Call():
                name = written_out(node)
                if name is not None and self._is_kept(node.args[0], name, scope):
                    return True
                return self._is_of_own(node, scope) or self.passes(node, scope)
        return self.passes(node, scope)

    def _is_kept(self, base: ast.expr, name: str, scope: Scope) -> bool:
        return name in self._attributes and not self._names.paths(base, scope)

    def _is_of_own(self, node: ast.Call, scope: Scope) -> bool:
        return any(f.name in self._results for f in self.called(node, scope))

    def called(
        self, node: ast.Call, scope: Scope
    ) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The text's own functions that a call may reach."""
        for meaning in self._names.meanings(node.func, scope):
            if not isinstance(meaning, Own):
                continue
            if meaning.kind == "function":
                yield from self._functions[meaning.name]
            elif meaning.kind == "class" and meaning.name in self._names.classes:
                body = self._names.classes[meaning.name].body
                yield from (
                    n for n in body if isinstance(n, ast.FunctionDef) and n.name == "__init__"
                )
            elif meaning.kind == "instance":
                yield from (*self._functions["forward"], *self._functions["__call__"])
        if isinstance(node.func, ast.Attribute) and not self._names.paths(node.func.value, scope):
            name = "forward" if node.func.attr == "apply" else node.func.attr
            yield from self._functions.get(name, ())

    def reaches_own(self, node: ast.Call, scope: Scope) -> bool:
        """Whether what a call is given is followed into the text's own functions, or a constructor of its own."""
        return any(True for _ in self.called(node, scope))

    def _follow(self, places: Sequence[tuple[ast.AST, Scope]]) -> None:
        for _ in range(_MOST_ROUNDS):
            before = len(self._bound) + len(self._attributes) + len(self._results)
            self._known.clear()
            for node, scope in places:
                self._binds(node, scope)
            if len(self._bound) + len(self._attributes) + len(self._results) == before:
                return
        raise TooIntricate

    def _binds(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value, scope)
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                self._assign(node.target, value, scope)
            case ast.AugAssign():
                self._assign(node.target, node.value, scope)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._assign(node.target, node.iter, scope)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign(target, value, scope)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                owner = scope
                while isinstance(owner.node, Comprehension) and owner.parent is not None:
                    owner = owner.parent
                if self.carries(value, scope):
                    self._results.add(getattr(owner.node, "name", ""))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._defaults(node)
            case ast.Call():
                self._hand(node, scope)

    def _assign(self, target: ast.expr, value: ast.expr, scope: Scope) -> None:
        if pairs := elementwise(target, value):
            for part, inner in pairs:
                self._assign(part, inner, scope)
        elif self.carries(value, scope):
            self._bind(target, scope)

    def _bind(self, target: ast.expr, scope: Scope) -> None:
        match target:
            case ast.Name():
                self._bound.add((scope.home(target.id) or scope, target.id))
                if scope.kind == "class":
                    self._attributes.add(target.id)
            case ast.Attribute():
                self._attributes.add(target.attr)
            case ast.Tuple() | ast.List():
                for part in target.elts:
                    self._bind(part, scope)
            case ast.Starred() | ast.Subscript():
                self._bind(target.value, scope)

    def _defaults(self, node: Function) -> None:
        inner = self._names.scopes[node]
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = zip(reversed(plain), reversed(arguments.defaults), strict=False)
        for parameter, default in [
            *defaults,
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]:
            if default is not None and self.carries(default, inner.parent or inner):
                self._bound.add((inner, parameter.arg))

    def _hand(self, node: ast.Call, scope: Scope) -> None:
        """What is handed to the text's own functions is there by the names of their parameters."""
        positions = [i for i, a in enumerate(node.args) if self.carries(a, scope)]
        carried = [k for k in node.keywords if self.carries(k.value, scope)]
        keywords = {k.arg for k in carried if k.arg is not None}
        spread = len(keywords) < len(carried)
        if not positions and not carried:
            return
        first_star = next((i for i, a in enumerate(node.args) if isinstance(a, ast.Starred)), None)
        for function in self.called(node, scope):
            inner = self._names.scopes[function]
            order = parameter_order(function, self._names)
            every = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
            if spread or (first_star is not None and positions):
                self._bound |= {(inner, name) for name in every}
                continue
            given = {order[i] for i in positions if i < len(order)} | keywords
            rest = function.args.vararg, function.args.kwarg
            if any(i >= len(order) for i in positions) or not given <= every:
                given |= {a.arg for a in rest if a is not None}
            self._bound |= {(inner, name) for name in given & every}


def elementwise(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What `a, b = c, d` gives to what; nothing where the value is no row of as many."""
    if not (isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)):
        return []
    stars = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    if stars or len(target.elts) != len(value.elts):
        return []
    return [*zip(target.elts, value.elts, strict=True)]


def _has_scope(node: ast.AST) -> bool:
    return isinstance(node, Comprehension | ast.Lambda)


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions a node is made of; those of a call with the values of its keywords."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value


def _with_scopes(node: ast.AST, scope: Scope, names: Names) -> Iterator[tuple[ast.AST, Scope]]:
    waiting = [(node, scope)]
    while waiting:
        item, outer = waiting.pop()
        yield item, outer
        inner = names.scopes.get(item, outer)
        waiting += [(child, inner) for child in ast.iter_child_nodes(item)]
