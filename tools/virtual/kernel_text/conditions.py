"""Finds the conditions in a kernel's text, so that which way each comes out is noted.

A condition is a comparison, what `&`, `|`, `^`, `and` and `or` make of several, and whatever `if`, `while` and
`tl.where` ask. Data decide it where something that was loaded or a fraction is in it, places and sizes where not.
Of several that are joined each is one by itself as well; which of them decided is noted when they run (`joined`).
A loop that waits for another program is one like others: where programs take turns, it both waits and goes on.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

from kernelagent.tools.source_text import written
from kernelagent.tools.virtual.interpreter.loops import call
from kernelagent.tools.virtual.kernel_text.branches import Constants
from kernelagent.tools.virtual.kernel_text.lines import NAME
from kernelagent.tools.virtual.kernel_text.loaded import (
    LOADS,
    Shown,
    bindings,
    functions_that_load,
    has_data,
    is_own,
    name_of,
    names_with_data,
)
from kernelagent.tools.virtual.kernel_text.omissions import COMPARED

_ASSERTED = frozenset({"device_assert", "static_assert", "assume"})
_KEEP_THEIR_SIZE = frozenset(
    "load max min maximum minimum where abs sum dot broadcast_to expand_dims reshape trans permute view cast zeros full "
    "float arange program_id".split()
)
"""Functions and methods whose results are infinite, or no number, where what they are given is."""
_WIDE = ("float32", "float64", "int32", "int64")
_TAKEN_IN = frozenset({"join", "cat", "interleave"})
"""Functions that put their operands beside others."""
_GIVEN_BY_NAME = frozenset({"other", "val"})
"""What a load leaves in lanes that its mask switches off, which a sum takes in with the rest; what an atomic adds."""
_MASK_AT = {"load": 1, "store": 2, "atomic_": 2}
"""Which argument is an access's mask, where it is not given by name; of a swap, which has none, it is a number."""
_LARGE = 1e4
_COUNTING = frozenset({"program_id", "num_programs", "arange", "cdiv", "range", "to"})
"""Functions of places and sizes."""
_NO_NUMBERS = frozenset({"inf", "infinity", "nan"})


def mark(
    function: ast.FunctionDef,
    first_line: int,
    scope: Mapping[str, Any] = MappingProxyType({}),
    given: frozenset[str] = frozenset(),
    constants: Constants = MappingProxyType({}),
) -> None:
    """Put a call of `Logic.chosen` or `Logic.asked` around each condition, in place.

    `first_line`: of the text, in its file; `scope`: what the names around the function stand for, as far as known;
    `given`: its parameters that are called with what was loaded; `constants`: those that are compiled in.
    """
    marker = _Marker(function, first_line, scope, given, constants)
    function.body = [marker.visit(statement) for statement in function.body]


