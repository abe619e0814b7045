"""Collects the remarks on one text: one for each line and kind, with the expression as it is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.kinds import Code, Remark
from kernelagent.tools.source_text import written

_LONGEST = 70
_PLACED = (ast.expr, ast.stmt, ast.arg, ast.keyword, ast.alias, ast.pattern)
_LINE_ENDS = re.compile("\r\n|\r|\n")


class Remarks:
    """The remarks so far; of two on one line and of one kind the first stays."""

    def __init__(self, source: str) -> None:
        # As Python counts them; `ast.get_source_segment` splits all of the text for each node.
        self._lines = [line.encode() for line in _LINE_ENDS.split(source)]
        self._remarks: dict[tuple[int, Code], Remark] = {}

    def add(self, node: ast.AST, code: Code) -> None:
        line = getattr(node, "lineno", 1)
        if (line, code) not in self._remarks:
            self._remarks[line, code] = Remark(line, code, _as_written(node, self._lines))

    def __iter__(self) -> Iterator[Remark]:
        return iter(self._remarks.values())


def _as_written(node: ast.AST, lines: Sequence[bytes]) -> str:
    """The text of a node in one short line."""
    text = _printable(" ".join(_text_of(node, lines).split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _text_of(node: ast.AST, lines: Sequence[bytes]) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"def {node.name}"
    if isinstance(node, ast.ExceptHandler):
        kind = "" if node.type is None else f" {written(node.type)}"
        return f"except{kind}:"
    if not isinstance(node, _PLACED) or node.end_lineno is None:
        return ""
    own = [*lines[node.lineno - 1 : node.end_lineno]]
    # Offsets are of bytes; the end first, for the beginning may be on the same line.
    own[-1] = own[-1][: node.end_col_offset]
    own[0] = own[0][node.col_offset :]
    return b"\n".join(own).decode()


def _printable(text: str) -> str:
    """Control characters, and those that turn a line around, as Python writes them: a terminal would obey them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
