"""Runs what is launched on the fake device: triton's interpreter, on the host memory behind the pointers.

Everything before it is real: the kernel is compiled for the device it would run on, its image is
loaded, and triton's own launcher packs the arguments. Here they are unpacked again by the kernel's
signature. An image that was not compiled in this process is not known, and its launch fails.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from fake_cuda_hook import bfloat, libdevice, reducing

RUN, RECORD, REPLAY = 0, 1, 2
LAUNCH_FAILED = 719
_CALLED = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_long),
)
_SCALARS = {
    "i1": "b",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "fp16": "e",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}


class NotExecutable(Exception):
    """The fake device cannot run this launch."""


class Executor:
    """Is called by the driver for each launch, and knows the source behind each compiled image."""

    def __init__(self) -> None:
        self._sources: dict[bytes, Any] = {}
        self._launched: dict[tuple[int, bytes], Any] = {}
        self._recorded: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._callback = _CALLED(self._called)

    def serve(self, driver: ctypes.CDLL) -> None:
        """From now on `driver` runs its launches here."""
        driver.fake_cuda_execute_with(self._callback)

    def know(self, image: bytes, source: Any) -> None:
        """`image` was compiled from `source`, an `ASTSource` of triton."""
        self._sources[hashlib.sha256(image).digest()] = source

    def _called(
        self, what: int, image: int, size: int, name: bytes, grid: Any, params: Any, ticket: Any
    ) -> int:
        try:
            with self._lock:
                if what == REPLAY:
                    self._recorded[ticket[0]]()
                    return 0
                launch = self._launch(image, size, name, tuple(grid[:3]), params)
                if what == RECORD:
                    ticket[0] = len(self._recorded)
                    self._recorded.append(launch)
                else:
                    launch()
        except BaseException as error:  # noqa: BLE001 - the driver's C code stands above
            sys.stderr.write(f"fake cuda: {name.decode()}: {type(error).__name__}: {error}\n")
            traceback.print_tb(error.__traceback__, limit=-4)
            return LAUNCH_FAILED
        return 0

    def _launch(
        self, image: int, size: int, name: bytes, grid: tuple[int, ...], params: Any
    ) -> Callable[[], None]:
        source = self._launched.get((image, name))
        if source is None:
            digest = hashlib.sha256(ctypes.string_at(image, size)).digest()
            source = self._sources.get(digest)
            if source is None:
                raise NotExecutable("it was not compiled in this process")
            self._launched[image, name] = source
        return functools.partial(interpret, source.fn, arguments(source, params), grid)


def arguments(source: Any, params: Any) -> dict[str, Any]:
    """The kernel's arguments by name: constants as they are, all else from the packed parameters."""
    places = iter(range(1 << 16))
    constants = {
        (source.fn.arg_names.index(key),) if isinstance(key, str) else key: value
        for key, value in source.constants.items()
    }

    def unpacked(kind: Any, path: tuple[int, ...]) -> Any:
        if isinstance(kind, tuple):
            return tuple(unpacked(part, (*path, at)) for at, part in enumerate(kind))
        if kind == "constexpr":
            return constants.get(path)
        place = params[next(places)]
        if kind.startswith("*"):
            return _pointer(ctypes.c_uint64.from_address(place).value, kind)
        if kind == "bf16":
            raw = ctypes.string_at(place, 2)
            return struct.unpack("<f", b"\0\0" + raw)[0]
        letter = _SCALARS.get(kind)
        if letter is None:
            raise NotExecutable(f"an argument of type {kind}")
        value = struct.unpack("<" + letter, ctypes.string_at(place, struct.calcsize(letter)))[0]
        return bool(value) if kind in ("i1", "u1") else value

    # Parameters are packed in the signature's order; constants go by the place among the names.
    return {
        name: unpacked(kind, (source.fn.arg_names.index(name),))
        for name, kind in source.signature.items()
    }


