"""Which parameters of a kernel or a function are written through, also by what it hands them on to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelagent.tools.judge.source_reading.following.names import Imported, Names, Own, Scope

VIEWS: frozenset[str] = frozenset(
    "view reshape t transpose permute squeeze unsqueeze flatten expand detach select narrow as_strided view_as contiguous to chunk split "
    "multiple_of max_contiguous max_constancy make_block_ptr make_tensor_descriptor advance broadcast broadcast_to cast "
    "expand_dims unbind atleast_1d atleast_2d broadcast_tensors as_tensor asarray real imag ravel movedim moveaxis swapaxes swapdims "
    "diagonal float half double bfloat16 long int short bool type type_as cuda cpu tensor_split unfold view_as_real view_as_complex "
    "conj positive expand_as reshape_as split_with_sizes unsafe_chunk meshgrid sum_to_size unflatten dropout from_tensor".split()
)
"""Methods and functions whose result shares memory with what it is made of."""
_STORES = frozenset({"store", "store_tensor_descriptor"})
_LOADS = frozenset({"load", "load_tensor_descriptor"})
"""What gives the contents of an address, and no other address."""
_CALL_WHAT_THEY_ARE_GIVEN = frozenset(
    {"inline_asm_elementwise", "map_elementwise", "reduce", "associative_scan"}
)


@dataclass(frozen=True)
class Memory:
    """What a function of the text does with the memory that its parameters stand for."""

    order: Sequence[str]
    """Its parameters as a call gives them."""
    written: frozenset[str] = frozenset()
    """Those it writes through."""
    returned: frozenset[str] = frozenset()
    """Those that its result shares memory with."""


_NOTHING_KNOWN = Memory(())
Written = Mapping[str, Memory]
"""By the name of a function."""


def written_parameters(names: Names) -> Written:
    """Functions of one name count as one."""
    functions = [n for n in names.scopes if isinstance(n, ast.FunctionDef)]
    result = {f.name: Memory(parameter_order(f, names)) for f in functions}
    grown = True
    while grown:
        grown = False
        for function in functions:
            before = result[function.name]
            written, returned = _used(function, names, result)
            now = replace(
                before, written=before.written | written, returned=before.returned | returned
            )
            grown = grown or now != before
            result[function.name] = now
    return result


def handed(node: ast.Call, names: Names, scope: Scope, known: Written) -> Iterator[ast.expr]:
    """The arguments of a call that the called function of the text writes into."""
    for name in _called(node, names, scope):
        memory = known.get(name, _NOTHING_KNOWN)
        yield from _given_for(memory.written, memory, node)


def _given_for(parameters: frozenset[str], memory: Memory, node: ast.Call) -> Iterator[ast.expr]:
    pairs = [
        *zip(memory.order, node.args, strict=False),
        *((k.arg, k.value) for k in node.keywords),
    ]
    yield from (value for parameter, value in pairs if parameter in parameters)


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
    # The object or the context comes with the call; a static forward has its context, if nothing else makes it.
    bound = outer is not None and outer.kind == "class"
    own_context = outer is not None and "setup_context" not in outer.bindings
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    return (
        plain[1:]
        if bound and (not static or (function.name == "forward" and own_context))
        else plain
    )


def _used(
    function: ast.FunctionDef, names: Names, known: Written
) -> tuple[frozenset[str], frozenset[str]]:
    """The parameters that are written through, and those that the result shares memory with."""
    pointers = _Pointers(function, names, known)
    written: set[str] = set()
    returned: set[str] = set()
    for argument in (
        *function.args.posonlyargs,
        *function.args.args,
        *function.args.kwonlyargs,
    ):
        pointers.follow(argument.arg)
        written |= {argument.arg} if pointers.are_written() else set()
        returned |= {argument.arg} if pointers.are_returned() else set()
    return frozenset(written), frozenset(returned)


class _Pointers:
    """Which expressions of one function are addresses made from a parameter, or share memory with it."""

    def __init__(self, function: ast.FunctionDef, names: Names, known: Written) -> None:
        self._names = names
        self._known = known
        self._scope = names.scopes[function]
        self._nodes = list(ast.walk(function))
        self._aliases: set[str] = set()
        outer = self._scope.parent
        self._in_kernel = outer is not None and any(
            isinstance(b, Own) and b.kind == "kernel" for b in outer.bindings[function.name]
        )

    def follow(self, parameter: str) -> None:
        """From now on ask about this one, by all the names it gets."""
        self._aliases, grown = {parameter}, True
        while grown:
            grown = False
            for node in self._nodes:
                value, targets = _given(node)
                if value is not None and self._points(value):
                    bound = {name for target in targets for name in _bound(target)}
                    grown = grown or not bound <= self._aliases
                    self._aliases |= bound

    def are_written(self) -> bool:
        """Whether the function writes through the parameter."""
        return any(self._writes(node) for node in self._nodes)

    def are_returned(self) -> bool:
        """Whether what it returns shares memory with the parameter."""
        return any(
            isinstance(node, ast.Return) and node.value is not None and self._points(node.value)
            for node in self._nodes
        )

    def _any(self, nodes: Iterable[ast.expr]) -> bool:
        return any(self._points(node) for node in nodes)

    def _points(self, node: ast.expr) -> bool:
        """Not for what lies at an address."""
        self._names.spend()
        match node:
            case ast.Name():
                return node.id in self._aliases
            case ast.Call():
                return self._call_points(node)
            case ast.Attribute():
                return node.attr in ("data", "T", "mT") and self._points(node.value)
            case ast.Subscript() | ast.Starred() | ast.NamedExpr():
                return self._points(node.value)
            case ast.BinOp():
                # An address may be a number on its way: `address * 1`.
                moved = self._in_kernel or isinstance(node.op, ast.Add | ast.Sub)
                return moved and self._any((node.left, node.right))
            case ast.IfExp():
                return self._any((node.body, node.orelse))
            case ast.BoolOp():
                return self._any(node.values)
            case ast.Tuple() | ast.List():
                return self._any(node.elts)
        return False

    def _call_points(self, node: ast.Call) -> bool:
        called = node.func
        given = _given_to(node)
        if (
            isinstance(called, ast.Attribute)
            and called.attr in VIEWS
            and self._points(called.value)
        ):
            return True
        # Outside a kernel it may have been put into anything on the way.
        if self._in_kernel and (own_result := self._of_own_function(node)) is not None:
            return own_result
        paths = self._names.paths(called, self._scope)
        last = {path.rpartition(".")[2] for path in paths}
        if self._in_kernel:
            method = called.attr if isinstance(called, ast.Attribute) else ""
            contents = (last or {method}) <= _LOADS
            return not contents and self._any(given)
        own = any(isinstance(m, Own) for m in self._names.meanings(called, self._scope))
        return (own or bool(last & VIEWS)) and self._any(given)

    def _of_own_function(self, node: ast.Call) -> bool | None:
        """Whether the result of a function of the text shares memory with the parameter; None: it is none that is known."""
        meanings = self._names.meanings(node.func, self._scope)
        known = [
            self._known[m.name]
            for m in meanings
            if isinstance(m, Own) and m.kind in ("function", "kernel") and m.name in self._known
        ]
        if not known or len(known) < len(meanings):
            return None
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            return None
        if any(keyword.arg is None for keyword in node.keywords):
            return None
        return any(self._any(_given_for(memory.returned, memory, node)) for memory in known)

    def _writes(self, node: ast.AST) -> bool:
        match node:
            case ast.Call():
                return self._call_writes(node)
            case ast.Assign() | ast.AugAssign():
                _, targets = _given(node)
                return any(isinstance(t, ast.Subscript) and self._points(t.value) for t in targets)
        return False

    def _call_writes(self, node: ast.Call) -> bool:
        called = node.func
        if self._any(handed(node, self._names, self._scope, self._known)):
            return True
        meanings = self._names.meanings(called, self._scope)
        last = {m.path.rpartition(".")[2] for m in meanings if isinstance(m, Imported)}
        given = _given_to(node)
        if isinstance(called, ast.Attribute):
            last.add(called.attr)
            given = [called.value, *given]
        if any(name in _STORES or name.startswith("atomic_") for name in last):
            return self._any(given)
        if last & _CALL_WHAT_THEY_ARE_GIVEN and self._in_kernel:
            return self._any(given)
        if isinstance(called, ast.Attribute):
            name = called.attr
            return name.endswith("_") and not name.startswith("_") and self._points(called.value)
        known = bool(last) or any(isinstance(m, Own) for m in meanings)
        builtin = isinstance(called, ast.Name) and self._scope.home(called.id) is None
        # A function out of a list, or one that the kernel is given, may store.
        return self._in_kernel and not known and not builtin and self._any(given)


def _given_to(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _given(node: ast.AST) -> tuple[ast.expr | None, list[ast.expr]]:
    """The value that a statement gives to something, and what it gives it to."""
    match node:
        case ast.Assign():
            return node.value, node.targets
        case ast.AugAssign() | ast.AnnAssign() | ast.NamedExpr():
            return node.value, [node.target]
        case ast.For() | ast.comprehension():
            return node.iter, [node.target]
    return None, []


def _bound(target: ast.expr) -> Iterator[str]:
    """Names that get the value, or a part of it; `x[i] = y` gives x no new meaning."""
    match target:
        case ast.Name():
            yield target.id
        case ast.Tuple() | ast.List():
            for part in target.elts:
                yield from _bound(part)
        case ast.Starred():
            yield from _bound(target.value)
