"""The text of the drop-in, from the files that hold it as code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from kernelagent.domain.parsing import parse

PARTS = ("module.py", "guard.py", "graph.py", "state.py", "inputs.py")


@cache
def joined_parts() -> str:
    """All parts in order, each without its docstring, its imports and what a type checker reads."""
    return "\n\n\n".join(_section_of(_source(part)) for part in PARTS)


def _section_of(source: str) -> str:
    tree = parse(source)
    first = next(
        node for node in tree.body[1:] if not isinstance(node, ast.Import | ast.ImportFrom | ast.If)
    )
    decorators = getattr(first, "decorator_list", [])
    begin = decorators[0].lineno if decorators else first.lineno
    lines = source.splitlines()
    while lines[begin - 2].startswith("#"):
        begin -= 1
    return "\n".join(lines[begin - 1 :]).rstrip()


def _source(part: str) -> str:
    return (Path(__file__).parent / "template" / part).read_text(encoding="utf-8")
