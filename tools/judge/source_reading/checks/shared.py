"""Objects that outlive a call, and every use of one that is not known only to read it.

An object is one of the text's own, outside of the module that torch keeps: what a name of the file, of a function that
makes other functions, or an attribute of an object stands for, unless it is a number, a text or something of torch's that
cannot change. It may be asked for its parts, calculated with, and handed to what only reads it. Whatever else is done with
it is named, as is every part of it that may be an object too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from kernelagent.tools.judge.source_reading.checks.kernel_writes import (
    VIEWS,
    Written,
    parameter_order,
)
from kernelagent.tools.judge.source_reading.following.classes import is_module
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.following.names import (
    Comprehension,
    Names,
    Own,
    Scope,
)
from kernelagent.tools.judge.source_reading.following.objects import Objects
from kernelagent.tools.judge.source_reading.following.plain import Plain
from kernelagent.tools.judge.source_reading.following.pure import (
    METHODS_THAT_ONLY_ANSWER,
    only_answers,
)

_ASK = frozenset(
    "len isinstance issubclass callable bool int float str repr format abs round any all sum hasattr range type id hash".split()
)
"""Builtins whose result is none of the parts of what they are given."""
_GIVE_PARTS = frozenset(
    "list tuple dict set frozenset sorted reversed iter zip enumerate map filter min max getattr".split()
)
_OF_NO_CONTAINER = frozenset(
    "shape dtype device ndim is_cuda is_cpu layout requires_grad itemsize nbytes is_sparse __name__".split()
)
_CALLED_BY_TORCH = frozenset({"forward", "backward", "jvp", "setup_context", "__call__"})


class Shared:
    """Answers for one text."""

    def __init__(
        self,
        tree: ast.Module,
        names: Names,
        lives: Lifetimes,
        written: Written,
        plain: Plain,
        parents: Mapping[ast.AST, ast.AST],
    ) -> None:
        self._names = names
        self._objects = Objects(names, lives, plain)
        self._written = written
        self._plain = plain
        self._parents = parents
        self._scopes: dict[ast.AST, Scope] = {}
        self._functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = defaultdict(list)
        self._uses: dict[str, list[ast.expr]] = defaultdict(list)
        """Loads by name, also of attributes."""
        self._place(tree, names.scopes[tree])
        self._names_read: dict[tuple[Scope, str], bool] = {}

    def _place(self, tree: ast.AST, outermost: Scope) -> None:
        waiting = [(tree, outermost)]
        while waiting:
            node, outer = waiting.pop()
            self._scopes[node] = outer
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._functions[node.name].append(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._uses[node.id].append(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._uses[node.attr].append(node)
            inner = self._names.scopes.get(node, outer)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]

    def misused(self, node: ast.Name | ast.Attribute, scope: Scope) -> bool:
        """Whether something stands there that outlives the call, and is not only read there."""
        return self._objects.is_object(node, scope) and not self._is_read(node)

    def _is_read(self, node: ast.expr) -> bool:
        """Whether what stands there is only read, there and by whatever it is handed on to."""
        self._names.spend()
        parent, scope = self._parents[node], self._scopes[node]
        if isinstance(parent, ast.keyword):
            call = self._parents[parent]
            return isinstance(call, ast.Call) and self._given(call, node, parent.arg, scope)
        match parent:
            case ast.Attribute():
                return isinstance(parent.ctx, ast.Load) and self._asked(node, parent, scope)
            case ast.Subscript():
                if parent.slice is node:
                    return True
                read = isinstance(parent.ctx, ast.Load)
                return read and (self._objects.is_flat(node, scope) or self._is_read(parent))
            case ast.Call():
                if parent.func is node:
                    return self._may_be_called(node, scope)
                return self._given(parent, node, None, scope)
            case ast.Compare() | ast.UnaryOp() | ast.FormattedValue() | ast.Expr() | ast.Raise():
                return True
            case ast.If() | ast.While() | ast.Assert() | ast.Slice():
                return True
            case ast.BinOp():
                # Of tensors it is a new one; of rows, one with the same elements.
                return (
                    self._objects.is_flat(node, scope)
                    or not self._objects.is_row(node, scope)
                    or self._is_read(parent)
                )
            case ast.IfExp():
                return parent.test is node or self._is_read(parent)
            case ast.BoolOp() | ast.Starred() | ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                flat = isinstance(parent, ast.Starred) and self._objects.is_flat(node, scope)
                return flat or self._is_read(parent)
            case ast.NamedExpr():
                return self._name_is_read(parent.target, scope) and self._is_read(parent)
            case ast.Assign():
                return all(self._target_is_read(target, scope) for target in parent.targets)
            case ast.AnnAssign():
                return parent.value is not node or self._target_is_read(parent.target, scope)
            case ast.For() | ast.comprehension():
                if parent.iter is not node:
                    return isinstance(parent, ast.comprehension)
                if self._objects.is_flat(node, scope):
                    return True
                inner = self._scopes[parent.target]
                return self._target_is_read(parent.target, inner)
            case ast.Return():
                return self._results_are_read(scope)
            case ast.AugAssign():
                return parent.value is node and isinstance(parent.target, ast.Name)
        return False

    def _asked(self, node: ast.expr, parent: ast.Attribute, scope: Scope) -> bool:
        """An attribute of the object, or a method."""
        name = parent.attr
        above = self._parents[parent]
        if name in _OF_NO_CONTAINER:
            return True
        own = self._functions.get(name)
        if isinstance(above, ast.Call) and above.func is parent:
            if own and self._has_own(node, scope):
                # What it does to its object is read there.
                return name not in ("__init__", "__post_init__")
            if name not in METHODS_THAT_ONLY_ANSWER or _changes(above):
                return False
            shares = name in VIEWS or name in ("get", "values", "items", "copy", "index_select")
            return not shares or self._objects.is_flat(node, scope) or self._is_read(above)
        if own and self._has_own(node, scope):
            return False
        given = self._names.attributes.get(name, ())
        if given and all(isinstance(b, ast.expr) and self._plain.holds(b, s) for b, s in given):
            return True
        return self._is_read(parent)

    def _has_own(self, node: ast.expr, scope: Scope) -> bool:
        return any(
            isinstance(m, Own) and m.kind == "instance" for m in self._names.meanings(node, scope)
        )

    def _may_be_called(self, node: ast.expr, scope: Scope) -> bool:
        """Whether it is an object of a class of the text's that torch does not keep things for: its methods are read."""
        own = [m for m in self._names.meanings(node, scope) if isinstance(m, Own)]
        return bool(own) and all(
            m.kind == "instance" and not is_module(m.name, self._names) for m in own
        )

    def _given(self, call: ast.Call, node: ast.expr, keyword: str | None, scope: Scope) -> bool:
        """Whether a call that is given it only reads it."""
        called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
        if isinstance(called, ast.Name) and scope.home(called.id) is None:
            if called.id in _GIVE_PARTS:
                return self._objects.is_flat(node, scope) or self._is_read(call)
            return called.id in _ASK or called.id.endswith(("Error", "Warning"))
        meanings = self._names.meanings(called, scope)
        own = [m for m in meanings if isinstance(m, Own)]
        paths = self._names.paths(called, scope)
        if paths:
            keeps = any(
                path.startswith("torch.nn.") and path.rpartition(".")[2][:1].isupper()
                for path in paths
            )
            known = not own and not keeps and all(map(only_answers, paths)) and not _changes(call)
            shares = {path.rpartition(".")[2] for path in paths} & VIEWS
            return known and (not shares or self._is_read(call))
        if isinstance(called, ast.Attribute) and called.attr == "apply" and own:
            return self._reaches(call, node, keyword, "forward", may_return=False)
        if own and all(m.kind in ("function", "kernel") for m in own):
            if isinstance(called, ast.Attribute) and self._functions.get(called.attr):
                return self._reaches(call, node, keyword, called.attr, may_return=True)
            return all(self._reaches(call, node, keyword, m.name, may_return=True) for m in own)
        if isinstance(called, ast.Attribute) and not own:
            # A method of a tensor, given another.
            return called.attr in METHODS_THAT_ONLY_ANSWER and not _changes(call)
        return False

    def _reaches(
        self, call: ast.Call, node: ast.expr, keyword: str | None, name: str, *, may_return: bool
    ) -> bool:
        """Whether the functions of a name only read the parameter that it is handed to."""
        place = call.args.index(node) if node in call.args else None
        before = call.args if place is None else call.args[:place]
        spread = any(isinstance(a, ast.Starred) for a in before) or (place is None and not keyword)
        if spread or isinstance(node, ast.Starred):
            return False
        for function in self._functions[name]:
            order = parameter_order(function, self._names)
            if place is not None and place >= len(order):
                return False
            parameter = keyword if place is None else order[place]
            every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            if parameter is None or parameter not in [a.arg for a in every]:
                return False
            if self._is_kernel(function):
                known = self._written.get(name)
                if known is not None and parameter in known.written:
                    return False
            elif not self._name_is_read(ast.Name(parameter), self._names.scopes[function]):
                return False
        return bool(self._functions[name])

    def _is_kernel(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        outer = self._names.scopes[function].parent
        return outer is not None and any(
            isinstance(b, Own) and b.kind == "kernel" for b in outer.bindings[function.name]
        )

    def _target_is_read(self, target: ast.expr, scope: Scope) -> bool:
        match target:
            case ast.Name():
                return self._name_is_read(target, scope)
            case ast.Tuple() | ast.List():
                return all(self._target_is_read(part, scope) for part in target.elts)
            case ast.Starred():
                return self._target_is_read(target.value, scope)
            case ast.Attribute():
                # Where its object is asked for it, that counts as this one.
                return True
        return False

    def _name_is_read(self, target: ast.Name, scope: Scope) -> bool:
        """Whether what gets another name in a call is only read by that name."""
        while isinstance(scope.node, Comprehension) and target.id not in scope.bindings:
            scope = scope.parent or scope
        home = scope.home(target.id)
        if home is None or home.kind != "function":
            # A name of the file: its own uses are looked at.
            return home is not None
        place = home, target.id
        if place not in self._names_read:
            self._names_read[place] = True
            self._names_read[place] = all(
                self._is_read(use)
                for use in self._uses[target.id]
                if isinstance(use, ast.Name) and self._scopes[use].home(target.id) is home
            )
        return self._names_read[place]

    def _results_are_read(self, scope: Scope) -> bool:
        """Whether whatever a function returns is only read by those who call it."""
        while isinstance(scope.node, Comprehension) and scope.parent is not None:
            scope = scope.parent
        function = scope.node
        if not isinstance(function, ast.FunctionDef) or function.name in _CALLED_BY_TORCH:
            return False
        place = scope, ""
        if place not in self._names_read:
            self._names_read[place] = True
            self._names_read[place] = all(map(self._call_is_read, self._uses[function.name]))
        return self._names_read[place]

    def _call_is_read(self, use: ast.expr) -> bool:
        parent = self._parents[use]
        if isinstance(parent, ast.Call) and parent.func is use:
            return self._is_read(parent)
        return False


def _changes(call: ast.Call) -> bool:
    return any(k.arg in ("out", "inplace", None) for k in call.keywords)
