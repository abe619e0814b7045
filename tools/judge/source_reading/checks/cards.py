"""Which GPU: a number of one that is written out is right where the judge's tensors lie, and not where the user's do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from kernelagent.tools.judge.source_reading.following.names import Binding, Kept, Names, Scope

_NUMBERED = re.compile(r"\w+:\s*\d+")
_ANY_PLACE = frozenset({"torch.device", "torch.cuda.device", "torch.cuda.current_stream"})
"""Functions whose arguments say which."""
_MOVE = frozenset({"to", "cuda"})
"""Methods of tensors and modules whose arguments may say which."""
_AT_ONCE = 24
"""Expressions that are followed from one to the next."""


class Cards:
    """Answers for one text."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def written(self, node: ast.AST, scope: Scope) -> Iterator[ast.expr]:
        """The parts of a node that say of one GPU, by its number, that it is the one."""
        match node:
            case ast.Constant(value=str() as text) if _NUMBERED.fullmatch(text.strip()):
                yield node
            case ast.Call():
                numbered = any(self._is_number(part, scope) for part in self._given(node, scope))
                if numbered or self._is_made_once(node, scope):
                    yield node
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if _says_device(key) and self._is_number(value, scope):
                        yield value

    def _given(self, node: ast.Call, scope: Scope) -> Iterator[ast.expr]:
        called = node.func
        of_tensor = isinstance(called, ast.Attribute) and called.attr in _MOVE
        if self._names.paths(called, scope) & _ANY_PLACE:
            yield from (*node.args, *(k.value for k in node.keywords))
            return
        yield from (k.value for k in node.keywords if k.arg == "device")
        if of_tensor and not self._names.paths(called, scope):
            yield from node.args[:1]

    def _is_made_once(self, node: ast.Call, scope: Scope) -> bool:
        """A tensor that the file makes on the GPU as it is imported: on the first one, wherever the module goes later."""
        if scope.kind == "function":
            return False
        paths = self._names.paths(node.func, scope)
        if paths:
            given = [k.value for k in node.keywords if k.arg == "device"]
            of_torch = all(path.startswith("torch.") for path in paths)
            return of_torch and not all(map(_is_no_gpu, given))
        match node.func:
            case ast.Attribute(attr="cuda"):
                return True
            case ast.Attribute(attr="to"):
                return not all(map(_is_no_gpu, node.args))
        return False

    def _is_number(self, node: ast.expr, scope: Scope, seen: frozenset[int] = frozenset()) -> bool:
        """Whether a device there is a number, or a text that is put together."""
        if id(node) in seen:
            # `ctx.device = x.device`: an attribute that is given one of its own name is what else it is given.
            return False
        if len(seen) == _AT_ONCE:
            return True
        seen = seen | {id(node)}
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int) and not isinstance(value, bool)
            case ast.JoinedStr():
                return True
            case ast.BinOp(left=first, right=second):
                return any(_is_text(side) for side in (first, second))
            case ast.Call(func=ast.Attribute(attr="format" | "join")):
                return True
            case ast.IfExp(body=first, orelse=second):
                return any(self._is_number(n, scope, seen) for n in (first, second))
            case ast.BoolOp(values=values):
                return any(self._is_number(n, scope, seen) for n in values)
            case ast.Name(id=name):
                home = scope.home(name)
                return home is not None and self._any_is(
                    ((b, home) for b in home.bindings[name]), seen
                )
            case ast.Attribute(attr=name):
                return self._any_is(self._names.attributes.get(name, ()), seen)
        return False

    def _any_is(self, bindings: Iterable[tuple[Binding, Scope]], seen: frozenset[int]) -> bool:
        for binding, scope in bindings:
            if isinstance(binding, Kept):
                binding, scope = binding.default, scope.parent or scope
            if isinstance(binding, ast.expr) and self._is_number(binding, scope, seen):
                return True
        return False


def _is_no_gpu(node: ast.expr) -> bool:
    """`cpu`, `meta`, or a type."""
    if isinstance(node, ast.Constant):
        return node.value in (None, "cpu", "meta")
    return isinstance(node, ast.Attribute) and node.attr != "device"


def _says_device(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == "device"


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=first, right=second):
            return _is_text(first) or _is_text(second)
    return False
