"""Which functions of a candidate's text are kernels, functions of constants, or plain ones that these call."""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

_MAKERS: Mapping[str, Callable[[Callable[..., Any]], Any]] = {
    "constexpr_function": triton.constexpr_function,
    # A constant that is a function: the compiler calls it like one, with constants around what it is given.
    "constexpr": tl.constexpr,
}


@dataclass(frozen=True)
class Definition:
    """One jit function as it stands in the text."""

    node: ast.FunctionDef
    scope: tuple[int, ...]
    """Lines of the functions and classes around it, outermost first."""
    around: tuple[str, ...] = ()
    """Their names, as Python writes them before its own."""
    helps: bool = False
    """Whether it is a plain function, which functions of constants alone may call."""
    bound_again: bool = False
    """Whether the file gives its name another value, so that Python may call something else by it."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def qualified(self) -> str:
        """Its name in Python, by which Triton tells helpers apart."""
        return ".".join((*self.around, self.name))

    @property
    def line(self) -> int:
        """Its first line, decorators included."""
        return min([self.node.lineno, *(item.lineno for item in self.node.decorator_list)])


def definitions(tree: ast.Module, lines: Sequence[str]) -> Iterator[Definition]:
    """All that a kernel of the text may reach, wherever it stands; `lines`: of that text, with their ends."""
    wrapped = {
        call.args[0].id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and _is_jit(call.func)
        and call.args
        and isinstance(call.args[0], ast.Name)
    }
    helpers = _helpers(tree)
    times = Counter(_bound(tree))

    def below(
        node: ast.AST, scope: tuple[int, ...], around: tuple[str, ...] = ()
    ) -> Iterator[Definition]:
        for child in ast.iter_child_nodes(node):
            again = isinstance(child, ast.FunctionDef) and times[child.name] > 1
            if isinstance(child, ast.FunctionDef) and (
                any(map(_is_jit, child.decorator_list))
                or child.name in wrapped
                or of_constants(child) is not None
            ):
                yield Definition(_as_compiled(child, lines), scope, around, bound_again=again)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if isinstance(child, ast.FunctionDef) and child in helpers:
                    yield Definition(child, scope, around, helps=True, bound_again=again)
                inner = () if isinstance(child, ast.ClassDef) else ("<locals>",)
                yield from below(child, (*scope, child.lineno), (*around, child.name, *inner))
            else:
                yield from below(child, scope, around)

    return below(tree, ())


def _as_compiled(node: ast.FunctionDef, lines: Sequence[str]) -> ast.FunctionDef:
    """The definition as Triton takes it: moved to the left, and with it what its strings of several lines hold."""
    if not node.col_offset:
        return node
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    try:
        moved = ast.parse(textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))).body
    except (SyntaxError, ValueError):
        return node  # Triton cannot take it either, and says so.
    if len(moved) != 1 or not isinstance(moved[0], ast.FunctionDef):
        return node
    ast.increment_lineno(moved[0], first - 1)
    return moved[0]


def _helpers(tree: ast.Module) -> set[ast.FunctionDef]:
    """The file's plain functions that functions of constants name, and those that these name."""
    plain = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.decorator_list
    }
    waiting: list[ast.FunctionDef] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and of_constants(node) is not None
    ]
    found: set[ast.FunctionDef] = set()
    while waiting:
        names = {part.id for part in ast.walk(waiting.pop()) if isinstance(part, ast.Name)}
        new = {plain[name] for name in names & plain.keys()} - found
        found |= new
        waiting += new
    return found


def _bound(node: ast.AST) -> Iterator[str]:
    """Every name that a statement of the file's own level binds, and those that functions declare `global`."""
    for child in ast.iter_child_nodes(node):
        match child:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name
                for part in ast.walk(child):
                    if isinstance(part, ast.Global):
                        yield from part.names
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias():
                yield child.asname or child.name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.Lambda():
                continue
        yield from _bound(child)


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is made of a plain function."""
    return function


def of_constants(node: ast.FunctionDef) -> Callable[[Callable[..., Any]], Any] | None:
    """What makes a function of constants of it, as Python does; None of any other."""
    for item in node.decorator_list:
        name = item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "")
        if name in _MAKERS:
            return _MAKERS[name]
    return None


def _is_jit(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _is_jit(node.func)
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "jit"


def is_noinline(node: ast.FunctionDef) -> bool:
    """Whether a kernel says that it is called, and not put in the place of its calls."""
    return any(
        word.arg == "noinline" and isinstance(word.value, ast.Constant) and bool(word.value.value)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for word in decorator.keywords
    )
