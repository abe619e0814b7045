"""The text of one statement with some of its names exchanged; comments and layout stay."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence


class NotExtractedError(Exception):
    """The package is not written so that a part of it can be put into one file."""


def bound(statement: ast.AST) -> Iterator[str]:
    """The names that a top-level statement binds, those inside its branches too."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.split(".")[0] for alias in names)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.If() | ast.Try() | ast.With():
            for inner in ast.iter_child_nodes(statement):
                bodies = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                for node in bodies:
                    if isinstance(node, ast.stmt):
                        yield from bound(node)


def used(tree: ast.AST, without: Sequence[ast.AST]) -> Iterator[str]:
    """The names that a statement uses, but for the nodes of `without`."""
    left_out = set(map(id, without))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if id(node) not in left_out:
                yield node.id
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            yield node.value  # An annotation as text.


def source(text: str, statement: ast.stmt) -> str:
    """A statement's text with its decorators, moved to the left where it stands within another one."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    lines = text.splitlines()[first - 1 : statement.end_lineno]
    # A text of several lines may begin before the margin.
    margin = " " * statement.col_offset
    return "\n".join(line.removeprefix(margin) for line in lines)


def rewritten(
    text: str,
    tree: ast.Module,
    names: Mapping[str, str],
    instead: Sequence[tuple[ast.Attribute, str]],
) -> str:
    """`text` with other names and with a name in the place of each attribute; `tree` is what `text` says.

    Raises `NotExtractedError` where a new name means something of the statement's own.
    """
    own = _own_names(tree)
    if any(isinstance(node, ast.arg) and node.arg in names for node in ast.walk(tree)):
        raise NotExtractedError(f"{', '.join(names)}: a parameter has the name of what is renamed")
    lines = [line.encode() for line in text.splitlines()]
    edits = list(_places(tree, names, lines))
    for node, name in instead:
        if name in own:
            raise NotExtractedError(f"it has a {name} of its own beside {ast.unparse(node)}")
        if node.end_lineno != node.lineno or node.end_col_offset is None:
            raise NotExtractedError(f"{ast.unparse(node)} goes over several lines")
        edits.append((node.lineno - 1, node.col_offset, node.end_col_offset, name))
    # From the end on, so that the places of those before stay what they are.
    for row, begins, ends, name in sorted(edits, reverse=True):
        lines[row] = lines[row][:begins] + name.encode() + lines[row][ends:]
    return b"\n".join(lines).decode()


def _places(
    tree: ast.AST, names: Mapping[str, str], lines: Sequence[bytes]
) -> Iterator[tuple[int, int, int, str]]:
    """Row, columns in bytes and new name wherever one of `names` stands for something of the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            column = node.col_offset
            yield node.lineno - 1, column, column + len(node.id.encode()), names[node.id]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            row, name = node.lineno - 1, node.name.encode()
            column = lines[row].index(name, node.col_offset + 4)
            yield row, column, column + len(name), names[node.name]


def _own_names(tree: ast.AST) -> set[str]:
    """Names that mean something of the statement's own: what it binds, and its arguments."""
    names = {name for statement in getattr(tree, "body", ()) for name in bound(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names
