"""Which functions run when a module is made, and which expressions name something that outlives a call."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelagent.tools.judge.source_reading.checks.kernel_writes import VIEWS
from kernelagent.tools.judge.source_reading.following.classes import is_module
from kernelagent.tools.judge.source_reading.following.constructing import times
from kernelagent.tools.judge.source_reading.following.names import (
    Binding,
    Comprehension,
    Function,
    Imported,
    Kept,
    Names,
    Own,
    Scope,
)

_FRESH_BUILTINS = frozenset(
    "list dict set tuple sorted range zip enumerate map filter reversed iter str int float bool len max min sum frozenset".split()
)
_NUMBERS = frozenset("int float bool len max min sum round abs tuple str range".split())
_PARTS = frozenset("get values items setdefault pop popitem popleft".split())
"""Methods that give what a container holds."""
_RUN_THROUGH = frozenset("enumerate reversed iter".split())
_OF_MODULES = frozenset(
    {
        "torch.nn.Parameter",
        "torch.nn.Buffer",
        "torch.nn.parameter.Parameter",
        "torch.nn.parameter.Buffer",
    }
)
_FOLLOWED_MAKERS = _OF_MODULES | {"math.sqrt", "triton.cdiv", "triton.next_power_of_2"}
_OF_BATCH_NORM = frozenset({"running_mean", "running_var", "num_batches_tracked"})
"""Buffers that torch's own layers register."""


