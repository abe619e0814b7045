"""Which functions of a text run only while a module is made, or while the text is loaded.

A constructor runs whenever its class is made, which may be in every call. What is handed on as a value may run at
any time; another name for a function or a class counts as that function or class.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from kernelagent.tools.judge.source_reading.following.names import Function, written_out

CONSTRUCTORS = frozenset({"__init__", "__post_init__"})
_CALLED_BY_TORCH = frozenset({"forward", "backward", "setup_context", "jvp", "vmap"})
BY_THE_JUDGE = "from_reference"
"""The class method that makes a module where its constructor's arguments are not known."""
_AT_ONCE = frozenset({"apply", "isinstance", "issubclass"})
"""Calls that use a function or a class before they return."""
_LAZY = frozenset({"iter", "zip", "enumerate", "map", "filter", "chain", "islice", "reversed"})
LOADING = 0
"""The place outside of all functions."""


@dataclass(frozen=True)
class Times:
    """When the functions of a text run, by their identities."""

    at_construction: frozenset[int]
    """Only while a module is made, or while the text is loaded."""
    at_loading: frozenset[int]
    """Only while the text is loaded."""
    may_make: frozenset[int]
    """While a module is made or the text is loaded, perhaps also at other times."""


def times(tree: ast.Module) -> Times:
    """Read from the whole text."""
    walk = _Places()
    walk.visit(tree, LOADING)
    return Times(
        at_construction=frozenset(walk.result() - {LOADING}),
        at_loading=frozenset(walk.result(constructors=False) - {LOADING}),
        may_make=frozenset(walk.may_make() - {LOADING}),
    )


