"""Functions that stay with an object and hold more than it: a copy of a module has the same functions as the original.

A deep copy copies what attributes hold, but not what a function has from the function around it, its defaults, or the
tensor that a method was taken from. And a generator that is not used up runs its last lines when it is freed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernelagent.tools.judge.source_reading.following.constructing import CONSTRUCTORS
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.following.names import (
    Binding,
    Comprehension,
    Function,
    Imported,
    Names,
    Own,
    Scope,
    Value,
)
from kernelagent.tools.judge.source_reading.following.plain import Plain
from kernelagent.tools.judge.source_reading.following.pure import METHODS_THAT_ONLY_ANSWER
from kernelagent.tools.judge.source_reading.kinds import Code

_AT_ONCE = frozenset({"sorted", "min", "max", "apply", "reduce", "sort"})
"""What uses a function before it returns."""
_LAZY = frozenset({"iter", "zip", "enumerate", "map", "filter", "chain", "islice", "reversed"})
_NO_METHODS = frozenset(
    "H T data device dtype imag is_cpu is_cuda itemsize mH mT nbytes ndim real shape bits eps max min smallest_normal tiny".split()
)
_TAKEN_FROM_A_TENSOR = METHODS_THAT_ONLY_ANSWER - _NO_METHODS
_GIVE_NUMBERS = ("math.", "triton.cdiv", "triton.next_power_of_2")


class KeptFunctions:
    """The places in one text, with what they are called."""

    def __init__(
        self, names: Names, lives: Lifetimes, plain: Plain, parents: Mapping[ast.AST, ast.AST]
    ) -> None:
        self._names = names
        self._lives = lives
        self._plain = plain
        self._parents = parents

    def found(self) -> Iterator[tuple[ast.AST, Code]]:
        """Each with the kind of remark it deserves."""
        for node, scope in self._names.scopes.items():
            if id(node) in self._lives.never_runs:
                continue
            if isinstance(node, ast.FunctionDef) and not self._is_context_manager(node, scope):
                yield from ((part, "acts_later") for part in _run_at_the_end(node))
            outer = _function_around(scope)
            if isinstance(node, Function) and id(node) in self._lives.may_make:
                yield from ((part, "shares_state") for part in self._methods_taken(node))
            if outer is None or not isinstance(node, Function | ast.GeneratorExp):
                continue
            if self._makes(outer) and self._is_kept(node) and self._holds_more(node, scope):
                yield node, "shares_state"

    def _makes(self, scope: Scope) -> bool:
        """Whether a function runs while a module is made."""
        number = id(scope.node)
        return number in self._lives.may_make and number not in self._lives.at_loading

    def _is_context_manager(self, node: ast.FunctionDef, scope: Scope) -> bool:
        paths = {
            p for d in node.decorator_list for p in self._names.paths(d, scope.parent or scope)
        }
        return "contextlib.contextmanager" in paths

    def _is_kept(self, node: Function | ast.GeneratorExp) -> bool:
        """Whether a function may be there when the one around it has returned."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around = _enclosing(node, self._parents)
            uses = [
                n
                for n in ast.walk(around)
                if isinstance(n, ast.Name) and n.id == node.name and isinstance(n.ctx, ast.Load)
            ]
            return bool(node.decorator_list) or not all(map(self._is_used_up, uses))
        if isinstance(node, ast.GeneratorExp):
            call = self._parents[node]
            lazy = isinstance(call, ast.Call) and _last(call.func) in _LAZY
            return not isinstance(call, ast.Call | ast.Starred | ast.For) or lazy
        return not self._is_used_up(node)

    def _is_used_up(self, node: ast.expr) -> bool:
        parent = self._parents[node]
        if isinstance(parent, ast.keyword):
            parent = self._parents[parent]
        if not isinstance(parent, ast.Call):
            return False
        return parent.func is node or _last(parent.func) in _AT_ONCE

    def _holds_more(self, node: Function | ast.GeneratorExp, scope: Scope) -> bool:
        """Whether it has from around it anything but numbers, texts, functions, and arguments of the constructor."""
        inside = {self._names.scopes[n] for n in ast.walk(node) if n in self._names.scopes}
        for part in ast.walk(node):
            if not (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)):
                continue
            home = scope.home(part.id)
            if home is None or home.kind != "function" or home in inside:
                continue
            if any(part.id in s.bindings for s in inside) and home is scope:
                continue
            if self._makes(home) and not self._is_number(part.id, home, frozenset()):
                return True
        return False

    def _is_number(self, name: str, home: Scope, seen: frozenset[str]) -> bool:
        if name in seen:
            return True
        return all(
            self._binding_is_number(b, name, home, seen | {name}) for b in home.bindings[name]
        )

    def _binding_is_number(
        self, binding: Binding, name: str, home: Scope, seen: frozenset[str]
    ) -> bool:
        match binding:
            case Imported():
                return True
            case Own():
                return binding.kind != "instance"
            case Value():
                # An argument of the constructor: the problem's, as the judge gives them.
                return getattr(home.node, "name", "") in CONSTRUCTORS
            case ast.expr():
                return self._plain.holds(binding, home) or self._is_of_numbers(binding, home, seen)
        return True

    def _is_of_numbers(self, node: ast.expr, home: Scope, seen: frozenset[str]) -> bool:
        """Whether an expression is made of arguments, numbers and what gives numbers alone."""
        match node:
            case ast.Constant():
                return True
            case ast.Name():
                inner = home.home(node.id)
                if inner is None or inner is not home:
                    return self._plain.holds(node, home)
                return self._is_number(node.id, home, seen)
            case ast.BinOp():
                return all(self._is_of_numbers(n, home, seen) for n in (node.left, node.right))
            case ast.UnaryOp():
                return self._is_of_numbers(node.operand, home, seen)
            case ast.IfExp():
                return all(self._is_of_numbers(n, home, seen) for n in (node.body, node.orelse))
            case ast.Tuple():
                return all(self._is_of_numbers(n, home, seen) for n in node.elts)
            case ast.Subscript():
                return self._is_of_numbers(node.value, home, seen)
            case ast.Call():
                paths = self._names.paths(node.func, home)
                known = bool(paths) and all(p.startswith(_GIVE_NUMBERS) for p in paths)
                builtin = isinstance(node.func, ast.Name) and node.func.id in (
                    "int",
                    "float",
                    "max",
                    "min",
                    "len",
                )
                return (known or builtin) and all(
                    self._is_of_numbers(n, home, seen) for n in node.args
                )
        return False

    def _methods_taken(self, node: Function) -> Iterator[ast.expr]:
        """Methods of tensors that are not called where they stand: they hold their tensor, and are not copied with it."""
        for part in ast.walk(node):
            if (
                isinstance(part, ast.Attribute)
                and isinstance(part.ctx, ast.Load)
                and part.attr in _TAKEN_FROM_A_TENSOR
                and part.attr not in self._names.attributes
                and isinstance(
                    self._parents[part],
                    ast.Assign | ast.AnnAssign | ast.Tuple | ast.List | ast.Dict,
                )
                and not self._names.paths(part.value, self._names.scopes[node])
            ):
                yield part


def _run_at_the_end(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """What of a generator runs when it is freed: a `yield` within `try` or `with`."""
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(part, None) for part in node.body]
    while waiting:
        part, block = waiting.pop()
        if isinstance(part, ast.Yield | ast.YieldFrom) and block is not None:
            yield block
        if isinstance(part, Function | ast.ClassDef | Comprehension):
            continue
        inner = part if isinstance(part, ast.Try | ast.TryStar | ast.With) else block
        waiting += [(child, inner) for child in ast.iter_child_nodes(part)]


def _function_around(scope: Scope) -> Scope | None:
    outer = scope.parent
    while outer is not None and (outer.kind == "class" or isinstance(outer.node, Comprehension)):
        outer = outer.parent
    return outer if outer is not None and outer.kind == "function" else None


def _enclosing(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST:
    outer = parents[node]
    while outer in parents and not isinstance(outer, Function):
        outer = parents[outer]
    return outer


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
