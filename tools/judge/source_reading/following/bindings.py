"""Which nodes of Python's grammar give a name to something, and which names they give."""

from __future__ import annotations

import ast
from collections.abc import Mapping

NAMING: Mapping[str, str] = {
    "FunctionDef": "name",
    "AsyncFunctionDef": "name",
    "ClassDef": "name",
    "ExceptHandler": "name",
    "MatchAs": "name",
    "MatchStar": "name",
    "MatchMapping": "rest",
    "TypeVar": "name",
    "ParamSpec": "name",
    "TypeVarTuple": "name",
}
"""Classes of nodes that bind a name which is no node of its own, with the field that has it; an import's is in `alias`.
All other names, attributes and elements that are bound are nodes whose `ctx` says so, wherever they stand."""


def bound_name(node: ast.AST) -> str | None:
    """The name that a node binds itself, where its parts do not show it."""
    if isinstance(node, ast.alias):
        return node.asname or node.name.split(".")[0]
    name = getattr(node, NAMING.get(type(node).__name__, ""), None)
    return name if isinstance(name, str) else None


def is_bound(node: ast.AST) -> bool:
    """Whether this name, attribute or element is given a value, or deleted, where it stands."""
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) and isinstance(
        node, ast.Name | ast.Attribute | ast.Subscript
    )
