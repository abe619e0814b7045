"""Calls that are on the allow-list for some arguments only."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Sequence

from kernelagent.tools.judge.source_reading.allowed import MEMBERS
from kernelagent.tools.judge.source_reading.following.names import Names, Scope
from kernelagent.tools.judge.source_reading.kinds import Code

_OF_TYPES = frozenset(
    {
        "torch.Tensor",
        "torch.Size",
        "torch.dtype",
        "torch.device",
        "numbers",
        "collections",
        "typing",
    }
)
_BEFORE_BENCHMARK = 10
"""Arguments of triton.autotune that come before what it times with."""


def answered(node: ast.Call, names: Names, scope: Scope, *, in_kernel: bool) -> Iterator[Code]:
    """What a call of something on the list is called, where it is given what the list is not meant for."""
    called = node.func
    if isinstance(called, ast.Name) and scope.home(called.id) is None:
        asks = called.id in ("isinstance", "callable")
        if asks and (in_kernel or not _are_plain(node.args[1:], names, scope)):
            yield "asks_where_it_runs"
    elif isinstance(called, ast.Attribute) and called.attr == "format":
        text = called.value.value if isinstance(called.value, ast.Constant) else None
        if not isinstance(text, str) or any(
            set(field or "") & {".", "["} for _, field, _, _ in string.Formatter().parse(text)
        ):
            yield "unreadable"
    elif isinstance(called, ast.Attribute) and called.attr == "to":
        texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if "cpu" in [str(t) for t in texts] and not in_kernel:
            yield "values_on_host"
    in_order = len(node.args) > _BEFORE_BENCHMARK or any(
        isinstance(argument, ast.Starred) for argument in node.args
    )
    if in_order and "triton.autotune" in names.paths(called, scope):
        yield "acts_later"


def _are_plain(nodes: Sequence[ast.expr], names: Names, scope: Scope) -> bool:
    """Types that tell no interpreter from a compiler, and no device from another."""
    for node in nodes:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        for part in parts:
            paths = names.paths(part, scope)
            if any(p not in _OF_TYPES and p.split(".")[0] not in _OF_TYPES for p in paths):
                return paths <= {f"torch.nn.{n}" for n in MEMBERS["torch.nn"]}
    return True
