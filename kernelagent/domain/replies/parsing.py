"""Source text to syntax trees, one at a time, whichever thread asks.

CPython 3.11 counts the nesting of all threads' trees with one counter, and may collect garbage while
it builds one. Where that runs Python code another thread gets its turn, and if that one parses too,
one of them ends in `SystemError: AST constructor recursion depth mismatch`. Suites and environments
have such threads. (3.12 collects between instructions only, and was not seen to fail.)
"""

from __future__ import annotations

import ast
import threading

_TURN = threading.Lock()


def parse(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """The tree of a program; raises `SyntaxError`, or `ValueError` for text with null characters."""
    with _TURN:
        return ast.parse(source, filename)


def parse_expression(source: str) -> ast.expr:
    """The tree of one expression; raises as `parse` does."""
    with _TURN:
        return ast.parse(source, mode="eval").body
