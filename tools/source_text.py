"""Parts of a candidate's text written out again, whatever they hold."""

from __future__ import annotations

import ast


def written(node: ast.AST) -> str:
    """The node as Python text; as its syntax tree where Python cannot write it.

    Before 3.12 there is no text for some strings within strings: a value that was put in the place of its name may
    need quotes, or a backslash, that the string around it leaves no room for.
    """
    try:
        return ast.unparse(node)
    except ValueError:
        return ast.dump(node)
