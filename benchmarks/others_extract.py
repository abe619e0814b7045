"""One file with what a few names of somebody's package need: the form in which candidates are judged."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


class NotExtractedError(Exception):
    """The package is not written so that a part of it can be put into one file."""


@dataclass(frozen=True)
class _Module:
    """A module's text and, by name, the top-level statements that bind it, in their order."""

    name: str
    text: str
    binds: Mapping[str, tuple[ast.stmt, ...]]


@dataclass
class Extraction:
    """Collects statements in the order in which they can be executed.

    `root`: the folder that holds the package. `given`: text for names that cannot be taken over, such as a
    choice between devices that is made while the package is imported.
    """

    root: Path
    given: Mapping[str, str] = field(default_factory=dict)
    _modules: dict[str, _Module] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _taken: set[tuple[str, str]] = field(default_factory=set)
    _parts: list[str] = field(default_factory=list)

    def text(self, module: str, names: Sequence[str]) -> str:
        """The statements behind `names` of `module`; raises NotExtractedError."""
        for name in names:
            self._take(self._module(module), name)
        return "\n\n\n".join(self._parts) + "\n"

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            path = self.root / Path(*name.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if not path.is_file():
                raise NotExtractedError(f"there is no {path}")
            text = path.read_text(encoding="utf-8")
            binds: dict[str, tuple[ast.stmt, ...]] = {}
            for statement in ast.parse(text).body:
                for bound in _bound(statement):
                    binds[bound] = (*binds.get(bound, ()), statement)
            self._modules[name] = _Module(name, text, binds)
        return self._modules[name]

    def _take(self, module: _Module, name: str) -> None:
        if name in self.given:
            self._add(name, module, self.given[name], None)
        # What nothing binds is a builtin, an argument or a local variable.
        for statement in () if name in self.given else module.binds.get(name, ()):
            if not isinstance(statement, ast.ImportFrom):
                self._add(name, module, _source(module.text, statement), statement)
                continue
            alias = next(a for a in statement.names if (a.asname or a.name) == name)
            where = self._inside(module, statement)
            if where is None:
                text = ast.unparse(ast.ImportFrom(statement.module, [alias], level=0))
                self._add(name, module, text, None)
                continue
            self._take(self._module(where), alias.name)
            if alias.asname is not None:
                self._add(name, module, f"{alias.asname} = {alias.name}", None)

    def _add(self, name: str, module: _Module, text: str, statement: ast.stmt | None) -> None:
        if (module.name, text) in self._taken or text in self._parts:
            return
        owner = self._owners.setdefault(name, module.name)
        if owner != module.name and statement is not None and not isinstance(statement, ast.Import):
            raise NotExtractedError(f"{module.name} and {owner} both define {name}")
        self._taken.add((module.name, text))
        for used in _used(statement) if statement is not None else ():
            if used != name:
                self._take(module, used)
        self._parts.append(text)

    def _inside(self, module: _Module, statement: ast.ImportFrom) -> str | None:
        """The package's own module that is imported from; None for any other."""
        if statement.level:
            is_package = (self.root / Path(*module.name.split("."))).is_dir()
            parts = module.name.split(".")
            parts = parts[: len(parts) - statement.level + is_package]
            return ".".join([*parts, *filter(None, [statement.module])])
        top = module.name.split(".")[0]
        within = (statement.module or "").split(".")[0] == top
        return statement.module if within else None


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds, those inside its branches too."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.split(".")[0] for alias in names)
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.If() | ast.Try() | ast.With():
            for inner in ast.iter_child_nodes(statement):
                bodies = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                for node in bodies:
                    if isinstance(node, ast.stmt):
                        yield from _bound(node)


def _used(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            yield node.value  # An annotation as text.


def _source(text: str, statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
