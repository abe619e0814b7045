"""What a kernel's text may say, so that none of a candidate's Python runs in the executor.

Triton's front end calls whatever Python object a kernel's text reaches, and `tl.core.builtins.exec`
is such an object. So kernels may only reach the objects on an allow-list.
"""

from __future__ import annotations

import ast
import enum
import math
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITCallable, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.source_text import written

_STATEMENTS = (
    ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.With, ast.withitem,
    # In a branch that its constants leave out; in any other the compiler refuses it.
    ast.Raise,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.ListComp, ast.Compare,
    ast.Call, ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.keyword, ast.arguments, ast.arg,
    ast.comprehension, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_TABLES = (ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.GeneratorExp)
_OF_TABLES = frozenset(
    "add append bit_length copy count extend get index insert items join keys pop remove replace setdefault split strip "
    "update".split()
)
"""Methods of Python's own tables and strings, which a function of constants may call; `str.format` reaches attributes."""
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

_REACHED = (
    *_VALUES, *_DESCRIPTORS, tl.tuple_type, tl.slice, tl.range, tl.static_range, TensorDescriptor, JITFunction, JITCallable,
    type(tl.constexpr(1).type), type(triton.next_power_of_2), stock.TensorHandle, FunctionType, BuiltinFunctionType,
    MethodType, GeneratorType, ModuleType, type, object, enum.EnumMeta, enum.Enum, str, bytes, int, float, complex, list,
    tuple, dict, set, frozenset, range, slice,
)  # fmt: skip
_EXAMPLES = (tl.standard.cdiv, tl.float32, tl.constexpr(1), triton.next_power_of_2)
_HARMLESS = frozenset({"count", "index", "start", "stop", "step", "real", "imag", "src"})
_ELSEWHERE = (
    {name for kind in _REACHED for name in dir(kind)}
    | {name for example in _EXAMPLES for name in vars(example)}
    | {name for kind in _REACHED for name in getattr(kind, "__annotations__", ())}
    | _INSIDE
) - _HARMLESS
"""Attributes of anything that a kernel may come to hold: no name of a field makes them reachable."""

_NAN_RULES = {"ALL", "NONE"}
_OF_TYPES = (tl.core.get_int_dtype,)
"""Functions of Triton's, without its mark, that the compiler calls as Python: they know numbers and give one of the types."""

_OF_NVIDIA = frozenset({"cuda"})
"""Of `torch.version`: None here and a text on the GPU that is stood in for. What other GPUs have is None on both."""

BUILTINS: dict[str, Any] = {
    function.__name__: function
    for function in (
        len, list, range, float, int, isinstance, bool, tuple, abs, min, max, print,
        all, any, bin, chr, dict, divmod, enumerate, filter, frozenset, hex, iter, map, next, ord, pow, reversed, round,
        set, sorted, str, sum, zip,
    )
}  # fmt: skip
"""All of Python's builtins that a text can name; none leads out of the values given.

The second row is for functions of constants, which run as Python: the compiler knows none of them in a kernel.
"""


class Refused(Exception):
    """The text says something that no kernel needs; the message names it and its line."""


def may_be_named(value: Any) -> bool:
    """Whether a kernel may reach this object of Triton's or of `math`."""
    if isinstance(value, ModuleType):
        name = value.__name__
        plain = value is math or name == "triton" or f"{name}.".startswith("triton.language.")
        return plain or value is torch or value is torch.version
    if value is tl.PropagateNan or any(value is known for known in _OF_TYPES):
        return True
    if value is None or isinstance(value, bool | int | float | str | enum.Enum):
        return True
    if isinstance(value, tl.dtype | tl.constexpr):
        return True
    owner = str(getattr(value, "__module__", ""))
    if isinstance(value, JITCallable):
        return f"{owner}.".startswith("triton.")
    if isinstance(value, type):
        return owner.startswith("triton.language.")
    if owner == "math":
        return callable(value)
    return tl.core.is_builtin(value) or owner == "triton.language.extra.libdevice"


def check(
    function: ast.FunctionDef,
    imports: Mapping[str, Any],
    *,
    of_constants: bool = False,
    fields: frozenset[str] = frozenset(),
) -> None:
    """Raises `Refused` unless everything in the function, its defaults included, may be said.

    `of_constants`: it is a `constexpr_function`, which Triton calls as Python, so that it may have tables.
    `fields`: names that named tuples have for what they hold; those that lead anywhere else stay refused.
    """
    allowed = _STATEMENTS + _EXPRESSIONS + (_TABLES if of_constants else ())
    members = _MEMBERS | (_OF_TABLES if of_constants else frozenset())
    members |= {name for name in fields - _ELSEWHERE if not name.startswith("_")}
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    _check_block_pointers(function, imports)
    for node in _inside(function):
        if not isinstance(node, allowed):
            raise _refusal(node, f"{type(node).__name__} is no part of Triton's language")
        if isinstance(node, ast.Attribute):
            _check_attribute(node, imports, parents, members)
        elif isinstance(node, ast.Name):
            _check_name(node, imports, parents)


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    yield function.args
    for part in (function.args, *function.body):
        yield from ast.walk(part)


def _check_block_pointers(function: ast.FunctionDef, imports: Mapping[str, Any]) -> None:
    """Where Triton has none any more, the place that makes one is the cause of everything said about it later."""
    if hasattr(tl, "advance"):
        return
    made = [
        node
        for node in _inside(function)
        if isinstance(node, ast.Attribute | ast.Name) and _means_block_pointers(node, imports)
    ]
    if made:
        first = min(made, key=lambda node: node.lineno)
        raise _refusal(
            first,
            f"Triton {triton.__version__} has no block pointers ({written(first)}): write tl.make_tensor_descriptor, "
            f"or pointers and masks, in their place",
        )


def _means_block_pointers(node: ast.Attribute | ast.Name, imports: Mapping[str, Any]) -> bool:
    removed = getattr(tl, "make_block_ptr", None)
    return removed is not None and resolve(node, imports) is removed


def _check_name(
    node: ast.Name, imports: Mapping[str, Any], parents: Mapping[ast.AST, ast.AST]
) -> None:
    if node.id in _REFLECTION or node.id.startswith("__"):
        raise _refusal(node, f"{node.id} cannot be used in a kernel on the virtual device")
    whole = not isinstance(parents.get(node), ast.Attribute)
    if whole and isinstance(imports.get(node.id), ModuleType):
        raise _refusal(node, f"the module {node.id} is no value a kernel can use")


def _check_attribute(
    node: ast.Attribute,
    imports: Mapping[str, Any],
    parents: Mapping[ast.AST, ast.AST],
    members: frozenset[str],
) -> None:
    if not isinstance(node.ctx, ast.Load):
        raise _refusal(node, "a kernel cannot set attributes")
    result, owner = resolve(node, imports), resolve(node.value, imports)
    if isinstance(owner, ModuleType):
        if not hasattr(owner, node.attr):
            raise _refusal(node, f"Triton {triton.__version__} has no {written(node)}")
        if node.attr.startswith("_") or not may_be_named(result):
            raise _refusal(node, f"{written(node)} cannot be used in a kernel")
        if owner is torch.version and (result is not None or node.attr in _OF_NVIDIA):
            raise _refusal(node, f"{written(node)} may be another where the kernel will run")
        if isinstance(result, ModuleType) and not isinstance(parents.get(node), ast.Attribute):
            raise _refusal(node, f"the module {written(node)} is no value a kernel can use")
    elif owner is tl.PropagateNan and node.attr in _NAN_RULES:
        return
    elif node.attr not in members:
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
