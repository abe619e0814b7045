"""What code can leave behind to be called later, by the interpreter or by torch, and threads of any kind.

Looked at before and after each request, in the candidate's process: it names what would go on in the
user's program. What waits for memory to be freed (`weakref`, `__del__`) cannot be listed; earlier results
are freed between calls instead, and what is still held is read again.
"""

from __future__ import annotations

import atexit
import codecs
import gc
import importlib
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import torch

from kernelagent.tools.candidate_runner.candidate import NAME, CandidateFailure, candidate_file

THE_IMPORT_SYSTEM = "the import system"
GRACE_S = 0.1
"""How long a thread may live after the call that started it."""
_SIGNALS = sorted(n for n in signal.valid_signals() if n < 32)
"""Real-time signals belong to nobody's program here, and asking for all costs."""
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_TOOLS_OF_MONITORING = 6
_TABLES: Mapping[str, str] = {
    "torch.utils.data._utils.collate": "default_collate_fn_map",
    "torch.optim.optimizer": "_global_optimizer_pre_hooks _global_optimizer_post_hooks",
    "torch._weights_only_unpickler": "_marked_safe_globals_set",
    "torch.serialization": "_package_registry",
}
"""Modules of torch with their tables."""
_OF_TORCH = {name: importlib.import_module(name) for name in _TABLES}
"""Loaded before any candidate."""
_FROM_SHARED = "aten/"
_OPERATIONS = """mm bmm addmm baddbmm convolution native_layer_norm native_batch_norm _softmax _log_softmax
relu gelu silu sigmoid tanh exp log sqrt rsqrt add.Tensor sub.Tensor mul.Tensor div.Tensor sum sum.dim_IntList
mean.dim amax argmax max.dim topk sort cumsum where.self clone copy_ index.Tensor embedding gather
scatter_add _to_copy cat scaled_dot_product_attention""".split()
"""Whose kernels in the dispatcher are compared."""
_WARNED = "Model: outside what was verified"
"""As an emitted module's warnings begin."""
_OWN_THREADS = ("pt_",)
"""How the names of threads begin that torch's autograd starts at its first backward."""


class Registrations:
    """Notes functions that are registered where nobody can list them; made before the candidate is imported."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self._file = str(candidate_file())
        for module, name, what in (
            (atexit, "register", "registers a function to run at exit"),
            (codecs, "register", "registers a search function for codecs"),
            (codecs, "register_error", "registers a handler of codec errors"),
        ):
            setattr(module, name, self._noting(getattr(module, name), what))

    def _noting(self, original: Callable[..., Any], what: str) -> Callable[..., Any]:
        def register(*args: Any, **kwargs: Any) -> Any:
            frame: FrameType | None = sys._getframe(1)
            if frame is not None and frame.f_code.co_filename == self._file:
                self.noted.append(what)
            return original(*args, **kwargs)

        return register

    def require_none(self, doing: str) -> None:
        """Raises `CandidateFailure` for what was noted since the last time."""
        noted, self.noted = self.noted, []
        if noted:
            raise CandidateFailure(
                "tampering", f"{doing} {noted[0]}, which outlives the call", {"did": noted}
            )


def registered() -> dict[str, Any]:
    """What is called later, by the name a rejection has for it; equal before and after honest work."""
    hooks = vars(torch.nn.modules.module)
    return {
        "signal handlers": {number: signal.getsignal(number) for number in _SIGNALS},
        "timers that send signals": tuple(signal.getitimer(t)[0] > 0 for t in _TIMERS),
        "callbacks of the garbage collector": _same_objects(gc.callbacks),
        THE_IMPORT_SYSTEM: (
            _same_objects(sys.meta_path),
            # Not `sys.path`: honest files add their own folder to it.
            _same_objects(sys.path_hooks),
        ),
        "tracing and profiling": (
            sys.gettrace(),
            sys.getprofile(),
            getattr(threading, "_trace_hook", None),
            getattr(threading, "_profile_hook", None),
            _monitoring(),
        ),
        "hooks on all modules": tuple(
            tuple(value) for name, value in hooks.items()
            if name.startswith("_global_") and isinstance(value, Mapping)
        ),
        "torch's tables of functions": _tables(),
        "torch's own operations": _overridden(len(torch.library._impls)),
        "modes that watch torch's operations": (
            torch._C._len_torch_dispatch_stack(),
            torch._C._len_torch_function_stack(),
        ),
        "hooks on what autograd saves": (
            torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        ),
        "anomaly detection": torch.is_anomaly_enabled(),
        "which warnings are shown": _silenced(),
        "whether denormals are flushed to zero": bool(torch.full((1,), 1e-40).mul(1.0) == 0),
        "oneDNN": torch.backends.mkldnn.enabled,
        "the processors it may run on": frozenset(os.sched_getaffinity(0)),
    }  # fmt: skip


def _silenced() -> tuple[Any, ...]:
    """Filters that hide what an emitted module warns of; libraries have some for warnings of their own."""
    return tuple(
        (category, module, line)
        for action, message, category, module, line in warnings.filters
        if action == "ignore"
        and issubclass(UserWarning, category)
        and (message is None or re.match(message, _WARNED))
    )


def finders_of_the_candidate() -> tuple[int, ...]:
    """What finds modules and is defined in the candidate's file, whatever libraries have put beside it."""
    found = [*sys.meta_path, *sys.path_hooks]
    return _same_objects([f for f in found if getattr(f, "__module__", None) == NAME])


