"""Loggers of the text's own that are used for nothing but writing lines to a log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelagent.tools.judge.source_reading.following.names import Names, Scope

_MAKER = "logging.getLogger"
_WRITING = frozenset("debug info warning error critical exception log".split())


@dataclass(frozen=True)
class Logs:
    """Where lines are logged: whatever else is done with a logger is read like everything else."""

    _statements: dict[int, ast.Call] = field(default_factory=dict)
    _made: frozenset[int] = frozenset()

    @classmethod
    def of(cls, tree: ast.Module, names: Names) -> Logs:
        """All names of a logger count, in every scope: one that is asked for anything is no mere log."""
        module = names.scopes[tree]
        found: dict[str, list[ast.Expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and (name := _logs_to(node)) is not None:
                found.setdefault(name, []).append(node)
        uses = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        plain = {
            name: statements
            for name, statements in found.items()
            if _is_logger(name, module, names)
            and _WRITING.isdisjoint(names.attributes)
            and uses.count(name) == len(statements) + 1
        }
        made = (b for name in plain for b in module.bindings[name])
        return cls(
            {id(s): call for calls in plain.values() for s in calls if (call := _call(s))},
            frozenset(id(b) for b in made),
        )

    def line(self, node: ast.AST) -> ast.Call | None:
        """The call of a statement that only logs a line."""
        return self._statements.get(id(node))

    def makes(self, node: ast.AST) -> bool:
        """Whether it is the call that makes such a logger."""
        return id(node) in self._made


def given_to(call: ast.Call) -> Iterator[ast.expr]:
    """What a line is made of; it is read like everything else."""
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _call(node: ast.Expr) -> ast.Call | None:
    return node.value if isinstance(node.value, ast.Call) else None


def _logs_to(node: ast.Expr) -> str | None:
    """The name whose method a statement calls without asking for an answer."""
    match node.value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return name if method in _WRITING else None
    return None


def _is_logger(name: str, module: Scope, names: Names) -> bool:
    """Whether the name stands for one thing, wherever it is used: a logger made on the module's level."""
    bindings = module.bindings.get(name, [])
    if any(name in scope.bindings for scope in names.scopes.values() if scope is not module):
        return False
    return (
        len(bindings) == 1
        and isinstance(bindings[0], ast.Call)
        and names.paths(bindings[0].func, module) == {_MAKER}
        and all(isinstance(a, ast.Constant) or _is_own_name(a) for a in bindings[0].args)
        and not bindings[0].keywords
    )


def _is_own_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"