class _Marker(ast.NodeTransformer):
    def __init__(
        self,
        function: ast.FunctionDef,
        first_line: int,
        scope: Mapping[str, Any],
        given: frozenset[str],
        constants: Constants,
    ) -> None:
        self._bound = list(bindings(function, constants))
        self._loaded = names_with_data(self._bound, functions_that_load(scope) | given)
        self._first_line = first_line
        self._scope = scope
        self._shown = Shown()
        self._within = False
        """Whether what is visited is an operand of a join that is noted as a whole."""
        self._counts_up = False
        """Whether it is the test of a `while`, which goes on until a number is there."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._marked(node, joins=False)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        joins = any(map(is_condition, node.values))
        return self._marked(node, joins=True) if joins else self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        sides = node.left, node.right
        differs = isinstance(node.op, ast.BitXor) and any(map(is_condition, sides))
        joins = differs or is_condition(node)
        return self._marked(node, joins=True) if joins else self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        self._counts_up, before = True, self._counts_up
        node.test = self._asked(node.test)
        self._counts_up = before
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        if isinstance(node.iter, ast.Call):
            node.iter.args = [self._or_zero(part) for part in node.iter.args]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        node.test = self._asked(node.test)
        node.body = [self.visit(statement) for statement in node.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._asked(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test = self._asserted(node.test)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self._is_asserted(node.func):
            if node.args and name_of(node.func) not in ("static_assert", "assume"):
                node.args[0] = self._asserted(node.args[0])
            return node
        within, self._within = self._within, False
        try:
            return self._called(node)
        finally:
            self._within = within

    def _called(self, node: ast.Call) -> ast.AST:
        name = name_of(node.func)
        if name == "arange":
            place = self._place(node)
            self.generic_visit(node)
            return ast.copy_location(call("lanes", [*place, node]), node)
        if name != "where":
            self._take_in(node)
            self._masked(node)
            return self.generic_visit(node)
        node.args = [
            self.visit(part) if i else self._asked(part) for i, part in enumerate(node.args)
        ]
        for keyword in node.keywords:
            asks = keyword.arg == "condition"
            keyword.value = self._asked(keyword.value) if asks else self.visit(keyword.value)
        return node

    def _take_in(self, node: ast.Call) -> None:
        """Numbers that come into a result by no arithmetic: where they are always zero, nobody saw what they do."""
        name = name_of(node.func)
        atomic = name.startswith("atomic_")
        if name in _TAKEN_IN or atomic or name in LOADS:
            first = 0 if name in _TAKEN_IN else 1
            node.args[first:] = [self._or_zero(part) for part in node.args[first:]]
            for keyword in node.keywords:
                if keyword.arg in _GIVEN_BY_NAME:
                    keyword.value = self._or_zero(keyword.value)

    def _masked(self, node: ast.Call) -> None:
        """What an access takes for its mask is asked there, by whatever name and of whatever it was joined."""
        name = name_of(node.func)
        place = _MASK_AT.get("atomic_" if name.startswith("atomic_") else name)
        if place is None:
            return
        if len(node.args) > place and not isinstance(node.args[place], ast.Starred):
            node.args[place] = self._used(node.args[place])
        for keyword in node.keywords:
            if keyword.arg == "mask":
                keyword.value = self._used(keyword.value)

    def _used(self, node: ast.expr) -> ast.expr:
        if is_condition(node) or not has_data(node, self._loaded):
            return node
        return ast.copy_location(call("used", [*self._place(node), node]), node)

    def _or_zero(self, node: ast.expr) -> ast.expr:
        """What is told only where it never is another number than zero."""
        if isinstance(node, ast.Starred) or is_condition(node) or not has_data(node, self._loaded):
            return node
        return self._reported("asked", node, self._place(node), by_data=False)

    def _is_asserted(self, called: ast.expr) -> bool:
        """Whether it is one of the language's, not a function of the text's of the same name."""
        if isinstance(called, ast.Name):
            value = self._scope.get(called.id)
            module = str(getattr(value, "__module__", ""))
            return getattr(value, "__name__", "") in _ASSERTED and module.startswith("triton.")
        if not isinstance(called, ast.Attribute):
            return False
        base = called.value
        of = self._scope.get(base.id) if isinstance(base, ast.Name) else None
        return called.attr in _ASSERTED and (of is None or isinstance(of, ModuleType))

    def _asked(self, node: ast.expr) -> ast.expr:
        """What is asked whether it is true or not zero."""
        known = self._is_truth(node, frozenset()) or self._is_of_infinity(node)
        if known or not has_data(node, self._loaded):
            visited: ast.expr = self.visit(self._used(node) if known else node)
            return visited
        place = self._place(node)
        return self._reported("asked", self.visit(node), place, by_data=True)

    def _asserted(self, node: ast.expr) -> ast.expr:
        """What ends all that a program has on the GPU where it does not hold, in a kernel that is compiled so."""
        by_data = has_data(node, self._loaded)
        return self._reported("asserted", node, self._place(node), by_data=by_data)

    def _is_truth(self, node: ast.expr, seen: frozenset[str]) -> bool:
        """Whether it is made of conditions, which are noted where they stand, and of what was loaded, as a mask is."""
        node = _unmarked(node)
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.UnaryOp(op=ast.Invert()):
                return self._is_truth(node.operand, seen)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
                return all(self._is_truth(side, seen) for side in (node.left, node.right))
            case ast.Subscript():
                return self._is_truth(node.value, seen)
            case ast.Name():
                bound = [value for names, value in self._bound if node.id in names]
                inner = seen | {node.id}
                return node.id in seen or all(self._is_truth(value, inner) for value in bound)
        return _is_loaded(node)

    def _marked(self, node: ast.expr, *, joins: bool) -> ast.AST:
        """`joins`: it is one of several conditions, of which each comparison is noted, and none of the joins in it."""
        compared = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
        if compared and all(map(self._is_of_infinity, compared)):
            # Infinities and NaN are inputs of their own, and what differs there is told by itself.
            return node
        within, self._within = self._within, joins
        by_data = has_data(node, self._loaded) or _is_no_mask(node)
        if within and isinstance(node, ast.Compare) and self._bounds_places(node):
            by_data = False
        place = self._place(node)
        self.generic_visit(node)
        if isinstance(node, ast.Compare) and not has_data(node, self._loaded):
            self._border(node, place)
        self._within = within
        noted = not (joins and within)
        return self._reported("chosen", node, place, by_data=by_data) if noted else node

    def _border(self, node: ast.Compare, place: Sequence[ast.expr]) -> None:
        """Have a comparison of places and sizes, of one bound, hold in fewer places where that is asked."""
        (compared, *others) = (type(op).__name__ for op in node.ops)
        if others or compared not in COMPARED or (compared == "NotEq" and not self._counts_up):
            return
        bound = node.comparators[0]
        bordered = call("border", [*place, ast.Constant(compared), bound])
        node.comparators = [ast.copy_location(bordered, bound)]

    def _bounds_places(self, node: ast.Compare) -> bool:
        """Whether it holds places against sizes that lie in memory, as `tile >= first and tile < first + tiles` does.

        Beside another condition such a bound may hold everywhere, as a mask may. No number that could be a rare one
        gets there: nothing but sums, differences and multiples of what lies in memory.
        """
        sides = [node.left, *node.comparators]
        of_data = [has_data(side, self._loaded) for side in sides]
        if any(isinstance(side, ast.Constant) for side in sides):
            return False
        ordered = all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        return (
            ordered
            and any(of_data)
            and not all(of_data)
            and all(self._counts(part) for side in sides for part in self._behind(side))
        )

    def _counts(self, node: ast.expr) -> bool:
        """Whether it is, by its form, a place, a size, or made of such by sums, differences and multiples."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int)
        if isinstance(node, ast.BinOp):
            of_data = [has_data(side, self._loaded) for side in (node.left, node.right)]
            multiplies = isinstance(node.op, ast.Mult | ast.FloorDiv)
            return isinstance(node.op, ast.Add | ast.Sub) or (multiplies and not all(of_data))
        if isinstance(node, ast.Call):
            return name_of(node.func) in _COUNTING and not node.keywords
        return isinstance(node, ast.Subscript | ast.Slice | ast.Tuple | ast.Name | ast.Attribute)

    def _place(self, node: ast.expr) -> list[ast.expr]:
        """Line and text of a node into which nothing has been put yet."""
        return [ast.Constant(node.lineno + self._first_line - 1), ast.Constant(self._shown(node))]

    def _reported(
        self, name: str, node: ast.expr, place: Sequence[ast.expr], *, by_data: bool
    ) -> ast.expr:
        return ast.copy_location(call(name, [*place, ast.Constant(by_data), node]), node)

    def _is_of_infinity(self, node: ast.expr) -> bool:
        """Whether it comes out otherwise only where an input is infinite or no number, as far as the text shows."""
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            same = len({ast.dump(side) for side in sides}) == 1
            return (same or any(map(_is_infinity, sides))) and all(map(self._stays_finite, sides))
        asks = isinstance(node, ast.Call) and name_of(node.func) in ("isnan", "isinf", "isfinited")
        return asks and isinstance(node, ast.Call) and all(map(self._stays_finite, node.args))

    def _stays_finite(self, node: ast.expr) -> bool:
        """Whether no ordinary number is made infinite on the way there: by a large factor, a division, an exponential."""
        waiting: list[ast.AST] = [node]
        seen: set[str] = set()
        while waiting:
            part = _unmarked(waiting.pop())
            if isinstance(part, ast.Compare):
                continue
            if isinstance(part, ast.Name) and part.id not in seen:
                seen.add(part.id)
                waiting += [value for names, value in self._bound if part.id in names]
            elif isinstance(part, ast.Call):
                name = "" if self._calls_own(part) else name_of(part.func)
                if name in ("load", "float"):
                    continue
                if name not in _KEEP_THEIR_SIZE and not _widens(part):
                    return False
            elif isinstance(part, ast.BinOp) and not self._is_moderate(part):
                return False
            waiting += ast.iter_child_nodes(part)
        return True

    def _calls_own(self, node: ast.Call) -> bool:
        """Whether it calls a function of the text's own, whatever its name."""
        return isinstance(node.func, ast.Name) and is_own(self._scope.get(node.func.id))

    def _is_moderate(self, node: ast.BinOp) -> bool:
        left, right = (set(self._behind(side)) for side in (node.left, node.right))
        if isinstance(node.op, ast.Add | ast.Sub):
            # Doubled often enough, everything is infinite.
            given = [names for names, value in self._bound if node in ast.walk(value)]
            of_both = {name_of(n) for n in left} & {name_of(n) for n in right}
            return ast.dump(node.left) != ast.dump(node.right) and not any(
                names & of_both for names in given
            )
        if not isinstance(node.op, ast.Mult):
            return not isinstance(node.op, ast.Div | ast.Pow)
        constants = [n.value for n in left | right if isinstance(n, ast.Constant)]
        of_data = [any(has_data(n, self._loaded) for n in side) for side in (left, right)]
        return not all(of_data) and not any(map(_is_large, constants))

    def _behind(self, node: ast.expr) -> Iterator[ast.expr]:
        """All expressions that one is made of, also by names; not those of addresses."""
        waiting: list[ast.AST] = [node]
        seen: set[str] = set()
        while waiting:
            part = _unmarked(waiting.pop())
            loads = isinstance(part, ast.Call) and name_of(part.func) in LOADS
            if loads:
                continue
            if isinstance(part, ast.expr):
                yield part
            if isinstance(part, ast.Name) and part.id not in seen:
                seen.add(part.id)
                waiting += [value for names, value in self._bound if part.id in names]
            waiting += ast.iter_child_nodes(part)


