"""One file with what a few names of somebody's package need: the form in which candidates are judged."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.others.rewriting import NotExtractedError, bound, rewritten, source, used


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
    choice between devices that is made while the package is imported; what it imports from the package is
    taken over. `branches`: of an `if` whose condition has this text, whether its first branch or its `else` is
    taken; what stands there counts as a module's own. `alias.name` becomes `name` where the alias is a module of the
    package, and of two things of one name the second gets another.
    """

    root: Path
    given: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, bool] = field(default_factory=dict)
    _modules: dict[str, _Module] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _taken: set[tuple[str, str]] = field(default_factory=set)
    _parts: list[str] = field(default_factory=list)
    _renamed: dict[tuple[str, str], str] = field(default_factory=dict)
    """What a module's own name is called here, where another module's has taken its place."""

    def text(self, module: str, names: Sequence[str]) -> str:
        """The statements behind `names` of `module`; raises NotExtractedError.

        A name may be `other.module:name`, and `Class.name` where a class holds the kernel.
        """
        for name in names:
            elsewhere, _, own = name.rpartition(":")
            self._take(self._module(elsewhere or module), own)
        return "\n\n\n".join(self._parts) + "\n"

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            path = self.root / Path(*name.split("."))
            path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if not path.is_file():
                raise NotExtractedError(f"there is no {path}")
            text = path.read_text(encoding="utf-8")
            binds: dict[str, tuple[ast.stmt, ...]] = {}
            for statement in self._of_module(ast.parse(text).body):
                for name_of in bound(statement):
                    binds[name_of] = (*binds.get(name_of, ()), statement)
            self._modules[name] = _Module(name, text, binds)
        return self._modules[name]

    def _of_module(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements of a module, with those of the branches that are taken in place of their `if`."""
        known = {"__name__ == '__main__'": False, **self.branches}
        for statement in body:
            taken = (
                known.get(ast.unparse(statement.test)) if isinstance(statement, ast.If) else None
            )
            if isinstance(statement, ast.If) and taken is not None:
                yield from self._of_module(statement.body if taken else statement.orelse)
            else:
                yield statement

    def _take(self, module: _Module, name: str) -> str:
        """Adds what binds `name` in `module`; returns what it is called here."""
        if "." in name:
            return self._take_of_class(module, *name.split(".", 1))
        statements = module.binds.get(name, ())
        if name in self.given:
            self._add(name, module, self._given(module, name), None)
            # What a module makes of what it imports is its own (`device = device.name`).
            imports = any(isinstance(s, ast.ImportFrom) for s in statements)
            statements = tuple(s for s in statements if imports and isinstance(s, ast.Assign))
        # What nothing binds is a builtin, an argument or a local variable.
        for statement in statements:
            if isinstance(statement, ast.ImportFrom):
                self._take_over(module, name, statement)
            else:
                self._add(name, module, source(module.text, statement), statement)
        return self._renamed.get((module.name, name), name)

    def _take_of_class(self, module: _Module, owner: str, name: str) -> str:
        inner = (s for c in module.binds.get(owner, ()) for s in getattr(c, "body", ()))
        for statement in inner:
            if name in bound(statement):
                self._add(name, module, source(module.text, statement), statement)
        return name

    def _take_over(self, module: _Module, name: str, statement: ast.ImportFrom) -> None:
        """What a module imports: from the package what binds it there, from elsewhere the import itself."""
        alias = next(a for a in statement.names if (a.asname or a.name) == name)
        where = self._inside(module, statement)
        if where is not None and self._is_module(where, alias.name):
            raise NotExtractedError(f"{module.name} uses the module {name} as a value")
        if where is None:
            text = ast.unparse(ast.ImportFrom(statement.module, [alias], level=0))
            self._add(name, module, text, None)
            return
        called = self._take(self._module(where), alias.name)
        if alias.asname is None:
            self._renamed[module.name, name] = called
        elif alias.asname != called:
            self._add(name, module, f"{alias.asname} = {called}", None)

    def _add(self, name: str, module: _Module, text: str, statement: ast.stmt | None) -> None:
        if (module.name, text) in self._taken or text in self._parts:
            return
        self._taken.add((module.name, text))
        if statement is None:
            self._parts.append(text)
            return
        if not isinstance(statement, ast.Import):
            for own in bound(statement):
                self._own(own, module)
        tree = ast.parse(text)
        reached = list(self._reached(module, tree))
        others = dict.fromkeys(used(tree, [node.value for node, _ in reached]))
        called = {other: self._take(module, other) for other in others if other != name}
        called[name] = self._renamed.get((module.name, name), name)
        changed = {old: new for old, new in called.items() if old != new}
        instead = [(node, self._take(self._module(where), node.attr)) for node, where in reached]
        self._parts.append(rewritten(text, tree, changed, instead))

    def _own(self, name: str, module: _Module) -> None:
        """Gives the module's name another where one of another module is called so."""
        owner = self._owners.setdefault(name, module.name)
        if owner != module.name and (module.name, name) not in self._renamed:
            last = module.name.split(".")[-1]
            self._renamed[module.name, name] = f"{name}_of_{last}"

    def _given(self, module: _Module, name: str) -> str:
        """The text given for a name; what it imports from the package is taken over instead."""
        kept = []
        for statement in ast.parse(self.given[name]).body:
            where = (
                self._inside(module, statement) if isinstance(statement, ast.ImportFrom) else None
            )
            if where is None or not isinstance(statement, ast.ImportFrom):
                kept.append(ast.unparse(statement))
                continue
            for alias in statement.names:
                self._take(self._module(where), alias.name)
        return "\n\n\n".join(kept)

    def _reached(self, module: _Module, tree: ast.AST) -> Iterator[tuple[ast.Attribute, str]]:
        """Attributes of the package's own modules that a statement names, each with its module."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                where = self._own_module(module, node.value.id)
                if where is not None:
                    yield node, where

    def _own_module(self, module: _Module, name: str) -> str | None:
        """The package's module that a name of this module's stands for; None for anything else."""
        if name in self.given:
            return None
        for statement in module.binds.get(name, ()):
            if isinstance(statement, ast.ImportFrom):
                alias = next(a for a in statement.names if (a.asname or a.name) == name)
                where = self._inside(module, statement)
                if where is not None and self._is_module(where, alias.name):
                    return f"{where}.{alias.name}"
        return None

    def _is_module(self, package: str, name: str) -> bool:
        """Whether `from package import name` gives a module: nothing else in the package binds the name."""
        path = self.root / Path(*package.split("."), name)
        if not (path / "__init__.py").is_file() and not path.with_suffix(".py").is_file():
            return False
        owner = self._module(package)
        return all(
            isinstance(s, ast.ImportFrom) and self._inside(owner, s) == package
            for s in owner.binds.get(name, ())
        )

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
