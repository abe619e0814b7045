"""Lets code that says `cuda` run on CPU tensors: inside the scope they claim to live on `cuda:0`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from kernelagent.tools.virtual.compiled.compiling import MAX_THREADS, SHARED_BYTES
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.device import inert_objects
from kernelagent.tools.virtual.device.conversions import (
    end_at_the_nearest,
    histogram,
    rounded_as_by_cudnn,
)
from kernelagent.tools.virtual.device.inert_objects import ELSEWHERE, on_cpu, require_first
from kernelagent.tools.virtual.device.overlapping import require_no_overlap
from kernelagent.tools.virtual.device.repeated_indices import WRITES
from kernelagent.tools.virtual.device.storages.addresses import DATA_POINTERS
from kernelagent.tools.virtual.device.storages.fresh_memory import FRESH_MEMORY, noise
from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS
from kernelagent.tools.virtual.device.storages.old_contents import OLD_CONTENTS

_CUDA = torch.device("cuda", 0)
_MEMORY_BYTES = 80 << 30
"""What code that asks for the device's memory is told, whatever the target."""
_SHARED_BYTES_UNASKED = 48 << 10
"""What a block gets that does not ask for more (CUDA C++ Programming Guide, compute capabilities)."""
_ENGINE = "_engine_run_backward"
"""What every backward of torch's goes through, in `torch.autograd`."""
_MOVES = ("cuda", "cpu", "pin_memory")
_FRESH = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_FILLED_BY_TORCH = frozenset({"new", "resize_", "resize_as_"})
"""Others that may hand out fresh memory."""
_SEED = secrets.randbits(62)
_CLAIMS = {
    getattr(torch.Tensor, name).__get__: name for name in ("device", "is_cuda", "is_cpu", "is_meta")
}


Observer = Callable[[str, Any, Any], None]
"""Is given the name of a function of torch's, its arguments and its result."""
_OBSERVERS: list[Observer] = []


@contextlib.contextmanager
def observed_by(observe: Observer) -> Iterator[None]:
    """In the scope each call of torch's functions is told, by the mode that is there anyway."""
    _OBSERVERS.append(observe)
    try:
        yield
    finally:
        _OBSERVERS.remove(observe)


_ENTERED: list[TorchFunctionMode] = []
"""The modes of this file that are entered, from the outermost."""


class _Kept(TorchFunctionMode):
    """One that a backward keeps: torch leaves the modes on its way into `torch.autograd.grad` and `Tensor.backward`."""

    def __enter__(self) -> Self:
        _ENTERED.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        _ENTERED.pop()


def _with_what_was_entered(run: Callable[..., Any]) -> Callable[..., Any]:
    """The engine that runs a backward, in whose functions tensors are where they were in the forward."""

    def running(*args: Any, **kwargs: Any) -> Any:
        on = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        with contextlib.ExitStack() as again:
            for mode in [mode for mode in _ENTERED if not any(mode is other for other in on)]:
                again.enter_context(mode)
            return run(*args, **kwargs)

    return running


class _Claiming(_Kept):
    """Property getters and factories pass through function modes, so tensors can say where they are."""

    def __init__(self, *, rounds: bool) -> None:
        super().__init__()
        self._rounds = rounds

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        claim = _CLAIMS.get(func)
        if claim is not None:
            return func(*args) if HOST_TENSORS.holds(args[0]) else _claimed(claim, func(*args))
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "get_device":
            return -1 if HOST_TENSORS.holds(args[0]) else 0
        if name == "data_ptr" and isinstance(args[0], torch.Tensor):
            DATA_POINTERS.note(args[0])
        if name in _MOVES or name in ("to", "type_as"):
            elsewhere = HOST_TENSORS.moved(name, args, named)
            args = args if elsewhere is None else (elsewhere, *args[1:])
        if name in _MOVES and args and isinstance(args[0], torch.Tensor):
            return args[0]
        HOST_TENSORS.require_one_place(name, args)
        HOST_TENSORS.require_product_of_floats(name, args)
        HOST_TENSORS.require_on_host(name, args)
        HOST_TENSORS.written(name, args)
        given = named.get("device")
        if "device" in named:
            named["device"] = on_cpu(named["device"])
        if name == "to":
            args = tuple(on_cpu(a) if isinstance(a, str | torch.device) else a for a in args)
        if name == "set_default_device":
            args = tuple(map(on_cpu, args))
        named.pop("pin_memory", None)
        require_no_overlap(name, args, named, func)
        args, named = WRITES.ordered(name, args, named)
        if self._rounds:
            args = rounded_as_by_cudnn(name, args, named)
        there = name == "histc" and not any(map(HOST_TENSORS.holds, args))
        result = histogram(func, args, named) if there else func(*args, **named)
        for observe in _OBSERVERS:
            observe(name, (args, named), result)
        end_at_the_nearest(name, args, result, HOST_TENSORS.holds)
        if name in _FRESH or name in _FILLED_BY_TORCH:
            _handed_out(name, result)
        HOST_TENSORS.made(name, given, args, result)
        return result


