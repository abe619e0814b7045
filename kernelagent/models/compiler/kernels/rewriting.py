"""One of Inductor's kernels as a plain one: real masks, few temporaries, no Inductor helpers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from kernelagent.models.compiler.capturing.capture import PolicyCannot
from kernelagent.models.compiler.kernels import indexed, online_softmax, scans, welford
from kernelagent.models.compiler.program.dataflow import (
    axes_of,
    carried_by_loops,
    inlined,
    names_in,
    target_of,
    without_unread,
)
from kernelagent.models.compiler.program.program import Kernel

_NO_AXES: frozenset[str] = frozenset()
_SIZES = {"xnumel": "x", "ynumel": "y", "znumel": "z", "r0_numel": "r"}
_MASKS = {"xmask": "x", "ymask": "y", "zmask": "z", "r0_mask": "r"}
_INDEX = {"x": "xindex", "y": "yindex", "z": "zindex", "r": "r0_index"}
_NUMEL = {axis: size for size, axis in _SIZES.items()}
_MASK_OF = {axis: mask for mask, axis in _MASKS.items()}
_FOLDED = {"rnumel", "RBLOCK"}
_PLAIN = {
    "tl_math.abs": "tl.abs",
    "tl_math.exp": "tl.exp",
    "tl_math.log": "tl.log",
    "tl_math.sqrt": "tl.sqrt_rn",
    "tl_math.sin": "tl.sin",
    "tl_math.cos": "tl.cos",
    "libdevice.abs": "tl.abs",
    "libdevice.exp": "tl.exp",
    "libdevice.exp2": "tl.exp2",
    "libdevice.log": "tl.log",
    "libdevice.sqrt": "tl.sqrt_rn",
    "libdevice.rsqrt": "tl.rsqrt",
    "libdevice.sin": "tl.sin",
    "libdevice.cos": "tl.cos",
    "triton_helpers.max2": "tl.max",
    "triton_helpers.min2": "tl.min",
    "triton_helpers.maximum": "tl.maximum",
    "triton_helpers.minimum": "tl.minimum",
}
_NAN_AWARE = {"tl.maximum", "tl.minimum"}
_SAME_TYPE = {"tl.rsqrt", "tl.exp", "tl.log", "tl.sqrt_rn", "tl.sum", "tl.max", "tl.min", "tl.abs"}
_WITH_INDEX = {"triton_helpers.max_with_index": "tl.max", "triton_helpers.min_with_index": "tl.min"}


@dataclass
class Rewritten:
    """A plain kernel's body, still under Inductor's names."""

    body: list[ast.stmt]
    blocks: tuple[str, ...]
    """constexpr block parameters, for example `XBLOCK`, `R0_BLOCK`."""
    held: int | None
    """For a persistent reduction: the block that holds a whole row."""
    uses_libdevice: bool


@dataclass
class _State:
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    axes: dict[str, frozenset[str]] = field(default_factory=dict)
    float32: set[str] = field(default_factory=set)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    held: int | None = None


def rewrite(kernel: Kernel, what: str) -> Rewritten:
    """Raises `PolicyCannot` for what has no plain form."""
    rewriter = _Rewriter(kernel, what)
    statements = scans.carried(kernel.function) if kernel.helpers else kernel.function.body
    body = rewriter.block(statements)
    body = inlined(without_unread(body))
    text = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body)
    for word in ("triton_helpers", "tl_math"):
        if word in text:
            place = text[text.index(word) :].split("(")[0]
            raise PolicyCannot(what, f"its compiled form uses {place}, which has no plain form yet")
    blocks = [p.arg for p in kernel.function.args.args if p.arg.endswith("BLOCK")]
    if rewriter.state.held is not None:
        blocks.append("R0_BLOCK")
    used = set().union(*(names_in(s) for s in body))
    return Rewritten(
        body=body,
        blocks=tuple(b for b in blocks if b in used),
        held=rewriter.state.held,
        uses_libdevice="libdevice." in text,
    )


class _Rewriter:
    def __init__(self, kernel: Kernel, what: str) -> None:
        self._kernel = kernel
        self._what = what
        self._carried = carried_by_loops(kernel.function.body)
        self.state = _State()
        for axis, index in _INDEX.items():
            self.state.axes[index] = frozenset(axis)
        self.state.aliases["RBLOCK"] = ast.Name("R0_BLOCK", ast.Load())

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            done += self._statement(statement)
        return done

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.For):
            loop = ast.For(
                target=statement.target,
                iter=self._value(statement.iter),
                body=self.block(statement.body),
                orelse=[],
            )
            return [loop]
        if isinstance(statement, ast.AnnAssign):
            return self._constexpr(statement)
        if isinstance(statement, ast.Expr):
            if "device_assert" in ast.unparse(statement):
                return []
            return [ast.Expr(self._value(statement.value))]
        if isinstance(statement, ast.Assign):
            return self._assign(statement)
        raise PolicyCannot(self._what, f"a kernel contains `{ast.unparse(statement)[:60]}`")

    def _constexpr(self, statement: ast.AnnAssign) -> list[ast.stmt]:
        if ast.unparse(statement.target) == "R0_BLOCK" and isinstance(
            statement.value, ast.Constant
        ):
            self.state.held = int(ast.literal_eval(statement.value))
        return []

    def _assign(self, statement: ast.Assign) -> list[ast.stmt]:
        name = target_of(statement)
        if name is None:
            return self._several(statement)
        if name in _SIZES and isinstance(statement.value, ast.Constant):
            self.state.sizes[name] = int(ast.literal_eval(statement.value))
            return []
        if name in _FOLDED:
            return []
        if name in _MASKS:
            return self._mask(name)
        value = self._value(statement.value)
        if (isinstance(value, ast.Name) or is_of_sizes(value)) and name not in self._carried:
            self.state.aliases[name] = value
            return []
        if (constant := _as_constant(value)) is not None:
            self.state.constants[name] = constant
        self._learn(name, value)
        return [ast.Assign(targets=[ast.Name(name, ast.Store())], value=value, lineno=0)]

    def _several(self, statement: ast.Assign) -> list[ast.stmt]:
        value = statement.value
        function = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if (scan := scans.spelled_out(statement, self._kernel.helpers)) is not None:
            return self.block(scan)
        held = self.state.held is not None
        if isinstance(value, ast.Call) and held and (plain := _WITH_INDEX.get(function)):
            values, _, axis = value.args
            text = (
                f"{plain}({ast.unparse(self._value(values))}, {ast.unparse(axis)}, "
                f"return_indices=True, return_indices_tie_break_left=True)"
            )
            return [
                ast.Assign(
                    targets=statement.targets, value=ast.parse(text, mode="eval").body, lineno=0
                )
            ]
        for known in (welford, online_softmax, indexed):
            if isinstance(value, ast.Call) and function in known.FUNCTIONS:
                parts = [self._value(argument) for argument in value.args]
                return self.block(known.spelled_out(statement, function, parts))
        raise PolicyCannot(self._what, f"a kernel contains `{ast.unparse(statement)[:60]}`")

    def _mask(self, name: str) -> list[ast.stmt]:
        axis = _MASKS[name]
        size = self.state.sizes.get(_NUMEL[axis])
        whole = axis == "r" and self.state.held is not None and self.state.held == size
        if size == 1 or whole:
            return []
        self.state.axes[name] = frozenset(axis)
        text = f"{name} = {_INDEX[axis]} < {_NUMEL[axis]}"
        return list(ast.parse(text).body)

    def _learn(self, name: str, value: ast.expr) -> None:
        self.state.axes[name] = axes_of(value, self.state.axes) | self.state.axes.get(
            name, _NO_AXES
        )
        if self._is_float32(value):
            self.state.float32.add(name)

    def _is_float32(self, value: ast.expr) -> bool:
        text = ast.unparse(value)
        if text.endswith((".to(tl.float32)", ", tl.float32)")):
            return True
        if isinstance(value, ast.BinOp) and not isinstance(value.op, ast.BitAnd | ast.BitOr):
            sides = (value.left, value.right)
            return all(isinstance(s, ast.Constant) or self._is_float32(s) for s in sides)
        if isinstance(value, ast.UnaryOp):
            return self._is_float32(value.operand)
        if isinstance(value, ast.Subscript):
            return self._is_float32(value.value)
        if isinstance(value, ast.Call) and value.args:
            # These return the type they are given.
            return ast.unparse(value.func) in _SAME_TYPE and self._is_float32(value.args[0])
        return isinstance(value, ast.Name) and value.id in self.state.float32

    def _value(self, value: ast.expr) -> ast.expr:
        changed: ast.expr = _Expressions(self).visit(
            ast.parse(ast.unparse(value), mode="eval").body
        )
        return changed

    def masks_for(self, pointer: ast.expr, given: ast.expr | None) -> ast.expr | None:
        """Every mask the address needs, besides conditions of Inductor's own."""
        own = [] if given is None else [part for part in _conjuncts(given) if not _is_mask(part)]
        axes = axes_of(pointer, self.state.axes)
        for part in own:
            axes |= axes_of(part, self.state.axes)
        needed = [
            ast.Name(_MASK_OF[axis], ast.Load())
            for axis in "rxyz"
            if axis in axes and _MASK_OF[axis] in self.state.axes
        ]
        return _joined([*needed, *own])

    def all_masks(self) -> ast.expr | None:
        """The masks of every axis the kernel has, for what is kept out of a reduction."""
        names = [_MASK_OF[a] for a in "rxyz" if _MASK_OF[a] in self.state.axes]
        return _joined([ast.Name(name, ast.Load()) for name in names])


