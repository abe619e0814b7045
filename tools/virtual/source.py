"""A candidate's kernels without its Python: the jit functions of its source text, and nothing else.

What is kept stays on its line, so that errors name the candidate's lines.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual.spelling import hear

_IMPORTABLE = {"triton", "math"}
_JIT = "_kernelagent_jit"
FILE_NAME = "candidate.py"


class UnknownKernel(Exception):
    """A kernel that is not written out in the candidate's source."""


class KernelSource:
    """The jit functions of one source text."""

    def __init__(self, source: str) -> None:
        self._functions = _jit_functions(ast.parse(source))
        self._text = _only(source, self._functions)
        self._loaded: dict[str, KernelModule] = {}

    def load(self, constants: Mapping[str, Any]) -> KernelModule:
        """The kernels as a module whose globals hold `constants` (as `spelling.tell` wrote them)."""
        key = repr(sorted((name, repr(value)) for name, value in constants.items()))
        if key not in self._loaded:
            self._loaded[key] = KernelModule(self._text, len(self._loaded), constants)
        return self._loaded[key]


class KernelModule:
    """An imported text of kernels; finds them by name and line."""

    def __init__(self, text: str, number: int, constants: Mapping[str, Any]) -> None:
        folder = Path(tempfile.gettempdir()) / f"kernels-{number}"
        folder.mkdir(exist_ok=True)
        path = folder / FILE_NAME
        path.write_text(text, encoding="utf-8")
        name = f"kernels_{number}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        self._found: dict[tuple[str, int], JITFunction[Any]] = {}
        vars(module)[_JIT] = self._register
        spec.loader.exec_module(module)
        for constant, told in constants.items():
            vars(module)[constant] = hear(told, self.function)

    def function(self, name: str, line: int) -> JITFunction[Any]:
        """The kernel `name` near `line`; raises `UnknownKernel`."""
        lines = [at for known, at in self._found if known == name]
        if not lines:
            raise UnknownKernel(
                f"the kernel `{name}` is not written out in the candidate's file; kernels must be "
                f"plain @triton.jit functions in its text"
            )
        return self._found[name, min(lines, key=lambda at: abs(at - line))]

    def _register(self, function: Any) -> JITFunction[Any]:
        made: JITFunction[Any] = triton.jit(function)
        self._found[function.__name__, function.__code__.co_firstlineno] = made
        return made


def _jit_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    wrapped = {
        call.args[0].id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and _is_jit(call.func)
        and call.args
        and isinstance(call.args[0], ast.Name)
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (any(map(_is_jit, node.decorator_list)) or node.name in wrapped)
    ]


def _is_jit(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _is_jit(node.func)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in {"jit", "constexpr_function"}


def _only(source: str, functions: list[ast.FunctionDef]) -> str:
    lines = source.splitlines()
    kept = [""] * len(lines)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) and _importable(node):
            at = node.lineno - 1
            kept[at] = "; ".join(filter(None, [kept[at], ast.unparse(node)]))
    for function in functions:
        first, last = function.lineno - 1, function.end_lineno or function.lineno
        body = textwrap.dedent("\n".join(lines[first:last])).splitlines()
        kept[first:last] = body
        if first > 0:
            kept[first - 1] = f"@{_JIT}"
    return "\n".join(kept) + "\n"


def _importable(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        root = (node.module or "").split(".")[0]
        return node.level == 0 and (root in _IMPORTABLE or root == "__future__")
    return all(alias.name.split(".")[0] in _IMPORTABLE for alias in node.names)
