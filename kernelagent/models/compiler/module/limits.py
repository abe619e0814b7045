"""Lines of the host that refuse sizes for which a program was not made, where its sizes are variables.

Tracing takes more for granted than the shapes of the inputs say: that a sequence is no longer than a table,
that a width is a multiple of the number of heads. And the kernels count elements in 32 bits unless the
given sizes need more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from kernelagent.models.compiler.capturing.capture import Captured
from kernelagent.models.compiler.module.spelling import spelled
from kernelagent.models.compiler.program.algebra import Count, counts, factored
from kernelagent.models.compiler.program.numbers import number
from kernelagent.models.compiler.program.program import Allocate, Program, Size

COUNTABLE = "_require_countable"
"""A function of the file: it raises where one of these numbers of elements is too large."""
_COUNTED = 1 << 31
"""Elements from which on 32 bits do not count them."""


def limit_lines(captured: Captured, program: Program, hosts: Mapping[str, str]) -> list[str]:
    """Statements that raise; none where every size is a number."""
    known = captured.sizes
    lines: list[str] = []
    for text, most in known.most:
        if most < _COUNTED - 1:
            size = _host(text, hosts)
            lines += raising(f"{size} > {most}", f"{size} may be {most} at most")
    for text, divisor in known.multiples:
        size = _host(text, hosts)
        factor = size if size.isidentifier() else f"({size})"
        lines += raising(f"{factor} % {divisor}", f"{size} must be a multiple of {divisor}")
    numbers = [_host(factored(text), hosts) for text in largest(list(_counted(captured, program)))]
    return [*lines, f"{COUNTABLE}({', '.join(numbers)})"] if numbers else lines


def raising(condition: str, words: str) -> list[str]:
    """An `if` that refuses."""
    return [f"if {condition}:", f'    raise ValueError("{words}")']


def _host(text: str, hosts: Mapping[str, str]) -> str:
    return spelled(ast.parse(text, mode="eval").body, hosts)


def _counted(captured: Captured, program: Program) -> Iterator[str]:
    """Numbers of elements that vary, of tensors that are counted in 32 bits at the given sizes."""
    known = captured.sizes
    named = {step.name: step.value for step in program.steps if isinstance(step, Size)}
    shapes = [[ast.parse(size, mode="eval").body for size in shape] for shape in known.shapes]
    shapes += [list(step.shape) for step in program.steps if isinstance(step, Allocate)]
    counts = [ast.unparse(_product([_resolved(n, named, known.full) for n in s])) for s in shapes]
    counts += [text for text, most in known.most if most == _COUNTED - 1]
    for text in dict.fromkeys(counts):
        node = ast.parse(text, mode="eval").body
        varies = any(isinstance(part, ast.Name) for part in ast.walk(node))
        if varies and number(node, known.full, "this module") < _COUNTED:
            yield text


def _product(sizes: Sequence[ast.expr]) -> ast.expr:
    product: ast.expr = ast.Constant(1)
    for size in sizes:
        if isinstance(product, ast.Constant) and product.value == 1:
            product = size
        elif not (isinstance(size, ast.Constant) and size.value == 1):
            product = ast.BinOp(product, ast.Mult(), size)
    return product


def _resolved(
    node: ast.expr, named: Mapping[str, ast.expr], symbols: Mapping[str, int]
) -> ast.expr:
    """The size in terms of the program's symbols alone."""

    class Resolved(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            if name.id in symbols or name.id not in named:
                return name
            copy = ast.parse(ast.unparse(named[name.id]), mode="eval").body
            changed: ast.expr = self.visit(copy)
            return changed

    copy = ast.parse(ast.unparse(node), mode="eval").body
    resolved: ast.expr = Resolved().visit(copy)
    return resolved


def largest(texts: Sequence[str]) -> list[str]:
    """Without those that another is never less than."""
    left: list[tuple[str, Count]] = []
    for text, count in zip(texts, counts(texts), strict=True):
        if any(other.is_never_less(count) for _, other in left):
            continue
        left = [(kept, other) for kept, other in left if not count.is_never_less(other)]
        left.append((text, count))
    return [text for text, _ in left]
