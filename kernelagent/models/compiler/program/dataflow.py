"""What the names in a kernel's body depend on, and which assignments are never read."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_INLINED = 72
"""Characters an expression may grow to when a temporary is put into the one place that reads it."""
_PURE = ("tl.load", "tl.atomic", "tl.store")


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def axes_of(node: ast.AST, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The program axes an expression varies along."""
    result: frozenset[str] = frozenset()
    for name in names_in(node):
        result |= known.get(name, frozenset())
    return result


def assigned_again(body: Iterable[ast.stmt]) -> frozenset[str]:
    """Names that more than one statement sets, loops included."""
    sets = Counter(name for s in _walk(body) if (name := target_of(s)) is not None)
    return frozenset(name for name, times in sets.items() if times > 1)


def carried_by_loops(
    body: Iterable[ast.stmt], before: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Names with a value before a loop that the loop sets: an iteration begins with what the one before left in them."""
    known, result = set(before), set[str]()
    for statement in body:
        if isinstance(statement, ast.For):
            inside = {target_of(s) for s in _walk(statement.body)}
            result |= known & inside
            result |= carried_by_loops(statement.body, frozenset(known))
        elif (name := target_of(statement)) is not None:
            known.add(name)
    return frozenset(result)


def target_of(statement: ast.stmt) -> str | None:
    """The name a plain assignment sets."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def stored_to(statement: ast.stmt) -> set[str]:
    """The names in the address of a store; none for any other statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    stores = isinstance(call, ast.Call) and ast.unparse(call.func) == "tl.store"
    return names_in(call.args[0]) if stores and isinstance(call, ast.Call) else set()


def without_unread(body: Sequence[ast.stmt], results: Iterable[str] = ()) -> list[ast.stmt]:
    """The body less the assignments whose name is read nowhere; again, until nothing changes.

    `results`: names that are read by what follows.
    """
    statements, wanted = list(body), Counter(results)
    while True:
        read = _reads(statements) + wanted
        kept = _kept(statements, read)
        if sum(1 for _ in _walk(kept)) == sum(1 for _ in _walk(statements)):
            return kept
        statements = kept


def _kept(body: Sequence[ast.stmt], read: Mapping[str, int]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.For):
            inner = _kept(statement.body, read)
            if inner:
                kept.append(_loop_with(statement, inner))
        elif (name := target_of(statement)) is None or read.get(name, 0):
            kept.append(statement)
    return kept


def _loop_with(loop: ast.For, body: list[ast.stmt]) -> ast.For:
    return ast.For(target=loop.target, iter=loop.iter, body=body, orelse=[])


def _walk(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.For):
            yield from _walk(statement.body)


def _reads(body: Iterable[ast.stmt]) -> Counter[str]:
    result: Counter[str] = Counter()
    for statement in _walk(body):
        nodes: list[ast.AST] = [statement.iter] if isinstance(statement, ast.For) else [statement]
        for node in nodes:
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                    result[name.id] += 1
    return result


def inlined(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Inlines temporaries that are set once and read once; loads and stores are not reordered."""
    return _inlined(body, _reads(body), assigned_again(body))


def _inlined(
    body: Sequence[ast.stmt], counts: Mapping[str, int], again: frozenset[str]
) -> list[ast.stmt]:
    waiting: dict[str, ast.expr] = {}
    done: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.For):
            done.append(_loop_with(statement, _inlined(statement.body, counts, again)))
            continue
        placed = _Placing(waiting).visit(statement)
        name = target_of(placed)
        if name in again:
            # What still waits to be read means this name as it was.
            for other in [n for n, value in waiting.items() if {name} & names_in(value)]:
                done.append(_assignment(other, waiting.pop(other)))
        once = name is not None and counts[name] == 1 and name not in again
        if name and once and _may_move(placed.value) and _read_later(name, body, statement):
            waiting[name] = placed.value
            continue
        done.append(placed)
    return done


def _assignment(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign(targets=[ast.Name(name, ast.Store())], value=value, lineno=0)


def _read_later(name: str, body: Sequence[ast.stmt], statement: ast.stmt) -> bool:
    """True if the only read is in this block itself and not in a nested loop."""
    after = list(body)[list(body).index(statement) + 1 :]
    return any(name in names_in(s) for s in after if not isinstance(s, ast.For))


def _may_move(value: ast.expr) -> bool:
    text = ast.unparse(value)
    return len(text) <= MOST_INLINED and not any(word in text for word in _PURE)


class _Placing(ast.NodeTransformer):
    def __init__(self, waiting: dict[str, ast.expr]) -> None:
        self._waiting = waiting

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._waiting:
            return self._waiting.pop(node.id)
        return node
