"""The runner's stand-in for Triton's driver: specialises as on a GPU, sends the rest to the executor.

Whatever a candidate does to this module it does to itself: the executor keeps the log and the facts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from time import perf_counter as _clock
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler.errors import CompilationError
from triton.runtime import _allocation
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.compiler_options import EXECUTED, refusal, set_by_hand
from kernelagent.tools.virtual.compiled.compiling import SHARED_BYTES, gpu_target
from kernelagent.tools.virtual.device.addresses import DATA_POINTERS
from kernelagent.tools.virtual.device.arena import Arena, place
from kernelagent.tools.virtual.device.autotuning import select_configurations
from kernelagent.tools.virtual.device.codec import encode, encode_paths, encode_types
from kernelagent.tools.virtual.device.fresh_memory import FRESH_MEMORY
from kernelagent.tools.virtual.device.globals import constants_of, reached, texts_of
from kernelagent.tools.virtual.device.host_tensors import HOST_TENSORS
from kernelagent.tools.virtual.device.scratch_memory import ScratchMemory
from kernelagent.tools.virtual.executor.argument_values import values_of
from kernelagent.tools.virtual.triton_versions import version, why_not
from kernelagent.tools.wire import Channel

_ANSWER_S = 3600.0
_MAX_HEADER = 1 << 26


def supported() -> str | None:
    """Why the virtual device does not work with this triton, None when it does."""
    return why_not(version())


class LaunchRefused(RuntimeError):
    """The executor refused a launch; `code` is one of the rejection codes, with its `detail`."""

    def __init__(self, code: str, message: str, detail: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


class RemoteOutOfResources(OutOfResources):  # type: ignore[misc]
    """What Triton raises, and a candidate may catch, in the executor's words."""

    def __init__(self, message: str, detail: dict[str, Any]) -> None:
        super().__init__(detail.get("required"), detail.get("limit"), detail.get("resource"))
        self.message = message
        self.code = "out_of_resources"
        self.detail = detail

    def __str__(self) -> str:
        return self.message


class RemoteCompilationError(CompilationError):  # type: ignore[misc]
    """A compile error, already worded by the executor."""

    def __init__(self, message: str, line: int | None) -> None:
        Exception.__init__(self, message)
        self.message = message
        self.code = "compile_error"
        self.detail = {"line": line} if line else {}

    def __str__(self) -> str:
        return self.message


class VirtualDriver(DriverBase):  # type: ignore[misc]
    """Answers what Triton's runtime asks about a device that is not there."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        self.utils = _Utilities(target)
        self.remote: Remote | None = None
        self.autotuned: dict[str, int] = {}
        """Kernels whose tuning was answered without running anything: how many configurations."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(int(self.target.arch), 10)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1)

    def clear_cache(self, cache: Any) -> None:
        """Nothing is cached."""

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Returns made-up ascending times for code that benchmarks by itself; nothing is run."""
        numbers = itertools.count(1.0)
        return lambda call, quantiles=None, **_: [next(numbers)] * 3


class _Utilities:
    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(int(self._target.arch), 10)

    def get_device_properties(self, device: int) -> dict[str, int]:
        from kernelagent.tools.virtual.cost.ceilings import ceilings_for

        return {
            "max_shared_mem": SHARED_BYTES[self._target.arch],
            "multiprocessor_count": ceilings_for(f"sm_{self._target.arch}").sms,
            "warpSize": 32,
            "max_num_regs": 65536,
        }


def install(channel: Channel, arena: int, target: str) -> VirtualDriver:
    """Make this process's Triton compile and launch through `channel`; before a candidate is imported."""
    remote = Remote(channel, Arena(arena))
    driver = VirtualDriver(gpu_target(target))
    driver.remote = remote
    triton.runtime.driver.set_active(driver)
    triton.compiler.compile = remote.compile
    triton.compile = remote.compile
    select_configurations(driver.autotuned)
    return driver


class Spent:
    """What launches of this process have taken, ever."""

    seconds = 0.0
    """Waiting for the executor."""
    values = 0
    """Values that Triton looked at (`values_of`)."""


