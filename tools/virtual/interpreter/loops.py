"""Python's loops and logic in a kernel, as the compiler has them: indices and conditions are tensors."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from kernelagent.tools.source_text import written
from kernelagent.tools.virtual.arithmetic.numerics import Array
from kernelagent.tools.virtual.compiled.code_regions import Side
from kernelagent.tools.virtual.kernel_text import joined
from kernelagent.tools.virtual.kernel_text.choices import Choice
from kernelagent.tools.virtual.kernel_text.effects import Effects
from kernelagent.tools.virtual.kernel_text.lines import NAME, frame_now
from kernelagent.tools.virtual.kernel_text.omissions import Omits
from kernelagent.tools.virtual.kernel_text.steps import Position, Step, steps_of

"""What rewritten kernels call these by."""


_AS_THEY_ARE = (bool, int, float, str, type(None), tl.dtype, JITFunction)
"""Kinds of constants that no `tl.constexpr` is around."""


class Unset:
    """What a name holds that has no value: whatever is computed with it fails."""

    def _fail(self, *_: Any) -> Any:
        raise NameError(
            "a name is used that has no value here: what a loop over a range leaves in its index is "
            "undefined on a GPU"
        )

    __bool__ = __int__ = __index__ = __neg__ = __invert__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _fail
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _fail
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _fail
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _fail
    __lt__ = __le__ = __gt__ = __ge__ = _fail

    def __eq__(self, other: object) -> bool:
        return bool(self._fail())

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._fail()


UNSET = Unset()


def counted(*arguments: Any, **_: Any) -> Any:
    """What `tl.range` is in a kernel; only `for` loops know what to do with it."""
    return builtins.range(*(int(item) for item in arguments))


def static(start: Any, end: Any = None, step: Any = None) -> Any:
    """What `tl.static_range` is: its indices are compile-time numbers."""
    first, last = (0, start) if end is None else (start, end)
    return builtins.range(int(first), int(last), 1 if step is None else int(step))


def is_counted(kind: Any) -> bool:
    """Whether a loop over `kind(...)` counts at run time."""
    return kind is builtins.range or kind is counted


def bounds_of(semantic: Any, *arguments: Any, **options: Any) -> tuple[list[Any], Any]:
    """Arrays of start, stop and step, and the type of the index, for the arguments of a range."""
    names = ("arg1", "arg2", "step")
    given = list(arguments) + [options[n] for n in names[len(arguments) :] if n in options]
    given = [item for item in given if item is not None and not _is_none(item)]
    if "step" in options and len(given) == 2 and len(arguments) == 1:
        given = [0, *given]
    if len(given) == 1:
        given = [0, given[0], 1]
    elif len(given) == 2:
        given = [*given, 1]
    tensors = [semantic.to_tensor(item) for item in given]
    if isinstance(given[2], tl.tensor) and (given[2].handle.data <= 0).any():
        raise ValueError(
            "a loop's step that is known at run time only must be positive: compiled code counts upwards"
        )
    kind = tensors[0].dtype
    for item in tensors[1:]:
        kind = semantic.integer_promote_impl(kind, item.dtype)
    return [item.handle.data for item in tensors], kind


def _first(data: Array) -> Any:
    return data.reshape(-1)[0]


def _is_none(value: Any) -> bool:
    return isinstance(value, tl.constexpr) and value.value is None


class Logic(Effects, Omits):
    """What rewritten kernels ask, program by program."""

    unset = UNSET
    counts = staticmethod(is_counted)

    def __init__(self, semantic: Any) -> None:
        self.semantic = semantic

    def each(
        self, line: int, text: str, kind: Any, *arguments: Any, **options: Any
    ) -> Iterator[Any]:
        """The indices of a `for` over a range, as tensors unless they are compile-time numbers.

        `line`, `text`: of the loop; 0 in Triton's own functions.
        """
        if not is_counted(kind):
            yield from self.rounds(line, text, kind(*arguments, **options))
            return
        parts, dtype = bounds_of(self.semantic, *arguments, **options)
        self.semantic.builder.goes_round_by(*self.bounds_held(arguments, options))
        width = stock._get_np_dtype(dtype)
        number = self.semantic.builder.decides or _first
        indices = builtins.range(*(int(number(item)) for item in parts))
        for value in self.rounds(line, text, indices):
            self.semantic.builder.step("round")
            yield tl.tensor(stock.TensorHandle(np.array([value], dtype=width), dtype), dtype)

    def bounds_held(self, arguments: Any, options: Any) -> list[Any]:
        """The handles among the arguments of a range."""
        given = [*arguments, *options.values()]
        return [item.handle for item in given if isinstance(item, tl.tensor)]

    def both(self, *values: Callable[[], Any]) -> Any:
        """`a and b and ...`"""
        return self._joined(values, stops_at=False, join=lambda a, b: a.logical_and(b))

    def either(self, *values: Callable[[], Any]) -> Any:
        """`a or b or ...`"""
        return self._joined(values, stops_at=True, join=lambda a, b: a.logical_or(b))

    def chosen(self, line: int, text: str, by_data: bool, value: Any) -> Any:
        """The value of a condition; the builder notes which way it came out, and which of its operands decide that."""
        if isinstance(value, tl.tensor):
            builder = self.semantic.builder
            builder.chosen(Choice(line, text, by_data), value.handle.data)
            joined.look(builder, line, text, value.handle)
            if by_data:
                joined.begin(builder, value.handle, line, text)
        return value

    def used(self, line: int, text: str, value: Any) -> Any:
        """What was a condition where it was computed, or was joined of such by other names."""
        if isinstance(value, tl.tensor):
            joined.look(self.semantic.builder, line, text, value.handle)
        return value

    def asked(self, line: int, text: str, by_data: bool, value: Any) -> Any:
        """The same of a number that is asked whether it is not zero."""
        if isinstance(value, tl.tensor):
            data = value.handle.data != 0
            self.semantic.builder.chosen(Choice(line, text, by_data), data)
            if by_data:
                joined.look(self.semantic.builder, line, text, value.handle)
        return value

    def asserted(self, line: int, text: str, by_data: bool, value: Any) -> Any:
        """The same of what a kernel asserts, where its assertions are compiled in."""
        if self.semantic.builder.options.debug:
            return self.asked(line, text, by_data, value)
        return value

    def bound(self, value: Any) -> Any:
        """What an annotated assignment or a `:=` binds: of a number a tensor, as a plain assignment does."""
        return self.semantic.to_tensor(value, False)

    def constant(self, held: Any) -> Any:
        """`held.value`: what the compiler has in a `tl.constexpr` stands here as it is."""
        return held if isinstance(held, _AS_THEY_ARE) else held.value

    def choose(self, test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        """`body() if test else orelse()`, a tensor where the test is one."""
        value = body() if test else orelse()
        return self.semantic.to_tensor(value) if isinstance(test, tl.tensor) else value

    def again(self, test: Any) -> Any:
        """The condition of a `while`, asked for each of its rounds."""
        self.semantic.builder.step("round")
        if isinstance(test, tl.tensor):
            self.semantic.builder.goes_round_by(test.handle)
            self.semantic.builder.flow.waits_for_others(test.handle)
        return test

    def passed(self, first: int, last: int, side: Side) -> None:
        """The programs that run begin a loop's round, or one side of an `if`, whose head has these lines."""
        self.semantic.builder.passed(first, last, side)

    def scope(self) -> dict[str, Any]:
        """Python's functions that the compiler knows as Triton's."""
        return {"min": self.smallest, "max": self.largest, "print": self.printed}

    def smallest(self, *values: Any) -> Any:
        """`min`, of tensors as `tl.minimum`."""
        if any(isinstance(item, tl.tensor) for item in values):
            return tl.minimum(*values)
        return min(*values)

    def largest(self, *values: Any) -> Any:
        """`max`, of tensors as `tl.maximum`."""
        if any(isinstance(item, tl.tensor) for item in values):
            return tl.maximum(*values)
        return max(*values)

    def printed(self, *values: Any, **options: Any) -> None:
        """`print`"""
        print(*values, **options)  # noqa: T201 - what the kernel prints goes into its launch's log

    def negated(self, value: Any) -> Any:
        """`not value`"""
        if isinstance(value, tl.tensor):
            return self.semantic.not_(value)
        return not value

    def _joined(
        self,
        values: tuple[Callable[[], Any], ...],
        *,
        stops_at: bool,
        join: Callable[[Any, Any], Any],
    ) -> Any:
        """Tensors are all computed and combined; only compile-time values cut the chain short."""
        tensors: list[Any] = []
        for make in values:
            value = make()
            if isinstance(value, tl.tensor):
                tensors.append(value)
            elif bool(value) is stops_at:
                return value
        if not tensors:
            return value
        result = tensors.pop()
        while tensors:
            result = join(tensors.pop(), result)
        return result