class _Expressions(ast.NodeTransformer):
    """Expressions one by one, inside out."""

    def __init__(self, rewriter: _Rewriter) -> None:
        self._rewriter = rewriter
        self._state = rewriter.state

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._state.aliases.get(node.id, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        node.left, node.right = self._constant(node.left), self._constant(node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        node.comparators = [self._constant(c) for c in node.comparators]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return node.value if ast.unparse(node.slice) == ":" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = ast.unparse(node.func)
        if function in {"tl.load", "tl.store"}:
            return self._access(node, function)
        self.generic_visit(node)
        if function == "triton_helpers.any":
            values, axis = (ast.unparse(argument) for argument in node.args)
            text = f"tl.max(({values}).to(tl.int32), {axis}) != 0"
            return ast.parse(text, mode="eval").body
        if function == "triton_helpers.promote_to_tensor":
            return node.args[0]
        if (last := scans.last_of(node)) is not None:
            return last
        if function == "triton_helpers.div_floor_integer":
            return _floored(*node.args)
        if function.endswith(".to") and isinstance(node.func, ast.Attribute):
            return self._cast(node, node.func.value)
        if function == "tl.broadcast_to" and self._is_whole(node.args[0]):
            return node.args[0]
        if function == "tl.where":
            return self._where(node)
        plain = _PLAIN.get(function)
        if plain is not None:
            node.func = ast.parse(plain, mode="eval").body
            if plain in _NAN_AWARE:
                node.args = [self._constant(a) for a in node.args]
                every = ast.parse("tl.PropagateNan.ALL", mode="eval").body
                node.keywords = [ast.keyword("propagate_nan", every)]
        return node

    def _access(self, node: ast.Call, function: str) -> ast.expr:
        values = 1 if function == "tl.load" else 2
        given = node.args[values] if len(node.args) > values else None
        if isinstance(given, ast.Constant):
            given = None
        parts = [self.visit(argument) for argument in node.args[:values]]
        mask = self._rewriter.masks_for(parts[0], None if given is None else self.visit(given))
        keywords = [] if mask is None else [ast.keyword("mask", mask)]
        if mask is not None and function == "tl.load":
            # A reduction may depend on the value of masked-off lanes (`other`).
            filled = next((k.value for k in node.keywords if k.arg == "other"), ast.Constant(0))
            keywords.append(ast.keyword("other", filled))
        return ast.Call(func=node.func, args=parts, keywords=keywords)

    def _cast(self, node: ast.Call, inner: ast.expr) -> ast.expr:
        to_float = ast.unparse(node.args[0]) == "tl.float32"
        if is_of_sizes(inner):
            # A compile-time number has no type to be changed.
            return ast.BinOp(inner, ast.Mult(), ast.Constant(1.0)) if to_float else inner
        return inner if to_float and self._rewriter._is_float32(inner) else node

    def _where(self, node: ast.Call) -> ast.expr:
        condition, *sides = node.args
        if all(map(_is_mask, _conjuncts(condition))):
            # Excludes lanes from a reduction: use every mask, including those that Inductor omitted.
            whole = self._rewriter.all_masks()
            if whole is None:
                return sides[0]
            condition = whole
        node.args = [condition, *(self._constant(side) for side in sides)]
        return node

    def _is_whole(self, value: ast.expr) -> bool:
        wanted = frozenset(self._rewriter._kernel.axes) | {"r"}
        return wanted <= axes_of(value, self._state.axes)

    def _constant(self, value: ast.expr) -> ast.expr:
        if isinstance(value, ast.Name) and value.id in self._state.constants:
            return self._state.constants[value.id]
        return value


def is_of_sizes(value: ast.expr) -> bool:
    """Arithmetic of sizes alone, which is done when the kernel is compiled."""
    names = names_in(value)
    calls = any(isinstance(node, ast.Call) for node in ast.walk(value))
    return bool(names) and not calls and all(re.fullmatch(r"ks\d+", name) for name in names)


def _floored(value: ast.expr, by: ast.expr) -> ast.expr:
    """Division that rounds down; Triton's own rounds towards zero for what is no compile-time number."""
    quotient = ast.BinOp(value, ast.FloorDiv(), by)
    if is_of_sizes(quotient):
        return quotient
    a, b = (f"({ast.unparse(part)})" for part in (value, by))
    text = f"tl.where({a} % {b} < 0, {a} // {b} - 1, {a} // {b})"
    return ast.parse(text, mode="eval").body


def _as_constant(value: ast.expr) -> ast.expr | None:
    """`tl.full([1, 1], 0.5, tl.float32)`: a number by a longer name."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.full"):
        return None
    shape, number, kind = value.args
    ones = isinstance(shape, ast.List) and all(ast.unparse(n) == "1" for n in shape.elts)
    text = ast.unparse(number)
    plain = ast.unparse(kind) in {"tl.float32", "tl.int32", "tl.int64"} and "float(" not in text
    return number if ones and plain and text not in {"True", "False"} else None


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    if isinstance(condition, ast.BinOp) and isinstance(condition.op, ast.BitAnd):
        return [*_conjuncts(condition.left), *_conjuncts(condition.right)]
    return [condition]


def _is_mask(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _MASKS


def _joined(parts: list[ast.expr] | list[ast.Name]) -> ast.expr | None:
    if not parts:
        return None
    joined: ast.expr = parts[0]
    for part in parts[1:]:
        joined = ast.BinOp(joined, ast.BitAnd(), part)
    return joined
