"""Errors as answers: what swallows one, and what is missing where assertions are not executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.names import Function, Names, Own, Scope

ERRORS_ANSWER = frozenset(
    "__getitem__ __iter__ __len__ __contains__ __eq__ __hash__ __add__ __mul__ __sub__ __exit__".split()
)
"""Special methods whose errors can end a loop, or lead Python elsewhere, in place of ending the call."""


def leaving(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Statements by which a block is left without an error, on whatever branch."""
    for node in body:
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node
        elif not isinstance(node, Function | ast.ClassDef):
            yield from leaving(list(ast.iter_child_nodes(node)))


def swallowing(node: ast.ClassDef) -> Iterator[ast.AST]:
    """What makes a context manager of this class end errors: an `__exit__` that may answer with something true."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__exit__":
            returns = (r for r in leaving(part.body) if isinstance(r, ast.Return))
            yield from (r for r in returns if not _is_false(r.value))
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if any(isinstance(t, ast.Name) and t.id == "__exit__" for t in targets):
                yield part


def _is_false(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and not node.value)


class Effects:
    """Which expressions do something besides having a value."""

    def __init__(self, names: Names) -> None:
        self._names = names
        functions = [n for n in names.scopes if isinstance(n, ast.FunctionDef)]
        self._functions: set[str] = set()
        """Names of the text's own functions that launch a kernel or write."""
        grown = True
        while grown:
            more = {f.name for f in functions if self._has_any(f.body, names.scopes[f])}
            grown = not more <= self._functions
            self._functions |= more

    def within(self, node: ast.Assert, scope: Scope) -> bool:
        """Whether an assertion does more than check, so that leaving it out would change what the text computes."""
        parts = [node.test]
        named = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node.test))
        return named or self._has_any(parts, scope)

    def _has_any(self, body: Sequence[ast.AST], scope: Scope) -> bool:
        return any(self._has(node, scope) for part in body for node in ast.walk(part))

    def _has(self, node: ast.AST, scope: Scope) -> bool:
        match node:
            case ast.Call(func=ast.Subscript(value=kernel)):
                meanings = self._names.meanings(kernel, scope)
                return any(isinstance(m, Own) and m.kind == "kernel" for m in meanings)
            case ast.Call(func=ast.Name(id=name)):
                return name in self._functions
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in self._functions or _is_in_place(name)
            case ast.Assign(targets=targets):
                return any(isinstance(t, ast.Attribute | ast.Subscript) for t in targets)
            case ast.AugAssign(target=target):
                return isinstance(target, ast.Attribute | ast.Subscript)
            case ast.Global() | ast.Nonlocal():
                return True
        return False


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")
