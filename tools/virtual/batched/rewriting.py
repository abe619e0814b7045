"""A kernel's text with its control flow turned into questions to `Control`, so that programs may differ."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterable

from kernelagent.tools.virtual.batched.accesses import NotBatchable
from kernelagent.tools.virtual.interpreter.loops import call
from kernelagent.tools.virtual.kernel_text.lines import NAME

_RESULT = "__result"


def rewrite(function: ast.FunctionDef) -> None:
    """In place; the text has been through `LogicRewriter`. Raises `NotBatchable`."""
    parameters = {
        item.arg
        for item in (
            *function.args.posonlyargs,
            *function.args.args,
            *function.args.kwonlyargs,
            *(extra for extra in (function.args.vararg, function.args.kwarg) if extra),
        )
    }
    body = function.body
    returns = _returns_inside(body)
    if returns:
        body = _with_one_return(body)
    names = assigned(body)
    writer = _Writer()
    body = writer.block(body)
    begin: list[ast.stmt] = [
        _assign(name, _attribute("unset")) for name in sorted(names - parameters)
    ]
    if returns:
        begin.append(_assign(_RESULT, ast.Constant(None)))
        body.append(ast.Return(ast.Name(_RESULT, ast.Load())))
    documented = ast.get_docstring(function, clean=False) is not None
    function.body = [*(body[:1] if documented else []), *begin, *body[int(documented) :]]


def assigned(statements: Iterable[ast.stmt]) -> set[str]:
    """The local variables that these statements may set."""
    result: set[str] = set()
    for statement in statements:
        for node in _walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                result.add(node.id)
    return result


def _walk(node: ast.AST) -> Iterable[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ListComp | ast.GeneratorExp):
            yield from _walk(child)


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


def _returns_inside(body: list[ast.stmt]) -> bool:
    """Whether there is a return other than at the very end."""
    return any(_returns(item) and not isinstance(item, ast.Return) for item in body)


def _with_one_return(body: list[ast.stmt]) -> list[ast.stmt]:
    """What follows a return's `if` goes into its other side; every return becomes an assignment."""
    made: list[ast.stmt] = []
    for place, item in enumerate(body):
        if isinstance(item, ast.Return):
            made.append(_assign(_RESULT, item.value or ast.Constant(None)))
            return made
        if _returns(item):
            if not isinstance(item, ast.If):
                raise NotBatchable("a return inside a loop", always=True)
            rest = body[place + 1 :]
            item.body = _with_one_return([*item.body, *copy.deepcopy(rest)])
            item.orelse = _with_one_return([*item.orelse, *rest])
            made.append(item)
            return made
        made.append(item)
    return made or [ast.Pass()]