class _Places:
    def __init__(self) -> None:
        self.uses: dict[str, set[int]] = defaultdict(set)
        """By name, the functions in which it is used."""
        self._handed_on: set[str] = set()
        self._other_names: dict[str, set[str]] = defaultdict(set)
        self._functions: dict[int, Function] = {}
        self._constructors: dict[int, str] = {}
        """With the names of their classes."""
        self._without_bases: set[str] = set()
        """Classes that nobody but the text makes."""
        self._makers: dict[int, tuple[str, str]] = {}
        """Class methods: what they call their class there, and its name."""
        self._own_class = ""

    def visit(self, node: ast.AST, inside: int) -> None:
        """Note what is used below a node that stands in this function."""
        for child in ast.iter_child_nodes(node):
            self._child(child, node, inside)

    def _child(self, child: ast.AST, parent: ast.AST, inside: int) -> None:
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(child, inside)
            case ast.ClassDef():
                outer, self._own_class = self._own_class, child.name
                if not child.bases:
                    self._without_bases.add(child.name)
                self.visit(child, inside)
                self._own_class = outer
                for base in child.bases:
                    for name in _named(base):
                        self._other_names[name].add(child.name)
            case ast.MatchClass():
                # What a pattern reads may be called by the name it gets there.
                self._handed_on.update(child.kwd_attrs)
                self.visit(child, inside)
            case ast.Constant(value=str() as text) if _is_listed(parent):
                self._handed_on.add(text)
            case ast.GeneratorExp() if not _consumes(parent):
                # It runs when somebody asks for its next element.
                self.visit(child, id(child))
            case _:
                for name in _named(child):
                    self._use(name, child, parent, inside)
                self.visit(child, inside)

    def _function(self, node: Function, inside: int) -> None:
        self._functions[id(node)] = node
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = [
            *zip(reversed(plain), reversed(arguments.defaults), strict=False),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for parameter, default in defaults:
            if default is not None:
                self._child(default, ast.keyword(parameter.arg, default), inside)
        if isinstance(node, ast.Lambda):
            self._child(node.body, node, id(node))
            return
        if self._own_class and node.name in CONSTRUCTORS:
            self._constructors[id(node)] = self._own_class
        of_class = any("classmethod" in _named(d) for d in node.decorator_list)
        if self._own_class and of_class and plain:
            self._makers[id(node)] = plain[0].arg, self._own_class
        for decorator in node.decorator_list:
            self._child(decorator, ast.Call(decorator, [], []), inside)
        own_class, self._own_class = self._own_class, ""
        for part in node.body:
            self._child(part, node, id(node))
        self._own_class = own_class

    def _use(self, name: str, node: ast.AST, parent: ast.AST, inside: int) -> None:
        self.uses[name].add(inside)
        called, own = self._makers.get(inside, ("", ""))
        if called and called == name:
            self.uses[own].add(inside)
        match parent:
            case ast.Assign(targets=targets, value=value) if value is node:
                for target in targets:
                    bound = [*_named(target)]
                    self._other_names[name].update(bound)
                    if not bound:
                        self._handed_on.add(name)
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ) if value is node:
                self._other_names[name].update(_named(target))
            case ast.keyword(arg=str() as keyword):
                self._other_names[name].add(keyword)
            case ast.Call(func=called_one) if called_one is not node:
                if not _AT_ONCE & {*_named(called_one)}:
                    self._handed_on.add(name)
            case ast.AnnAssign() | ast.Call() | ast.Attribute() | ast.ClassDef() | ast.Raise():
                pass
            case ast.arg() | ast.FunctionDef() | ast.ExceptHandler() | ast.Expr():
                pass
            case _:
                if not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                    self._handed_on.add(name)

    def may_make(self) -> set[int]:
        """The functions that have a use outside of functions, in a constructor, or in one of themselves."""
        result = {LOADING, *self._constructors}
        grown = True
        while grown:
            more = {
                number
                for number, function in self._functions.items()
                if isinstance(function, ast.FunctionDef)
                and function.name not in _CALLED_BY_TORCH
                and (self.uses[function.name] & result or function.name == BY_THE_JUDGE)
            }
            grown = not more <= result
            result |= more
        return result

    def result(self, *, constructors: bool = True) -> set[int]:
        """The functions all of whose uses are among them, or outside of functions."""
        result = {LOADING}
        initialised = self.uses["__init__"] - self._constructors.keys()
        grown = True
        while grown:
            more = {
                number
                for number, name in self._constructors.items()
                if (constructors or (name in self._without_bases and self.uses[name]))
                and initialised <= result
                and self._is_within(name, result | {number})
            }
            more |= {
                number
                for number, function in self._functions.items()
                if isinstance(function, ast.FunctionDef)
                and self._is_ordinary(function)
                and (constructors or self.uses[function.name])
                and self._is_within(function.name, result | {number})
            }
            grown = not more <= result
            result |= more
        return result

    def _is_ordinary(self, function: ast.FunctionDef) -> bool:
        """Called by nobody but the text; a generator runs on when it is asked for more."""
        name = function.name
        if name.startswith("__") or name in _CALLED_BY_TORCH or _is_generator(function):
            return False
        return bool(self.uses[name]) or name == BY_THE_JUDGE

    def _is_within(self, name: str, places: set[int]) -> bool:
        waiting, seen = [name], {name}
        while waiting:
            item = waiting.pop()
            if item in self._handed_on or not self.uses[item] <= places:
                return False
            new = self._other_names[item] - seen
            seen |= new
            waiting += new
        return True


def _is_listed(parent: ast.AST) -> bool:
    """Whether a text stands in a row of them, as those in `__match_args__` do."""
    return isinstance(parent, ast.Tuple | ast.List)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Call) and (name := written_out(node)) is not None:
        yield name
    elif isinstance(node, ast.Attribute):
        yield node.attr


def _consumes(parent: ast.AST) -> bool:
    return isinstance(parent, ast.Call | ast.Starred) and not (
        isinstance(parent, ast.Call) and _LAZY & {*_named(parent.func)}
    )


def _is_generator(function: ast.FunctionDef) -> bool:
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Function | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False
