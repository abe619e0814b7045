"""One reversible scope in which `triton.language` computes on numpy arrays.

Outside the scope nothing differs from an untouched Triton, so the same process can go on compiling.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import triton.language as tl
import triton.language.extra.cuda as cuda_functions
import triton.language.extra.cuda.libdevice as cuda_libdevice
import triton.language.extra.libdevice as libdevice_stubs
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from kernelagent.tools.virtual import triton_versions
from kernelagent.tools.virtual.arithmetic.orders import ORDER
from kernelagent.tools.virtual.arithmetic.reductions import Reduction, Scan
from kernelagent.tools.virtual.cost.combining import Combining, combining_clocks
from kernelagent.tools.virtual.interpreter import hints, loops, shortcuts
from kernelagent.tools.virtual.interpreter.left_out import is_asked_by_triton
from kernelagent.tools.virtual.interpreter.mapping import Mapped
from kernelagent.tools.virtual.kernel_text import conditions, merges
from kernelagent.tools.virtual.kernel_text.branches import PLAIN, Constants, asked
from kernelagent.tools.virtual.kernel_text.joined import follow
from kernelagent.tools.virtual.kernel_text.lines import NAME
from kernelagent.tools.virtual.kernel_text.loaded import Given
from kernelagent.tools.virtual.operations.builder import RepairedBuilder


class Language:
    """The repaired builder, the semantics on top of it, and the patches that lead there."""

    reduction: type[Reduction] = Reduction
    scan: type[Scan] = Scan
    mapped: type[Mapped] = Mapped

    def __init__(self, builder: RepairedBuilder | None = None) -> None:
        self.builder = builder or RepairedBuilder()
        self.semantic = shortcuts.QuickSemantic(self.builder)
        self.logic = self.make_logic()
        self._rewritten: dict[tuple[int, str], tuple[JITFunction[Any], Callable[..., Any]]] = {}
        self._asked: dict[int, frozenset[str]] = {}
        self._given: Given = {}
        self._interpreted: dict[int, Any] = {}
        self._forward: list[tuple[Any, str, Any]] = []
        self._backward: list[tuple[Any, str, Any]] = []
        self._record()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, calls of `triton.language` work on numpy arrays; everything is put back."""
        try:
            for owner, name, value in self._forward:
                setattr(owner, name, value)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            for owner, name, value in self._backward:
                if value is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, value)

    def function(
        self, kernel: JITFunction[Any], arguments: Mapping[str, Any] = MappingProxyType({})
    ) -> Callable[..., Any]:
        """The kernel as Python code whose assignments and comparisons go through the semantics.

        `arguments`: of the launch; which branches it takes is known of those that are compiled in.
        """
        constants = self._constants(kernel, arguments)
        key = id(kernel), repr(sorted(constants.items()))
        known = self._rewritten.get(key)
        if known is None:
            known = kernel, self._rewrite(kernel, constants)
            self._rewritten[key] = known
        return known[1]

    def _constants(self, kernel: JITFunction[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The plain ones that the kernel's branches ask for."""
        if not arguments:
            return {}
        names = self._asked.get(id(kernel))
        if names is None:
            names = self._asked[id(kernel)] = asked(kernel.parse().body[0])
        compiled_in = {p.name for p in kernel.params if p.is_constexpr and p.name in names}
        values = {name: arguments[name] for name in compiled_in & arguments.keys()}
        # What is compiled in may come as an object that says so.
        plain = {name: getattr(value, "value", value) for name, value in values.items()}
        return {name: value for name, value in plain.items() if isinstance(value, PLAIN)}

    def make_logic(self) -> loops.Logic:
        """What rewritten control flow asks."""
        return loops.Logic(self.semantic)

    def patch_further(self, scope: Recorder) -> None:
        """Patches on top of the others; here none."""

    def rewrite_control(self, definition: ast.FunctionDef) -> None:
        """Change the text further, in place; here it runs as it stands."""

    def _rewrite(self, kernel: JITFunction[Any], constants: Constants) -> Callable[..., Any]:
        tree = kernel.parse()
        file, line = triton_versions.place_of(kernel)
        own = not kernel.fn.__module__.startswith(_OF_TRITON)
        shown = loops.as_written(tree.body[0]) if own else loops.Shown()
        if own:
            self._note_conditions(kernel, tree.body[0], line, constants)
        tree = stock.ASTTransformer().visit(tree)
        definition = tree.body[0]
        definition.decorator_list = []
        _strip_signature(definition)
        body = ast.Module(definition.body, [])
        loops.LogicRewriter(line if own else None, shown).generic_visit(body)
        definition.body = body.body
        self.rewrite_control(definition)
        ast.fix_missing_locations(tree)
        ast.increment_lineno(tree, line - 1)
        scope = {
            name: self._interpreted.get(id(value), value)
            for name, value in kernel.get_capture_scope().items()
        }
        known = self.logic.scope().items()
        scope |= {name: value for name, value in known if name not in scope}
        scope |= triton_versions.names_in_rewritten_code(self.semantic)
        scope[NAME] = self.logic
        exec(compile(tree, file, "exec"), scope)
        function: Callable[..., Any] = scope[kernel.fn.__name__]
        original = inspect.signature(kernel.fn).parameters
        function.__defaults__ = kernel.fn.__defaults__
        function.__kwdefaults__ = {
            name: parameter.default
            for name, parameter in original.items()
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
        }
        return function

    def _note_conditions(
        self, kernel: JITFunction[Any], body: ast.FunctionDef, line: int, constants: Constants
    ) -> None:
        """Have noted which way its conditions come out, and which of its operations change nothing."""
        scope = kernel.get_capture_scope()
        given = self._given.get(id(kernel), (kernel, frozenset()))[1]
        outcome = merges.Merges(body, line, scope, given, constants)
        conditions.mark(body, line, scope, given, constants)
        outcome.put()
        for key, (function, names) in outcome.given_further.items():
            known = self._given.get(key, (function, frozenset()))[1]
            if not names <= known:
                # Where another kernel has called it without data, it is rewritten once more.
                for rewritten in [item for item in self._rewritten if item[0] == key]:
                    del self._rewritten[rewritten]
            self._given[key] = function, known | names

    # the patches

    def _record(self) -> None:
        """Apply Triton's own patches once, note what they changed, and take them back."""
        scope = Recorder()
        for language in (tl, tl.core):
            self._builtins(language, scope)
            self._builtins(language.tensor, scope)
            triton_versions.patch_tensor(language.tensor, scope)
            stock._patch_lang_core(language, scope)
            for name in hints.NAMES:
                scope.set_attr(language, name, partial(self._hint, name))
            scope.set_attr(language, "range", loops.counted)
            scope.set_attr(language, "static_range", loops.static)
        for owner in (tl.math, tl.core.tensor_descriptor_base, cuda_libdevice, cuda_functions):
            self._builtins(owner, scope)
        for name, method in (
            ("reduce", self._reduce),
            ("associative_scan", self._scan),
            ("map_elementwise", self._map),
        ):
            for owner in (tl, tl.core, tl.tensor):
                if hasattr(owner, name):
                    self._interpreted[id(getattr(owner, name))] = function = _free(method)
                    scope.set_attr(owner, name, function)
        for name, member in inspect.getmembers(tl.tensor, lambda m: isinstance(m, JITFunction)):
            scope.set_attr(tl.tensor, name, shortcuts.as_method(member))
        scope.set_attr(stock, "_get_np_dtype", shortcuts.memoised_dtype(stock._get_np_dtype))
        block, tensor = tl.block_type, tl.tensor
        scope.set_attr(tensor, "__bool__", self._decided(tensor.__bool__))
        scope.set_attr(tensor, "T", self._transposed(tensor.T))
        scope.set_attr(block, "__init__", shortcuts.block_type_init(block.__init__))
        scope.set_attr(tensor, "__init__", shortcuts.tensor_init(tensor.__init__))
        scope.set_attr(tl.tuple, "__eq__", shortcuts.tuple_eq(tl.tuple.__eq__))
        unwrap = shortcuts.unwrap_if_constexpr(tl.core._unwrap_if_constexpr)
        scope.set_attr(tl.core, "_unwrap_if_constexpr", unwrap)
        for name in shortcuts.BINARY & vars(tl.constexpr).keys():
            scope.set_attr(tl.constexpr, name, shortcuts.of_tensors(vars(tl.constexpr)[name]))
        scope.set_attr(stock, "interpreter_semantic", self.semantic)
        scope.set_attr(JITFunction, "__call__", _free(self._call))
        self._stubs(scope)
        self.patch_further(scope)
        self._forward = scope.forward
        self._backward = list(reversed(scope.backward))
        scope.restore()

    def _builtins(self, owner: Any, scope: Recorder) -> None:
        for name, member in inspect.getmembers(owner):
            if tl.core.is_builtin(member) and id(member) not in scope.made:
                scope.set_attr(owner, name, self._bound(member, scope))

    def _bound(self, member: Callable[..., Any], scope: Recorder) -> Callable[..., Any]:
        semantic = self.semantic
        inner = getattr(member, "__wrapped__", member)

        def bound(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return inner(*args, **kwargs)

        bound.__name__ = member.__name__
        setattr(bound, tl.core.TRITON_BUILTIN, True)
        self._interpreted[id(member)] = bound
        scope.made.add(id(bound))
        return bound

    def _decided(self, slow: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """`tensor.__bool__`: a branch waits for the number that decides it."""

        def truth(item: Any) -> bool:
            if is_asked_by_triton():
                return True
            decides = self.builder.decides
            if self.builder.flow.on and (decides or not item.type.is_block()):
                self.builder.flow.waits_for(item.handle)
            return slow(item) if decides is None else bool(decides(item.handle.data != 0))

        return truth

    def _transposed(self, slow: property) -> property:
        """`tensor.T`, which Triton's interpreter does without its builder."""

        def transposed(item: Any) -> Any:
            made = slow.__get__(item)
            self.builder.flow.same(item.handle, made.handle)
            follow(
                self.builder,
                made.handle,
                (item.handle,),
                lambda handle: slow.__get__(tl.tensor(handle, item.type)).handle,
            )
            return made

        return property(transposed)

    def _stubs(self, scope: Recorder) -> None:
        """Give libdevice's empty stubs a body; this also reaches `from ... import tanh`."""
        for name, stub in vars(libdevice_stubs).items():
            if isinstance(stub, types.FunctionType) and hasattr(cuda_libdevice, name):
                scope.set_attr(stub, "__code__", _stub_body.__code__.replace(co_name=name))
                scope.set_attr(stub, "__kwdefaults__", {"_name": name, "_library": cuda_libdevice})

    def _call(self, kernel: JITFunction[Any], *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_semantic", None)
        function, choices = self.function(kernel), self.builder.choices
        if choices is None or kernel.fn.__module__.startswith(_OF_TRITON):
            return function(*args, **kwargs)
        with choices.calling(loops.place_now()):
            return function(*args, **kwargs)

    def _hint(self, name: str, value: Any, values: Any, **_: Any) -> Any:
        """A hint to the compiler; of a value that Python knows it says nothing."""
        if isinstance(value, tl.tensor):
            data = self.builder.running(value.handle.data)
            if not value.type.is_block():
                data = data.reshape(data.shape[0])
            self.builder.hints.look(name, value, values, data)
        return value

    def _reduce(
        self,
        input: Any,  # noqa: A002 - the name Triton's function has
        axis: Any,
        combine_fn: Any,
        keep_dims: bool = False,
        **_: Any,
    ) -> Any:
        operation = self.reduction(axis, combine_fn, keep_dims, self.function(combine_fn))
        operation.uncounted = self._uncounted
        self._count_elements(input)
        result = operation.apply(input)
        clocks = _clocks("reduce", input, axis) if self.builder.flow.on else 0
        self.builder.flow.exchanged(_listed(input), _listed(result), clocks)
        return result

    def _scan(
        self,
        input: Any,  # noqa: A002 - the name Triton's function has
        axis: Any,
        combine_fn: Any,
        reverse: bool = False,
        **_: Any,
    ) -> Any:
        operation = self.scan(axis, combine_fn, reverse, self.function(combine_fn))
        operation.uncounted = self._uncounted
        self._count_elements(input)
        result = operation.apply(input)
        clocks = _clocks("scan", input, axis) if self.builder.flow.on else 0
        self.builder.flow.exchanged(_listed(input), _listed(result), clocks)
        return result

    def _map(self, scalar_fn: Any, *given: Any, pack: Any = 1, **_: Any) -> Any:
        blocks = self.semantic.broadcast_tensors(*map(self.semantic.to_tensor, given))
        number = pack.value if isinstance(pack, tl.constexpr) else pack
        return self.mapped(self.builder, self.function(scalar_fn), number).of(blocks)

    @contextlib.contextmanager
    def _uncounted(self) -> Iterator[None]:
        known, self.builder.count = self.builder.count, None
        try:
            yield
        finally:
            self.builder.count = known

    def _count_elements(self, operand: Any) -> None:
        self.builder.step("exchange")
        if self.builder.count is not None:
            first = operand[0] if isinstance(operand, tuple | tl.tuple) else operand
            kind = first.dtype
            self.builder.count(
                "fp" if kind.is_floating() else "int",
                self.builder.lanes(first.handle.data),
                str(kind),
            )


def _clocks(what: Combining, operand: Any, axis: Any) -> int:
    """What the threads of the compiled kernel take to combine these; 0 where it is not known which has what."""
    first = _listed(operand)[0]
    shape = tuple(int(size) for size in first.shape)
    along = axis.value if isinstance(axis, tl.constexpr) else axis
    held = ORDER.layouts.bits(shape, None if along is None else int(along) % max(1, len(shape)))
    if held is None:
        return 0
    in_one = what == "reduce" and not first.dtype.is_floating()
    sizes = len(held.registers), len(held.lanes), len(held.warps)
    return combining_clocks(what, *sizes, in_one=in_one)


def _listed(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, tuple | tl.tuple) else [tensors]


_ABSENT = object()
_OF_TRITON = "triton."


class Recorder:
    """Has the interface of Triton's patch scope, and remembers both directions."""

    def __init__(self) -> None:
        self.forward: list[tuple[Any, str, Any]] = []
        self.backward: list[tuple[Any, str, Any]] = []
        self.made: set[int] = set()

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        self.forward.append((owner, name, value))
        self.backward.append((owner, name, getattr(owner, name, _ABSENT)))
        setattr(owner, name, value)

    def restore(self) -> None:
        for owner, name, value in reversed(self.backward):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def _stub_body(*args: Any, _name: str, _library: Any) -> Any:
    return getattr(_library, _name)(*args)


def _free(method: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, which becomes a method of the class that it is put into."""
    return lambda *args, **kwargs: method(*args, **kwargs)


def _strip_signature(definition: ast.FunctionDef) -> None:
    """Annotations and defaults were evaluated when the kernel was defined; not a second time."""
    arguments = definition.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    definition.returns = None
