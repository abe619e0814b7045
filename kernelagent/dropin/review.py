"""What in a candidate's text a user should look at before it is written among their files.

It has no influence on the verdict: the judge checks what a candidate does, this module reads
its source text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernelagent.domain.replies.parsing import parse

ALLOWED_IMPORTS = (
    "torch",
    "triton",
    "math",
    "typing",
    "__future__",
    "dataclasses",
    "functools",
    "collections.abc",
)
PUBLIC_NAMES = frozenset(
    {"optimized", "ENVELOPE_VERIFIED", "CERTIFICATE", "OutsideEnvelopeWarning"}
)
"""What the drop-in section of an emitted file defines for its user."""
LONGEST_TEXT = 2000
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{120,}")
_RUNS_TEXT = frozenset({"exec", "eval", "compile", "__import__"})
_BUILTIN_ACCESS = {
    "open": "opens files",
    "input": "reads the terminal",
    "breakpoint": "starts a debugger",
    "globals": "reaches names by computed text",
    "__builtins__": "reaches names by computed text",
    "__loader__": "loads code",
}
_INNARDS = frozenset(
    "__globals__ __builtins__ __subclasses__ __code__ __closure__ __loader__ __import__".split()
)
_LOADS_OR_SAVES = {
    "torch.load": "reads files and runs what they contain",
    "torch.save": "writes files",
    "torch.from_file": "reads files",
    "torch.hub": "downloads and runs code",
    "torch.ops.load_library": "loads native code",
    "torch.classes.load_library": "loads native code",
    "torch.utils.cpp_extension": "builds and loads native code",
    "torch.utils.model_zoo": "downloads files",
    "torch.distributed": "talks to other processes",
    "torch.multiprocessing": "starts processes",
}


@dataclass(frozen=True, order=True)
class Finding:
    """One place that needs the user's eyes."""

    line: int
    what: str
    why: str


def review(source: str) -> tuple[Finding, ...]:
    """Everything in `source` to be shown before it is emitted, by line; empty for a plain candidate."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        return (Finding(line, "the text does not parse", str(error)),)
    names = _imported(tree)
    result = set(_public_names(tree))
    for node, own in _with_own_names(tree, frozenset()):
        # A parameter or a local variable called `input` is no built-in function.
        if not (isinstance(node, ast.Name) and node.id in own and node.id not in _RUNS_TEXT):
            result.update(_look_at(node, names))
    return tuple(sorted(result))


def _with_own_names(node: ast.AST, own: frozenset[str]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Each node, with the names that are bound by the functions around it."""
    yield node, own
    body: tuple[ast.AST, ...] = ()
    inside = own
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        body = tuple(node.body) if isinstance(node.body, list) else (node.body,)
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        bound = {a.arg for a in (*given, node.args.vararg, node.args.kwarg) if a is not None}
        bound |= {name for part in body for name in _assigned(part)}
        outside = {
            n for part in body for g in ast.walk(part) if isinstance(g, ast.Global) for n in g.names
        }
        inside = (own | bound) - outside
    for child in ast.iter_child_nodes(node):
        # Defaults and decorators are read outside of the function.
        yield from _with_own_names(child, inside if child in body else own)


