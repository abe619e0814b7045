"""torch's operators on the fake device: each is computed by its CPU kernel, in the same memory.

Registered over the CUDA kernels of an unchanged CUDA build of torch. What only moves metadata or
asks for memory stays torch's own and reaches the fake runtime.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

OWN = frozenset(
    """empty.memory_format empty_strided set_.source_Storage set_.source_Storage_storage_offset
    set_.source_Tensor set_ resize_ as_strided view view.dtype _reshape_alias unfold
    _local_scalar_dense record_stream is_pinned _pin_memory pin_memory alias detach is_set_to
    _copy_from _copy_from_and_resize _resize_output_ view_as_real view_as_complex _conj _neg_view
    resize_as_sparse_""".split()
)
"""Operators that compute nothing."""
NOT_TRIED = ("cudnn", "miopen", "sparse")
LONGEST_PRODUCT = 1 << 36
"""Products of more operations are not computed: only a measurement of ceilings makes them."""
PRODUCTS_PER_S = 6e14


def install(pace_s: float, driver: ctypes.CDLL) -> int:
    """Register; an operator keeps the device busy for `pace_s` seconds. Returns the number of operators.

    As on a GPU the host does not wait for it: only who waits for the device does, and who reads from it.
    """
    import torch

    warnings.filterwarnings("ignore", message=".*overrid.*")
    clock = _Clock(driver)
    library = torch.library.Library("aten", "IMPL")
    count = 0
    for name in torch._C._dispatch_get_all_op_names():
        short = name.removeprefix("aten::")
        if not name.startswith("aten::") or short in OWN or any(n in short for n in NOT_TRIED):
            continue
        if short not in ("copy_", "equal") and not torch._C._dispatch_has_kernel_for_dispatch_key(
            name, "CUDA"
        ):
            continue
        packet, _, overload = short.partition(".")
        try:
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        except AttributeError:
            # Left over from the table of names; it has no Python binding to call it by.
            continue
        library.impl(short, _on_host(operator, pace_s, clock), "CUDA", allow_override=True)
        count += 1
    _kept.append(library)
    return count


_kept: list[Any] = []
"""A library's registrations end with it."""


class _Clock:
    """The device's: how long it is busy with what was queued."""

    def __init__(self, driver: ctypes.CDLL) -> None:
        self.queue: Callable[[float], object] = driver.fake_cuda_queue
        driver.fake_cuda_queue.argtypes = [ctypes.c_double]
        driver.fake_cuda_queue.restype = None
        self.wait: Callable[[], object] = driver.fake_cuda_wait
        driver.fake_cuda_wait.restype = None


def _on_host(operator: Any, pace_s: float, clock: _Clock) -> Callable[..., Any]:
    def computed(*given: Any, **named: Any) -> Any:
        call = _Call()
        args = call.host(list(given))
        kwargs = {key: call.host(value) for key, value in named.items()}
        if (longer_s := _product_s(operator, args, kwargs)) is not None:
            clock.queue(longer_s)
            return named["out"]
        _random_by_default(operator, kwargs)
        call.note_places()
        try:
            result = operator(*args, **kwargs)
        except RuntimeError as error:
            if "Unable to cast" not in str(error):
                raise
            # An optional argument that the overload's own binding does not take as None.
            result = operator.overloadpacket(*args, **kwargs)
        call.resize()
        clock.queue(pace_s)
        if not _stays_on_device(result, given):
            clock.wait()
        return call.device(result)

    return computed


class _Call:
    """The tensors of one call, on the device and as the host sees them.

    No closures that call themselves: such a cycle would keep the device's memory until it is collected.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[Any, Any]] = []
        self._places: list[tuple[Any, int]] = []

    def host(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            if value.device.type != "cuda":
                return value
            self._seen.append((value, on_host(value)))
            return self._seen[-1][1]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch.Generator):
            return _Generators.for_host(value)
        if isinstance(value, list | tuple):
            return type(value)(self.host(item) for item in value)
        return value

    def note_places(self) -> None:
        self._places = [(mine.shape, mine.data_ptr()) for _, mine in self._seen]

    def resize(self) -> None:
        """Let what an operator has given another size have it on the device, too."""
        for (theirs, mine), (shape, place) in zip(self._seen, self._places, strict=True):
            if mine.shape != shape or mine.data_ptr() != place:
                theirs.resize_(mine.shape)
                _copy(theirs, mine.contiguous())

    def device(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            for theirs, mine in self._seen:
                if value is mine:
                    return theirs
            return _onto(value)
        if isinstance(value, list | tuple):
            parts = [self.device(item) for item in value]
            return parts if isinstance(value, list) else tuple(parts)
        return value


def on_host(tensor: Any) -> Any:
    """The same memory as a CPU tensor; valid as long as the given one."""
    import torch

    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    result = torch.empty(0, dtype=tensor.dtype)
    result.set_(
        torch.frombuffer(memory, dtype=torch.uint8).untyped_storage(),
        tensor.storage_offset(),
        tensor.size(),
        tensor.stride(),
    )
    result = result.conj() if tensor.is_conj() else result
    return torch._neg_view(result) if tensor.is_neg() else result


def _onto(tensor: Any) -> Any:
    """A copy on the device, with the same strides."""
    import torch

    if tensor.device.type != "cpu":
        return tensor
    tensor = tensor.resolve_conj().resolve_neg()
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda")
    _copy(made, tensor)
    return made


def _copy(to: Any, of: Any) -> None:
    if of.numel():
        last = sum((size - 1) * step for size, step in zip(of.size(), of.stride(), strict=True))
        ctypes.memmove(to.data_ptr(), of.data_ptr(), (1 + last) * of.element_size())


def _stays_on_device(result: Any, given: tuple[Any, ...]) -> bool:
    """False for a copy to the host, and for what is no tensor: a number that somebody will read."""
    import torch

    to_host = bool(given) and isinstance(given[0], torch.Tensor) and given[0].device.type == "cpu"
    return not to_host and not isinstance(result, bool | int | float)


def _product_s(operator: Any, args: Any, kwargs: Any) -> float | None:
    """For a product that only the time is asked of: about what an H200 needs."""
    if operator._schema.name != "aten::mm" or "out" not in kwargs:
        return None
    (rows, inner), columns = args[0].shape, args[1].shape[1]
    operations: int = 2 * rows * inner * columns
    return operations / PRODUCTS_PER_S if operations > LONGEST_PRODUCT else None


def _random_by_default(operator: Any, kwargs: dict[str, Any]) -> None:
    """Give what draws random numbers and was given no generator the device's default one."""
    import torch

    named = [a.name for a in operator._schema.arguments]
    if "generator" in named and kwargs.get("generator") is None:
        kwargs["generator"] = _Generators.for_host(torch.cuda.default_generators[0])


class _Generators:
    """The host's generator in place of each of the device's, which counts what was drawn."""

    _STEP = 4
    """By so much the device's offset grows with a draw; it must be a multiple of four."""

    @classmethod
    def for_host(cls, generator: Any) -> Any:
        import torch

        if generator.device.type == "cpu":
            return generator
        seed, offset = generator.initial_seed(), generator.get_offset()
        generator.set_offset(offset + cls._STEP)
        mixed = (seed * 0x9E3779B97F4A7C15 + offset) & ((1 << 63) - 1)
        return torch.Generator().manual_seed(mixed)
