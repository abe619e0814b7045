"""Where a text on the host decides by what a tensor holds, as far as it can be read."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.following.names import Kept, Names, Scope
from kernelagent.tools.source_text import written

_ANSWERS = frozenset(
    "all any isnan isinf isfinite eq ne lt gt le ge isclose count_nonzero logical_not logical_and logical_or".split()
)
"""Methods, and functions of torch, whose results are asked with `if`, `bool` and the like."""
_NUMBERS = frozenset("sum mean amax amin norm argmax argmin std var prod median max min".split())
_ASKING = frozenset({"bool", "float", "int", "complex"})
_AT_ONCE = 8
"""Names that are followed from one to the next."""


def is_read(node: ast.AST, names: Names, scope: Scope) -> bool:
    """Whether this statement or expression asks for the values of a tensor to decide by them."""
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            return _is_answer(node.test, names, scope)
        case ast.comprehension():
            return any(_is_answer(test, names, scope) for test in node.ifs)
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _ASKING:
            return scope.home(name) is None and _is_answer(argument, names, scope)
    return False


def _is_answer(node: ast.expr, names: Names, scope: Scope, left: int = _AT_ONCE) -> bool:
    if not left:
        return False
    match node:
        case ast.UnaryOp():
            return _is_answer(node.operand, names, scope, left)
        case ast.BoolOp():
            return any(_is_answer(value, names, scope, left) for value in node.values)
        case ast.BinOp():
            return any(_is_answer(side, names, scope, left) for side in (node.left, node.right))
        case ast.Compare():
            return any(_is_number(side, names, scope) for side in (node.left, *node.comparators))
        case ast.Call(func=ast.Attribute(attr=name) as called):
            if _is_of_numbers(called, names, scope):
                return False
            return name in _ANSWERS or (name in _NUMBERS and _is_number(node, names, scope))
        case ast.Subscript():
            return _is_number(node, names, scope)
        case ast.Name():
            home = scope.home(node.id)
            bindings = home.bindings[node.id] if home is not None else ()
            return any(
                _is_answer(b, names, home, left - 1)
                for b in bindings
                if home is not None and isinstance(b, ast.expr) and not isinstance(b, Kept)
            )
    return False


def _is_number(node: ast.expr, names: Names, scope: Scope) -> bool:
    """Something made of the elements of an argument of the forward."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=base) as called):
            if _is_of_numbers(called, names, scope):
                return False
            return name in _NUMBERS | _ANSWERS and not isinstance(base, ast.Constant)
        case ast.Subscript(value=ast.Name(id=name)):
            home = scope.home(name)
            return home is not None and _is_tensor_parameter(name, home.node)
        case ast.Subscript(value=ast.Subscript() as inner):
            return _is_number(inner, names, scope)
        case ast.BinOp():
            return _is_number(node.left, names, scope) or _is_number(node.right, names, scope)
    return False


def _is_of_numbers(node: ast.expr, names: Names, scope: Scope) -> bool:
    """A function of a module that knows no tensors: `math.isfinite`."""
    paths = names.paths(node, scope)
    return bool(paths) and not any(path.startswith("torch.") for path in paths)


def _is_tensor_parameter(name: str, function: ast.AST) -> bool:
    if not (isinstance(function, ast.FunctionDef) and function.name == "forward"):
        return False
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    hints = [written(a.annotation) for a in every if a.arg == name and a.annotation is not None]
    return name in [a.arg for a in every[1:]] and all("Tensor" in hint for hint in hints)