class _Writer:
    """Rewrites statements, each with names of its own for what it keeps."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for item in statements:
            new = self._statement(item)
            for statement in new:
                ast.copy_location(statement, item)
                ast.fix_missing_locations(statement)
            made += new
        return made

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.If):
            return self._if(statement)
        if isinstance(statement, ast.For):
            return self._for(statement)
        if isinstance(statement, ast.While):
            return self._while(statement)
        if isinstance(statement, ast.Break | ast.Continue):
            raise NotBatchable("a loop that is left early", always=True)
        if isinstance(statement, ast.With):
            statement.body = self.block(statement.body)
            return [statement]
        statement = _Expressions().visit(statement)
        if isinstance(statement, ast.Assert):
            return [ast.Expr(call("require", [statement.test]))]
        if isinstance(statement, ast.Expr) and _is_atomic(statement.value):
            before, after = (ast.Expr(call("unused", [ast.Constant(on)])) for on in (True, False))
            return [before, statement, after]
        return [statement]

    def _if(self, branch: ast.If) -> list[ast.stmt]:
        names = sorted(assigned([*branch.body, *branch.orelse]))
        number = next(self._numbers)
        decision, before, taken = (f"__{what}{number}" for what in ("if", "old", "new"))
        test = _Expressions().visit(branch.test)
        body, orelse = self.block(branch.body), self.block(branch.orelse)
        then: list[ast.stmt] = [_do(decision, "take"), *body, _assign(taken, _tuple(names))]
        other: list[ast.stmt] = [*_unpack(names, _name(before)), _do(decision, "leave"), *orelse]
        joined = _ask(decision, "join", [_name(taken), _tuple(names)])
        join = _unpack(names, joined) or [ast.Expr(joined)]
        return [
            _assign(decision, call("decide", [test])),
            _assign(before, _tuple(names)),
            ast.If(_get(decision, "yes"), then, []),
            ast.If(_get(decision, "no"), other, []),
            ast.If(_get(decision, "split"), join, []),
        ]

    def _for(self, statement: ast.For) -> list[ast.stmt]:
        if statement.orelse:
            raise NotBatchable("a loop with an else", always=True)
        names = sorted(assigned([*statement.body]) | assigned([ast.Expr(statement.target)]))
        number = next(self._numbers)
        loop, before, index = (f"__{what}{number}" for what in ("loop", "old", "at"))
        source = _Expressions().visit(statement.iter)
        if _is_question(source, "each"):
            source = call("loop", source.args, source.keywords)
        keep = ast.If(
            call("is_split", [_name(loop)]),
            _unpack(names, _ask(loop, "frozen", [_name(before), _tuple(names)])),
            [],
        )
        body: list[ast.stmt] = [
            _assign(before, _tuple(names)),
            ast.Assign([statement.target], _name(index)),
            *self.block(statement.body),
            keep,
        ]
        return [
            _assign(loop, source),
            ast.For(ast.Name(index, ast.Store()), _name(loop), body, [], None),
        ]

    def _while(self, statement: ast.While) -> list[ast.stmt]:
        if statement.orelse:
            raise NotBatchable("a loop with an else", always=True)
        names = sorted(assigned(statement.body))
        number = next(self._numbers)
        loop, before = f"__loop{number}", f"__old{number}"
        keep = ast.If(
            _get(loop, "split"),
            _unpack(names, _ask(loop, "frozen", [_name(before), _tuple(names)])) or [ast.Pass()],
            [],
        )
        body: list[ast.stmt] = [_assign(before, _tuple(names)), *self.block(statement.body), keep]
        test = _ask(loop, "test", [_Expressions().visit(statement.test)])
        return [_assign(loop, call("loop_while", [])), ast.While(test, body, [])]


class _Expressions(ast.NodeTransformer):
    def visit_IfExp(self, _: ast.IfExp) -> ast.AST:
        """`LogicRewriter` has left only those with an assignment inside."""
        raise NotBatchable("an assignment inside a conditional expression", always=True)


def _is_atomic(value: ast.expr) -> bool:
    """Whether this is `tl.atomic_add(...)` or the like, with nothing in it that may hold another one."""
    if not isinstance(value, ast.Call):
        return False
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    names = [item.attr for item in calls if isinstance(item, ast.Attribute)]
    atomics = [name for name in names if name.startswith("atomic_")]
    own = isinstance(value.func, ast.Attribute) and value.func.attr in atomics
    return own and len(atomics) == 1 and len(names) == len(calls)


def _is_question(value: ast.expr, method: str) -> bool:
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == method
        and isinstance(value.func.value, ast.Name)
        and value.func.value.id == NAME
    )


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _attribute(name: str) -> ast.Attribute:
    return ast.Attribute(_name(NAME), name, ast.Load())


def _get(owner: str, name: str) -> ast.Attribute:
    return ast.Attribute(_name(owner), name, ast.Load())


def _ask(owner: str, method: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(_get(owner, method), arguments, [])


def _do(owner: str, method: str) -> ast.Expr:
    return ast.Expr(_ask(owner, method, []))


def _tuple(names: list[str]) -> ast.Tuple:
    return ast.Tuple([_name(item) for item in names], ast.Load())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _unpack(names: list[str], value: ast.expr) -> list[ast.stmt]:
    if not names:
        return []
    return [
        ast.Assign([ast.Tuple([ast.Name(item, ast.Store()) for item in names], ast.Store())], value)
    ]