def _handed_out(name: str, fresh: Any) -> None:
    """Fresh memory gets contents that nobody may rely on, and the executor will know which."""
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    seed = scramble(fresh) if name in _FRESH and fills else None
    outcome = name in _FRESH and OLD_CONTENTS.allocated(fresh)
    if fills and torch.are_deterministic_algorithms_enabled() and not outcome:
        FRESH_MEMORY.note(fresh, seed)


def scramble(fresh: Any) -> int | None:
    """Fresh integers hold anything on a GPU; torch's own filling gives them one value, to be relied on.

    Returns the seed of what they are filled with; None where they are not.

    The fill is the same in every call of a process. Else the check of where operands come from would see
    memory change between calls that nobody has written, and take it for a computed result.
    """
    if type(fresh) is not torch.Tensor or fresh.device.type != "cpu" or not fresh.numel():
        return None
    if (
        fresh.is_floating_point()
        or fresh.is_complex()
        or not torch.are_deterministic_algorithms_enabled()
    ):
        return None
    memory = fresh.untyped_storage()
    filling = noise(_SEED, fresh.dtype, memory.nbytes())
    # By address: an operation of torch would count as one of the candidate's.
    ctypes.memmove(memory.data_ptr(), filling.ctypes.data, memory.nbytes())
    return _SEED


def _claimed(claim: str, real: Any) -> Any:
    if claim == "device":
        return _CUDA if real.type == "cpu" else real
    return {"is_cuda": True, "is_cpu": False, "is_meta": False}[claim]


class WithoutContents(_Kept):
    """Entered inside `pretending_cuda`: there `cuda` means tensors that have shapes and hold nothing."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        claim = _CLAIMS.get(func)
        if claim == "device":
            real = func(*args)
            return _CUDA if real.type == "meta" else real
        if claim is not None:
            return _claimed(claim, func(*args))
        named = dict(kwargs or {})
        if "device" in named:
            named["device"] = _on_meta(named["device"])
        if getattr(func, "__name__", "") == "to":
            args = tuple(_on_meta(a) if isinstance(a, str | torch.device) else a for a in args)
        return func(*args, **named)


def _on_meta(device: Any) -> Any:
    named = device.type if isinstance(device, torch.device) else str(device).split(":")[0]
    return torch.device("meta") if named in ELSEWHERE else device


@contextlib.contextmanager
def pretending_cuda(target: str, *, rounds: bool = False) -> Iterator[None]:
    """In the scope `torch.cuda` answers for `target`, and `cuda` means the CPU.

    `rounds`: convolutions round their factors as cuDNN's do; a reference's stay exact, to be compared with.

    Dynamo files each function it knows by its identity when it is imported, which a user's imports may
    do in the scope (transformers does): every answer is therefore a function of its own. A process that
    compiles anything imports it before (`with_dynamo_imported`), so that it knows the real ones.
    """
    saved: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        saved.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    for name, value in _answers(target):
        put(torch.cuda, name, value)
    _patch_modules_and_generators(put)
    # Asked by every LSTM: this build has no cuDNN, of which torch would warn the user.
    put(torch.backends.cudnn, "is_acceptable", lambda _: False)
    engine: Any = torch.autograd
    put(engine, _ENGINE, _with_what_was_entered(getattr(engine, _ENGINE)))
    try:
        with _Claiming(rounds=rounds):
            yield
    finally:
        for owner, name, value in reversed(saved):
            setattr(owner, name, value)


def with_dynamo_imported() -> None:
    """Import what must see torch's real functions; takes one to two seconds the first time."""
    importlib.import_module("torch._dynamo")


