"""Kernels that differ in nothing but their names for things: repeated layers launch one, which is read once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator


def shared(source: str) -> tuple[str, dict[str, str]]:
    """The file with each kernel written once, and by each name that is gone the kernel that is launched in its place.

    Constants keep their names, since launches give them by name; what else a kernel names is compared by its place.
    """
    first: dict[str, ast.FunctionDef] = {}
    gone: dict[str, ast.FunctionDef] = {}
    instead: dict[str, str] = {}
    for kernel in _kernels(source):
        same = first.setdefault(_form(kernel), kernel)
        if same is not kernel:
            gone[kernel.name], instead[kernel.name] = kernel, same.name
    lines = source.splitlines()
    for kernel in reversed(gone.values()):
        begins = min(d.lineno for d in kernel.decorator_list) - 1
        ends = kernel.end_lineno or begins
        # The empty lines below it go as well.
        while ends < len(lines) and not lines[ends].strip():
            ends += 1
        del lines[begins:ends]
    text = "\n".join(lines) + "\n"
    for name, other in instead.items():
        text = re.sub(rf"\b{name}(?=\[)", other, text)
    return text, instead


def _kernels(source: str) -> Iterator[ast.FunctionDef]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and any(
            "triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node


def _form(kernel: ast.FunctionDef) -> str:
    """What the kernel is but for its own name, its docstring, and the names of its arguments and variables."""
    whole = ast.parse(ast.unparse(kernel)).body[0]
    assert isinstance(whole, ast.FunctionDef)
    arguments = [*whole.args.posonlyargs, *whole.args.args, *whole.args.kwonlyargs]
    free = [a.arg for a in arguments if a.annotation is None]
    free += [
        n.id for n in ast.walk(whole) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    fixed = {a.arg for a in arguments if a.annotation is not None}
    number = {name: at for at, name in enumerate(dict.fromkeys(n for n in free if n not in fixed))}
    for node in ast.walk(whole):
        if isinstance(node, ast.Name) and node.id in number:
            node.id = f"_{number[node.id]}"
        elif isinstance(node, ast.arg) and node.arg in number:
            node.arg = f"_{number[node.arg]}"
    if ast.get_docstring(whole) is not None:
        del whole.body[0]
    whole.name = ""
    return ast.dump(whole)
