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

from kernelagent.tools.judge.source_reading.classes import is_module
from kernelagent.tools.judge.source_reading.kernel_writes import VIEWS, Written, parameter_order
from kernelagent.tools.judge.source_reading.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.names import (
    Binding,
    Comprehension,
    Imported,
    Kept,
    Names,
    Own,
    Scope,
)
from kernelagent.tools.judge.source_reading.plain import Plain
from kernelagent.tools.judge.source_reading.pure import METHODS_THAT_ONLY_ANSWER, only_answers

_DISPLAYS = ast.List | ast.Tuple | ast.Set | ast.Dict
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
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
_NO_OBJECTS = (
    "triton.",
    "math.",
    "typing.",
    "numbers.",
    "enum.",
    "__future__.",
    "torch.device",
    "torch.Size",
    "torch.finfo",
    "torch.iinfo",
    "collections.namedtuple",
    "numpy.",
    "functools.wraps",
    "contextlib.contextmanager",
)
"""What these make cannot be changed, or only by what is named anyway."""
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
        self._lives = lives
        self._written = written
        self._plain = plain
        self._parents = parents
        self._scopes: dict[ast.AST, Scope] = {}
        self._functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = defaultdict(list)
        self._uses: dict[str, list[ast.expr]] = defaultdict(list)
        """Loads by name, also of attributes."""
        self._place(tree, names.scopes[tree])
        self._names_read: dict[tuple[Scope, str], bool] = {}
        self._objects: dict[tuple[ast.expr, Scope], bool] = {}

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
        return self._is_object(node, scope) and not self._is_read(node)

    def _is_object(self, node: ast.expr, scope: Scope) -> bool:
        place = node, scope
        if place not in self._objects:
            self._objects[place] = False
            self._objects[place] = self._stays(node, scope)
        return self._objects[place]

    def _stays(self, node: ast.expr, scope: Scope) -> bool:
        self._names.spend()
        match node:
            case ast.Name():
                home = scope.home(node.id)
                if home is None:
                    return False
                bindings = home.bindings[node.id]
                if home.kind != "module" and not self._lives.may_stay(scope, home):
                    # Its own, of this call; but a default is made once.
                    return any(
                        isinstance(b, Kept) and self._may_change(b.default, home.parent or home)
                        for b in bindings
                    )
                # The object of a method around a function: what the function holds is looked at where it is made.
                own = [b for b in bindings if home.kind == "module" or not isinstance(b, Own)]
                return any(self._may_change(b, home) for b in own)
            case ast.Attribute():
                if self._names.paths(node.value, scope):
                    return False
                return any(
                    self._is_kept(b, s) for b, s in self._names.attributes.get(node.attr, ())
                )
        return False

    def _is_kept(self, binding: Binding, scope: Scope) -> bool:
        """Whether an attribute is given an object that torch does not keep with the module."""
        match binding:
            case ast.Call():
                paths = self._names.paths(binding.func, scope)
                in_class = scope.kind == "class"
                own = [m for m in self._names.meanings(binding.func, scope) if isinstance(m, Own)]
                of_module = any(p.startswith("torch.nn.") for p in paths) or any(
                    m.kind == "class" and is_module(m.name, self._names) for m in own
                )
                if of_module and not in_class:
                    return False
                makes = bool(paths) or any(m.kind == "class" for m in own)
                return makes and self._may_change(binding, scope)
            case ast.expr():
                shown = isinstance(binding, _DISPLAYS | _COMPREHENSIONS)
                refers = isinstance(binding, ast.Name | ast.Attribute | ast.Subscript)
                if shown:
                    return self._may_change(binding, scope)
                return refers and self._is_object(_root(binding), scope)
        return False

    def _may_change(self, binding: Binding, scope: Scope) -> bool:
        """Whether what a name is bound to may be an object, or hold one."""
        match binding:
            case Imported():
                return False
            case Own():
                return binding.kind == "instance"
            case ast.Constant() | ast.JoinedStr() | ast.Lambda() | ast.Compare():
                return False
            case (
                ast.List()
                | ast.Set()
                | ast.Dict()
                | ast.ListComp()
                | ast.SetComp()
                | ast.DictComp()
            ):
                return True
            case ast.Tuple():
                return any(self._may_change(part, scope) for part in binding.elts)
            case ast.Call():
                return self._call_may_change(binding, scope)
            case ast.Name() | ast.Attribute() if self._meanings_are_fixed(binding, scope):
                return False
            case ast.expr():
                return not self._plain.holds(binding, scope)
            case Kept():
                return self._may_change(binding.default, scope.parent or scope)
        return scope.kind == "module"

    def _call_may_change(self, node: ast.Call, scope: Scope) -> bool:
        called: ast.expr = node
        while isinstance(called, ast.Call):
            called = called.func
        paths = self._names.paths(called, scope)
        if paths and all(path.startswith(_NO_OBJECTS) for path in paths):
            return False
        return not self._plain.holds(node, scope)

    def _meanings_are_fixed(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name is another one for something imported, or for a function, kernel or class."""
        meanings = self._names.meanings(node, scope)
        return bool(meanings) and all(
            isinstance(m, Imported) or (isinstance(m, Own) and m.kind != "instance")
            for m in meanings
        )

    def _is_flat(self, node: ast.expr, scope: Scope) -> bool:
        """Whether no part of this is an object: a row of numbers, texts, functions or kernels, or a tensor's elements."""
        match node:
            case ast.Name():
                home = scope.home(node.id)
                bindings = home.bindings[node.id] if home is not None else []
                return bool(bindings) and all(
                    isinstance(b, ast.expr) and self._holds_no_object(b, home or scope)
                    for b in bindings
                )
            case ast.Attribute():
                given = self._names.attributes.get(node.attr, ())
                return bool(given) and all(
                    isinstance(b, ast.expr) and self._holds_no_object(b, s) for b, s in given
                )
        return self._holds_no_object(node, scope)

    def _holds_no_object(self, node: ast.expr, scope: Scope) -> bool:
        match node:
            case ast.List() | ast.Tuple() | ast.Set():
                parts = node.elts
            case ast.Dict():
                parts = node.values
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                parts, scope = [node.elt], self._names.scopes[node]
            case ast.DictComp():
                parts, scope = [node.value], self._names.scopes[node]
            case _:
                return self._plain.holds(node, scope)
        return all(self._holds_no_part(part, scope) for part in parts)

    def _holds_no_part(self, node: ast.expr, scope: Scope) -> bool:
        if isinstance(node, ast.Starred):
            return self._is_flat(node.value, scope)
        return not self._may_change(node, scope)

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
                return read and (self._is_flat(node, scope) or self._is_read(parent))
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
                    self._is_flat(node, scope)
                    or not self._is_row(node, scope)
                    or self._is_read(parent)
                )
            case ast.IfExp():
                return parent.test is node or self._is_read(parent)
            case ast.BoolOp() | ast.Starred() | ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                flat = isinstance(parent, ast.Starred) and self._is_flat(node, scope)
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
                if self._is_flat(node, scope):
                    return True
                inner = self._scopes[parent.target]
                return self._target_is_read(parent.target, inner)
            case ast.Return():
                return self._results_are_read(scope)
            case ast.AugAssign():
                return parent.value is node and isinstance(parent.target, ast.Name)
        return False

    def _is_row(self, node: ast.expr, scope: Scope) -> bool:
        home = scope.home(node.id) if isinstance(node, ast.Name) else None
        bindings = home.bindings[node.id] if isinstance(node, ast.Name) and home is not None else ()
        rows = _DISPLAYS | _COMPREHENSIONS
        return isinstance(node, rows) or any(isinstance(b, rows) for b in bindings)

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
            return not shares or self._is_flat(node, scope) or self._is_read(above)
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
                return self._is_flat(node, scope) or self._is_read(call)
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
                if parameter in self._written.get(name, ((), frozenset()))[1]:
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


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