def _tables() -> tuple[Any, ...]:
    """What torch looks up and calls in every program that trains, loads data or loads files."""
    outcome: list[Any] = []
    for module, names in _TABLES.items():
        held = vars(_OF_TORCH[module])
        for name in names.split():
            table = held.get(name)
            if isinstance(table, Mapping):
                outcome.append((name, tuple((id(k), id(v)) for k, v in [*table.items()])))
            elif isinstance(table, list | tuple | set | frozenset):
                outcome.append((name, frozenset(map(id, table))))
            else:
                outcome.append((name, id(table)))
    return tuple(outcome)


@lru_cache(maxsize=2)
def _overridden(count: int) -> frozenset[str]:
    """Implementations that Python code has given operations of torch's; `count`: of all there are."""
    return frozenset(key for key in torch.library._impls if key.startswith(_FROM_SHARED))


def methods_of_modules() -> list[tuple[type, str, FunctionType]]:
    """`forward` and `__init__` of every module class of torch's own."""
    result: list[tuple[type, str, FunctionType]] = []
    waiting: list[type[Any]] = [torch.nn.Module]
    seen: set[type[Any]] = set()
    while waiting:
        kind = waiting.pop()
        waiting += [k for k in kind.__subclasses__() if k not in seen]
        seen.add(kind)
        if kind.__module__.startswith("torch.nn.modules"):
            result += [
                (kind, name, value)
                for name in ("forward", "__init__", "__call__", "_call_impl")
                if isinstance(value := kind.__dict__.get(name), FunctionType)
            ]
    return result


class Dispatched:
    """Which kernels the dispatcher has for common operations; a few are compared after each request."""

    _AT_ONCE = 7

    def __init__(self) -> None:
        self._known = {name: _kernels_of(name) for name in _OPERATIONS}
        self._next = 0

    def replaced(self) -> str | None:
        """The first of the next few operations that has other kernels than before."""
        for _ in range(self._AT_ONCE):
            name = _OPERATIONS[self._next % len(_OPERATIONS)]
            self._next += 1
            if _kernels_of(name) != self._known[name]:
                return f"aten::{name}"
        return None


def _kernels_of(name: str) -> str:
    return torch._C._dispatch_dump(f"aten::{name}")


def other_random_states() -> tuple[Any, ...]:
    """Python's and numpy's global generators."""
    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), state[2:]


def draw_new_random_states() -> None:
    """Seed the global generators of torch, Python and numpy from the operating system."""
    torch.default_generator.seed()
    if torch.cuda._initialized:
        # Not is_initialized(): on `virtual` it answers for a GPU that is not there.
        torch.cuda.seed_all()
    random.seed()
    np.random.seed()


def _monitoring() -> tuple[Any, ...]:
    tools = getattr(sys, "monitoring", None)
    return () if tools is None else tuple(map(tools.get_tool, range(_TOOLS_OF_MONITORING)))


def _same_objects(things: list[Any]) -> tuple[int, ...]:
    return tuple(map(id, things))


def threads(*, own: bool = False) -> frozenset[int]:
    """Python's threads, those started below `threading` too; `own`: that run the candidate's code now."""
    frames = sys._current_frames()
    try:
        return frozenset(n for n, frame in frames.items() if not own or _is_candidates(frame))
    finally:
        # It holds the frame of this very call: what its callers hold would wait for Python's collector.
        frames.clear()


def _is_candidates(frame: FrameType | None) -> bool:
    ours = str(candidate_file())
    while frame is not None:
        if frame.f_code.co_filename == ours:
            return True
        frame = frame.f_back
    return False


def native_threads() -> frozenset[str]:
    """All threads of the process but torch's own, by the kernel's number; empty where it does not tell."""
    try:
        return frozenset(n for n in os.listdir("/proc/self/task") if not _is_torchs(n))  # noqa: PTH208
    except OSError:
        return frozenset()


def _is_torchs(number: str) -> bool:
    try:
        with open(f"/proc/self/task/{number}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().startswith(_OWN_THREADS)
    except OSError:
        # It has ended in between.
        return True


@dataclass(frozen=True)
class Running:
    """The threads of a moment; `own`: only those of the candidate's code, as a compiler has others."""

    own: bool
    native: bool
    """Whether threads without Python count: not where a GPU's driver starts its own."""
    known: frozenset[int]
    known_native: frozenset[str]

    @classmethod
    def now(cls, *, own: bool, native: bool) -> Running:
        """What runs before the candidate's turn."""
        native = native and not own
        return cls(own, native, threads(own=own), native_threads() if native else frozenset())

    def require_no_more(self, doing: str) -> None:
        """Raises `CandidateFailure` when other threads are still there after `GRACE_S`."""
        until = time.monotonic() + GRACE_S
        while left := self._more():
            if time.monotonic() > until:
                raise CandidateFailure("tampering", f"{doing} leaves {left} thread(s) running")
            time.sleep(0.005)

    def _more(self) -> int:
        here = threading.get_ident()
        left = len(threads(own=self.own) - self.known - {here})
        return max(left, len(native_threads() - self.known_native)) if self.native else left