@dataclass(frozen=True)
class Shown:
    """Statements as they were written, before anything is put into them, by their places."""

    loops: Mapping[Position, str] = field(default_factory=dict)
    """What each goes over."""
    steps: Mapping[Position, Step] = field(default_factory=dict)


def as_written(function: ast.FunctionDef) -> Shown:
    """Of a kernel's own text."""
    loops = {
        (node.lineno, node.col_offset): written(node.iter)
        for node in ast.walk(function)
        if isinstance(node, ast.For)
    }
    return Shown(loops, steps_of(function))


class LogicRewriter(ast.NodeTransformer):
    """Puts calls of `Logic` into a kernel's text; `line`: of the `def` in its file, None for Triton's own functions.

    `shown`: its statements, as they were written.
    """

    def __init__(self, line: int | None = None, shown: Shown | None = None) -> None:
        self._shown = shown or Shown()
        self._before = None if line is None else line - 1
        self._constants: set[str] = set()
        """Names whose next assignment binds a number as it is: they were declared `tl.constexpr`."""

    def _noted(self, node: ast.For | ast.While | ast.If, side: Side) -> None:
        """That one side of the statement was begun."""
        statements = node.orelse if side == "else" else node.body
        if self._before is None or not statements:
            return
        last = max(node.lineno, node.body[0].lineno - 1)
        lines: list[ast.expr] = [ast.Constant(n + self._before) for n in (node.lineno, last)]
        note = ast.Expr(call("passed", [*lines, ast.Constant(side)]))
        statements.insert(0, ast.copy_location(note, statements[0]))

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        self._noted(node, "then")
        self._noted(node, "else")
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        self._noted(node, "loop")
        if not isinstance(node.iter, ast.Call):
            return node
        kind = node.iter.func
        line = 0 if self._before is None else node.lineno + self._before
        text = self._shown.loops.get((node.lineno, node.col_offset), "")
        place: list[ast.expr] = [ast.Constant(line), ast.Constant(text)]
        node.iter = call("each", [*place, kind, *node.iter.args], node.iter.keywords)
        nothing = ast.Attribute(ast.Name(NAME, ast.Load()), "unset", ast.Load())
        forget = ast.Assign([copy.deepcopy(node.target)], nothing)
        after = ast.If(call("counts", [copy.deepcopy(kind)]), [forget], [])
        return [node, ast.copy_location(after, node)]

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        self._noted(node, "loop")
        node.test = ast.copy_location(call("again", [node.test]), node.test)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        target, made = node.targets[0], node.value
        if isinstance(target, ast.Name) and target.id in self._constants:
            self._constants.remove(target.id)
            # Triton's own rewriting has put the value into a call that makes a tensor of it.
            assert isinstance(made, ast.Call)
            node.value = made.args[0]
            return node
        return self._kept(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if self._step_of(node) is None or not isinstance(node.target, ast.Name):
            return node
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return self._kept(ast.copy_location(ast.Assign([node.target], value), node))

    def _step_of(self, node: ast.stmt) -> Step | None:
        return self._shown.steps.get((node.lineno, node.col_offset))

    def _kept(self, node: ast.Assign) -> ast.Assign:
        """An assignment that may be left out."""
        step = self._step_of(node)
        if step is None or self._before is None:
            return node
        several = isinstance(node.targets[0], ast.Tuple)
        instead: list[ast.expr] = []
        for names in step.instead:
            read: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
            instead.append(ast.Tuple(read, ast.Load()) if several else read[0])
        place = [ast.Constant(node.lineno + self._before), ast.Constant(step.text)]
        node.value = ast.copy_location(call("kept", [*place, node.value, *instead]), node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        constant = written(node.annotation).split(".")[-1] == "constexpr"
        if node.value is not None and not constant:
            made = ast.Assign([node.target], call("bound", [node.value]))
            return self._kept(ast.copy_location(made, node))
        if node.value is None and constant and isinstance(node.target, ast.Name):
            self._constants.add(node.target.id)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = ast.copy_location(call("bound", [node.value]), node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(call("constant", [node.value]), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        named = any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))
        self.generic_visit(node)
        if named:
            # In a function of its own it would bind a name of that function's.
            return node
        sides = [deferred(node.body), deferred(node.orelse)]
        return ast.copy_location(call("choose", [node.test, *sides]), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
            return node
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        return ast.copy_location(call(name, [deferred(item) for item in node.values]), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.copy_location(call("negated", [node.operand]), node)
        return node


def place_now() -> str:
    """Line and column of what the rewritten text does now."""
    frame = frame_now()
    if frame is None:
        return ""
    positions = frame.f_code.co_positions()
    line, _, column, _ = next(islice(positions, frame.f_lasti // 2, None))
    return f"{line}:{column}"


def call(
    method: str, arguments: list[ast.expr], keywords: list[ast.keyword] | None = None
) -> ast.Call:
    """`__logic.method(...)`"""
    function = ast.Attribute(ast.Name(NAME, ast.Load()), method, ast.Load())
    return ast.Call(function, arguments, keywords or [])


def deferred(value: ast.expr) -> ast.Lambda:
    """`lambda: value`"""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)
