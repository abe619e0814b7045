"""A problem packed for another machine: its files, the local modules they import, or its bundle.

Read, never imported: what a file needs is found in its text. What cannot travel is refused here,
before a node would answer with something else than this machine.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from kernelagent.domain.errors import ProblemError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.replies.parsing import parse
from kernelagent.suite.ray.pickled import modules_named

_MOST_BYTES = 1 << 30
_MOST_FILES = 2000
_BUNDLE, _MODULES, _FACTS = "bundle", "modules", "bundle.json"
_OURS = "kernelagent"
_INSTALLED = tuple(
    str(Path(path).resolve())
    for path in (*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix)
)


@dataclass(frozen=True)
class Parcel:
    """Everything of a problem that a judge elsewhere reads."""

    spec: ProblemSpec
    """With paths inside the parcel's folder."""
    files: dict[str, bytes]
    """By path below that folder."""
    origin: str
    """The folder the files came from, for messages."""
    label: str

    @property
    def sha256(self) -> str:
        """Of names and contents."""
        digest = hashlib.sha256(repr(self.spec).encode())
        for name, content in sorted(self.files.items()):
            digest.update(f"\0{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def unpack(self, folder: Path) -> ProblemSpec:
        """Write the files below `folder`; the problem as it is found there."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        spec = self.spec
        if spec.bundle is not None:
            _look_for_modules_in(folder / spec.bundle / _FACTS, folder / _MODULES)
        return replace(
            spec,
            path=None if spec.path is None else str(folder / spec.path),
            bundle=None if spec.bundle is None else str(folder / spec.bundle),
        )

    def as_at_home(self, text: str, folder: Path) -> str:
        """A node's message with the paths that the user knows."""
        if self.spec.path is not None:
            text = text.replace(str(folder / self.spec.path), self.label)
        return text.replace(str(folder), self.origin)


def pack(spec: ProblemSpec) -> Parcel:
    """The problem as it travels; raises `ProblemError` for what cannot."""
    if spec.bundle is not None:
        return _bundle(spec, Path(spec.bundle))
    if spec.path is not None:
        path = Path(spec.path)
        if not path.is_file():
            raise ProblemError(f"there is no file {path}; give the path of a Python file")
        local = _Local((path.resolve().parent,), spec.label)
        local.add_file(path.resolve().parent, path.resolve())
        return _parcel(replace(spec, path=path.name), local, path.resolve().parent, spec.label)
    local = _Local((Path.cwd(),), spec.label)
    local.add_module(str(spec.import_name))
    return _parcel(spec, local, Path.cwd(), spec.label)


def _parcel(spec: ProblemSpec, local: _Local, origin: Path, label: str) -> Parcel:
    if sum(map(len, local.files.values())) > _MOST_BYTES or len(local.files) > _MOST_FILES:
        raise ProblemError(
            f"{label} would travel with {len(local.files)} files; more than {_MOST_FILES} files or "
            f"{_MOST_BYTES >> 20} MiB do not. Move the problem into a folder of its own"
        )
    return Parcel(spec, local.files, str(origin), label)


def _bundle(spec: ProblemSpec, folder: Path) -> Parcel:
    if not (folder / _FACTS).is_file():
        raise ProblemError(f"there is no saved module in {folder}")
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    local = _Local(tuple(Path(entry) for entry in facts["sys_path"]), spec.label, _MODULES)
    for path in sorted(folder.iterdir()):
        if path.suffix == ".pkl":
            for name in modules_named(path.read_bytes()):
                local.add_module(name)
        if path.is_file():
            local.files[f"{_BUNDLE}/{path.name}"] = path.read_bytes()
    return _parcel(replace(spec, bundle=_BUNDLE), local, folder.resolve(), spec.label)


def _look_for_modules_in(facts: Path, modules: Path) -> None:
    reported = json.loads(facts.read_text(encoding="utf-8"))
    facts.write_text(json.dumps(reported | {"sys_path": [str(modules)]}), encoding="utf-8")


@dataclass
class _Local:
    """The user's own files, found from what each of them imports."""

    roots: Sequence[Path]
    label: str
    into: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    def add_module(self, name: str) -> None:
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in {_OURS, "__main__"}:
            return
        roots = [root for root in self.roots if not _is_installed(root)]
        for root in roots:
            if (root / top / "__init__.py").is_file():
                self._add_folder(root, top)
                return
            if (root / f"{top}.py").is_file():
                self.add_file(root, root / f"{top}.py")
                return
        # A folder without `__init__.py` comes after every package, as in an import.
        for root in roots if not self._is_elsewhere(top) else ():
            if (root / top).is_dir():
                self._add_folder(root, top)
                return

    def _add_folder(self, root: Path, top: str) -> None:
        for path in sorted((root / top).rglob("*.py")):
            self.add_file(root, path)

    def add_file(self, root: Path, path: Path) -> None:
        name = str(PurePosixPath(self.into, *path.relative_to(root).parts))
        if name in self.files:
            return
        self.files[name] = path.read_bytes()
        try:
            tree = parse(self.files[name], filename=str(path))
        except (SyntaxError, ValueError):
            return  # the judge says so, in the words it has on one machine
        self._refuse_neighbours_read(tree, path)
        for imported in _imported(tree):
            self.add_module(imported)

    def _refuse_neighbours_read(self, tree: ast.AST, path: Path) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "__file__":
                raise ProblemError(
                    f"{path}, line {node.lineno}: `__file__` is used to find other files, and only "
                    f"Python modules travel to the nodes of --ray. Make the data in code, or run "
                    f"this problem without --ray"
                )

    def _is_elsewhere(self, top: str) -> bool:
        """Installed; the node's own import tells whether it is there, too."""
        try:
            result = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return False
        origin = None if result is None else result.origin
        if origin is None:
            return False
        if origin in {"built-in", "frozen"} or _is_installed(Path(origin)):
            return True
        raise ProblemError(
            f"{self.label} imports {top!r} from {origin}, which is neither installed nor beside the "
            f"problem and does not travel. Put it beside the problem, or install it on every node"
        )


def _is_installed(path: Path) -> bool:
    parts = path.resolve().parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    text = str(path.resolve())
    return path.suffix != "" and any(text.startswith(f"{known}/") for known in _INSTALLED)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Absolute names; a package travels whole, so relative ones are there already."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
