"""What an object is, apart from its numbers: the same one as another, a parameter, or one with a certain attribute.

Tensors of the same shape, layout, data type and values are one to a computation. Which of them it is given, of what
class they are, and what somebody noted on them depends on the program around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.following.classes import kind_of
from kernelagent.tools.judge.source_reading.following.names import (
    Binding,
    Comprehension,
    Imported,
    Kept,
    Names,
    Own,
    Scope,
    Value,
    written_out,
)
from kernelagent.tools.judge.source_reading.following.plain import Plain

_CLASSES_OF_TENSORS = frozenset(
    f"torch.nn.{module}{name}" for module in ("", "parameter.") for name in ("Parameter", "Buffer")
)
"""What a tensor may be an instance of, or not, with the same numbers."""
_MAKES_EACH = frozenset({"map", "cast"})
"""What is given a class to make instances with it, or to say what something is."""
_BY_HASH = frozenset({"set", "frozenset"})
_TABLES = frozenset({"collections.OrderedDict", "collections.defaultdict"})
_BY_KEY = frozenset({"get", "setdefault", "pop", "add", "discard", "remove"})
_FIND = frozenset({"index", "count", "remove"})
"""Methods of lists that compare what they are given, by identity first."""


class Identity:
    """Answers for one text."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._plain = Plain(names, texts=True)

    def asked(self, node: ast.AST, scope: Scope, *, of_types: bool) -> Iterator[ast.expr]:
        """The parts of a node, or the node itself, that ask what an object is.

        `of_types`: the node says only of what kind something is.
        """
        if isinstance(node, Comprehension):
            scope = self._names.scopes[node]
        match node:
            case ast.Compare():
                yield from self._compared(node, scope)
            case ast.Call():
                yield from self._of_call(node, scope)
            case ast.Set(elts=parts):
                yield from (part for part in parts if self._may_be_a_tensor(part, scope))
            case ast.Subscript(value=table, slice=key) if self._is_table(table, scope):
                yield from (part for part in (key,) if self._is_given(part, scope))
            case ast.Dict(keys=keys):
                yield from (key for key in keys if key and self._may_be_a_tensor(key, scope))
            case ast.MatchClass(cls=kind):
                asks_for_one = node.kwd_attrs and not self._is_own(kind, scope)
                if asks_for_one or self._is_of_tensors(kind, scope):
                    yield kind
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if not of_types:
                yield from (part for part in parts if self._is_of_tensors(part, scope))
            case ast.Return(value=ast.expr() as value) if self._is_of_tensors(value, scope):
                yield value

    def _compared(self, node: ast.Compare, scope: Scope) -> Iterator[ast.expr]:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, node.comparators, strict=False):
            if isinstance(operator, ast.Is | ast.IsNot):
                if not (self._is_known(left, right, scope) or self._is_known(right, left, scope)):
                    yield node
            elif isinstance(operator, ast.In | ast.NotIn) and self._may_find(left, right, scope):
                yield node
        if not any(isinstance(o, ast.Is | ast.IsNot) for o in node.ops):
            yield from (side for side in sides if self._is_of_tensors(side, scope))

    def _may_find(self, one: ast.expr, row: ast.expr, scope: Scope) -> bool:
        """Whether a tensor may be looked for in a row of tensors: by identity first."""
        if not self._may_be_a_tensor(one, scope) or self._plain.holds(row, scope):
            return False
        if isinstance(row, ast.Tuple | ast.List):
            return any(
                self._may_be_a_tensor(p, scope) and not _is_lasting(p, scope) for p in row.elts
            )
        home = scope.home(row.id) if isinstance(row, ast.Name) else None
        bindings = home.bindings[row.id] if home is not None and isinstance(row, ast.Name) else []
        return not any(
            isinstance(b, Kept) and self._plain.holds(b.default, scope) for b in bindings
        )

    def _is_known(self, side: ast.expr, other: ast.expr, scope: Scope) -> bool:
        """Whether it is one object wherever the text runs: a constant, a data type, or one thing that is imported."""
        if isinstance(side, ast.Constant) or self._plain.holds(side, scope):
            return True
        meanings = self._names.meanings(side, scope)
        one = len(meanings) == 1 and all(isinstance(m, Imported) for m in meanings)
        several = len(self._names.paths(other, scope)) > 1
        return one and not several and not self._is_of_tensors(side, scope)

    def _of_call(self, node: ast.Call, scope: Scope) -> Iterator[ast.expr]:
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if written_out(node) and self._asks_for_one(node, scope):
            yield node
        if name not in _MAKES_EACH:
            given = [*node.args, *(k.value for k in node.keywords)]
            parts = [inner for argument in given for inner in _parts(argument)]
            if any(self._is_of_tensors(part, scope) for part in parts):
                yield node
        hashes = isinstance(called, ast.Name) and name in _BY_HASH and scope.home(name) is None
        if hashes or name == "fromkeys":
            yield from (a for a in node.args[:1] if not self._plain.holds(a, scope))
        elif isinstance(called, ast.Attribute) and name in _FIND and len(node.args) == 1:
            yield from (a for a in node.args if self._may_be_a_tensor(a, scope))
        elif isinstance(called, ast.Attribute) and name in _BY_KEY:
            given = [a for a in node.args[:1] if self._is_given(a, scope)]
            yield from given if self._is_table(called.value, scope) else ()

    def _is_table(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is a dictionary or a set of the text's own that may have tensors for keys."""
        bindings: Sequence[tuple[Binding, Scope]] = ()
        if isinstance(node, ast.Attribute):
            bindings = self._names.attributes.get(node.attr, ())
        elif isinstance(node, ast.Name) and (home := scope.home(node.id)) is not None:
            bindings = [(b, home) for b in home.bindings[node.id]]
        return any(
            isinstance(b, ast.DictComp | ast.Set | ast.SetComp)
            or (isinstance(b, ast.Dict) and not (b.keys and all(map(_is_text, b.keys))))
            or (isinstance(b, ast.Call) and self._makes_a_table(b.func, s))
            for b, s in bindings
        )

    def _makes_a_table(self, node: ast.expr, scope: Scope) -> bool:
        builtin = isinstance(node, ast.Name) and node.id in _BY_HASH | {"dict"}
        return (builtin and scope.home(getattr(node, "id", "")) is None) or bool(
            self._names.paths(node, scope) & _TABLES
        )

    def _is_given(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is an argument of a forward or a backward, or something the module holds: no number, no text."""
        if isinstance(node, ast.Tuple):
            return any(self._is_given(part, scope) for part in node.elts)
        if isinstance(node, ast.Name):
            home = scope.home(node.id)
            of_call = home is not None and getattr(home.node, "name", "") in ("forward", "backward")
            return of_call and self._may_be_a_tensor(node, scope)
        return isinstance(node, ast.Attribute) and self._may_be_a_tensor(node, scope)

    def _asks_for_one(self, node: ast.Call, scope: Scope) -> bool:
        """Whether it asks if something has an attribute that neither the text nor a layer of torch's gives it."""
        builtin = node.func.id if isinstance(node.func, ast.Name) else ""
        if not (builtin == "hasattr" or (builtin == "getattr" and len(node.args) > 2)):
            return False
        base, name = node.args[0], written_out(node) or ""
        meanings = self._names.meanings(base, scope)
        own = any(isinstance(m, Own) and m.kind == "instance" for m in meanings)
        if own or self._is_record(base, scope):
            return name not in self._names.attributes
        return not self._is_a_layer(base, scope)

    def _is_record(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is the record that torch hands to the methods of an autograd function."""
        home = scope.home(node.id) if isinstance(node, ast.Name) else None
        if home is None or not isinstance(home.node, ast.FunctionDef) or home.parent is None:
            return False
        first = home.node.args.args[0].arg if home.node.args.args else ""
        of_function = kind_of(home.parent.node, self._names) == "function"
        return of_function and isinstance(node, ast.Name) and node.id == first

    def _is_a_layer(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is an attribute that holds a layer of torch's and nothing else."""
        if not isinstance(node, ast.Attribute):
            return False
        bindings = self._names.attributes.get(node.attr, ())
        return bool(bindings) and all(
            isinstance(b, ast.Call) and self._makes_a_layer(b.func, s) for b, s in bindings
        )

    def _makes_a_layer(self, node: ast.expr, scope: Scope) -> bool:
        paths = self._names.paths(node, scope) - _CLASSES_OF_TENSORS
        return bool(paths) and all(path.startswith("torch.nn.") for path in paths)

    def _may_be_a_tensor(self, node: ast.expr, scope: Scope) -> bool:
        refers = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        meanings = self._names.meanings(node, scope) if refers else set()
        return any(isinstance(m, Value) for m in meanings) and not self._plain.holds(node, scope)

    def _is_of_tensors(self, node: ast.expr, scope: Scope) -> bool:
        refers = isinstance(node, ast.Name | ast.Attribute)
        return refers and bool(self._names.paths(node, scope) & _CLASSES_OF_TENSORS)

    def _is_own(self, node: ast.expr, scope: Scope) -> bool:
        return any(isinstance(m, Own) for m in self._names.meanings(node, scope))


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant)


def _is_lasting(node: ast.expr, scope: Scope) -> bool:
    """Whether it is a name of the file, or a part of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    home = scope.home(node.id) if isinstance(node, ast.Name) else None
    return home is not None and home.kind == "module"


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """An argument, and what a row of classes written out there holds."""
    yield node
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (inner for part in parts for inner in _parts(part))
        case ast.BinOp(left=left, right=right):
            yield from (*_parts(left), *_parts(right))
        case ast.Starred(value=value):
            yield from _parts(value)
