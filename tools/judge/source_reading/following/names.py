"""What the names of a text may stand for: imported paths, the candidate's own, or any value.

Every binding of a name counts wherever it is used, before or after, on whichever branch: an alias hides nothing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_MOST_STEPS = 300_000, 1_500_000
"""Of a short text, and of any: a long one, as a package of kernels in one file, has more to follow."""
_STEPS_PER_NODE = 60
_DEEPEST_PATH = 12
"""Attributes of a path; `x = x.data` would lengthen one for ever."""


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
    most_steps: int = _MOST_STEPS[0]
    complete: bool = False
    """Whether all of the text was seen: from then on an expression's meanings are final."""
    _known: dict[tuple[ast.expr, Scope], set[Meaning]] = field(default_factory=dict)

    def allow_for(self, nodes: int) -> None:
        """More steps where the text has very many nodes."""
        least, most = _MOST_STEPS
        self.most_steps = min(max(least, _STEPS_PER_NODE * nodes), most)

    def spend(self) -> None:
        """One step of following names; raises `TooIntricate` after very many."""
        self.steps += 1
        if self.steps > self.most_steps:
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


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """All parameters, in no particular order."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (a for a in (arguments.vararg, arguments.kwarg) if a is not None)
