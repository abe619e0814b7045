"""Numbers of elements as a reader would write them: Inductor multiplies every product of sums out."""

from __future__ import annotations

import ast
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


def is_never_less(first: Any, other: Any) -> bool:
    """Whether one formula is the other times a number of one or more, and sizes; or the other and more sizes."""
    if first.is_polynomial() and other.is_polynomial():
        more = sympy.Poly(first - other, *(first.free_symbols | other.free_symbols))
        if all(coefficient >= 0 for coefficient in more.coeffs()):
            return True
    factor, rest = sympy.cancel(first / other).as_coeff_Mul()
    powers = rest.as_powers_dict() if rest != 1 else {}
    return bool(factor >= 1) and all(
        base.is_Symbol and exponent.is_positive for base, exponent in powers.items()
    )
