"""The process that candidates are forked from: by itself, or split off from the judge's, so that both import once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from kernelagent.tools.sandbox.file_access import gpu_nodes
from kernelagent.tools.sandbox.spawn import ForkServer

_OF_EVERY_RUNNER = (
    # Meta tensors and function modes pull it in. Inside `pretending_cuda` it would take stand-ins for
    # the real thing, and in a candidate's turn it would look as if the candidate replaced functions.
    # Never its compile_fx: that asks CUDA for devices, after which no fork can use them.
    "torch._dynamo",
    "kernelagent.tools.candidate_runner.main",
)
PRELOAD = {
    "cuda": _OF_EVERY_RUNNER,
    "virtual": (
        *_OF_EVERY_RUNNER,
        "kernelagent.tools.virtual.device.driver",
        "kernelagent.tools.virtual.device.fake_cuda",
        "kernelagent.tools.virtual.executor.executor",
        # Imported by an executor's first launch, of which every candidate has some.
        "kernelagent.tools.virtual.executor.compared",
        # Triton imports it lazily when it compiles; imported once here instead of in every executor.
        "triton.compiler.code_generator",
    ),
}
"""What the fork server imports for candidates, by the kind of device."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Of a process's environment, before it imports torch."""


def open_fork_server(kind: str, meanwhile: Callable[[], object] = lambda: None) -> ForkServer:
    """For a kind of device; the judge itself is held to one thread. `meanwhile`: done while it imports."""
    server = ForkServer.start(preload=PRELOAD[kind], environment=ONE_THREAD, meanwhile=meanwhile)
    _hold_to_one_thread()
    return server


def split_off_fork_server(keep_out: Sequence[socket.socket]) -> ForkServer:
    """For `virtual`, forked from this process, which has done nothing yet; `keep_out`: what stays here.

    The process must have been started with `ONE_THREAD` in its environment.
    """
    server = ForkServer.split_off(preload=PRELOAD["virtual"], keep_out=keep_out)
    _hold_to_one_thread()
    return server


def _hold_to_one_thread() -> None:
    """Judge, runner and executor run one at a time on few cores, so thread pools only cost time."""
    import torch

    torch.set_num_threads(1)


def is_likely_virtual(device: str) -> bool:
    """Whether a device as users name it is no GPU, as far as can be told without asking CUDA.

    Wrong where a GPU has no node of its own, as under WSL.
    """
    return device == "virtual" or (device == "auto" and not gpu_nodes())
