"""Errors as answers: what swallows one, and what is missing where assertions are not executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.following.names import Function, Names

ERRORS_ANSWER = frozenset(
    "__getitem__ __iter__ __len__ __contains__ __eq__ __hash__ __add__ __mul__ __sub__ __exit__".split()
)
"""Special methods whose errors can end a loop, or lead Python elsewhere, in place of ending the call."""
_LEAVING_A_CONTEXT = {"__exit__": ast.FunctionDef, "__aexit__": ast.AsyncFunctionDef}


def leaving(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Statements by which a block is left without an error, on whatever branch."""
    for node in _within(body):
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node


def ending_errors(node: ast.Try | ast.TryStar) -> Iterator[ast.AST]:
    """The parts of a statement by which an error is over, and the call goes on."""
    for handler in node.handlers:
        if not isinstance(handler.body[-1], ast.Raise) or any(leaving(handler.body)):
            yield handler
    # Leaving from there ends the error too.
    yield from leaving(node.finalbody)


def imports_only(node: ast.Try | ast.TryStar) -> bool:
    """Whether it tries what is installed, and nothing else."""
    return all(isinstance(s, ast.Import | ast.ImportFrom) for s in node.body)


def finding(node: ast.Try | ast.TryStar) -> Iterator[ast.AST]:
    """What tells the text which of several packages, or versions of one, there is.

    Where the same thing of one package is looked for in two places, both are the same to whoever calls it.
    """
    tried = dict(_imported(node.body))
    for handler in node.handlers:
        instead = dict(_imported(handler.body))
        moved = all(_is_one(tried[name], path) for name, path in instead.items() if name in tried)
        ends = isinstance(handler.body[-1], ast.Raise)
        plain = all(isinstance(s, ast.Import | ast.ImportFrom | ast.Pass) for s in handler.body)
        if not ends and not (plain and moved):
            yield handler
    yield from node.orelse


def _imported(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Names that imports bind, with the path of what each is."""
    for statement in body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                first = alias.name.split(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def _is_one(left: str, right: str) -> bool:
    first, second = left.split("."), right.split(".")
    return (first[0], first[-1]) == (second[0], second[-1])


def swallowing(node: ast.ClassDef, names: Names) -> Iterator[ast.AST]:
    """What makes a context manager of this class end errors: all but a plain `__exit__` that answers with nothing true."""
    scope = names.scopes[node]
    parts = list(_within(node.body))
    for name, plain in _LEAVING_A_CONTEXT.items():
        methods = (p for p in parts if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef))
        written = [p for p in methods if p.name == name]
        for part in written:
            yield from _true_answers(part, plain)
        if len(scope.bindings.get(name, ())) > len(written):
            others = (p for p in parts if not isinstance(p, Function) and _names_it(p, name))
            yield next(others, node)


def _true_answers(
    node: ast.FunctionDef | ast.AsyncFunctionDef, plain: type[ast.AST]
) -> Iterator[ast.AST]:
    body = list(_within(node.body))
    lazy = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in body)
    if not isinstance(node, plain) or node.decorator_list or lazy:
        # What it answers with is no value of its `return`: a generator and a coroutine are true.
        yield node
        return
    yield from (r for r in body if isinstance(r, ast.Return) and not _is_false(r.value))


def _names_it(node: ast.AST, name: str) -> bool:
    return any(
        value == name or (isinstance(value, list) and name in value)
        for value in vars(node).values()
    )


def _within(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a block, without those of functions and classes in it."""
    for node in body:
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            yield from _within(list(ast.iter_child_nodes(node)))


def _is_false(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and not node.value)
