"""Numbers of elements as a reader would write them: Inductor multiplies every product of sums out."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy  # type: ignore[import-untyped]


def formula(text: str) -> Any:
    """Python arithmetic of sizes for sympy: every name is a whole number from one on."""
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} - {"min", "max"}
    symbols: dict[str, Any] = {n: sympy.Symbol(n, integer=True, positive=True) for n in names}
    return sympy.sympify(text, locals={**symbols, "min": sympy.Min, "max": sympy.Max})


@cache
def factored(text: str) -> str:
    """The same sum of products as a product, where it is one: `(width - 2) * (height - 2)`."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return text
    if any(isinstance(part, ast.FloorDiv | ast.Mod | ast.Call) for part in ast.walk(node)):
        return text
    shorter = ast.unparse(ast.parse(str(sympy.factor(formula(text))), mode="eval").body)
    return shorter if len(shorter) < len(ast.unparse(node)) else text


@dataclass(frozen=True)
class Count:
    """A formula as a polynomial of one ring, where every name is one more than a number from zero on."""

    polynomial: Any
    bounded: bool
    """Whether all that is no name in it, as a quotient that is rounded down, is known to be zero at least."""

    def is_never_less(self, other: Count) -> bool:
        """Whether it is as large as the other for all sizes: where that shows in the coefficients of the difference.

        False says nothing: a difference with a negative coefficient may be positive all the same.
        """
        if not (self.bounded and other.bounded):
            return bool(self.polynomial == other.polynomial)
        return all(number >= 0 for number in (self.polynomial - other.polynomial).coeffs())


def counts(texts: Sequence[str]) -> list[Count]:
    """The formulas, to be compared with one another."""
    formulas = [formula(text) for text in texts]
    names = sorted({name for one in formulas for name in one.free_symbols}, key=str)
    beyond = {name: sympy.Symbol(f"{name}_", integer=True, nonnegative=True) for name in names}
    shifted = [one.xreplace({name: more + 1 for name, more in beyond.items()}) for one in formulas]
    parts: dict[Any, Any] = {}
    opened = [_with_symbols(one, parts) for one in shifted]
    ring = sympy.ring([*beyond.values(), *parts.values()], sympy.QQ)[0]
    below = {symbol for part, symbol in parts.items() if not part.is_nonnegative}
    return [Count(ring.from_expr(one), not one.free_symbols & below) for one in opened]


def _with_symbols(expression: Any, parts: dict[Any, Any]) -> Any:
    """With a symbol for each part that is no sum, product or power of names; the same for the same part."""
    if expression.is_Symbol or expression.is_Rational:
        return expression
    whole = expression.is_Pow and expression.exp.is_Integer and expression.exp > 0
    if expression.is_Add or expression.is_Mul:
        return expression.func(*(_with_symbols(part, parts) for part in expression.args))
    if whole:
        return _with_symbols(expression.base, parts) ** expression.exp
    return parts.setdefault(expression, sympy.Dummy(f"part{len(parts)}"))
