"""A look at the user's file without executing it: does it parse, and does it define what was named?

Only what the text settles is said here. A file that makes names in other ways (a star import, `exec`,
`globals()`, a module's `__getattr__`) is left to the judge, who executes it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import NamesInFile, ProblemSpec
from kernelagent.domain.replies.parsing import parse

_CLASS, _INPUTS, _INIT = "Model", "get_inputs", "get_init_inputs"
_MAKES_NAMES = frozenset({"exec", "eval", "globals", "setattr", "vars", "locals"})


@dataclass(frozen=True)
class _Names:
    """What a file binds at its top level."""

    classes: tuple[str, ...]
    functions: tuple[str, ...]
    bound: frozenset[str]
    derived: tuple[str, ...]
    """Of the classes, those the file defines itself from another class."""
    complete: bool
    """False: it may bind more than can be read."""


def check_problem(spec: ProblemSpec) -> NamesInFile | None:
    """What the run will use of it, None where there is no text to read; raises `ProblemError` saying what was looked for and what is there."""
    if spec.bundle is not None:
        return None
    path = Path(spec.path) if spec.path is not None else _file_of(str(spec.import_name))
    if path is None or (spec.path is None and path.suffix != ".py"):
        return None
    if path.suffix != ".py":
        raise ProblemError(f"{path} is not a Python file: its name does not end in .py")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror or error}") from error
    names = _names_in(_parsed(source, path))
    if not names.complete:
        return NamesInFile(spec.module, spec.inputs, spec.init)
    label = spec.label
    classes = ", ".join(names.classes) or "none"
    if spec.module is not None and spec.module not in names.bound:
        raise ProblemError(f"{label} has no nn.Module named {spec.module!r}; found: {classes}")
    if spec.module is None and not names.classes:
        raise ProblemError(
            f"{label} defines no class; a problem is a class that derives from torch.nn.Module, and a "
            f"function `get_inputs` that returns its example arguments"
        )
    functions = ", ".join(names.functions) or "none"
    for wanted, flag in ((spec.inputs, "--inputs"), (spec.init, "--init"), (spec.check, "--check")):
        if wanted is not None and wanted not in names.bound:
            raise ProblemError(
                f"{label} has no function {wanted!r} (from {flag}); functions found: {functions}"
            )
    if spec.inputs is None and _INPUTS not in names.bound:
        raise ProblemError(
            f"{label} has no function `{_INPUTS}`; name the one that returns the example "
            f"arguments with --inputs NAME; functions found: {functions}"
        )
    constructor = _INIT if _INIT in names.bound else None
    return NamesInFile(
        spec.module or _only_class(names), spec.inputs or _INPUTS, spec.init or constructor
    )


def _only_class(names: _Names) -> str | None:
    """The one that the judge will take, if the text leaves it no choice."""
    if _CLASS in names.derived:
        return _CLASS
    return names.classes[0] if names.derived == names.classes and len(names.classes) == 1 else None


def _parsed(source: bytes, path: Path) -> ast.Module:
    try:
        return parse(source, str(path))
    except SyntaxError as error:
        raise ProblemError(
            f"{path} does not parse: line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path} is not a Python file: {error}") from error


def _file_of(name: str) -> Path | None:
    """Where an importable module lies, found without importing its packages."""
    where: list[str] | None = [str(Path.cwd()), *sys.path]
    result: ModuleSpec | None = None
    walked: list[str] = []
    for part in name.split("."):
        walked.append(part)
        result = PathFinder.find_spec(".".join(walked), where)
        if result is None:
            # Built-in, frozen and editable modules have their own finders: the judge asks them.
            _require_another_finder(walked, name)
            return None
        where = list(result.submodule_search_locations or ())
    origin = None if result is None else result.origin
    return Path(origin) if origin is not None else None


def _require_another_finder(walked: list[str], name: str) -> None:
    missing = ".".join(walked)
    if len(walked) == 1 and any(
        finder.find_spec(missing, None) is not None
        for finder in sys.meta_path
        if hasattr(finder, "find_spec")
    ):
        return
    raise ProblemError(f"there is no module {missing!r} (looked for {name})")


def _names_in(tree: ast.Module) -> _Names:
    classes: list[str] = []
    functions: list[str] = []
    derived: list[str] = []
    bound: set[str] = set()
    complete = True
    for node in _top_level(tree.body):
        match node:
            case ast.ClassDef(name=name, bases=bases):
                classes.append(name)
                derived += [name] if bases else []
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.append(name)
                bound.add(name)
                complete = complete and name != "__getattr__"
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound |= {(a.asname or a.name).split(".")[0] for a in aliases}
                complete = complete and all(a.name != "*" for a in aliases)
            case _:
                bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    called = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    # An assignment may make a class, as a factory's call does.
    makes_more = bool(called & _MAKES_NAMES)
    return _Names(
        tuple(classes) or tuple(sorted(_assigned(tree))),
        tuple(functions),
        frozenset(bound),
        tuple(derived),
        complete and not makes_more,
    )


def _assigned(tree: ast.Module) -> set[str]:
    """Names that may be classes: imported ones, and those an assignment binds."""
    result: set[str] = set()
    for node in _top_level(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            result |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            result |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return {name for name in result if name[:1].isupper()}


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the file is imported, those under `if`, `try` and the like too."""
    for node in body:
        inner: list[ast.stmt] = []
        for part in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner += getattr(node, part, [])
        for handler in getattr(node, "handlers", []):
            inner += handler.body
        yield node
        yield from _top_level(inner)
