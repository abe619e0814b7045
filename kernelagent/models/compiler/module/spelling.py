"""Torch's own calls, sizes and views of Inductor's host code, as the candidate's file spells them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kernelagent.models.compiler.capturing import attention
from kernelagent.models.compiler.capturing.pooling import POOL, pool_spelled_out
from kernelagent.models.compiler.capturing.symbolic_functions import (
    convolution_spelled_out,
    is_convolution,
)
from kernelagent.models.compiler.program.program import elements

Whole = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Shapes and strides of whole tensors by what they are called: a view may be one of them in other words."""
_NONE: Whole = MappingProxyType({})


def texts_of(nodes: Sequence[ast.expr], hosts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(spelled(node, hosts) for node in nodes)


def torch_line(statement: ast.stmt, hosts: Mapping[str, str], known: Whole = _NONE) -> str:
    """One of torch's own statements; empty where it only renames a buffer."""
    copy = ast.parse(ast.unparse(statement)).body[0]
    changed = ast.fix_missing_locations(_Torch(hosts, known).visit(copy))
    if isinstance(changed, ast.Assign):
        target, value = (ast.unparse(part) for part in (changed.targets[0], changed.value))
        if target == value:
            return ""
    return ast.unparse(changed)


class _Torch(ast.NodeTransformer):
    """torch's own calls under their public names."""

    def __init__(self, hosts: Mapping[str, str], known: Whole = _NONE) -> None:
        self._hosts = hosts
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._hosts:
            return ast.parse(self._hosts[node.id], mode="eval").body
        return ast.Name({"aten": "torch.ops.aten"}.get(node.id, node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = ast.unparse(node.func)
        own = is_own(node)
        self.generic_visit(node)
        if function == "reinterpret_tensor":
            return viewed(node, self._known, own=own)
        if function == attention.OPERATOR:
            return attention.spelled_out(node)
        if function == POOL:
            return pool_spelled_out(node)
        if is_convolution(node):
            return convolution_spelled_out(node)
        if function.startswith("extern_kernels."):
            node.func = ast.parse(f"torch.{function.split('.', 1)[1]}", mode="eval").body
            node.keywords = [k for k in node.keywords if not _is_one(k)]
        return node


def _is_one(keyword: ast.keyword) -> bool:
    return keyword.arg in {"alpha", "beta"} and ast.unparse(keyword.value) == "1"


_OWN = re.compile(r"buf\d+")
"""A tensor that the host code allocates: it begins where its memory does."""


def is_own(view: ast.Call) -> bool:
    """Whether what is viewed is a buffer, by Inductor's name for it."""
    return bool(view.args) and _OWN.fullmatch(ast.unparse(view.args[0])) is not None


def viewed(node: ast.Call, known: Whole, *, own: bool) -> ast.expr:
    tensor, shape, strides, offset = node.args
    size, step = (tuple(map(ast.unparse, elements(part))) for part in (shape, strides))
    name = ast.unparse(tensor)
    if name in known and ast.unparse(offset) == "0":
        whole, apart = known[name]
        ours, theirs = _lengths(size, step), _lengths(whole, apart)
        if size == whole and ours == theirs:
            return tensor
        if len(size) == 2 and size == whole[::-1] and step == apart[::-1]:
            return ast.parse(f"{name}.t()", mode="eval").body
        if ours == theirs:
            return ast.parse(f"{name}.view({', '.join(size) or '()'})", mode="eval").body
    arguments = [ast.unparse(part) for part in (tensor, shape, strides)]
    if ast.unparse(offset) != "0":
        # Counted from where the tensor begins, which may be inside of a larger one.
        begins = "" if own else f"{name}.storage_offset() + "
        arguments.append(begins + ast.unparse(offset))
    return ast.parse(f"torch.as_strided({', '.join(arguments)})", mode="eval").body


def _lengths(size: Sequence[str], step: Sequence[str]) -> list[tuple[str, str]]:
    """Lengths and strides of the axes that have more than one element."""
    return [pair for pair in zip(size, step, strict=True) if pair[0] != "1"]


def spelled(value: ast.expr, hosts: Mapping[str, str], known: Whole = _NONE) -> str:
    """A launch argument as the host code spells it."""
    copy = ast.parse(ast.unparse(value), mode="eval").body
    return ast.unparse(ast.fix_missing_locations(_Torch(hosts, known).visit(copy)))
