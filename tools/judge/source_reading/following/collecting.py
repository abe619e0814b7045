"""Walks a text once and notes what each of its statements binds to which name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Literal

from kernelagent.tools.judge.source_reading.following.names import (
    ANY,
    Binding,
    Comprehension,
    Function,
    Imported,
    Kept,
    Names,
    Own,
    Scope,
    parameters,
)

_REGISTERING = frozenset({"register_buffer", "register_parameter", "add_module", "register_module"})
_KERNEL_MAKERS = frozenset({"triton.jit", "triton.constexpr_function", "triton.runtime.jit.jit"})


def collect(tree: ast.Module) -> Names:
    """The names of a text."""
    names = Names()
    names.allow_for(sum(1 for _ in ast.walk(tree)))
    _Collector(names).module(tree)
    names.complete = True
    return names


class _Collector:
    """Walks a text once and notes what each statement binds."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def module(self, tree: ast.Module) -> None:
        scope = Scope("module", None, tree)
        self._names.scopes[tree] = scope
        self._walk(tree.body, scope)

    def _walk(self, nodes: Sequence[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                kernel = any(
                    self._names.paths(_called(d), scope) & _KERNEL_MAKERS
                    for d in node.decorator_list
                )
                own = Own("kernel" if kernel else "function", node.name)
                scope.bind(node.name, own)
                if scope.kind == "class":
                    self._names.attributes[node.name].append((own, scope))
                self._walk(node.decorator_list, scope)
                self._function(node, scope)
            case ast.Lambda():
                self._function(node, scope)
            case ast.ClassDef():
                own = Own("class", node.name)
                scope.bind(node.name, own)
                if scope.kind == "class":
                    self._names.attributes[node.name].append((own, scope))
                self._names.classes[node.name] = node
                self._walk([*node.decorator_list, *node.bases, *node.keywords], scope)
                inner = self._inner("class", node, scope)
                self._declared(node.body, inner)
                self._walk(node.body, inner)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = self._inner("function", node, scope)
                self._walk(list(ast.iter_child_nodes(node)), inner)
            case _:
                self._bindings(node, scope)
                self._walk(list(ast.iter_child_nodes(node)), scope)

    def _inner(self, kind: Literal["class", "function"], node: ast.AST, scope: Scope) -> Scope:
        inner = self._names.scopes[node] = Scope(kind, scope, node)
        return inner

    def _function(self, node: Function, scope: Scope) -> None:
        inner = self._inner("function", node, scope)
        arguments = node.args
        for parameter in parameters(arguments):
            inner.bind(parameter.arg, ANY)
        if arguments.kwarg is not None:
            # Each call makes this dictionary.
            inner.bindings[arguments.kwarg.arg] = [ast.Dict([], [])]
        plain = [*arguments.posonlyargs, *arguments.args]
        if (
            scope.kind == "class"
            and plain
            and isinstance(node, ast.FunctionDef)
            and not _is_static(node)
        ):
            inner.bindings[plain[0].arg] = [_first(node, scope)]
        defaults = zip(reversed(plain), reversed(arguments.defaults), strict=False)
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for parameter, default in [*defaults, *named]:
            if default is not None:
                inner.bind(parameter.arg, Kept(default))
                self._visit(default, scope)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self._declared(body, inner)
        self._walk(body, inner)

    def _declared(self, body: Sequence[ast.AST], scope: Scope) -> None:
        """`global` and `nonlocal`, wherever in the function they stand."""
        for node in _without_inner(body):
            match node:
                case ast.Global():
                    top = scope
                    while top.parent is not None:
                        top = top.parent
                    scope.outer_names |= dict.fromkeys(node.names, top)
                case ast.Nonlocal():
                    for name in node.names:
                        home = scope.parent.home(name) if scope.parent else None
                        if home is not None:
                            scope.outer_names[name] = home

    def _bindings(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.Import():
                for alias in node.names:
                    path = alias.name if alias.asname else alias.name.split(".")[0]
                    self._bind(alias.asname or path, Imported(path), scope)
            case ast.ImportFrom():
                base = "." * node.level + (node.module or "")
                for alias in node.names:
                    if alias.name == "*":
                        self._names.stars.append(node)
                    else:
                        self._bind(
                            alias.asname or alias.name, Imported(f"{base}.{alias.name}"), scope
                        )
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value, scope)
            case ast.AnnAssign():
                self._assign(node.target, node.value, scope)
            case ast.AugAssign():
                # What it is made of besides, it is bound to elsewhere.
                result = ast.BinOp(ast.Constant(0), node.op, node.value)
                self._assign(node.target, result, scope)
            case ast.NamedExpr():
                # In a comprehension it binds in the function around it.
                while isinstance(scope.node, Comprehension) and scope.parent is not None:
                    scope = scope.parent
                self._assign(node.target, node.value, scope)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._element(node.target, node.iter, scope)
            case ast.withitem() if node.optional_vars is not None:
                self._assign(node.optional_vars, None, scope)
            case ast.Match():
                self._captures(node, scope)
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name:
                scope.bind(node.name, ANY)
            case ast.MatchMapping() if node.rest:
                scope.bind(node.rest, ANY)
            case ast.Call():
                self._of_call(node, scope)

    def _of_call(self, node: ast.Call, scope: Scope) -> None:
        """Attributes that a call gives to an object or a class of the candidate's own."""
        texts = [
            a.value
            for a in node.args[:2]
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        if isinstance(node.func, ast.Attribute) and node.func.attr in _REGISTERING and texts:
            self._names.attributes[texts[0]].append((ANY, scope))
        elif (
            isinstance(node.func, ast.Name)
            and node.func.id == "setattr"
            and texts
            and len(node.args) == 3
        ):
            self._names.attributes[texts[0]].append((node.args[2], scope))
        elif len(node.args) == 2 and self._names.paths(node.func, scope) == {
            "collections.namedtuple"
        }:
            fields = node.args[1].elts if isinstance(node.args[1], ast.List | ast.Tuple) else ()
            written = [f.value for f in fields if isinstance(f, ast.Constant)]
            for name in [*" ".join(texts[1:]).replace(",", " ").split(), *map(str, written)]:
                self._names.attributes[name].append((ANY, scope))

    def _bind(self, name: str, binding: Binding, scope: Scope) -> None:
        scope.bind(name, binding)
        if scope.kind == "class":
            self._names.attributes[name].append((binding, scope))

    def _assign(self, target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
        match target:
            case ast.Name():
                self._bind(target.id, ANY if value is None else value, scope)
            case ast.Attribute():
                self._names.attributes[target.attr].append((ANY if value is None else value, scope))
            case ast.Tuple() | ast.List():
                same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(
                    target.elts
                )
                for i, part in enumerate(target.elts):
                    inner = (
                        value.elts[i] if same and isinstance(value, ast.Tuple | ast.List) else None
                    )
                    self._assign(part, inner, scope)
            case ast.Starred():
                self._assign(target.value, None, scope)

    def _captures(self, node: ast.Match, scope: Scope) -> None:
        """A pattern gives names to what is matched, or to its parts."""
        part = ast.Subscript(node.subject, ast.Constant(0), ast.Load())
        for pattern in (inner for case in node.cases for inner in ast.walk(case.pattern)):
            name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
            if isinstance(name, str):
                for value in (node.subject, part):
                    scope.bind(name, value)

    def _element(self, target: ast.expr, row: ast.expr, scope: Scope) -> None:
        """What a loop binds: an element of what it runs through."""
        rows = _rows(row) if isinstance(target, ast.Tuple) else []
        if isinstance(target, ast.Tuple) and len(rows) == len(target.elts):
            for part, inner in zip(target.elts, rows, strict=True):
                self._element(part, inner, scope)
        else:
            element = ast.Subscript(row, ast.Constant(0), ast.Load())
            self._assign(target, element, scope)


def _rows(node: ast.expr) -> list[ast.expr]:
    """The rows that `enumerate` and `zip` run through at once."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[row, *_]):
            return [ast.Call(ast.Name("range", ast.Load()), [], []), row]
        case ast.Call(func=ast.Name(id="zip"), args=rows):
            return rows
    return []


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_static(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def _first(node: ast.FunctionDef, scope: Scope) -> Own:
    """What the first parameter of a method stands for."""
    of_class = any(isinstance(d, ast.Name) and d.id == "classmethod" for d in node.decorator_list)
    name = scope.node.name if isinstance(scope.node, ast.ClassDef) else ""
    return Own("class" if of_class else "instance", name)


def _without_inner(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a body without those of functions and classes in it."""
    for node in body:
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            yield from _without_inner(list(ast.iter_child_nodes(node)))
