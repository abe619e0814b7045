"""What is made into text: of a class, a function, a kernel or a tensor the text tells names, addresses or the device.

A text may be made of numbers, other texts, shapes and data types; a name counts as one of these where all that it is ever
bound to is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.judge.source_reading.following.names import Comprehension, Names, Scope
from kernelagent.tools.judge.source_reading.following.plain import Plain

_SHOWS = frozenset({"str", "repr", "format"})
_FORMATS = frozenset("0123456789.,<>^+- _#=eEfFgGdxXbos")
"""Characters of formats that do not make one character of another, as `c` and `%` do."""

_ASSERTIONS = frozenset(f"triton.language.{name}" for name in ("static_assert", "device_assert"))


class Texts:
    """Where one text makes text."""

    def __init__(self, names: Names, tree: ast.Module) -> None:
        self._names = names
        self._templates = any(_is_template(node) for node in _outside_of_messages(tree))
        self._plain = Plain(names, texts=True)
        self._numbers = Plain(names, texts=False)
        self._in_messages: set[int] = set()
        """Parts of what an assertion in a kernel says where it fails, which ends the compilation or the kernel."""

    def telling(self, node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
        """The parts of a node of which text is made, or might be, and which may tell more than numbers."""
        if isinstance(node, Comprehension):
            scope = self._names.scopes[node]
        if isinstance(node, ast.Call):
            paths = self._names.paths(node.func, scope)
            if paths and paths <= _ASSERTIONS:
                said = (*node.args[1:], *(k.value for k in node.keywords if k.arg == "msg"))
                self._in_messages.update(id(part) for each in said for part in ast.walk(each))
            yield from self._of_call(node, scope)
        elif isinstance(node, ast.FormattedValue):
            if id(node) in self._in_messages:
                return
            if not (self._plain.holds(node.value, scope) and _is_ordinary(node.format_spec)):
                yield node.value
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Mod):
            left, right = (
                (node.left, node.right)
                if isinstance(node, ast.BinOp)
                else (node.target, node.value)
            )
            if self._may_be_text(left, scope) and not self._plain.holds(right, scope):
                yield right
        for child in ast.iter_child_nodes(node):
            is_maker = isinstance(child, ast.Name) and self._is_maker(child, scope)
            if isinstance(child, ast.Name) and is_maker and not _may_stand(node, child):
                yield child

    def _of_call(self, node: ast.Call, scope: Scope) -> Iterator[ast.expr]:
        called = node.func
        if isinstance(called, ast.Name) and self._is_maker(called, scope):
            yield from (part for part in node.args if not self._plain.holds(part, scope))
            if called.id == "format" and not all(map(_is_ordinary, node.args[1:])):
                yield node
        elif isinstance(called, ast.Name) and called.id == "map" and scope.home("map") is None:
            makes = [n for n in node.args[:1] if isinstance(n, ast.Name)]
            if any(self._is_maker(name, scope) for name in makes):
                yield from (p for p in node.args[1:] if not self._plain.holds(p, scope))
        elif isinstance(called, ast.Attribute) and called.attr == "format":
            given = (*node.args, *(k.value for k in node.keywords))
            yield from (part for part in given if not self._plain.holds(part, scope))

    def _may_be_text(self, node: ast.expr, scope: Scope) -> bool:
        """Whether `node % other` may be a text: there is a template somewhere, and this is not known to be a number."""
        return self._templates and not self._numbers.holds(node, scope)

    def _is_maker(self, node: ast.Name, scope: Scope) -> bool:
        return node.id in _SHOWS and scope.home(node.id) is None


def _may_stand(parent: ast.AST, child: ast.Name) -> bool:
    """Whether the builtin is called there, or only says of what kind something is."""
    match parent:
        case ast.Call(func=ast.Name(id="map")):
            return child is parent.args[0]
        case ast.Call():
            return child is parent.func
        case ast.Attribute() | ast.Compare():
            return True
        case ast.MatchClass():
            return child is parent.cls
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return child is parent.returns
        case ast.AnnAssign():
            return child is parent.annotation
    return False


def _outside_of_messages(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of errors, assertions and texts that stand alone."""
    for child in ast.iter_child_nodes(node):
        alone = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not alone and not isinstance(child, ast.Raise | ast.Assert):
            yield child
            yield from _outside_of_messages(child)


def _is_template(node: ast.AST) -> bool:
    """A text that makes another with what is put in after `%`."""
    match node:
        case ast.Constant(value=str() as text):
            return "%" in text
        case ast.Constant(value=bytes() as octets):
            return b"%" in octets
    return False


def _is_ordinary(spec: ast.expr | None) -> bool:
    """Whether a format only lays out a number or a text."""
    match spec:
        case None:
            return True
        case ast.Constant(value=str() as text):
            return set(text) <= _FORMATS
        case ast.JoinedStr(values=parts):
            return all(isinstance(p, ast.FormattedValue) or _is_ordinary(p) for p in parts)
    return False
