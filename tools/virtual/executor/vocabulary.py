"""What a kernel's text may say, so that none of a candidate's Python runs in the executor.

Triton's front end calls whatever Python object a kernel's text reaches, and `tl.core.builtins.exec`
is such an object. So kernels may only reach the objects on an allow-list.
"""

from __future__ import annotations

import ast
import enum
import math
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.runtime.jit import JITCallable

_STATEMENTS = (
    ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.With, ast.withitem,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.ListComp, ast.Compare,
    ast.Call, ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.keyword, ast.arguments, ast.arg,
    ast.comprehension, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_REFLECTION = frozenset({"getattr", "hasattr", "interpreter_semantic", "_InterpreterComparison"})
_VALUES = (tl.tensor, tl.dtype, tl.block_type, tl.pointer_type, tl.constexpr, tl.tuple)
_DESCRIPTORS = (tl.core.tensor_descriptor_base, tl.tensor_descriptor)
_INSIDE = {"handle", "to_ir", "mangle", "nv_tma_desc_type", "aliases"}
_STRINGS = {"startswith", "endswith", "lower", "upper", "name", "value"}
_MEMBERS = (
    frozenset(
        {
            name
            for kind in (*_VALUES, *_DESCRIPTORS)
            for name in dir(kind)
            if not name.startswith("_")
        }
        | {"dtype", "shape", "type", "numel", "T", "values", "strides", "block_shape", "block_type"}
        | {"element_ty", "primitive_bitwidth", "int_bitwidth", "int_signedness", "address_space"}
        | {"fp_mantissa_width", "exponent_bias", "itemsize"}
        | _STRINGS
    )
    - _INSIDE
)
"""Attributes of the values a kernel computes with; none leads to the interpreter's own objects."""

_NAN_RULES = {"ALL", "NONE"}

BUILTINS: dict[str, Any] = {
    function.__name__: function
    for function in (len, list, range, float, int, isinstance, bool, tuple, abs, min, max, print)
}
"""All of Python's builtins that a kernel's text can name."""


class Refused(Exception):
    """The text says something that no kernel needs; the message names it and its line."""


def may_be_named(value: Any) -> bool:
    """Whether a kernel may reach this object of Triton's or of `math`."""
    if isinstance(value, ModuleType):
        name = value.__name__
        return value is math or name == "triton" or f"{name}.".startswith("triton.language.")
    if value is tl.PropagateNan:
        return True
    if isinstance(value, bool | int | float | str | enum.Enum | tl.dtype | tl.constexpr):
        return True
    owner = str(getattr(value, "__module__", ""))
    if isinstance(value, JITCallable):
        return f"{owner}.".startswith("triton.")
    if isinstance(value, type):
        return owner.startswith("triton.language.")
    if owner == "math":
        return callable(value)
    return tl.core.is_builtin(value) or owner == "triton.language.extra.libdevice"


def check(function: ast.FunctionDef, imports: Mapping[str, Any]) -> None:
    """Raises `Refused` unless everything in the function, its defaults included, may be said."""
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    for node in _inside(function):
        if not isinstance(node, _STATEMENTS + _EXPRESSIONS):
            raise _refusal(node, f"{type(node).__name__} is no part of Triton's language")
        if isinstance(node, ast.Attribute):
            _check_attribute(node, imports, parents)
        elif isinstance(node, ast.Name):
            _check_name(node, imports, parents)


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    yield function.args
    for part in (function.args, *function.body):
        yield from ast.walk(part)


def _check_name(
    node: ast.Name, imports: Mapping[str, Any], parents: Mapping[ast.AST, ast.AST]
) -> None:
    if node.id in _REFLECTION or node.id.startswith("__"):
        raise _refusal(node, f"{node.id} cannot be used in a kernel on the virtual device")
    whole = not isinstance(parents.get(node), ast.Attribute)
    if whole and isinstance(imports.get(node.id), ModuleType):
        raise _refusal(node, f"the module {node.id} is no value a kernel can use")


def _check_attribute(
    node: ast.Attribute, imports: Mapping[str, Any], parents: Mapping[ast.AST, ast.AST]
) -> None:
    if not isinstance(node.ctx, ast.Load):
        raise _refusal(node, "a kernel cannot set attributes")
    result, owner = resolve(node, imports), resolve(node.value, imports)
    if isinstance(owner, ModuleType):
        if not hasattr(owner, node.attr):
            raise _refusal(node, f"Triton {triton.__version__} has no {ast.unparse(node)}")
        if node.attr.startswith("_") or not may_be_named(result):
            raise _refusal(node, f"{ast.unparse(node)} cannot be used in a kernel")
        if isinstance(result, ModuleType) and not isinstance(parents.get(node), ast.Attribute):
            raise _refusal(node, f"the module {ast.unparse(node)} is no value a kernel can use")
    elif owner is tl.PropagateNan and node.attr in _NAN_RULES:
        return
    elif node.attr not in _MEMBERS:
        raise _refusal(node, f".{node.attr} is no attribute of a value in a kernel")


def resolve(node: ast.expr, imports: Mapping[str, Any]) -> Any:
    """The object that a dotted name from an import means, as far as it leads through modules."""
    if isinstance(node, ast.Name):
        return imports.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, imports)
        if isinstance(owner, ModuleType) and may_be_named(owner):
            return getattr(owner, node.attr, None)
    return None


def _refusal(node: ast.AST, what: str) -> Refused:
    return Refused(f"line {getattr(node, 'lineno', 0)}: {what}")
