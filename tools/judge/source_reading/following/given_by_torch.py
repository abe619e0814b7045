"""First arguments that torch or Python makes itself: the context of an autograd function, and the object of a constructor.

What is written to these is gone with them. Where a text calls such a method on something else, it is an argument like any.
"""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.classes import kind_of
from kernelagent.tools.judge.source_reading.following.constructing import CONSTRUCTORS
from kernelagent.tools.judge.source_reading.following.names import Names, Own, Scope, written_out

OF_A_FUNCTION: frozenset[str] = frozenset({"forward", "backward", "setup_context", "jvp", "vmap"})
"""Methods of an autograd function that torch calls."""
_WITH_A_CONTEXT = OF_A_FUNCTION - {"vmap"}


class Contexts:
    """The contexts in one text."""

    def __init__(self, tree: ast.Module, names: Names) -> None:
        self._names = names
        self._called = frozenset(_named_by_the_text(tree, names))

    def of(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> str | None:
        """What a method calls the context that torch gives it; none where the text itself may call the method."""
        if kind_of(scope.node, self._names) != "function" or not node.args.args:
            return None
        without = node.name == "forward" and "setup_context" in scope.bindings
        if node.name not in _WITH_A_CONTEXT or without or node.name in self._called:
            return None
        return node.args.args[0].arg


def _named_by_the_text(tree: ast.Module, names: Names) -> list[str]:
    """Methods of autograd functions that the text names beside their definition."""
    outcome = []
    for node, scope in _within(tree, names.scopes[tree], names):
        match node:
            case ast.Attribute(attr=name, value=base, ctx=ast.Load()):
                pass
            case ast.Call(args=[base, *_]) if written_out(node) in OF_A_FUNCTION:
                name = written_out(node) or ""
            case _:
                continue
        if name not in OF_A_FUNCTION or _is_super(base):
            continue
        objects = [m for m in names.meanings(base, scope) if isinstance(m, Own)]
        of_instances = objects and all(m.kind == "instance" for m in objects)
        of_self = isinstance(base, ast.Attribute)
        if not of_instances and not (of_self and not objects):
            outcome.append(name)
    return outcome


def makes_again(tree: ast.Module) -> bool:
    """Whether a constructor is called on anything but a new object, or may be called by another name."""
    return any(_is_made_again(node, None, None) for node in ast.iter_child_nodes(tree)) or any(
        isinstance(node, ast.Constant) and node.value in CONSTRUCTORS for node in ast.walk(tree)
    )


def _is_made_again(node: ast.AST, parent: ast.AST | None, new: str | None) -> bool:
    """`new`: what the constructor that this stands in calls its object."""
    if isinstance(node, ast.Attribute) and node.attr in CONSTRUCTORS:
        if not isinstance(parent, ast.Call) or parent.func is not node:
            return True
        first = parent.args[0] if parent.args else None
        of_base = isinstance(first, ast.Name) and first.id == new
        return new is None or not (_is_super(node.value) or of_base)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        plain = [*node.args.posonlyargs, *node.args.args]
        new = plain[0].arg if node.name in CONSTRUCTORS and plain else None
    return any(_is_made_again(child, node, new) for child in ast.iter_child_nodes(node))


def _is_super(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    )


def _within(node: ast.AST, scope: Scope, names: Names) -> list[tuple[ast.AST, Scope]]:
    result = []
    waiting = [(node, scope)]
    while waiting:
        item, outer = waiting.pop()
        result.append((item, outer))
        inner = names.scopes.get(item, outer)
        waiting += [(child, inner) for child in ast.iter_child_nodes(item)]
    return result
