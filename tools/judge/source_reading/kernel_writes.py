"""Which parameters of a kernel or a function are written through, also by what it hands them on to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from kernelagent.tools.judge.source_reading.names import Imported, Names, Own, Scope

VIEWS: frozenset[str] = frozenset(
    "view reshape t transpose permute squeeze unsqueeze flatten expand detach select narrow as_strided view_as contiguous to chunk split "
    "multiple_of max_contiguous max_constancy make_block_ptr make_tensor_descriptor advance broadcast broadcast_to cast "
    "expand_dims unbind".split()
)
"""Methods and functions whose result shares memory with what it is made of."""
_STORES = frozenset({"store", "store_tensor_descriptor"})

Written = Mapping[str, tuple[Sequence[str], frozenset[str]]]
"""By the name of a function: its parameters as a call gives them, and those it writes through."""


def written_parameters(names: Names) -> Written:
    """Functions of one name count as one."""
    functions = [n for n in names.scopes if isinstance(n, ast.FunctionDef)]
    result: dict[str, tuple[Sequence[str], frozenset[str]]] = {
        f.name: (parameter_order(f, names), frozenset()) for f in functions
    }
    grown = True
    while grown:
        grown = False
        for function in functions:
            order, before = result[function.name]
            now = before | frozenset(_written(function, names, result))
            if now != before:
                result[function.name] = order, now
                grown = True
    return result


def handed(node: ast.Call, names: Names, scope: Scope, known: Written) -> Iterator[ast.expr]:
    """The arguments of a call that the called function of the text writes into."""
    for name in _called(node, names, scope):
        order, written = known.get(name, ((), frozenset()))
        pairs = [*zip(order, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
        yield from (value for parameter, value in pairs if parameter in written)


def _called(node: ast.Call, names: Names, scope: Scope) -> Iterator[str]:
    called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    for meaning in names.meanings(called, scope):
        if isinstance(meaning, Own) and meaning.kind in ("function", "kernel"):
            yield meaning.name
        elif isinstance(meaning, Own) and meaning.kind == "instance":
            yield "forward"
            yield "__call__"
    if isinstance(called, ast.Attribute) and called.attr == "apply":
        yield "forward"


def parameter_order(function: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> list[str]:
    """Parameters of a function as a call gives them in their places."""
    arguments = function.args
    plain = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    outer = names.scopes[function].parent
    # The object or the context comes with the call; a static forward has its context.
    bound = outer is not None and outer.kind == "class"
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    return plain[1:] if bound and (not static or function.name == "forward") else plain


def _written(function: ast.FunctionDef, names: Names, known: Written) -> Iterator[str]:
    scope = names.scopes[function]
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    for parameter in (a.arg for a in every):
        aliases = _aliases(parameter, function, names, scope)
        if any(_writes(node, aliases, names, scope, known) for node in ast.walk(function)):
            yield parameter


def _aliases(parameter: str, function: ast.FunctionDef, names: Names, scope: Scope) -> set[str]:
    result, grown = {parameter}, True
    while grown:
        grown = False
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign) and _points(
                node.value, result, names, scope
            ):
                bound = set(_bound(node))
                grown = grown or not bound <= result
                result |= bound
    return result


def _bound(node: ast.Assign | ast.AugAssign) -> Iterator[str]:
    """Names that get the value, or a part of it; `x[i] = y` gives x no new meaning."""
    targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        yield from (part.id for part in parts if isinstance(part, ast.Name))


def _points(node: ast.AST, aliases: set[str], names: Names, scope: Scope) -> bool:
    """Whether an expression is an address made from these, or shares memory with them; not what lies there."""
    names.spend()
    match node:
        case ast.Name():
            return node.id in aliases
        case ast.Call():
            called = node.func
            base = (
                called.value if isinstance(called, ast.Attribute) and called.attr in VIEWS else None
            )
            if base is not None and _points(base, aliases, names, scope):
                return True
            meanings = names.meanings(called, scope)
            shares = any(
                isinstance(m, Own)
                or (isinstance(m, Imported) and m.path.rpartition(".")[2] in VIEWS)
                for m in meanings
            )
            return shares and any(_points(a, aliases, names, scope) for a in node.args)
        case ast.Attribute():
            return node.attr in ("data", "T", "mT") and _points(node.value, aliases, names, scope)
        case ast.Subscript():
            return _points(node.value, aliases, names, scope)
        case ast.BinOp():
            is_sum = isinstance(node.op, ast.Add | ast.Sub)
            return is_sum and any(
                _points(side, aliases, names, scope) for side in (node.left, node.right)
            )
        case ast.IfExp():
            return any(_points(n, aliases, names, scope) for n in (node.body, node.orelse))
        case ast.Tuple() | ast.List():
            return any(_points(n, aliases, names, scope) for n in node.elts)
    return False


def _writes(node: ast.AST, aliases: set[str], names: Names, scope: Scope, known: Written) -> bool:
    def points(inner: ast.AST) -> bool:
        return _points(inner, aliases, names, scope)

    match node:
        case ast.Call():
            called = node.func
            if isinstance(called, ast.Attribute):
                name = called.attr
                if name in _STORES or name.startswith("atomic_"):
                    return any(points(n) for n in (called.value, *node.args[:1]))
                if name.endswith("_") and not name.startswith("_") and points(called.value):
                    return True
            return any(points(a) for a in handed(node, names, scope, known))
        case ast.Assign() | ast.AugAssign():
            targets: list[ast.expr] = (
                node.targets if isinstance(node, ast.Assign) else [node.target]
            )
            return any(isinstance(t, ast.Subscript) and points(t.value) for t in targets)
    return False
