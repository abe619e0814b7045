"""Functions that a kernel names and that may not be run, which matters only where the kernel gets to them.

A branch on a constant is compiled one way alone, and what the other names may be of another Triton: a helper that the
one calls is refused at once, one that only a branch calls takes a value whose call is the refusal.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from typing import Any

import triton

_FILE = "refused.py"
_TEXT = "def refused(*given, **named):\n    raise ValueError(message)\n"


def surely_named(node: ast.AST) -> Iterator[str]:
    """The names in a text that stand in no branch."""
    if isinstance(node, ast.If | ast.IfExp):
        yield from surely_named(node.test)
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from surely_named(child)


def stand_in(message: str) -> Any:
    """What a kernel calls in the place of a function that may not be run; Triton's compiler has the message then."""
    linecache.cache[_FILE] = (len(_TEXT), None, _TEXT.splitlines(keepends=True), _FILE)
    space: dict[str, Any] = {"message": message, "__name__": "refused"}
    exec(compile(_TEXT, _FILE, "exec", dont_inherit=True), space)
    return triton.constexpr_function(space["refused"])
