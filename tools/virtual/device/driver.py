"""The runner's stand-in for Triton's driver: specialises as on a GPU, sends the rest to the executor.

Whatever a candidate does to this module it does to itself: the executor keeps the log and the facts.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
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

from kernelagent.tools.compiler_options import EXECUTED, refusal, set_by_hand
from kernelagent.tools.virtual.compiled.compiling import SHARED_BYTES, gpu_target
from kernelagent.tools.virtual.device.autotuning import select_configurations
from kernelagent.tools.virtual.device.codec import encode_paths, encode_types
from kernelagent.tools.virtual.device.globals import constants_of, reached, texts_of
from kernelagent.tools.virtual.device.storages.arena import Arena
from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS
from kernelagent.tools.virtual.device.storages.scratch_memory import ScratchMemory
from kernelagent.tools.virtual.device.storages.storage_transfer import StorageTransfer
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
        if function.is_gluon():
            raise LaunchRefused(
                "unverifiable",
                f"`{function.fn.__name__}` is a Gluon kernel (triton.experimental.gluon): its layouts and its shared "
                f"memory cannot be executed on the virtual device; evaluate it with --device cuda, or write it with "
                f"triton.language and @triton.jit",
                {},
            )
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
        if min(grid) == 0:
            # Triton's own launcher leaves a grid of no programs out (`launchKernel` in its driver.c).
            return
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
                    # As the launcher reads them, which takes no floats.
                    "grid": [operator.index(size) for size in grid],
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
        if isinstance(given, tuple):
            _require_on_gpu(given)
            continue
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
