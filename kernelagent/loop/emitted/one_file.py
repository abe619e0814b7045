"""The files of a package put together into one, as a candidate is: each file's text before that of the files that import it.

Only what surely means the same afterwards is put together. The judge sees the one text, and the same text is
written, so a verdict never speaks of anything else.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelagent.domain.errors import UsageError
from kernelagent.domain.replies.parsing import parse

_OF_ITS_OWN = frozenset({"__all__", "__version__", "__author__", "__doc__"})
"""Names that a file may bind without meaning anything to another."""


@dataclass(frozen=True)
class _File:
    path: Path
    lines: tuple[str, ...]
    """Without its imports from the package and from `__future__`."""
    needs: tuple[tuple[Path, ast.ImportFrom], ...]
    """The package's own files that it imports from, in order."""
    futures: frozenset[str]
    bound: dict[str, str]
    """What its top level binds itself: an import as text, or where the name was made."""
    rebinds: str | None
    """Where it says `global`: another file's copy of the name would not change with it."""


def in_one_file(path: Path, package: Path) -> str:
    """The text of `path` with all that it imports from its own package; raises `UsageError`.

    `package`: the folder that nothing is taken from outside of.
    """
    text = path.read_text(encoding="utf-8")
    if not any(isinstance(n, ast.ImportFrom) and n.level for n in ast.walk(parse(text))):
        return text
    files: dict[Path, _File] = {}
    _collect(path.resolve(), package.resolve(), files, ())
    last = files[path.resolve()]
    _require_one_meaning(files)
    futures = "".join(f"from __future__ import {name}\n" for name in sorted(last.futures))
    parts = ("".join(file.lines).strip("\n") for file in files.values())
    return futures + "\n\n\n".join(part for part in parts if part) + "\n"


def _collect(path: Path, package: Path, files: dict[Path, _File], within: tuple[Path, ...]) -> None:
    """Put `path` into `files` behind everything it needs."""
    if path in files:
        return
    if path in within:
        raise UsageError(f"{path.name} imports from itself, by way of {within[-1].name}")
    file = _read(path, package)
    for needed, _ in file.needs:
        _collect(needed, package, files, (*within, path))
    for needed, node in file.needs:
        known = _names_of(files[needed])
        for alias in node.names:
            if alias.name not in known:
                raise UsageError(f"{_place(path, node)}: {needed.name} has no name {alias.name}")
    files[path] = file


def _read(path: Path, package: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
        tree = parse(text)
    except (SyntaxError, ValueError, OSError) as error:
        raise UsageError(f"{path} is no Python file that can be read: {error}") from error
    lines = text.splitlines(keepends=True)
    needs: list[tuple[Path, ast.ImportFrom]] = []
    futures: set[str] = set()
    bound: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            needs.append((_file_of(node, path, package), node))
            _cut(lines, node, path, tree)
            renamed = [a for a in node.names if a.asname not in (None, a.name)]
            bound |= {str(a.asname): f"{path.name}, line {node.lineno}" for a in renamed}
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures |= {alias.name for alias in node.names}
            _cut(lines, node, path, tree)
        else:
            bound |= dict(_bound_by(node, path))
    taken = {id(node) for _, node in needs}
    for inner in ast.walk(tree):
        if isinstance(inner, ast.ImportFrom) and inner.level and id(inner) not in taken:
            raise UsageError(
                f"{_place(path, inner)}: an import from its own package that is not at the file's "
                f"top level cannot be put into one file"
            )
    says_global = next((n for n in ast.walk(tree) if isinstance(n, ast.Global)), None)
    rebinds = None if says_global is None else _place(path, says_global)
    return _File(path, tuple(lines), tuple(needs), frozenset(futures), bound, rebinds)


def _file_of(node: ast.ImportFrom, path: Path, package: Path) -> Path:
    """The file that an import at the top level takes its names from."""
    where = _place(path, node)
    if node.module is None or any(alias.name == "*" for alias in node.names):
        names = ", ".join(alias.name for alias in node.names)
        raise UsageError(
            f"{where}: `{'.' * node.level}{node.module or ''}` is imported from as a whole ({names}); "
            f"a candidate is one file, so name what is needed: from .module import name"
        )
    folder = path.parent
    for _ in range(node.level - 1):
        folder = folder.parent
    stem = folder.joinpath(*node.module.split("."))
    for result in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if result.is_file() and result.resolve().is_relative_to(package):
            return result.resolve()
    raise UsageError(
        f"{where}: what it imports from its own package is not there: no file {stem.name}.py in "
        f"{package} (compiled extensions cannot be imported)"
    )


def _cut(lines: list[str], node: ast.ImportFrom, path: Path, tree: ast.Module) -> None:
    """Replace an import by the other names it gives, on its first line."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    for other in tree.body:
        if other is not node and other.lineno - 1 <= last and (other.end_lineno or 0) - 1 >= first:
            raise UsageError(f"{_place(path, node)}: two statements share this line; part them")
    names = [(a.asname, a.name) for a in node.names if a.asname not in (None, a.name)]
    lines[first : last + 1] = ["".join(f"{new} = {old}\n" for new, old in names)] + [""] * (
        last - first
    )


def _bound_by(node: ast.AST, path: Path) -> Iterator[tuple[str, str]]:
    """The names that a part of the top level binds, each with what makes it."""
    here = f"{path.name}, line {getattr(node, 'lineno', 0)}"
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, here
        case ast.Import(names=aliases):
            for alias in aliases:
                # `import a.b` and `import a.c` bind one `a`.
                word = alias.asname or alias.name.partition(".")[0]
                yield word, f"import {alias.name if alias.asname else word}"
        case ast.ImportFrom(module=module, names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name, f"from {module} import {alias.name}"
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name, here
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
            # Their names are their own.
            return
        case _:
            for inner in ast.iter_child_nodes(node):
                yield from _bound_by(inner, path)


def _names_of(file: _File) -> set[str]:
    """What another file may import from it, its own imports from the package too."""
    return set(file.bound) | {a.asname or a.name for _, node in file.needs for a in node.names}


def _require_one_meaning(files: dict[Path, _File]) -> None:
    """A name that two files bind differently, or that hides a builtin from another file, is refused."""
    made: dict[str, str] = {}
    first, *others = files.values()
    for file in others:
        if file.futures != first.futures:
            raise UsageError(
                f"{first.path.name} and {file.path.name} have different `from __future__` imports; "
                f"give both the same"
            )
    for file in files.values():
        if file.rebinds is not None:
            raise UsageError(f"{file.rebinds}: `global` may mean another name in one file")
        for name, what in file.bound.items():
            if name in _OF_ITS_OWN:
                continue
            if name in vars(builtins):
                raise UsageError(f"{file.path.name} has its own {name}, which hides the builtin")
            if made.setdefault(name, what) != what:
                raise UsageError(
                    f"{name} means two things: {made[name]}, and {what}; in one file it can mean "
                    f"only one, so rename it"
                )


def _place(path: Path, node: ast.stmt) -> str:
    return f"{path}, line {node.lineno}"