@functools.cache
def _answers(target: str) -> tuple[tuple[str, Any], ...]:
    """Made once: the scope is entered for every call of the reference."""
    answers = _cuda_answers(target)
    return tuple((name, _of_its_own(name, value)) for name, value in answers.items())


def _of_its_own(name: str, value: Any) -> Any:
    """A function object for this name alone; classes and values stay what they are."""
    if not isinstance(value, FunctionType):
        return value
    own = FunctionType(
        value.__code__, value.__globals__, name, value.__defaults__, value.__closure__
    )
    own.__kwdefaults__ = value.__kwdefaults__
    return own


def _cuda_answers(target: str) -> dict[str, Any]:
    ceilings = ceilings_for(target)
    arch = int(ceilings.target.removeprefix("sm_"))
    capability = divmod(arch, 10)
    properties = SimpleNamespace(
        name=ceilings.name,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=ceilings.sms,
        total_memory=_MEMORY_BYTES,
        max_threads_per_block=MAX_THREADS,
        shared_memory_per_block=_SHARED_BYTES_UNASKED,
        shared_memory_per_block_optin=SHARED_BYTES[arch],
        shared_memory_per_multiprocessor=int(ceilings.shared_bytes_per_sm),
        is_integrated=0,
        is_multi_gpu_board=0,
        max_threads_per_multi_processor=ceilings.threads_per_sm,
        warp_size=32,
        regs_per_multiprocessor=65536,
        L2_cache_size=int(ceilings.l2_bytes),
    )
    nothing: Callable[..., None] = lambda *_, **__: None  # noqa: E731 - one value under many names
    zero: Callable[..., int] = lambda *_, **__: 0  # noqa: E731 - one value under many names
    stream: Callable[..., inert_objects.Stream] = lambda *_, **__: inert_objects.Stream(number=0)  # noqa: E731 - likewise
    inert: Callable[..., inert_objects.Inert] = lambda *_, **__: inert_objects.Inert()  # noqa: E731 - likewise
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": zero,
        "memory_allocated": zero,
        "max_memory_allocated": zero,
        "get_device_capability": lambda *_: capability,
        "get_device_name": lambda *_: ceilings.name,
        "get_device_properties": lambda *_: properties,
        "current_stream": stream,
        "default_stream": stream,
        "device": inert_objects.Device,
        "device_of": inert_objects.Inert,
        "stream": inert_objects.Inert,
        "Stream": inert_objects.Stream,
        "Event": inert_objects.Event,
        "init": nothing,
        "_lazy_init": nothing,
        "set_device": require_first,
        "synchronize": nothing,
        "empty_cache": nothing,
        "mem_get_info": lambda *_, **__: (_MEMORY_BYTES, _MEMORY_BYTES),
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *_: False,
        "ipc_collect": nothing,
        "nvtx": SimpleNamespace(range=inert, range_push=zero, range_pop=zero, mark=nothing),
        "get_rng_state": lambda *_, **__: torch.empty(0, dtype=torch.uint8),
        "set_rng_state": nothing,
        "manual_seed": nothing,
        "manual_seed_all": nothing,
        "reset_peak_memory_stats": nothing,
    }


_REAL_FROM_NUMPY = torch.from_numpy


def _from_numpy(array: Any) -> torch.Tensor:
    """Passes through no function mode."""
    made = _REAL_FROM_NUMPY(array)
    with torch._C.DisableTorchFunction():
        HOST_TENSORS.made("from_numpy", None, (), made)
    return made


def _patch_modules_and_generators(put: Callable[[Any, str, Any], None]) -> None:
    move, enter = torch.nn.Module.to, torch.amp.autocast.__init__

    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        places = tuple(on_cpu(a) if isinstance(a, str | torch.device) else a for a in args)
        named = {n: on_cpu(v) if n == "device" else v for n, v in kwargs.items()}
        return move(self, *places, **named)

    def begin(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        enter(self, on_cpu(device_type), *args, **kwargs)

    put(torch.nn.Module, "to", to)
    put(torch.nn.Module, "cuda", lambda self, device=None: self)
    put(torch.Tensor, "cuda", lambda self, *_, **__: HOST_TENSORS.on_the_gpu(self))
    put(torch, "from_numpy", _from_numpy)
    put(torch.Tensor, "record_stream", lambda self, *_, **__: None)
    put(torch, "Generator", inert_objects.Generator)
    put(torch.amp.autocast, "__init__", begin)
