"""Names of a file for the `apply` of one of its classes, as `swiglu = SwiGLU.apply`, read as what they stand for.

So what is known of an autograd function that is called, and of what it does to its arguments, holds by either name.
"""

from __future__ import annotations

import ast
from collections import Counter


def by_their_class(tree: ast.Module) -> ast.Module:
    """The text with `Class.apply` where such a name is read, in place; the names that nothing else in the text binds."""
    bound = Counter(_bound(tree))
    classes = {
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and bound[node.name] == 1
    }
    applied = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Attribute(value=ast.Name(id=kind), attr="apply"),
            ) if kind in classes and bound[name] == 1:
                applied[name] = kind
    return _Read(applied).visit(tree) if applied else tree


def _bound(tree: ast.Module) -> list[str]:
    """Every name that the text gives something, in any scope and as often as it does."""
    result: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                result.append(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                result.append(name)
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                result.append(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                result.append(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                result.append(name)
            case ast.alias(name=name, asname=other):
                result.append(other or name.split(".")[0])
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                result += names
    return result


class _Read(ast.NodeTransformer):
    def __init__(self, applied: dict[str, str]) -> None:
        self._applied = applied

    def visit_Name(self, node: ast.Name) -> ast.expr:
        kind = self._applied.get(node.id)
        if kind is None or not isinstance(node.ctx, ast.Load):
            return node
        of = ast.copy_location(ast.Name(kind, ast.Load()), node)
        return ast.copy_location(ast.Attribute(of, "apply", ast.Load()), node)
