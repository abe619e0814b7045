"""Did the candidate change what others rely on: torch's functions and settings, clocks, random state?

Compared before and after every request. Such changes cannot affect the verdict, but would break
the program the emitted module is put into.
"""

from __future__ import annotations

import builtins
import copyreg
import decimal
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

from kernelagent.tools.calls.float32_precision import (
    convolutions_round,
    matmul_precision,
    recurrences_round,
)
from kernelagent.tools.candidate_runner.candidate import CandidateFailure
from kernelagent.tools.candidate_runner.integrity.registrations import (
    THE_IMPORT_SYSTEM,
    Dispatched,
    Registrations,
    Running,
    draw_new_random_states,
    finders_of_the_candidate,
    methods_of_modules,
    other_random_states,
    registered,
)
from kernelagent.tools.candidate_runner.kept.object_words import (
    words_of_codes,
    words_of_namespaces,
)

_MODULES = """torch torch.nn torch.nn.functional torch.cuda torch.cuda.graphs torch.testing
torch.testing._comparison torch.linalg torch.autograd torch.autograd.profiler torch.profiler torch.utils.benchmark torch.random
triton triton.testing triton.compiler triton.compiler.compiler triton.runtime triton.runtime.jit
triton.runtime.driver triton.language numpy numpy.testing time timeit os
kernelagent.tools.wire kernelagent.tools.calls.tensors kernelagent.tools.candidate_runner.main
kernelagent.tools.candidate_runner.turns kernelagent.tools.candidate_runner.measuring kernelagent.tools.candidate_runner.device
kernelagent.tools.candidate_runner.candidate kernelagent.tools.candidate_runner.integrity.watch kernelagent.tools.candidate_runner.repeat
kernelagent.tools.virtual.device.driver kernelagent.tools.virtual.device.fake_cuda
kernelagent.tools.virtual.device.storages.arena kernelagent.tools.virtual.device.storages.storage_transfer
kernelagent.tools.virtual.device.autotuning torch.nn.modules.module
torch.nn.modules.linear torch.nn.modules.normalization torch.nn.modules.activation gc signal warnings""".split()
_CLASSES = """torch.Tensor torch.nn.Module torch.nn.Linear torch.nn.LayerNorm torch.nn.Conv2d torch.nn.Embedding
kernelagent.tools.virtual.device.driver.Remote kernelagent.tools.virtual.device.storages.storage_transfer.StorageTransfer
kernelagent.tools.virtual.device.driver.RemoteKernel kernelagent.tools.virtual.device.storages.arena.Arena torch.cuda.Event torch.cuda.Stream torch.autograd.profiler.profile
triton.runtime.jit.JITFunction triton.runtime.jit.KernelInterface triton.compiler.CompiledKernel
triton.runtime.autotuner.Autotuner kernelagent.tools.wire.Channel
kernelagent.tools.candidate_runner.main.Runner kernelagent.tools.candidate_runner.turns.Turns
kernelagent.tools.candidate_runner.measuring.Measuring""".split()
_OF_THE_COMPILER = (
    *("_TORCHINDUCTOR_", "TORCHINDUCTOR_", "TORCH_WARM_POOL", "KMP_DUPLICATE_LIB_OK"),
    *("TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "TRITON_LIBDEVICE_PATH", "CUDA_HOME"),
)
"""How the names of the variables begin that torch.compile sets."""
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_STACK, resource.RLIMIT_CORE)
_RECURSION_OF_INDUCTOR = 2000
"""What `torch._inductor.compile_fx` sets in torch 2.11 to 2.13."""


Codes = list[tuple[str, FunctionType, Any]]