_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _assigned(node: ast.AST) -> Iterator[str]:
    """Names that are assigned to in this very scope: local ones wherever it reads them."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _assigned(child)


def _look_at(node: ast.AST, names: dict[str, str]) -> Iterator[Finding]:
    match node:
        case ast.Import():
            for alias in node.names:
                yield from _import(node.lineno, alias.name)
        case ast.ImportFrom():
            for alias in node.names:
                base = "." * node.level + (node.module or "")
                yield from _import(node.lineno, base, f"{base}.{alias.name}")
        case ast.Name(ctx=ast.Load()) if node.id in _RUNS_TEXT:
            yield Finding(
                node.lineno, node.id, "runs code made from text, which cannot be read here"
            )
        case ast.Name(ctx=ast.Load()) if node.id in _BUILTIN_ACCESS:
            yield Finding(node.lineno, node.id, _BUILTIN_ACCESS[node.id])
        case ast.Attribute():
            yield from _attribute(node, names)
        case ast.Call():
            yield from _computed_name(node, names)
        case ast.Constant(value=str() | bytes()):
            yield from _payload(node)


def _import(line: int, module: str, member: str | None = None) -> Iterator[Finding]:
    whole = member or module
    for name, why in _LOADS_OR_SAVES.items():
        if _is_within(whole, name):
            yield Finding(line, f"import of {whole}", why)
            return
    if not any(_is_within(module, name) or whole == name for name in ALLOWED_IMPORTS):
        allowed = ", ".join(ALLOWED_IMPORTS)
        yield Finding(line, f"import of {module}", f"a kernel needs only {allowed}")


def _attribute(node: ast.Attribute, names: dict[str, str]) -> Iterator[Finding]:
    if node.attr in _INNARDS:
        yield Finding(node.lineno, f".{node.attr}", "reaches into the interpreter")
        return
    dotted = _dotted(node, names)
    if dotted in _LOADS_OR_SAVES:
        yield Finding(node.lineno, dotted, _LOADS_OR_SAVES[dotted])
    elif node.attr in {"tofile", "fromfile", "load_library"}:
        yield Finding(node.lineno, f".{node.attr}", "reads or writes files")


def _computed_name(node: ast.Call, names: dict[str, str]) -> Iterator[Finding]:
    """`getattr(module, text)`: an attribute of a module under a name that is not written out."""
    if not (isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr", "vars"}):
        return
    target = _dotted(node.args[0], names) if node.args else None
    if target is None or target.split(".")[0] not in {n.split(".")[0] for n in names.values()}:
        return
    written_out = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    if not written_out:
        yield Finding(
            node.lineno, f"{node.func.id} on {target}", "reaches a module by a computed name"
        )


def _payload(node: ast.Constant) -> Iterator[Finding]:
    value = node.value
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    if len(text) > LONGEST_TEXT:
        yield Finding(
            node.lineno, f"a constant of {len(text)} characters", "could carry code or results"
        )
    elif _ENCODED.search(text):
        yield Finding(node.lineno, "a constant that looks encoded", "could carry code or results")


def _public_names(tree: ast.Module) -> Iterator[Finding]:
    for name, line in bound_names(tree).items():
        if name in PUBLIC_NAMES:
            yield Finding(line, f"the name {name}", "the emitted file itself defines it")


def bound_names(tree: ast.Module) -> dict[str, int]:
    """Names that a module binds at its top level, with the line of the first binding."""
    result: dict[str, int] = {}

    def bind(name: str, line: int) -> None:
        result.setdefault(name, line)

    def visit(node: ast.AST, *, top: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if top:
                    bind(node.name, node.lineno)
                top = False
            case ast.Lambda():
                top = False
            case ast.Import() | ast.ImportFrom() if top:
                for alias in node.names:
                    bind((alias.asname or alias.name).split(".")[0], node.lineno)
            case ast.Name(ctx=ast.Store()) if top:
                bind(node.id, node.lineno)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) if top:
                bind(name, node.lineno)
            case ast.MatchMapping(rest=str(name)) if top:
                bind(name, node.lineno)
            case ast.Global():
                for name in node.names:
                    bind(name, node.lineno)
        for child in ast.iter_child_nodes(node):
            visit(child, top=top)

    visit(tree, top=True)
    return result


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `import torch.nn as nn` gives `{"nn": "torch.nn"}`."""
    result = {"builtins": "builtins", "__builtins__": "builtins"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is not None:
                    result[alias.asname] = alias.name
                else:
                    root = alias.name.split(".")[0]
                    result[root] = root
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                result[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return result


def _dotted(node: ast.AST, names: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def _is_within(module: str, root: str) -> bool:
    return module == root or module.startswith(f"{root}.")
