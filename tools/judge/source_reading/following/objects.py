"""Which expressions stand for an object that outlives a call, and which objects hold no other."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.classes import is_module
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.following.names import (
    Binding,
    Imported,
    Kept,
    Names,
    Own,
    Scope,
)
from kernelagent.tools.judge.source_reading.following.plain import Plain

_DISPLAYS = ast.List | ast.Tuple | ast.Set | ast.Dict
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_NO_OBJECTS = (
    "triton.",
    "math.",
    "typing.",
    "numbers.",
    "enum.",
    "__future__.",
    "torch.device",
    "torch.Size",
    "torch.finfo",
    "torch.iinfo",
    "collections.namedtuple",
    "numpy.",
    "functools.wraps",
    "contextlib.contextmanager",
)
"""What these make cannot be changed, or only by what is named anyway."""


class Objects:
    """Answers for one text."""

    def __init__(self, names: Names, lives: Lifetimes, plain: Plain) -> None:
        self._names = names
        self._lives = lives
        self._plain = plain
        self._known: dict[tuple[ast.expr, Scope], bool] = {}

    def is_object(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is one of the file, of an object, or of a function that made another, and no number or text."""
        place = node, scope
        if place not in self._known:
            self._known[place] = False
            self._known[place] = self._stays(node, scope)
        return self._known[place]

    def _stays(self, node: ast.expr, scope: Scope) -> bool:
        self._names.spend()
        match node:
            case ast.Name():
                home = scope.home(node.id)
                if home is None:
                    return False
                bindings = home.bindings[node.id]
                if home.kind != "module" and not self._lives.may_stay(scope, home):
                    # Its own, of this call; but a default is made once.
                    return any(
                        isinstance(b, Kept) and self._may_change(b.default, home.parent or home)
                        for b in bindings
                    )
                # The object of a method around a function: what the function holds is looked at where it is made.
                own = [b for b in bindings if home.kind == "module" or not isinstance(b, Own)]
                return any(self._may_change(b, home) for b in own)
            case ast.Attribute():
                if self._names.paths(node.value, scope):
                    return False
                return any(
                    self._is_kept(b, s) for b, s in self._names.attributes.get(node.attr, ())
                )
        return False

    def _is_kept(self, binding: Binding, scope: Scope) -> bool:
        """Whether an attribute is given an object that torch does not keep with the module."""
        match binding:
            case ast.Call():
                paths = self._names.paths(binding.func, scope)
                in_class = scope.kind == "class"
                own = [m for m in self._names.meanings(binding.func, scope) if isinstance(m, Own)]
                of_module = any(p.startswith("torch.nn.") for p in paths) or any(
                    m.kind == "class" and is_module(m.name, self._names) for m in own
                )
                if of_module and not in_class:
                    return False
                makes = bool(paths) or any(m.kind == "class" for m in own)
                return makes and self._may_change(binding, scope)
            case ast.expr():
                shown = isinstance(binding, _DISPLAYS | _COMPREHENSIONS)
                refers = isinstance(binding, ast.Name | ast.Attribute | ast.Subscript)
                if shown:
                    return self._may_change(binding, scope)
                return refers and self.is_object(_root(binding), scope)
        return False

    def _may_change(self, binding: Binding, scope: Scope) -> bool:
        """Whether what a name is bound to may be an object, or hold one."""
        match binding:
            case Imported():
                return False
            case Own():
                return binding.kind == "instance"
            case ast.Constant() | ast.JoinedStr() | ast.Lambda() | ast.Compare():
                return False
            case (
                ast.List()
                | ast.Set()
                | ast.Dict()
                | ast.ListComp()
                | ast.SetComp()
                | ast.DictComp()
            ):
                return True
            case ast.Tuple():
                return any(self._may_change(part, scope) for part in binding.elts)
            case ast.Call():
                return self._call_may_change(binding, scope)
            case ast.Name() | ast.Attribute() if self._meanings_are_fixed(binding, scope):
                return False
            case ast.expr():
                return not self._plain.holds(binding, scope)
            case Kept():
                return self._may_change(binding.default, scope.parent or scope)
        return scope.kind == "module"

    def _call_may_change(self, node: ast.Call, scope: Scope) -> bool:
        called: ast.expr = node
        while isinstance(called, ast.Call):
            called = called.func
        paths = self._names.paths(called, scope)
        if paths and all(path.startswith(_NO_OBJECTS) for path in paths):
            return False
        return not self._plain.holds(node, scope)

    def _meanings_are_fixed(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name is another one for something imported, or for a function, kernel or class."""
        meanings = self._names.meanings(node, scope)
        return bool(meanings) and all(
            isinstance(m, Imported) or (isinstance(m, Own) and m.kind != "instance")
            for m in meanings
        )

    def is_flat(self, node: ast.expr, scope: Scope) -> bool:
        """Whether no part of this is an object: a row of numbers, texts, functions or kernels, or a tensor's elements."""
        match node:
            case ast.Name():
                home = scope.home(node.id)
                bindings = home.bindings[node.id] if home is not None else []
                return bool(bindings) and all(
                    isinstance(b, ast.expr) and self._holds_no_object(b, home or scope)
                    for b in bindings
                )
            case ast.Attribute():
                given = self._names.attributes.get(node.attr, ())
                return bool(given) and all(
                    isinstance(b, ast.expr) and self._holds_no_object(b, s) for b, s in given
                )
        return self._holds_no_object(node, scope)

    def _holds_no_object(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.List() | ast.Tuple() | ast.Set():
                parts = node.elts
            case ast.Dict():
                parts = node.values
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                parts, scope = [node.elt], self._names.scopes[node]
            case ast.DictComp():
                parts, scope = [node.value], self._names.scopes[node]
            case _:
                return self._plain.holds(node, scope)
        return all(self._holds_no_part(part, scope) for part in parts)

    def _holds_no_part(self, node: ast.expr, scope: Scope) -> bool:
        if isinstance(node, ast.Starred):
            return self.is_flat(node.value, scope)
        return not self._may_change(node, scope)

    def is_row(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is a list, tuple, set or dictionary as it is written out."""
        home = scope.home(node.id) if isinstance(node, ast.Name) else None
        bindings = home.bindings[node.id] if isinstance(node, ast.Name) and home is not None else ()
        rows = _DISPLAYS | _COMPREHENSIONS
        return isinstance(node, rows) or any(isinstance(b, rows) for b in bindings)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
