"""What the names of a text may stand for: imported paths, the candidate's own, or any value.

Every binding of a name counts wherever it is used, before or after, on whichever branch: an alias hides nothing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_MOST_STEPS = 300_000
_DEEPEST_PATH = 12
"""Attributes of a path; `x = x.data` would lengthen one for ever."""
_REGISTERING = frozenset({"register_buffer", "register_parameter", "add_module", "register_module"})
_KERNEL_MAKERS = frozenset({"triton.jit", "triton.constexpr_function", "triton.runtime.jit.jit"})


@dataclass(frozen=True)
class Imported:
    """A module, or something in one."""

    path: str


@dataclass(frozen=True)
class Own:
    """Something the text defines itself, by the class it belongs to."""

    kind: Literal["class", "instance", "function", "kernel"]
    name: str = ""


@dataclass(frozen=True)
class Value:
    """Anything else."""


@dataclass(frozen=True)
class Kept:
    """A default of a parameter: it is made once and lives on."""

    default: ast.expr


class TooIntricate(Exception):
    """Names lead to names so often that reading on would take the judge's time."""


Meaning = Imported | Own | Value
Binding = Imported | Own | Value | Kept | ast.expr
ANY = Value()


@dataclass(eq=False)
class Scope:
    """One namespace; `kind` as Python has them."""

    kind: Literal["module", "class", "function"]
    parent: Scope | None
    node: ast.AST
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    outer_names: dict[str, Scope] = field(default_factory=dict)
    """Those declared `global` or `nonlocal`, with the scope that holds them."""

    def home(self, name: str) -> Scope | None:
        """The scope in which a name used here is looked up; None: a builtin, or nothing."""
        if name in self.outer_names:
            return self.outer_names[name]
        if name in self.bindings:
            return self
        scope = self.parent
        while scope is not None and (scope.kind == "class" or name not in scope.bindings):
            scope = scope.parent
        return scope

    def bind(self, name: str, binding: Binding) -> None:
        self.outer_names.get(name, self).bindings[name].append(binding)


@dataclass
class Names:
    """All scopes of a text, and what attributes of the candidate's own classes may stand for."""

    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    attributes: dict[str, list[tuple[Binding, Scope]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    stars: list[ast.ImportFrom] = field(default_factory=list)
    steps: int = 0
    complete: bool = False
    """Whether all of the text was seen: from then on an expression's meanings are final."""
    _known: dict[tuple[ast.expr, Scope], set[Meaning]] = field(default_factory=dict)

    def spend(self) -> None:
        """One step of following names; raises `TooIntricate` after very many."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooIntricate

    def meanings(self, node: ast.expr, scope: Scope) -> set[Meaning]:
        """Everything an expression may stand for."""
        if (node, scope) in self._known:
            return self._known[node, scope]
        following = _Following(self)
        result = following.meanings(node, scope)
        if self.complete:
            self._known |= following.table
        return result

    def paths(self, node: ast.expr, scope: Scope) -> set[str]:
        """The imported ones among its meanings."""
        return {m.path for m in self.meanings(node, scope) if isinstance(m, Imported)}


class _Following:
    """Follows one expression's names to their ends.

    Names are bound to each other in circles (`x = x.to(kind)`), so what each expression stands for grows
    until nothing is added any more: each expression is looked at once in a round.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self.table: dict[tuple[ast.expr, Scope], set[Meaning]] = {}
        self._looked_at: set[tuple[ast.expr, Scope]] = set()
        self._grew = False

    def meanings(self, node: ast.expr, scope: Scope) -> set[Meaning]:
        while True:
            self._looked_at, self._grew = set(), False
            result = self._of(node, scope)
            if not self._grew:
                return result

    def _of(self, node: ast.expr, scope: Scope) -> set[Meaning]:
        place = node, scope
        known = self.table.setdefault(place, set())
        if place not in self._looked_at:
            self._looked_at.add(place)
            self._names.spend()
            added = self._once(node, scope) - known
            self._grew = self._grew or bool(added)
            known |= added
        return known

    def _once(self, node: ast.expr, scope: Scope) -> set[Meaning]:
        match node:
            case ast.Name():
                home = scope.home(node.id)
                if home is None:
                    return {ANY}
                return self._of_bindings((b, home) for b in home.bindings[node.id])
            case ast.Attribute():
                return self._of_attribute(node.value, node.attr, scope)
            case ast.Call():
                return self._of_call(node, scope)
            case ast.IfExp():
                return self._of(node.body, scope) | self._of(node.orelse, scope)
            case ast.BoolOp():
                return set().union(*(self._of(v, scope) for v in node.values))
            case ast.NamedExpr():
                return self._of(node.value, scope)
        return {ANY}

    def _of_bindings(self, bindings: Iterable[tuple[Binding, Scope]]) -> set[Meaning]:
        result: set[Meaning] = set()
        for binding, scope in bindings:
            if isinstance(binding, Kept):
                # A default is evaluated outside of its function.
                result |= {ANY} | self._of(binding.default, scope.parent or scope)
            elif isinstance(binding, ast.expr):
                result |= self._of(binding, scope)
            else:
                result.add(binding)
        return result

    def _of_attribute(self, base: ast.expr, name: str, scope: Scope) -> set[Meaning]:
        result: set[Meaning] = set()
        for meaning in tuple(self._of(base, scope)):
            if not isinstance(meaning, Imported):
                result |= {ANY} | self._of_bindings(self._names.attributes.get(name, ()))
            elif meaning.path.count(".") < _DEEPEST_PATH:
                result.add(Imported(f"{meaning.path}.{name}"))
        return result

    def _of_call(self, node: ast.Call, scope: Scope) -> set[Meaning]:
        if literal := written_out(node):
            return self._of_attribute(node.args[0], literal, scope)
        result: set[Meaning] = {ANY}
        for meaning in self._of(node.func, scope):
            if isinstance(meaning, Own) and meaning.kind == "class":
                result.add(Own("instance", meaning.name))
        return result


def written_out(node: ast.Call) -> str | None:
    """The name in `getattr(value, "name")` and its kin, where it is written out."""
    if not (isinstance(node.func, ast.Name) and node.func.id in ACCESS and len(node.args) > 1):
        return None
    name = node.args[1]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


ACCESS = frozenset({"getattr", "hasattr", "setattr", "delattr"})


def collect(tree: ast.Module) -> Names:
    """The names of a text."""
    names = Names()
    _Collector(names).module(tree)
    names.complete = True
    return names


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """All parameters, in no particular order."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (a for a in (arguments.vararg, arguments.kwarg) if a is not None)


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
                self._assign(node.target, None, scope)
            case ast.NamedExpr():
                # In a comprehension it binds in the function around it.
                while isinstance(scope.node, Comprehension) and scope.parent is not None:
                    scope = scope.parent
                self._assign(node.target, node.value, scope)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._assign(node.target, None, scope)
            case ast.withitem() if node.optional_vars is not None:
                self._assign(node.optional_vars, None, scope)
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