class Remote:
    """The runner's end of the line to the executor."""

    def __init__(self, channel: Channel, arena: Arena) -> None:
        self._channel = channel
        self.arena = arena
        self._kept: list[Any] | None = None
        self._stored: set[int] = set()

    def take_stored(self) -> set[int]:
        """Storages that launches have stored to since the last time, by identity."""
        stored, self._stored = self._stored, set()
        return stored

    def keeping(self) -> list[Any]:
        """From now on the storages of launches are kept alive, in this list."""
        self._kept = []
        return self._kept

    def keep_none(self) -> None:
        self._kept = None

    def replayed(self, transfer: StorageTransfer, request: dict[str, Any]) -> dict[str, Any]:
        """Tell the executor what to do as well on the values that only it holds."""
        whole = {"storages": transfer.rows, "arena_bytes": transfer.size}
        return self._ask({"kind": "replay", "what": request, **whole})

    def compile(self, src: Any, target: Any = None, options: Any = None, **_: Any) -> RemoteKernel:
        if not hasattr(src, "fn"):
            raise NotImplementedError("only @triton.jit functions compile on the virtual device")
        function = src.fn
        function.cache_key  # noqa: B018 - reading it makes Triton note the globals it watches
        functions = reached([function, *src.constants.values()])
        given = dict(options or {})
        others = tuple(n for n in set_by_hand(given, target) if n not in EXECUTED)
        if others:
            message = refusal(function.fn.__name__, others, "on the virtual device")
            raise RemoteCompilationError(message, None)
        _asked_for_its_name(src)
        answer = self._ask(
            {
                "kind": "compile",
                "function": [function.fn.__name__, function.fn.__code__.co_firstlineno],
                "constants": constants_of(functions),
                "texts": texts_of(functions),
                "signature": {name: encode_types(kind) for name, kind in src.signature.items()},
                "constexprs": encode_paths(src.constants),
                "attributes": encode_paths(src.attrs),
                "options": {key: given[key] for key in EXECUTED if key in given},
            }
        )
        return RemoteKernel(self, src, answer)

    def launch(
        self,
        handle: int,
        grid: Sequence[int],
        args: Sequence[Any],
        scratch: ScratchMemory | None = None,
    ) -> None:
        began = _clock()
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            Spent.values += values_of(args)
            _require_on_gpu(args)
            if scratch is not None:
                scratch.require_apart(args)
                scratch.overwrite()
            transfer = StorageTransfer(self.arena)
            reported = [transfer.encode(arg) for arg in args]
            if self._kept is not None:
                self._kept += transfer.storages()
            transfer.copy_in()
            answer = self._ask(
                {
                    "kind": "launch",
                    "handle": handle,
                    "grid": [int(size) for size in grid],
                    "args": reported,
                    "storages": transfer.rows,
                    "pointees": transfer.pointees,
                    "arena_bytes": transfer.size,
                }
            )
            self._stored |= {transfer.rows[at]["identity"] for at in answer["stored"]}
            transfer.copy_out()
            if scratch is not None:
                scratch.overwrite()
        Spent.seconds += _clock() - began

    def resources(self, handle: int) -> dict[str, Any]:
        return self._ask({"kind": "resources", "handle": handle})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._channel.send(request)
        answer = self._channel.receive(timeout=_ANSWER_S, max_header=_MAX_HEADER).header
        if answer["kind"] == "failed":
            raise _error(answer)
        return answer


def _asked_for_its_name(src: Any) -> None:
    """Let a `repr=` of the candidate's be called where Triton calls it; the executor has names of its own."""
    ways = (way for way in src.constants if len(way) == 1)
    constants = {src.fn.arg_names[way[0]]: src.constants[way] for way in ways}
    src.fn.repr(SimpleNamespace(constants=constants, signature=src.signature))


def _error(answer: dict[str, Any]) -> Exception:
    code, message = str(answer["code"]), str(answer["message"])
    if code == "compile_error":
        return RemoteCompilationError(message, answer.get("line"))
    if code == "out_of_resources":
        return RemoteOutOfResources(message, dict(answer.get("detail") or {}))
    return LaunchRefused(code, message, dict(answer.get("detail") or {}))


def _require_on_gpu(args: Sequence[Any]) -> None:
    """Raises `ValueError`, as Triton does on a GPU, for a tensor in the memory of the host."""
    for at, given in enumerate(args):
        tensor = getattr(given, "base", given)
        if isinstance(tensor, torch.Tensor) and HOST_TENSORS.holds(tensor):
            raise ValueError(
                f"Pointer argument (at {at}) cannot be accessed from Triton: it is a tensor of shape "
                f"{tuple(tensor.shape)} in the memory of the host (made without device=); make it with device=x.device"
            )