def _unmarked(node: Any) -> Any:
    """What a call of `Logic` that was put there is about."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of = node.func.value
        if not (isinstance(of, ast.Name) and of.id == NAME and node.args):
            break
        node = node.args[-1]
    return node


def is_condition(node: ast.expr) -> bool:
    """By its form; whether it is one shows when it is computed."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not | ast.Invert) and is_condition(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr)
    return isinstance(node, ast.Compare | ast.BoolOp)


def _widens(node: ast.Call) -> bool:
    """Whether it is made a number of at least the range of 32 bits, and its bits are not taken for another's."""
    kinds = [part for part in node.args if written(part).endswith(_WIDE)]
    return name_of(node.func) == "to" and len(kinds) == len(node.args) == 1 and not node.keywords


def _is_loaded(node: ast.expr) -> bool:
    """Whether it is what lies at an address, in whatever type and shape."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Call):
        return False
    if name_of(node.func) in LOADS:
        return True
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    return method and isinstance(node.func, ast.Attribute) and _is_loaded(node.func.value)


def _is_infinity(node: ast.expr) -> bool:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and name_of(part.func) == "float":
            texts = [a.value for a in part.args if isinstance(a, ast.Constant)]
            return any(str(text).strip("+- ").lower() in _NO_NUMBERS for text in texts)
    return False


def _is_large(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    size = abs(value)
    return size >= _LARGE or (isinstance(value, float) and math.isinf(value))


def _is_no_mask(node: ast.AST) -> bool:
    """Places and sizes are whole numbers."""
    return any(isinstance(p, ast.Constant) and isinstance(p.value, float) for p in ast.walk(node))
