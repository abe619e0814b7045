"""The drop-in's builtins read from their module, where the candidate's file binds names of theirs.

Both stand in one module: a candidate's helper that is called `any` would otherwise be the one that the guard calls.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Collection
from functools import cache

from kernelagent.domain.replies.parsing import parse

_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_")) - {"super"}
"""`super` without arguments is known to Python's compiler by its name: a file that binds it has no drop-in."""
OWN = "_dropin_builtins"
"""What the drop-in calls their module."""
_IN_BRACES = re.compile(r"\{[^{}]*\}")
_OPEN = frozenset(
    "globals vars locals exec eval __dict__ __import__ import_module getmodule".split()
)
"""Names by which a text may bind others that it does not spell."""


def bound_by(candidate: ast.Module, taken: Collection[str], text: str) -> list[str]:
    """Builtins that the drop-in's `text` reads and the candidate binds, or might: by `import *`, or by computed names."""
    used = _builtins_in(text)
    return sorted(used if _is_open(candidate) else used & set(taken))


def with_own(text: str, names: Collection[str]) -> str:
    """The drop-in's text with these builtins as attributes of their module, which it imports."""
    if not names:
        return text
    result = _renamed(text, frozenset(names))
    wanted = ast.dump(_Renaming(frozenset(names)).visit(parse(text)))
    if ast.dump(parse(result)) != wanted:
        raise AssertionError(f"the drop-in's text reads other names than {', '.join(names)}")
    return f"import builtins as {OWN}\n{result}"


def _is_open(candidate: ast.Module) -> bool:
    for node in ast.walk(candidate):
        match node:
            case ast.ImportFrom() if any(alias.name == "*" for alias in node.names):
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _OPEN:
                return True
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                return True
    return False


@cache
def _builtins_in(text: str) -> frozenset[str]:
    tree = parse(text)
    return _BUILTINS & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node
        return ast.Attribute(ast.Name(OWN, ast.Load()), node.id, node.ctx)


def _renamed(text: str, names: frozenset[str]) -> str:
    pattern = re.compile(rf"(?<![\w.])({'|'.join(sorted(names))})\b(?!=[^=])")

    def own(found: re.Match[str]) -> str:
        return f"{OWN}.{found[0]}"

    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, token in reversed([*zip([None, *tokens[:-1]], tokens, strict=True)]):
        (row, start), (last, end) = token.start, token.end
        if token.type == tokenize.NAME and token.string in names:
            if before is not None and before.string == ".":
                continue
            new = f"{OWN}.{token.string}"
        elif token.type == tokenize.STRING and _is_formatted(token.string):
            # Until Python 3.12 what stands in its braces is no token of its own.
            new = _IN_BRACES.sub(lambda part: pattern.sub(own, part[0]), token.string)
        else:
            continue
        if row == last:
            line = lines[row - 1]
            lines[row - 1] = line[:start] + new + line[end:]
    return "".join(lines)


def _is_formatted(literal: str) -> bool:
    prefix = re.match(r"[A-Za-z]*", literal)
    return prefix is not None and "f" in prefix[0].lower()
