"""What a text writes: state that stays from call to call, methods that torch calls, things of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelagent.tools.judge.source_reading.allowed import ATTRIBUTES
from kernelagent.tools.judge.source_reading.checks.kernel_writes import handed, written_parameters
from kernelagent.tools.judge.source_reading.checks.lasting import Lasting, is_of_record
from kernelagent.tools.judge.source_reading.checks.logs import Logs, given_to
from kernelagent.tools.judge.source_reading.checks.overrides import (
    MODULE_METHODS,
    is_override,
    names_bound,
)
from kernelagent.tools.judge.source_reading.checks.shared import Shared
from kernelagent.tools.judge.source_reading.following.bindings import bound_name, is_bound
from kernelagent.tools.judge.source_reading.following.classes import is_module, kind_of
from kernelagent.tools.judge.source_reading.following.constructing import CONSTRUCTORS
from kernelagent.tools.judge.source_reading.following.given_by_torch import Contexts, makes_again
from kernelagent.tools.judge.source_reading.following.kept_functions import KeptFunctions
from kernelagent.tools.judge.source_reading.following.lifetimes import Lifetimes
from kernelagent.tools.judge.source_reading.following.names import (
    Comprehension,
    Function,
    Imported,
    Names,
    Own,
    Scope,
    written_out,
)
from kernelagent.tools.judge.source_reading.following.plain import Plain
from kernelagent.tools.judge.source_reading.kinds import Remark
from kernelagent.tools.judge.source_reading.remarks import Remarks
from kernelagent.tools.source_text import written

_CHANGES_A_CONTAINER = frozenset(
    "append appendleft extend insert pop popitem popleft remove clear update setdefault add discard sort reverse "
    "__setitem__ __delitem__ difference_update intersection_update".split()
)
_DISPLAYS = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.Tuple
_TENSORS_OF_MODULES = frozenset(
    f"torch.nn.{module}{kind}" for module in ("", "parameter.") for kind in ("Parameter", "Buffer")
)
_ITS_OWN = frozenset({"__init__", "forward", "training"})


_MISSING_IN_REPLICAS = frozenset(
    "parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict".split()
)
"""Methods of modules that answer with less in a replica, as `DataParallel` makes one for each GPU; others raise there."""


@dataclass(frozen=True)
class _Where:
    scope: Scope
    later: bool = False
    """In something that runs when the module has been made."""
    context: str | None = None
    """What an autograd function calls the record it keeps for its backward."""
    again: bool = False
    """In a backward: the next one of the same graph is given the same record."""
    new: str | None = None
    """What a constructor calls the object it makes."""
    making: bool = False
    """In something that runs when a module is made, at whatever other times too."""
    in_kernel: bool = False
    shown: ast.AST | None = None
    """The statement or expression that binds what is bound there."""


class State:
    """The remarks on one text."""

    def __init__(self, names: Names, lives: Lifetimes, source: str) -> None:
        self._names = names
        self._lives = lives
        self._remarks = Remarks(source)
        self._written = written_parameters(names)
        self._plain = Plain(names, texts=True)

    def read(self, tree: ast.Module) -> Iterator[Remark]:
        """Every write that outlives its call, one for each line and kind."""
        self._logs = Logs.of(tree, self._names)
        self._contexts = Contexts(tree, self._names)
        self._made_again = makes_again(tree)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._parents = parents
        self._shared = Shared(tree, self._names, self._lives, self._written, self._plain, parents)
        for node, code in KeptFunctions(self._names, self._lives, self._plain, parents).found():
            self._remarks.add(node, code)
        for node, code in Lasting(self._names, self._lives, parents).found():
            self._remarks.add(node, code)
        self._all(tree, _Where(self._names.scopes[tree]))
        yield from self._remarks

    def _all(self, node: ast.AST, where: _Where) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, where)

    def _visit(self, node: ast.AST, where: _Where) -> None:
        if id(node) in self._lives.never_runs:
            return
        name = bound_name(node)
        if name is not None:
            self._name(name, node, where)
        if (line := self._logs.line(node)) is not None:
            for given in given_to(line):
                self._visit(given, where)
            return
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, where)
            case ast.ClassDef():
                self._class(node)
                self._all(node, replace(where, scope=self._names.scopes[node]))
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                self._all(node, replace(where, scope=self._names.scopes[node], shown=node))
            case ast.GeneratorExp():
                self._all(
                    node, replace(where, scope=self._names.scopes[node], later=True, shown=node)
                )
            case ast.AnnAssign(value=None):
                self._visit(node.annotation, where)
            case ast.AugAssign(target=ast.Name() as target):
                if where.later and self._grows(target, node.value, where):
                    self._remarks.add(node, "keeps_state")
                self._all(node, replace(where, shown=node))
            case (
                ast.Assign()
                | ast.AugAssign()
                | ast.AnnAssign()
                | ast.NamedExpr()
                | ast.Delete()
                | ast.For()
                | ast.AsyncFor()
            ):
                self._all(node, replace(where, shown=node))
            case ast.Name() | ast.Attribute() | ast.Subscript() if is_bound(node):
                self._bound(node, where)
                self._all(node, where)
            case ast.Name(ctx=ast.Load()):
                self._use(node, where)
            case ast.Call():
                self._call(node, where)
                called = node.func
                inner = called.value if isinstance(called, ast.Attribute) else called
                for part in (inner, *node.args, *node.keywords):
                    self._visit(part, where)
            case ast.Attribute(ctx=ast.Load()):
                if where.later and self._changes(node.value, node.attr, where):
                    # A method that is not called there may be called by any name.
                    self._remarks.add(node, "keeps_state")
                self._use(node, where)
                self._all(node, where)
            case _:
                self._all(node, where)

    def _use(self, node: ast.Name | ast.Attribute, where: _Where) -> None:
        """A name or an attribute whose value is asked for."""
        if where.later and isinstance(node, ast.Attribute):
            self._asks_for_parts(node.value, node.attr, node, where)
        if where.in_kernel or not (where.later or (where.making and isinstance(node, ast.Name))):
            return
        if self._shared.misused(node, where.scope):
            self._remarks.add(node, "keeps_state" if where.later else "shares_state")

    def _asks_for_parts(self, base: ast.expr, name: str, shown: ast.AST, where: _Where) -> None:
        if name in _MISSING_IN_REPLICAS and not self._names.paths(base, where.scope):
            self._remarks.add(shown, "asks_where_it_runs")

    def _function(self, node: Function, where: _Where) -> None:
        scope = self._names.scopes[node]
        self._visit(node.args, where)
        if isinstance(node, ast.Lambda):
            self._visit(node.body, replace(where, scope=scope, later=True))
            return
        for decorator in node.decorator_list:
            self._visit(decorator, where)
        if where.scope.kind == "module" and node.name.startswith("__"):
            self._remarks.add(node, "overrides")
        later = id(node) not in self._lives.at_construction
        making = id(node) not in self._lives.at_loading
        record = self._contexts.of(node, where.scope)
        first = node.args.args[0].arg if node.args.args else None
        made = where.scope.kind == "class" and node.name in CONSTRUCTORS
        own = where.scope.bindings.get(node.name, ())
        in_kernel = any(isinstance(b, Own) and b.kind == "kernel" for b in own)
        new = first if made and not self._made_again else None
        for statement in node.body:
            inner = _Where(scope, later, record, node.name == "backward", new, making, in_kernel)
            self._visit(statement, inner)

    def _name(self, name: str, shown: ast.AST, where: _Where) -> None:
        """A name that gets a value, or loses it."""
        scope = where.scope
        while isinstance(scope.node, Comprehension) and name not in scope.bindings:
            # What `:=` binds in a comprehension is bound in the function around it.
            scope = scope.parent or scope
        if name in scope.outer_names and (where.later or where.making):
            self._remarks.add(shown, "keeps_state" if where.later else "shares_state")
        special = scope.kind == "module" and name.startswith("__")
        if special and name not in ("__all__", "__version__", "__author__"):
            self._remarks.add(shown, "overrides")

    def _bound(self, target: ast.Name | ast.Attribute | ast.Subscript, where: _Where) -> None:
        shown = where.shown or target
        match target:
            case ast.Name():
                self._name(target.id, shown, where)
            case ast.Attribute():
                self._attribute(target.value, target.attr, shown, where)
            case ast.Subscript():
                base = target.value
                stays = where.later and self._outlives(base, where)
                if self._names.paths(base, where.scope):
                    self._remarks.add(shown, "changes_others")
                elif stays and not self._lives.is_followed(base, where.scope):
                    self._remarks.add(shown, "keeps_state")

    def _attribute(self, base: ast.expr, name: str, shown: ast.AST, where: _Where) -> None:
        """A value given to an attribute."""
        meanings = self._names.meanings(base, where.scope)
        objects = [m for m in meanings if isinstance(m, Own)]
        made_here = isinstance(base, ast.Name) and base.id == where.new
        fresh = made_here or self._lives.is_fresh(base, where.scope)
        if any(isinstance(m, Imported) for m in meanings):
            self._remarks.add(shown, "changes_others")
        elif isinstance(base, ast.Name) and base.id == where.context:
            if where.again:
                self._remarks.add(shown, "keeps_state")
        elif any(m.kind in ("function", "kernel") for m in objects) or name.startswith("__"):
            self._remarks.add(shown, "unreadable")
        elif objects:
            module = any(is_module(m.name, self._names) for m in objects)
            if module and (name in MODULE_METHODS or name == "forward"):
                self._remarks.add(shown, "overrides")
            elif where.later and not fresh and not self._is_followed(base, name, where):
                self._remarks.add(shown, "keeps_state")
            elif where.making and any(m.kind == "class" for m in objects):
                self._remarks.add(shown, "shares_state")
        elif (
            (where.later or name not in ATTRIBUTES | {"requires_grad"})
            and not (fresh and name in ATTRIBUTES)
            and not self._fills_empty_parts(base, name, where)
        ):
            self._remarks.add(shown, "changes_others")
        elif where.later and name != "data" and not self._is_new_part(base, where):
            # A tensor of its own that others get: what is noted on it is there in the next call.
            self._remarks.add(shown, "keeps_state")

    def _is_new_part(self, base: ast.expr, where: _Where) -> bool:
        """Whether it is a module of torch's that is made there: what its attributes are for is known."""
        home = where.scope.home(base.id) if isinstance(base, ast.Name) else None
        bindings = home.bindings[base.id] if home is not None and isinstance(base, ast.Name) else []
        return bool(bindings) and all(
            isinstance(b, ast.Call)
            and any(p.startswith("torch.nn.") for p in self._names.paths(b.func, where.scope))
            for b in bindings
        )

    def _fills_empty_parts(self, base: ast.expr, name: str, where: _Where) -> bool:
        """Whether a constructor gives an empty part of its own another, or a parameter: `self.a = nn.Module()`, then
        `self.a.b = nn.Module()` or `self.a.weight = nn.Parameter(w)`."""
        first = base
        while isinstance(first, ast.Attribute):
            first = first.value
        if where.later or not isinstance(first, ast.Name) or first.id != where.new:
            return False
        given = written(base)
        own = f"{given}.{name}"
        return self._are_empty(given, where) and (
            self._are_empty(own, where) or self._are_tensors(own, where)
        )

    def _are_empty(self, text: str, where: _Where) -> bool:
        values = _given_to(text, where)
        return bool(values) and all(
            isinstance(value, ast.Call)
            and not (value.args or value.keywords)
            and self._names.paths(value.func, where.scope) == {"torch.nn.Module"}
            for value in values
        )

    def _are_tensors(self, text: str, where: _Where) -> bool:
        """Whether all that is given to it is a parameter or buffer made there."""
        values = _given_to(text, where)
        return bool(values) and all(
            isinstance(value, ast.Call)
            and bool(paths := self._names.paths(value.func, where.scope))
            and paths <= _TENSORS_OF_MODULES
            for value in values
        )

    def _is_followed(self, base: ast.expr, name: str, where: _Where) -> bool:
        """Whether an attribute of the module is one that the judge compares with the reference's."""
        if name == "training":
            return self._lives.is_part_of_module(base, where.scope)
        return self._lives.is_followed(ast.Attribute(base, name, ast.Load()), where.scope)

    def _call(self, node: ast.Call, where: _Where) -> None:
        called = node.func
        if isinstance(called, ast.Name) and called.id == "setattr" and len(node.args) == 3:
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            self._attribute(node.args[0], str(name), node, where)
        if not where.later:
            return
        name = written_out(node)
        if isinstance(called, ast.Attribute):
            self._asks_for_parts(called.value, called.attr, node, where)
        elif name is not None:
            self._asks_for_parts(node.args[0], name, node, where)
        if isinstance(called, ast.Attribute):
            changes = self._changes(called.value, called.attr, where) and not (
                called.attr == "sort" and self._is_taken_apart(node)
            )
        else:
            changes = name is not None and self._changes(node.args[0], name, where)
        if changes or self._writes_an_argument(node, where):
            self._remarks.add(node, "keeps_state")
        for argument in handed(node, self._names, where.scope, self._written):
            written = self._lives.may_be_written(argument, where.scope)
            plain = self._plain.holds(argument, where.scope)
            if written and not plain and not self._is_of_new(argument, where):
                self._remarks.add(argument, "keeps_state")

    def _changes(self, base: ast.expr, name: str, where: _Where) -> bool:
        """Whether a method of this name changes something that stays."""
        if self._names.paths(base, where.scope):
            return False
        if name in _CHANGES_A_CONTAINER:
            fresh = self._lives.is_fresh(base, where.scope) or self._is_of_new(base, where)
            stays = not fresh
        else:
            stays = _is_in_place(name) and self._outlives(base, where)
        return stays and not self._lives.is_followed(base, where.scope)

    def _is_taken_apart(self, node: ast.Call) -> bool:
        """Whether its answer is: that of a list's `sort` is None, which has no parts, and a tensor's is made then."""
        parent = self._parents.get(node)
        match parent:
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
                return value is node
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                return value is node
        return False

    def _grows(self, target: ast.Name, value: ast.expr, where: _Where) -> bool:
        """Whether `target += value` changes what the name stands for, in place of giving the name another value."""
        if self._lives.may_be_written(target, where.scope):
            return True
        fresh = self._lives.is_fresh(target, where.scope)
        return isinstance(value, _DISPLAYS) and not fresh

    def _writes_an_argument(self, node: ast.Call, where: _Where) -> bool:
        """Whether a function of a module's is called with something that stays, and changes it."""
        written = [k.value for k in node.keywords if k.arg == "out"]
        for path in self._names.paths(node.func, where.scope):
            name = path.rpartition(".")[2]
            if name in _CHANGES_A_CONTAINER or _is_in_place(name):
                written += node.args[:1]
        return any(
            self._outlives(part, where) and not self._lives.is_followed(part, where.scope)
            for part in written
        )

    def _outlives(self, node: ast.expr, where: _Where) -> bool:
        if where.again and is_of_record(node, where.context, where.scope):
            return True
        return self._lives.outlives(node, where.scope) and not self._is_of_new(node, where)

    def _is_of_new(self, node: ast.expr, where: _Where) -> bool:
        """Whether it is an attribute of the object that is made here, which held nothing before."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == where.new:
                bindings = self._names.attributes.get(attribute, ())
                return bool(bindings) and all(
                    isinstance(b, ast.expr) and self._lives.is_fresh(b, scope)
                    for b, scope in bindings
                )
        return False

    def _class(self, node: ast.ClassDef) -> None:
        if node.keywords:
            self._remarks.add(node.keywords[0].value, "unreadable")
        kind = kind_of(node, self._names)
        if kind == "tensor":
            self._remarks.add(node.bases[0], "overrides")
        for part in node.body:
            for name in names_bound(part):
                if name == "__del__":
                    self._remarks.add(part, "acts_later")
                elif is_override(name, kind):
                    self._remarks.add(part, "overrides")


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and not name.startswith("_")


def _given_to(text: str, where: _Where) -> list[ast.expr]:
    """What the function gives to the name or attribute that is written so."""
    return [
        node.value
        for node in ast.walk(where.scope.node)
        if isinstance(node, ast.Assign) and text in map(written, node.targets)
    ]