class RemoteKernel:
    """What Triton's runtime holds in place of a compiled kernel."""

    def __init__(self, remote: Remote, src: Any, answer: dict[str, Any]) -> None:
        self._remote = remote
        self._handle = int(answer["handle"])
        self.src = src
        self.name = str(answer["metadata"]["name"])
        self.metadata = SimpleNamespace(**answer["metadata"])
        self.packed_metadata = ()
        self.function = self._handle
        self.hash = str(self._handle)
        self.asm: dict[str, Any] = {}

    @property
    def n_regs(self) -> int:
        return int(self._remote.resources(self._handle)["registers"])

    @property
    def n_spills(self) -> int:
        return int(self._remote.resources(self._handle)["spills"])

    def _init_handles(self) -> None:
        """Persistent kernels call this before they read `n_regs`; there is nothing to load."""

    def _scratch(self, grid: tuple[int, ...]) -> ScratchMemory | None:
        """Ask the candidate's allocator for what its launcher asks on a GPU; Triton's own raises `RuntimeError`."""
        own = self.metadata
        if not own.global_scratch_size:
            return None
        programs = math.prod(grid) * own.num_ctas
        allocate = _allocation._allocator
        allocate = allocate.get() if isinstance(allocate, ContextVar) else allocate
        size, alignment = programs * own.global_scratch_size, int(own.global_scratch_align)
        buffer = allocate(size, alignment, 0)
        if not isinstance(buffer, torch.Tensor):
            raise LaunchRefused(
                "unverifiable",
                f"the allocator given to triton.set_allocator returned {type(buffer).__name__}, of which nothing is "
                f"known on the virtual device; return a tensor",
                {},
            )
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return ScratchMemory(buffer, size, alignment)

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """There is no profiler to tell."""

    def run(
        self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        scratch = self._scratch((x, y, z))
        if enter is not None:
            enter(metadata)
        self._remote.launch(self._handle, (x, y, z), args, scratch)
        if leave is not None:
            leave(metadata)

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        x, y, z = (*grid, 1, 1)[:3]
        return lambda *args, **_: self._remote.launch(
            self._handle, (x, y, z), args, self._scratch((x, y, z))
        )


class StorageTransfer:
    """The storages of one launch on their way into the shared memory and back."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._storages: dict[int, tuple[int, torch.Tensor, int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.pointees: list[dict[str, Any]] = []
        """Storages that entries of integer tensors point at, with their addresses here."""
        self.size = 0

    def encode(self, value: Any) -> Any:
        """An argument as JSON; its storage is noted."""
        if isinstance(value, TensorWrapper):
            return {"tensor": self.tensor(value.base), "as": value.dtype.name}
        if isinstance(value, torch.Tensor):
            return {"tensor": self.tensor(value)}
        if isinstance(value, TensorDescriptor):
            return {
                "descriptor": {
                    "base": self.tensor(value.base),
                    "shape": [int(n) for n in value.shape],
                    "strides": [int(n) for n in value.strides],
                    "block_shape": [int(n) for n in value.block_shape],
                    "padding": value.padding,
                }
            }
        if type(value) is int:
            self._follow(DATA_POINTERS.pointed_at([value]))
        if isinstance(value, tuple):
            return {"items": [self.encode(item) for item in value]}
        return encode(value)

    def storages(self) -> list[torch.Tensor]:
        """What was noted, as bytes: holding it keeps the storages alive."""
        return [whole for _, whole, _ in self._storages.values()]

    def tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Where a tensor lies in the storages of this crate."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._note(key, tensor, storage)
            self._follow(DATA_POINTERS.in_table(tensor))
        return {"storage": self._storages[key][0], **self.described(tensor)}

    @staticmethod
    def described(tensor: torch.Tensor) -> dict[str, Any]:
        """A tensor within its storage; `offset` in bytes."""
        return {
            "offset": tensor.storage_offset() * tensor.element_size(),
            "dtype": name_of(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
        }

    def _follow(self, pointees: Iterable[tuple[int, torch.Tensor]]) -> None:
        known = {row["address"] for row in self.pointees}
        for address, whole in pointees:
            if address not in known:
                self.pointees.append({"address": address, "tensor": self.tensor(whole)})

    def _note(self, key: int, tensor: torch.Tensor, storage: torch.UntypedStorage) -> None:
        empty = tensor.device.type == "meta"
        size = storage.nbytes()
        at = 0 if empty else place(self.size, storage.data_ptr())
        if not empty:
            self.size = at + size
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(
            storage, 0, (size,), (1,)
        )
        self._storages[key] = (len(self.rows), whole, at)
        fill = FRESH_MEMORY.of(storage)
        self.rows.append({"at": at, "bytes": size, "empty": empty, "identity": key, "fill": fill})

    def copy_in(self) -> None:
        self._arena.ensure(self.size)
        for shared, own in self._pairs():
            shared.copy_(own)

    def copy_out(self) -> None:
        for shared, own in self._pairs():
            if not torch.equal(own, shared):
                own.copy_(shared)

    def _pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [
            (
                torch.frombuffer(
                    self._arena.memory, dtype=torch.uint8, count=own.numel(), offset=at
                ),
                own,
            )
            for _, own, at in self._storages.values()
            if own.device.type != "meta" and own.numel() > 0
        ]