class _Namespaces:
    """What stands in the modules and classes that matter, as it was when it was last noted."""

    def __init__(self) -> None:
        self._owners: list[tuple[str, Any]] = []
        self._held: list[dict[str, Any]] = []
        self.note()

    def note(self) -> None:
        """From here on a change counts."""
        owners = list(_owners())
        if not _same(owners, self._owners):
            self._owners = owners
            self._held = [dict(vars(owner)) for _, owner in owners]
            self._words = words_of_namespaces(owner for _, owner in owners)
            return
        for number in self._words.changed():
            self._held[number] = dict(vars(owners[number][1]))
        self._words.note()

    def replaced(self) -> list[str]:
        """Functions and classes that are others now, or gone."""
        now = dict(_owners())
        replaced = [name for name, owner in self._owners if now.get(name) is not owner]
        for number in self._words.changed():
            name, owner = self._owners[number]
            held = vars(owner)
            replaced += [
                f"{name}.{attribute}"
                for attribute, value in self._held[number].items()
                if held.get(attribute) is not value and _is_code(value)
            ]
        return replaced

    def functions(self) -> Codes:
        """Those that are written in Python, each with its code."""
        return [
            (f"{owner}.{name}", value, value.__code__)
            for (owner, _), held in zip(self._owners, self._held, strict=True)
            for name, value in held.items()
            if isinstance(value, FunctionType)
        ]


def _same(first: list[tuple[str, Any]], other: list[tuple[str, Any]]) -> bool:
    return len(first) == len(other) and all(
        a is b and name == named for (name, a), (named, b) in zip(first, other, strict=True)
    )


class Integrity:
    """Remembers the functions of torch, Triton and the standard library as they were before the import."""

    def __init__(
        self,
        *,
        may_compile: bool = False,
        native_threads: bool = True,
        with_users_code: bool = False,
    ) -> None:
        """`may_compile`: variables that torch.compile sets for itself may change, and its threads stay.

        `native_threads`: threads without Python count too; a GPU's driver has some of its own.
        `with_users_code`: the user's module is in this process too, and what it calls may import libraries that put
        finders of their own into the import system.
        """
        self._native_threads = native_threads
        self._may_compile = may_compile
        self._with_users_code = with_users_code
        self._not_compared = _OF_THE_COMPILER if may_compile else ()
        self._registrations = Registrations()
        self._dispatched = Dispatched()
        self._methods = methods_of_modules()
        self._namespaces = _Namespaces()
        self._functions = self._namespaces.functions()
        self._codes = words_of_codes(function for _, function, _ in self._functions)

    @contextmanager
    def kept(self, doing: str, *, keeps_random_state: bool) -> Iterator[None]:
        """Raises `CandidateFailure` when the block leaves functions, settings or threads changed."""
        self._namespaces.note()
        settings = self._settings()
        running = Running.now(own=self._may_compile, native=self._native_threads)
        if keeps_random_state:
            # A state that was set once would not change when the same is set again.
            draw_new_random_states()
        random_state = _random_state() if keeps_random_state else None
        others = other_random_states() if keeps_random_state else None
        yield
        _require_same_settings(settings, self._settings(), doing)
        self._require_same_functions(doing)
        self._registrations.require_none(doing)
        if random_state is not None and not torch.equal(random_state, _random_state()):
            raise CandidateFailure(
                "tampering",
                f"{doing} moves torch's random generator on, which the reference leaves as it is",
            )
        if others is not None and others != other_random_states():
            raise CandidateFailure(
                "tampering", f"{doing} moves the random generator of Python or numpy on"
            )
        running.require_no_more(doing)

    def _settings(self) -> dict[str, Any]:
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(self._not_compared)
        }
        settings = _settings() | {"the environment": variables}
        if self._with_users_code:
            settings[THE_IMPORT_SYSTEM] = finders_of_the_candidate()
        return settings

    def _require_same_functions(self, doing: str) -> None:
        replaced = self._namespaces.replaced()
        for number in self._codes.changed():
            name, function, code = self._functions[number]
            replaced += [name] if function.__code__ is not code else []
        replaced += [
            f"{kind.__name__}.{name}"
            for kind, name, value in self._methods
            if kind.__dict__.get(name) is not value
        ]
        operation = self._dispatched.replaced()
        replaced += [] if operation is None else [operation]
        if replaced:
            raise CandidateFailure(
                "tampering",
                f"{doing} replaces {replaced[0]}, which other code uses too",
                {"names": replaced[:10]},
            )


