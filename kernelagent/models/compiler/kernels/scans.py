"""Running sums and products: Inductor's scan over blocks of a row as plain statements.

A block is scanned by `tl.cumsum` or `tl.cumprod`; what came before it is one number a row, its carry.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

_SCANS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("tl.cumsum", "0.0"),
    ast.Mult: ("tl.cumprod", "1.0"),
}
"""Triton's own scan, and the number that changes nothing, by what combines two values."""
_SCAN = "tl.associative_scan"
_LAST = "triton_helpers.select_one"


def operator_of(helper: ast.FunctionDef) -> ast.operator | None:
    """What a function of two values combines them by; None for anything but one plain operation."""
    match helper.body:
        case [
            ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() as value),
            ast.Return(value=ast.Name(id=returned)),
        ] if name == returned:
            given = [argument.arg for argument in helper.args.args]
            sides = [ast.unparse(side) for side in (value.left, value.right)]
            return value.op if sides == given and type(value.op) in _SCANS else None
    return None


def carried(function: ast.FunctionDef) -> list[ast.stmt]:
    """The kernel's statements with carries that begin with the number that changes nothing.

    Inductor's begin with no number and are left out of the first block by conditions, which are not needed then.
    """
    begins = _Begins(
        {
            node.left.id: type(node.op)
            for node in ast.walk(function)
            if isinstance(node, ast.BinOp)
            and isinstance(node.left, ast.Name)
            and type(node.op) in _SCANS
        }
    )
    body: list[ast.stmt] = []
    for statement in function.body:
        body.append(begins.visit(ast.parse(ast.unparse(statement)).body[0]))
    return body


class _Begins(ast.NodeTransformer):
    def __init__(self, operators: Mapping[str, type[ast.operator]]) -> None:
        self._operators = operators

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        name, value = ast.unparse(node.targets[0]), node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.full":
            shape, number, kind = value.args
            if ast.unparse(number) == "float('nan')" and name in self._operators:
                identity = _SCANS[self._operators[name]][1]
                text = f"tl.full({ast.unparse(shape)}, {identity}, {ast.unparse(kind)})"
                node.value = _parsed(text)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func) == "tl.where" and ast.unparse(node.args[0]) == "roffset > 0":
            return node.args[1]
        return node


def spelled_out(
    statement: ast.Assign, helpers: Mapping[str, ast.FunctionDef]
) -> list[ast.stmt] | None:
    """A scan of one tensor by Triton's name; None for what is no such scan."""
    value, target = statement.value, statement.targets[0]
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == _SCAN):
        return None
    values, axis, function = value.args
    operator = operator_of(helpers[ast.unparse(function)])
    item = isinstance(values, ast.Tuple) and len(values.elts) == 1
    if operator is None or not item:
        return None
    assert isinstance(values, ast.Tuple)
    assert isinstance(target, ast.Tuple)
    name = ast.unparse(target.elts[0])
    plain = _SCANS[type(operator)][0]
    return ast.parse(f"{name} = {plain}({ast.unparse(values.elts[0])}, {ast.unparse(axis)})").body


def last_of(call: ast.Call) -> ast.expr | None:
    """The element of a row that a condition selects, as a sum in which all others are zero; None for any other call."""
    if ast.unparse(call.func) != _LAST:
        return None
    values, condition = (ast.unparse(argument) for argument in call.args)
    return _parsed(f"tl.sum(tl.where({condition}, {values}, 0), 1)[:, None]")


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
