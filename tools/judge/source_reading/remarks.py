"""Collects the remarks on one text: one for each line and kind, with the expression as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.judge.source_reading.kinds import Code, Remark
from kernelagent.tools.source_text import written

_LONGEST = 70


class Remarks:
    """The remarks so far; of two on one line and of one kind the first stays."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._remarks: dict[tuple[int, Code], Remark] = {}

    def add(self, node: ast.AST, code: Code) -> None:
        line = getattr(node, "lineno", 1)
        remark = Remark(line, code, _as_written(node, self._source))
        self._remarks.setdefault((line, code), remark)

    def __iter__(self) -> Iterator[Remark]:
        return iter(self._remarks.values())


def _as_written(node: ast.AST, source: str) -> str:
    """The text of a node in one short line."""
    text = _printable(" ".join(_text_of(node, source).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _text_of(node: ast.AST, source: str) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"def {node.name}"
    if isinstance(node, ast.ExceptHandler):
        kind = "" if node.type is None else f" {written(node.type)}"
        return f"except{kind}:"
    return ast.get_source_segment(source, node) or ""


def _printable(text: str) -> str:
    """Control characters, and those that turn a line around, as Python writes them: a terminal would obey them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