def let_torch_compile() -> None:
    """Do now what torch.compile changes in torch's classes at its first use in a process.

    Before an `Integrity` is made: else it would look as if the candidate had done it.
    """
    from torch._dynamo.mutation_guard import install_generation_tagging_init
    from torch._inductor import config

    install_generation_tagging_init()
    # In this process: a pool of workers for each candidate would take all cores and much memory.
    config.compile_threads = 1
    # Inductor raises the limit to this when it compiles, and never lowers it again.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_OF_INDUCTOR))


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


def _owners() -> Iterator[tuple[str, Any]]:
    yield "builtins", builtins
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None:
            yield name, module
    for name in _CLASSES:
        module_name, _, attribute = name.rpartition(".")
        owner = getattr(sys.modules.get(module_name), attribute, None)
        if owner is not None:
            yield name, owner


def _settings() -> dict[str, Any]:
    backends = torch.backends
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "the float32 matmul precision": matmul_precision(),
        "torch.backends.cudnn.conv.fp32_precision": convolutions_round(),
        "torch.backends.cudnn.rnn.fp32_precision": recurrences_round(),
        "torch.backends.cudnn.benchmark": backends.cudnn.benchmark,
        "torch.backends.cudnn.deterministic": backends.cudnn.deterministic,
        "reduced precision in float16 matmuls": (
            backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        ),
        "reduced precision in bfloat16 matmuls": (
            backends.cuda.matmul.allow_bf16_reduced_precision_reduction
        ),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "gradient mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "the number of threads": torch.get_num_threads(),
        "torch.utils.deterministic.fill_uninitialized_memory": (
            torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
        ),
        "which attention kernels torch may use": (
            backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
            backends.cuda.mem_efficient_sdp_enabled(),  # type: ignore[no-untyped-call]
            backends.cuda.math_sdp_enabled(),  # type: ignore[no-untyped-call]
        ),
        "whether cuDNN is used": backends.cudnn.enabled,
        "the garbage collector": (gc.isenabled(), gc.get_threshold()),
        "the hooks of the interpreter": (sys.excepthook, sys.unraisablehook, sys.displayhook),
        "the recursion limit": sys.getrecursionlimit(),
        **registered(),
        **_of_the_process(),
        "the working directory": os.getcwd(),  # noqa: PTH109 - compared as text
    }


def _of_the_process() -> dict[str, Any]:
    mask = os.umask(0o077)
    os.umask(mask)
    context = decimal.getcontext()
    return {
        "the umask": mask,
        "the limits of the process": tuple(map(resource.getrlimit, _LIMITS)),
        "the default timeout of sockets": socket.getdefaulttimeout(),
        "the switch interval of the interpreter": sys.getswitchinterval(),
        "the level below which nothing is logged": logging.root.manager.disable,
        "the decimal context": (context.prec, context.rounding),
        "the standard streams": (sys.stdin, sys.stdout, sys.stderr),
        "how objects are copied and pickled": frozenset(copyreg.dispatch_table),
    }


def _require_same_settings(before: Mapping[str, Any], after: Mapping[str, Any], doing: str) -> None:
    for name, value in before.items():
        if after[name] != value:
            shown = (
                ""
                if isinstance(value, dict | tuple | frozenset)
                else f" from {value} to {after[name]}"
            )
            raise CandidateFailure(
                "tampering",
                f"{doing} leaves {name} changed{shown}; settings belong to the user's program, so "
                f"set what you need inside the kernel",
                {"setting": name},
            )


def _random_state() -> torch.Tensor:
    own = torch.get_rng_state()
    # Not is_initialized(): on `virtual` it answers for a GPU that is not there.
    if not torch.cuda._initialized:
        return own
    return torch.cat([own, torch.cuda.get_rng_state()])