@dataclass(frozen=True)
class Lifetimes:
    """Answers for one text."""

    names: Names
    at_construction: frozenset[int]
    """Identities of functions that run only while a module is made, or while the text is loaded."""
    at_loading: frozenset[int]
    """Those of them that run only while the text is loaded."""
    may_make: frozenset[int]
    """Identities of functions that may run then: what they make may stay."""
    never_runs: frozenset[int]
    """Identities of functions that nothing names, and of what runs only where the text is the program itself."""
    followed: frozenset[str]
    """Buffers that the judge compares with the reference's."""

    def outlives(self, node: ast.expr, scope: Scope, seen: frozenset[int] = frozenset()) -> bool:
        """Whether something stays reachable when the function that names it returns."""
        self.names.spend()
        if isinstance(node, ast.IfExp | ast.BoolOp):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return any(self.outlives(part, scope, seen) for part in parts)
        if self._holds_outliving(node, scope, seen):
            return True
        root = self._root(node, scope)
        if isinstance(root, ast.Call) and id(root) not in seen:
            returned = self._returned(root, scope)
            return any(self.outlives(value, at, seen | {id(root)}) for value, at in returned)
        if not isinstance(root, ast.Name) or id(root) in seen:
            return False
        home = scope.home(root.id)
        if home is None or home.kind != "function":
            return home is not None
        bindings = home.bindings[root.id]
        if any(isinstance(b, Own) for b in bindings):
            return node is not root
        seen = seen | {id(root)}
        return any(
            self._is_object(b, home, frozenset())
            if isinstance(b, Kept)
            else isinstance(b, ast.expr) and self.outlives(b, home, seen)
            for b in bindings
        )

    def _root(self, node: ast.expr, scope: Scope) -> ast.expr:
        """What an expression is a part or a view of."""
        while True:
            match node:
                case ast.Attribute() | ast.Subscript() | ast.Starred() | ast.NamedExpr():
                    node = node.value
                case ast.Call(func=ast.Attribute(attr=name, value=value), args=given) if (
                    name in _PARTS | VIEWS
                ):
                    of_module = bool(self.names.paths(value, scope))
                    if of_module and not given:
                        return node
                    node = given[0] if of_module else value
                case ast.Call(func=ast.Name(id=name), args=[row, *_]) if name in _RUN_THROUGH:
                    node = row
                case _:
                    return node

    def _returned(self, node: ast.Call, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """What the text's own functions that a call may reach return."""
        own = {
            m.name
            for m in self.names.meanings(node.func, scope)
            if isinstance(m, Own) and m.kind == "function"
        }
        for function in self.names.scopes if own else ():
            if isinstance(function, ast.FunctionDef) and function.name in own:
                for part in ast.walk(function):
                    if isinstance(part, ast.Return) and part.value is not None:
                        yield part.value, self.names.scopes[function]

    def _holds_outliving(self, node: ast.expr, scope: Scope, seen: frozenset[int]) -> bool:
        """Whether it is an element of something written out whose elements outlive the call."""
        if not isinstance(node, ast.Subscript):
            return False
        rows = [(node.value, scope)]
        if isinstance(node.value, ast.Name) and (home := scope.home(node.value.id)) is not None:
            rows = [(b, home) for b in home.bindings[node.value.id] if isinstance(b, ast.expr)]
        for row, at in rows:
            parts = row.values if isinstance(row, ast.Dict) else getattr(row, "elts", ())
            if any(id(p) not in seen and self.outlives(p, at, seen | {id(p)}) for p in parts):
                return True
        return False

    def is_fresh(self, node: ast.expr, scope: Scope, seen: frozenset[int] = frozenset()) -> bool:
        """Whether an expression makes something that nobody else holds."""
        self.names.spend()
        if id(node) in seen:
            return True
        seen = seen | {id(node)}
        match node:
            case ast.Name():
                home = scope.home(node.id)
                if home is not scope or home.kind != "function":
                    return (
                        home is not None
                        and not self.may_stay(scope, home)
                        and _is_inside(scope, home)
                        and self._all_fresh(node.id, home, seen)
                    )
                return self._all_fresh(node.id, home, seen)
            case ast.IfExp():
                return self.is_fresh(node.body, scope, seen) and self.is_fresh(
                    node.orelse, scope, seen
                )
            case ast.Subscript():
                made = self.is_fresh(node.value, scope, seen)
                return made and self._holds_fresh(node.value, scope, seen)
            case ast.Attribute():
                return self.is_fresh(node.value, scope, seen) and self._attribute_is_fresh(
                    node.attr, seen
                )
            case ast.Starred():
                return self.is_fresh(node.value, scope, seen)
            case ast.Call():
                return self._call_is_fresh(node, scope, seen)
            case ast.NamedExpr() | ast.Await():
                return self.is_fresh(node.value, scope, seen)
        return not isinstance(node, ast.BoolOp)

    def _attribute_is_fresh(self, name: str, seen: frozenset[int]) -> bool:
        """Whether whatever the text gives an attribute of this name is made then; torch's own are part of their object."""
        return all(
            isinstance(b, ast.expr) and scope.kind != "class" and self.is_fresh(b, scope, seen)
            for b, scope in self.names.attributes.get(name, ())
        )

    def _holds_fresh(
        self,
        row: ast.expr,
        scope: Scope,
        seen: frozenset[int],
        rows_seen: frozenset[int] = frozenset(),
    ) -> bool:
        """Whether the elements of a row are fresh too, as far as it is written out what it holds."""
        self.names.spend()
        # A row that is made from itself (`row = row + more`) holds what else is added.
        if id(row) in rows_seen:
            return True
        rows_seen = rows_seen | {id(row)}
        if isinstance(row, ast.Name):
            home = scope.home(row.id)
            rows = [b for b in home.bindings[row.id] if isinstance(b, ast.expr)] if home else []
            return all(
                isinstance(b, ast.Name) or self._holds_fresh(b, home or scope, seen, rows_seen)
                for b in rows
            )
        parts: list[ast.expr] = []
        match row:
            case ast.List() | ast.Tuple() | ast.Set():
                parts = row.elts
            case ast.Dict():
                parts = row.values
            case ast.BinOp():
                return all(
                    self._holds_fresh(n, scope, seen, rows_seen) for n in (row.left, row.right)
                )
            case ast.Starred():
                return self._holds_fresh(row.value, scope, seen, rows_seen)
            case ast.Call():
                given = [*row.args, *(keyword.value for keyword in row.keywords)]
                return all(
                    self._holds_fresh(part, scope, seen, rows_seen)
                    and (self.is_fresh(part, scope, seen) or not self.may_be_written(part, scope))
                    for part in given
                )
        return all(
            self.is_fresh(part, scope, seen) or not self.may_be_written(part, scope)
            for part in parts
        )

    def may_be_written(
        self, node: ast.expr, scope: Scope, seen: frozenset[int] = frozenset()
    ) -> bool:
        """Whether something that outlives a call is an object, as far as its bindings show; not a number or a shape."""
        self.names.spend()
        if id(node) in seen or not self.outlives(node, scope) or self.is_followed(node, scope):
            return False
        seen = seen | {id(node)}
        while isinstance(node, ast.Subscript | ast.Starred):
            node = node.value
        if isinstance(node, ast.Attribute):
            if node.attr in ("data", "T", "mT"):
                return self.may_be_written(node.value, scope, seen)
            bindings = self.names.attributes.get(node.attr, ())
        elif isinstance(node, ast.Name) and (home := scope.home(node.id)) is not None:
            bindings = [(b, home) for b in home.bindings[node.id]]
        else:
            return False
        kept = isinstance(node, ast.Attribute)
        return any(
            (self._is_parameter(b, s) and not (kept and s.kind == "function"))
            or self._is_object(b, s, seen)
            for b, s in bindings
        )

    def _is_parameter(self, binding: Binding, scope: Scope) -> bool:
        """Whether it is made as a parameter or buffer, which is one only as an attribute of a module."""
        return isinstance(binding, ast.Call) and bool(
            self.names.paths(binding.func, scope) & _OF_MODULES
        )

    def _is_object(self, binding: Binding, scope: Scope, seen: frozenset[int]) -> bool:
        match binding:
            case Kept():
                return self._is_object(binding.default, scope.parent or scope, seen)
            case ast.Call():
                return not self.names.paths(binding.func, scope) & _FOLLOWED_MAKERS and not (
                    isinstance(binding.func, ast.Name) and binding.func.id in _NUMBERS
                )
            case ast.Attribute() | ast.Subscript() | ast.Name():
                return self.may_be_written(binding, scope, seen)
            case ast.List() | ast.Dict() | ast.Set():
                return True
            case ast.ListComp() | ast.DictComp() | ast.SetComp() | ast.GeneratorExp():
                return True
            case ast.BinOp(left=ast.Constant(value=int() | float()), right=right):
                return isinstance(right, ast.List | ast.ListComp)
            case ast.BinOp():
                return any(self._is_object(b, scope, seen) for b in (binding.left, binding.right))
            case ast.IfExp():
                return any(self._is_object(b, scope, seen) for b in (binding.body, binding.orelse))
            case ast.BoolOp():
                return any(self._is_object(b, scope, seen) for b in binding.values)
            case ast.NamedExpr():
                return self._is_object(binding.value, scope, seen)
        return False

    def may_stay(self, scope: Scope, home: Scope) -> bool:
        """Whether a function within another may live on, with the names of the other, after it has returned."""
        inner: Scope | None = scope
        while inner is not None and isinstance(inner.node, Comprehension) and inner is not home:
            inner = inner.parent
        return inner is not home and id(home.node) in self.may_make

    def is_followed(self, node: ast.expr, scope: Scope) -> bool:
        """A registered buffer of the module: what a call does to it is compared with the reference."""
        chain: ast.AST = node
        named = False
        while not isinstance(chain, ast.Name):
            named = named or (isinstance(chain, ast.Attribute) and chain.attr in self.followed)
            match chain:
                case ast.Attribute() | ast.Subscript() | ast.Starred() | ast.NamedExpr():
                    chain = chain.value
                case ast.Call(func=ast.Attribute(value=value)):
                    chain = value
                case _:
                    return False
        if not named:
            return False
        home = scope.home(chain.id)
        return (
            home is not None
            and home.kind == "function"
            and self.is_part_of_module(chain, scope)
            and not self.may_stay(scope, home)
        )

    def is_part_of_module(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an object is a module of torch's, as far as its name shows: of no other class of the text's."""
        objects = [m for m in self.names.meanings(node, scope) if isinstance(m, Own)]
        return all(m.kind == "instance" and is_module(m.name, self.names) for m in objects)

    def _all_fresh(self, name: str, home: Scope, seen: frozenset[int]) -> bool:
        bindings = home.bindings[name]
        return bool(bindings) and all(
            isinstance(b, ast.expr) and self.is_fresh(b, home, seen) for b in bindings
        )

    def _call_is_fresh(self, node: ast.Call, scope: Scope, seen: frozenset[int]) -> bool:
        called = node.func
        meanings = self.names.meanings(called, scope)
        if any(isinstance(m, Own) and m.kind != "class" for m in meanings):
            return False
        if any(isinstance(m, Imported | Own) for m in meanings):
            return True
        if isinstance(called, ast.Attribute):
            return called.attr in ("copy", "clone") or self.is_fresh(called.value, scope, seen)
        return isinstance(called, ast.Name) and called.id in _FRESH_BUILTINS


def lifetimes(tree: ast.Module, names: Names) -> Lifetimes:
    """Read from the whole text."""
    callers: dict[str, set[int]] = defaultdict(set)
    functions: dict[int, Function] = {}
    _references(tree, 0, callers, functions)
    followed = frozenset() if "register_buffer" in names.attributes else frozenset(_followed(tree))
    when = times(tree)
    return Lifetimes(
        names,
        at_construction=when.at_construction,
        at_loading=when.at_loading,
        may_make=when.may_make,
        never_runs=frozenset(_never_runs(tree, callers)),
        followed=followed | frozenset(_of_batch_norm(names)),
    )


def _is_inside(scope: Scope, home: Scope) -> bool:
    """A comprehension, or a function within one, whose names die with the function around it."""
    inner: Scope | None = scope
    while inner is not None and inner is not home:
        inner = inner.parent
    return inner is home and home.kind == "function"


def _followed(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_kept = all(k.arg != "persistent" for k in node.keywords) and len(node.args) < 3
            if node.func.attr == "register_buffer" and node.args and is_kept:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


def _of_batch_norm(names: Names) -> Iterator[str]:
    """Those of its buffers whose names the text gives to nothing else: a plain attribute is compared with nothing."""
    for name in _OF_BATCH_NORM:
        bound = (b for b, _ in names.attributes.get(name, ()))
        if all(isinstance(b, ast.Attribute) and b.attr == name for b in bound):
            yield name


def _never_runs(tree: ast.Module, callers: Mapping[str, set[int]]) -> Iterator[int]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(decorator_list=[]):
                if callers.get(node.name, set()) <= {id(node)} and not node.name.startswith("__"):
                    yield id(node)
            case ast.If(
                test=ast.Compare(
                    left=ast.Name(id="__name__"),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant(value="__main__")],
                ),
                orelse=[],
            ):
                yield id(node)


def _references(
    node: ast.AST, inside: int, callers: dict[str, set[int]], functions: dict[int, Function]
) -> None:
    """Note, for each name, in which functions it is used; 0 is the text outside of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            functions[id(child)] = child
            for part in [*child.args.defaults, *getattr(child, "decorator_list", ())]:
                _references(ast.Expression(part), inside, callers, functions)
            body = child.body if isinstance(child.body, list) else [child.body]
            for part in body:
                _references(
                    ast.Module([ast.Expr(part)] if isinstance(part, ast.expr) else [part], []),
                    id(child),
                    callers,
                    functions,
                )
            continue
        if isinstance(child, ast.Name):
            callers[child.id].add(inside)
        elif isinstance(child, ast.Attribute):
            callers[child.attr].add(inside)
        _references(child, inside, callers, functions)