def interpret(function: Any, given: dict[str, Any], grid: tuple[int, ...]) -> None:
    """Run every program of the grid, one after the other."""
    from triton.runtime import interpreter

    rewritten = _rewritten(function.fn)
    constant = {p.name for p in function.params if p.is_constexpr}
    arguments = {
        name: value if name in constant else interpreter._implicit_cvt(value)
        for name, value in given.items()
    }
    scopes: list[Any] = [_Patch.of(rewritten)]
    _Running.scopes.append(scopes)
    try:
        interpreter.interpreter_builder.set_grid_dim(*grid)
        for x, y, z in _programs(grid):
            interpreter.interpreter_builder.set_grid_idx(x, y, z)
            rewritten(**arguments)
    finally:
        _Running.scopes.pop()
        for scope in reversed(scopes):
            scope.restore()


class _Patch:
    """What the interpreter replaces in triton's language for one function; looked up once, for it is slow."""

    _known: ClassVar[dict[Any, list[tuple[Any, str, Any]]]] = {}

    def __init__(self, replacing: list[tuple[Any, str, Any]]) -> None:
        from triton.runtime import interpreter

        self._scope = interpreter._LangPatchScope()
        for owner, name, value in replacing:
            self._scope.set_attr(owner, name, value)

    @classmethod
    def of(cls, function: Any) -> _Patch:
        """In force until `restore`."""
        from triton.runtime import interpreter

        if function not in cls._known:
            scope = interpreter._patch_lang(function)
            for owner, name, value in (*bfloat.replacements(), *reducing.replacements()):
                scope.set_attr(owner, name, value)
            places = dict.fromkeys((owner, name) for owner, name, _ in scope._changes)
            cls._known[function] = [(at, name, vars(at)[name]) for at, name in places]
            scope.restore()
        return cls(cls._known[function])

    def restore(self) -> None:
        self._scope.restore()


class _Running:
    scopes: ClassVar[list[list[Any]]] = []
    """What is patched for the kernel that is interpreted: then a call of a jitted function is one in it."""


def _programs(grid: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    for x in range(grid[0]):
        for y in range(grid[1]):
            for z in range(grid[2]):
                yield x, y, z


def _pointer(address: int, kind: str) -> Any:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    # "*k": a pointer to what is only read.
    kind = "*" + kind[2:] if kind.startswith("*k") else kind
    element = tl.str_to_ty(kind, None)
    return tl.tensor(TensorHandle(np.array([address], dtype=np.uint64), element), element)


@functools.cache
def _rewritten(function: Any) -> Any:
    """As the interpreter rewrites it, in a copy of its module's names: the module stays as it was."""
    from triton.runtime import interpreter

    class Rewriter(interpreter.FunctionRewriter):
        def _compile_and_exec(self, tree: Any) -> Any:
            names = {**vars(interpreter), **function.__globals__}
            closed = dict(
                zip(
                    function.__code__.co_freevars,
                    (cell.cell_contents for cell in function.__closure__ or ()),
                    strict=True,
                )
            )
            names.update(closed)
            known = [name for name, value in names.items() if libdevice.is_libdevice(value)]
            names.update(dict.fromkeys(known, libdevice.interpreted()))
            exec(compile(tree, filename=self.filename, mode="exec"), names)
            return names[function.__name__]

    return Rewriter(function).rewrite_ast()


def install(executor: Executor) -> None:
    """Tell `executor` of whatever triton compiles, and let jitted functions call each other in it."""
    from triton.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    made, called = CompiledKernel.__init__, JITFunction.__call__

    @functools.wraps(made)
    def init(self: Any, src: Any, *rest: Any, **named: Any) -> None:
        made(self, src, *rest, **named)
        executor.know(self.kernel, src)

    @functools.wraps(called)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        if not _Running.scopes:
            return called(self, *given, **named)
        _Running.scopes[-1].append(_Patch.of(self.fn))
        named = {key: value for key, value in named.items() if key not in _COMPILERS_OWN}
        return _rewritten(self.fn)(*given, **named)

    CompiledKernel.__init__ = init
    JITFunction.__call__ = call


_COMPILERS_OWN = frozenset({"_builder", "_generator", "_semantic"})
