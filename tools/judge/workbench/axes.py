"""One source in many configurations: the numbers of a file that have a name, exchanged in its text.

A name is a constant (`BLOCK = 64`, outside of kernels) or a keyword with a number at a launch; compiler options
such as `num_warps` that no launch names are added to every launch of the file's own kernels. `kernel.num_warps` is
the keyword at the launches of that kernel alone.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelagent.domain.replies.tool_registry import MOST_CONFIGURATIONS
from kernelagent.tools.source_text import written

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
Value = int | float | str | bool


class NoSuchAxis(ValueError):
    """A name that nothing in the file has, or values that are none; its message is for the writer."""


def configurations(axes: Mapping[str, object]) -> list[dict[str, Value]]:
    """Every combination; raises `NoSuchAxis` where there is none, or too many."""
    lists: dict[str, list[Value]] = {}
    for name, values in axes.items():
        given: list[Any] = values if isinstance(values, list) else [values]
        if not given or not all(isinstance(value, Value) for value in given):
            raise NoSuchAxis(f"give `{name}` as a list of numbers, not {values!r:.60}")
        lists[name] = list(dict.fromkeys(given))
    combined = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())]
    if not lists or len(combined) > MOST_CONFIGURATIONS:
        raise NoSuchAxis(
            f"these are {len(combined) if lists else 0} configurations; from 1 to {MOST_CONFIGURATIONS} can be tried at once"
        )
    return combined


def with_values(source: str, values: Mapping[str, Value]) -> str:
    """The source with these values under their names; raises `NoSuchAxis`, `SyntaxError`."""
    tree = ast.parse(source)
    edits: dict[tuple[int, int], str] = {}
    added: dict[ast.Call, dict[str, Value]] = {}
    starts = _line_starts(source)
    # Those of one kernel last: they hold there.
    for axis, value in sorted(values.items(), key=lambda item: "." in item[0]):
        kernel, _, name = axis.rpartition(".")
        launches = _launches(tree, kernel)
        places = [*_at_launches(launches, name), *([] if kernel else _constants(tree, name))]
        edits |= {(_start(p, starts), _end(p, starts)): repr(value) for p in places}
        if not places and name in _OPTIONS and launches:
            for call in launches:
                added.setdefault(call, {})[name] = value
        elif not places and kernel:
            raise NoSuchAxis(f"no launch of `{kernel}` in the file has a number for `{name}`")
        elif not places:
            raise NoSuchAxis(
                f"`{name}` is neither a constant of the file (`{name} = 64`, outside of kernels) nor a "
                f"keyword with a number at a launch; write it as one of them"
            )
    for call, options in added.items():
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        at = max((_end(item, starts) for item in given), default=_end(call, starts) - 1)
        words = ", ".join(f"{name}={value!r}" for name, value in options.items())
        edits[at, at] = (", " if given else "") + words
    data = source.encode()
    # From the end on, so that places stay what they are.
    for (begin, end), text in sorted(edits.items(), reverse=True):
        data = data[:begin] + text.encode() + data[end:]
    return data.decode()


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """The lines that differ, numbered, as they are after it."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return tuple(f"line {n}: {new.strip()}" for n, (old, new) in enumerate(pairs, 1) if old != new)


def _constants(tree: ast.Module, name: str) -> Iterator[ast.expr]:
    """The literals that are bound to that name."""
    for node in _outside_of_kernels(tree):
        if isinstance(node, ast.Assign):
            targets: Sequence[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        value = _literal(node.value)
        if value is not None and any(isinstance(t, ast.Name) and t.id == name for t in targets):
            yield value


def _at_launches(launches: Sequence[ast.Call], name: str) -> Iterator[ast.expr]:
    """The literals that are given under that name."""
    for call in launches:
        for keyword in call.keywords:
            value = _literal(keyword.value)
            if keyword.arg == name and value is not None:
                yield value


def _literal(node: ast.expr | None) -> ast.expr | None:
    """The number itself, also inside `tl.constexpr(64)`."""
    if isinstance(node, ast.Call) and written(node.func).endswith("constexpr") and node.args:
        node = node.args[0]
    return node if isinstance(node, ast.Constant) else None


def _outside_of_kernels(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and _is_kernel(child):
            continue
        yield child
        yield from _outside_of_kernels(child)


def _launches(tree: ast.Module, kernel: str) -> list[ast.Call]:
    """`kernel[grid](...)` of the file's own kernel of that name, of all of them for an empty one."""
    kernels = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _is_kernel(n)}
    if kernel:
        kernels &= {kernel}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in kernels
    ]


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(written(d).partition("(")[0].endswith("jit") for d in function.decorator_list)


def _line_starts(source: str) -> list[int]:
    lengths = [len(line.encode()) for line in source.splitlines(keepends=True)]
    return [0, *itertools.accumulate(lengths)]


def _start(node: ast.expr, starts: Sequence[int]) -> int:
    return starts[node.lineno - 1] + node.col_offset


def _end(node: ast.expr, starts: Sequence[int]) -> int:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.end_lineno - 1] + node.end_col_offset
