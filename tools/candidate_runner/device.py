"""Where a candidate's calls run, on `cuda` or on `virtual`: set up at the process's start, and asked for what a call took."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from kernelagent.tools.candidate_runner.candidate import candidate_file
from kernelagent.tools.candidate_runner.host.host_work import HostWork
from kernelagent.tools.candidate_runner.launches import Launches, watch_launches
from kernelagent.tools.wire import Channel


def remote_executor() -> Any:
    """The line to the executor, taken before a candidate could put another in its place."""
    import triton

    from kernelagent.tools.virtual.device.driver import VirtualDriver

    driver = triton.runtime.driver._active
    return driver.remote if isinstance(driver, VirtualDriver) else None


Scope = Callable[[], AbstractContextManager[Any]]


def launching() -> float:
    from kernelagent.tools.virtual.device.driver import Spent

    return Spent.seconds


def values_launched() -> int:
    from kernelagent.tools.virtual.device.driver import Spent

    return Spent.values


def counts_of(work: HostWork, launched: int) -> list[float]:
    """`launched`: values, before the call."""
    values = values_launched() - launched
    return [work.lines, work.calls, work.elsewhere_s, work.busy_s, values]


def gpu(settings: dict[str, Any]) -> tuple[str, Scope, Launches]:
    """Create the CUDA context before the integrity snapshot, because creating it sets variables."""
    torch.cuda.set_device(int(settings["index"]))
    torch.cuda.init()  # type: ignore[no-untyped-call]
    launches = Launches(str(candidate_file()))
    watch_launches(launches)
    return "cuda", contextlib.nullcontext, launches


def virtual(settings: dict[str, Any], fds: list[int]) -> tuple[str, Scope]:
    from kernelagent.tools.virtual.device import driver
    from kernelagent.tools.virtual.device import fake_cuda as cuda_names

    target = str(settings["target"])
    driver.install(Channel(socket.socket(fileno=fds[1])), fds[2], target)
    # torch.use_deterministic_algorithms would import the whole of Inductor first.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    return "cpu", lambda: cuda_names.pretending_cuda(target, rounds=True)
