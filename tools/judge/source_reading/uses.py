"""What a text uses: every name and attribute held against the allow-list, whatever it is called there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Literal

from kernelagent.tools.judge.source_reading import kinds
from kernelagent.tools.judge.source_reading.allowed import ATTRIBUTES, BUILTINS, MEMBERS, MODULES
from kernelagent.tools.judge.source_reading.checks.devices import ASKING
from kernelagent.tools.judge.source_reading.checks.errors import (
    ERRORS_ANSWER,
    ending_errors,
    finding,
    imports_only,
    swallowing,
)
from kernelagent.tools.judge.source_reading.checks.logs import Logs, given_to
from kernelagent.tools.judge.source_reading.checks.overrides import names_bound
from kernelagent.tools.judge.source_reading.checks.tensors import is_read
from kernelagent.tools.judge.source_reading.following.answers import answered
from kernelagent.tools.judge.source_reading.following.constructing import BY_THE_JUDGE
from kernelagent.tools.judge.source_reading.following.followed import Followed
from kernelagent.tools.judge.source_reading.following.names import (
    Function,
    Imported,
    Meaning,
    Names,
    Own,
    Scope,
    Value,
    written_out,
)
from kernelagent.tools.judge.source_reading.kinds import GUARDED, TELLING, Remark
from kernelagent.tools.judge.source_reading.remarks import Remarks

Use = Literal["value", "base", "alias"]
_KNOWN_PACKAGES = frozenset({"torch", "triton", "numpy"}) | sys.stdlib_module_names
_BENCHMARK = "do_bench"
"""What triton.autotune times with where there is a GPU: it runs there alone."""
_BY_TRITON_LATER = frozenset({_BENCHMARK, "launch_metadata", "repr"})
"""Functions that are given to Triton for a GPU's timing, a profiler's names and its sizes."""
_BY_TORCH_LATER = frozenset({"jvp", "vmap", "generate_vmap_rule"})
"""What an autograd function has for forward derivatives and for `torch.func.vmap`, which nothing that is judged asks for."""
_OF_LAYERS = ("weight_", "bias_")
_HANDS_OVER = frozenset({"state_dict", "load_state_dict"})


@dataclass(frozen=True)
class _Place:
    """Where an expression stands."""

    scope: Scope
    in_kernel: bool = False
    guarded: bool = False
    """Its answer can only end the call with an error."""
    in_table: bool = False
    """It becomes an element of a tensor."""
    of_types: bool = False
    """It only says of what kind something is."""
    errors_answer: bool = False
    """In a method whose errors Python takes for an answer, as the end of a loop."""
    constructs: bool = False
    """In what makes a module of the reference: weights are handed over there."""

    @property
    def ending(self) -> _Place:
        """The same place, in a question whose answer can only end the call."""
        return replace(self, guarded=not self.errors_answer)


class Uses:
    """The remarks on one text."""

    def __init__(
        self, names: Names, followed: Followed, never_runs: frozenset[int], source: str
    ) -> None:
        self._names = names
        self._followed = followed
        self._never_runs = never_runs
        self._has_own_layers = any(
            isinstance(b, Own) or (isinstance(b, ast.expr) and not isinstance(b, ast.Call))
            for name, bindings in names.attributes.items()
            if name.startswith(_OF_LAYERS)
            for b, _ in bindings
        )
        """Whether a name that is made up may be one of the text's own methods."""
        self._remarks = Remarks(source)
        self._logs = Logs()

    def read(self, tree: ast.Module) -> Iterator[Remark]:
        """Every use that is not on the allow-list, one for each line and kind."""
        self._logs = Logs.of(tree, self._names)
        for star in self._names.stars:
            self._remarks.add(star, "unreadable")
        self._all(tree, _Place(self._names.scopes[tree]))
        yield from self._remarks

    def _all(self, node: ast.AST, place: _Place) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, place)

    def _visit(self, node: ast.AST, place: _Place, use: Use = "value") -> None:
        if id(node) in self._never_runs:
            return
        if is_read(node, self._names, place.scope) and not place.in_kernel and not place.guarded:
            self._remarks.add(node, "values_on_host")
        if place.of_types and isinstance(node, ast.Call | ast.NamedExpr | ast.Lambda):
            place = replace(place, of_types=False)
        self._led_astray(node, place)
        if self._logs.makes(node):
            # Which name its lines have is no answer.
            self._remarks.add(node, "reaches_outside")
            return
        if (line := self._logs.line(node)) is not None:
            self._remarks.add(line, "reaches_outside")
            self._remarks.add(line, "breaks_the_graph")
            for given in given_to(line):
                self._visit(given, place)
            return
        match node:
            case ast.Name(ctx=ast.Load()):
                self._name(node, node, place, use)
            case ast.Attribute():
                self._attribute(node, node, place, use)
            case ast.Call():
                self._call(node, place)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, place)
            case ast.ClassDef():
                for part in (*node.decorator_list, *node.bases, *node.keywords):
                    self._visit(part, place)
                inner = replace(place, scope=self._names.scopes[node])
                for part in node.body:
                    self._visit(part, inner)
                    if not _BY_TORCH_LATER.isdisjoint(names_bound(part)):
                        self._remarks.add(part, "acts_later")
                for part in swallowing(node, self._names):
                    self._remarks.add(part, "asks_where_it_runs")
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._all(node, replace(place, scope=self._names.scopes[node]))
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
                self._assign(node, place)
            case ast.IfExp():
                self._visit(node.test, place)
                self._visit(node.body, place, use)
                self._visit(node.orelse, place, use)
            case ast.BoolOp():
                for value in node.values:
                    self._visit(value, place, use)
            case ast.Assert():
                if self._followed.effects.within(node, place.scope):
                    # Under `python -O` there are no assertions.
                    self._remarks.add(node, "asks_where_it_runs")
                self._all(node, place.ending)
            case ast.If() if _only_raises(node.body) and not node.orelse:
                self._visit(node.test, place.ending)
                for part in node.body:
                    self._visit(part, place.ending)
            case ast.Raise():
                self._all(node, place.ending)
            case ast.Try() | ast.TryStar():
                for part in finding(node) if imports_only(node) else ending_errors(node):
                    self._remarks.add(part, "asks_where_it_runs")
                self._all(node, place)
            case ast.keyword(arg=name) if name in _BY_TRITON_LATER:
                self._remarks.add(node.value, "acts_later")
                self._all(node, place)
            case ast.Constant(value=text) if text == _BENCHMARK:
                self._remarks.add(node, "acts_later")
            case ast.MatchClass():
                self._pattern(node, place)
                self._all(node, place)
            case _:
                self._all(node, place)

    def _pattern(self, node: ast.MatchClass, place: _Place) -> None:
        """A pattern reads attributes: those it names, and those its class lists where it only counts them."""
        names = [*node.kwd_attrs]
        builtin = isinstance(node.cls, ast.Name) and place.scope.home(node.cls.id) is None
        if node.patterns and not builtin:
            for binding, _ in self._names.attributes.get("__match_args__", ()):
                listed = binding.elts if isinstance(binding, ast.Tuple | ast.List) else [None]
                for part in listed:
                    text = part.value if isinstance(part, ast.Constant) else None
                    names.append(text if isinstance(text, str) else "__match_args__")
        for name in names:
            asks = name in ASKING and not place.guarded
            if asks or not self._is_plain(name, {Value()}, guarded=place.guarded):
                self._remarks.add(node, kinds.of_attribute(name))

    def _led_astray(self, node: ast.AST, place: _Place) -> None:
        """Devices, sets and what text is made of, where they do not belong."""
        ends = isinstance(node, ast.Assert | ast.Raise) or (
            isinstance(node, ast.If) and _only_raises(node.body) and not node.orelse
        )
        if place.guarded or (ends and place.ending.guarded):
            return
        for part in self._followed.misused(node, place.scope, of_types=place.of_types):
            self._remarks.add(part, "asks_where_it_runs")

    def _function(self, node: Function, place: _Place) -> None:
        arguments = node.args
        outside = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
        answers = getattr(node, "name", "") in ERRORS_ANSWER and place.scope.kind == "class"
        constructs = getattr(node, "name", "") == BY_THE_JUDGE and place.scope.kind == "class"
        inner = replace(
            place,
            scope=self._names.scopes[node],
            guarded=False,
            errors_answer=answers,
            constructs=constructs,
        )
        self._led_astray(arguments, place)
        if isinstance(node, ast.Lambda):
            for default in outside:
                self._visit(default, place)
            self._visit(node.body, inner)
            return
        hints = [a.annotation for a in ast.walk(arguments) if isinstance(a, ast.arg)]
        written = [hint for hint in (*hints, node.returns) if hint is not None]
        for part in (*outside, *node.decorator_list):
            self._visit(part, place)
        for part in written:
            self._visit(part, replace(place, of_types=True))
        own = self._names.meanings(ast.Name(node.name, ast.Load()), place.scope)
        kernel = any(isinstance(m, Own) and m.kind == "kernel" for m in own)
        for statement in node.body:
            self._visit(statement, replace(inner, in_kernel=place.in_kernel or kernel))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """A package nobody knows is named at once; the others where they are used."""
        names = (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        if relative or any(name.split(".")[0] not in _KNOWN_PACKAGES for name in names):
            self._remarks.add(node, "reaches_outside")

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr, place: _Place) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            self._visit(target, place)
            if node.value is not None:
                self._assigned(target, node.value, place)
        if isinstance(node, ast.AnnAssign):
            self._visit(node.annotation, replace(place, of_types=True))

    def _assigned(self, target: ast.expr, value: ast.expr, place: _Place) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            self._visit(value, place, "alias")
        elif (
            isinstance(target, ast.Tuple | ast.List)
            and isinstance(value, ast.Tuple | ast.List)
            and len(target.elts) == len(value.elts)
        ):
            for part, inner in zip(target.elts, value.elts, strict=True):
                self._assigned(part, inner, place)
        else:
            self._visit(value, place)

    def _call(self, node: ast.Call, place: _Place) -> None:
        name = written_out(node)
        if name is None and _is_of_layers(node) and not self._has_own_layers:
            for argument in node.args:
                self._visit(argument, place)
            return
        if name is not None:
            if place.in_kernel:
                self._remarks.add(node, "asks_where_it_runs")
            self._visit(node.args[0], place, "base")
            for argument in node.args[2:]:
                self._visit(argument, place, "alias")
            self._member(node.args[0], name, node, place, "value")
            return
        called = node.func
        if isinstance(called, ast.Attribute):
            self._attribute(called, node, place, "value")
        elif isinstance(called, ast.Name):
            self._name(called, node, place, "value")
        else:
            self._visit(called, place)
        # A table of addresses for a kernel is no question.
        table = not place.in_kernel and "torch.tensor" in self._names.paths(called, place.scope)
        inner = replace(place, in_table=place.in_table or table)
        asks_types = isinstance(called, ast.Name) and called.id in ("isinstance", "issubclass")
        for i, part in enumerate((*node.args, *node.keywords)):
            self._visit(part, replace(inner, of_types=asks_types and i == 1))
        for code in answered(node, self._names, place.scope, in_kernel=place.in_kernel):
            self._remarks.add(node, code)

    def _name(self, node: ast.Name, shown: ast.AST, place: _Place, use: Use) -> None:
        if place.scope.home(node.id) is None:
            if node.id not in BUILTINS:
                self._remarks.add(shown, kinds.of_builtin(node.id))
            return
        for path in self._names.paths(node, place.scope):
            self._path(path, shown, use)

    def _attribute(self, node: ast.Attribute, shown: ast.AST, place: _Place, use: Use) -> None:
        self._led_astray(node, place)
        self._visit(node.value, place, "base")
        if isinstance(node.ctx, ast.Load):
            self._member(node.value, node.attr, shown, place, use)

    def _member(self, base: ast.expr, name: str, shown: ast.AST, place: _Place, use: Use) -> None:
        meanings = self._names.meanings(base, place.scope)
        values = {m for m in meanings if not isinstance(m, Imported)}
        for meaning in (m for m in meanings if isinstance(m, Imported)):
            self._path(f"{meaning.path}.{name}", shown, use, guarded=place.guarded)
        if (place.in_table and name == "data_ptr") or (name == "type" and _is_device(base)):
            return
        if place.in_kernel and name == "type":
            # What a kernel is given has no type but Triton's.
            return
        if place.constructs and name in _HANDS_OVER:
            return
        if values and not self._is_plain(name, values, guarded=place.guarded):
            self._remarks.add(shown, kinds.of_attribute(name))
        if values:
            for path in self._paths_of(name):
                self._path(path, shown, use)

    def _paths_of(self, name: str) -> set[str]:
        """What the candidate's own attribute of this name may be of what is imported."""
        bindings = self._names.attributes.get(name, ())
        kept = ((b, s) for b, s in bindings if isinstance(b, ast.expr))
        of_expressions = (self._names.paths(b, s) for b, s in kept)
        direct = {b.path for b, _ in bindings if isinstance(b, Imported)}
        return direct.union(*of_expressions)

    def _is_plain(self, name: str, values: Set[Own | Value], *, guarded: bool) -> bool:
        if name in ATTRIBUTES or (guarded and name in GUARDED):
            return True
        if name.startswith("__"):
            return False
        own = name in self._names.attributes
        return own and (name not in TELLING or all(_is_object(m) for m in values))

    def _path(self, path: str, shown: ast.AST, use: Use, *, guarded: bool = False) -> None:
        if path in MODULES:
            if use == "value":
                asks = path.startswith("triton.runtime")
                self._remarks.add(shown, "asks_where_it_runs" if asks else "unreadable")
            return
        module, _, member = path.rpartition(".")
        if member in MEMBERS.get(module, ()):
            return
        if path == "torch.cuda.is_available" and guarded:
            return
        while module:
            outer, _, inner = module.rpartition(".")
            if inner in MEMBERS.get(outer, ()):
                if member not in ATTRIBUTES:
                    self._remarks.add(shown, kinds.of_attribute(member))
                return
            module, member = outer, inner
        if use != "base":
            self._remarks.add(shown, kinds.of_path(path))


def _is_object(meaning: Meaning) -> bool:
    return isinstance(meaning, Own) and meaning.kind in ("instance", "class")


def _is_of_layers(node: ast.Call) -> bool:
    """`getattr(rnn, f"weight_ih_l{layer}")`: only parameters are called so."""
    if not (isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) == 2):
        return False
    name = node.args[1]
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else None
    text = first.value if isinstance(first, ast.Constant) else ""
    return str(text).startswith(_OF_LAYERS)


def _is_device(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device"


def _only_raises(body: list[ast.stmt]) -> bool:
    """Whatever else it does, the call ends with an error."""
    plain = all(isinstance(statement, ast.Assign | ast.Raise) for statement in body)
    return bool(body) and plain and isinstance(body[-1], ast.Raise)
