"""What a runner on a GPU machine does, each function in a confined fork of a fork server; no GPU is used."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

import triton

from kernelagent.tools.calls.tensors import parcel
from kernelagent.tools.candidate_runner.candidate import CandidateFailure, candidate_file
from kernelagent.tools.candidate_runner.integrity.integrity import Integrity
from kernelagent.tools.candidate_runner.integrity.watch import Watch
from kernelagent.tools.candidate_runner.launches import Launches, watch_launches
from kernelagent.tools.wire import Frame

Settings = dict[str, Any]
FIRST_LAUNCH = """
from triton.backends.nvidia.driver import CudaUtils


def forward():
    CudaUtils()
"""
"""What triton does at a candidate's first launch: its own C module is compiled and imported."""
MODULE = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""


def launch_for_the_first_time(settings: Settings, fds: list[int]) -> None:
    """Tells what the watch saw, and whether the C module was made."""
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    candidate_file().write_text(FIRST_LAUNCH, encoding="utf-8")
    space: dict[str, Any] = {}
    code = compile(FIRST_LAUNCH, str(candidate_file()), "exec")
    watch = Watch()
    exec(code, space)
    space["forward"]()
    seen = watch.take()
    made = [path.name for path in Path(os.environ["TRITON_CACHE_DIR"]).rglob("cuda_utils*.so")]
    _answer(fds, {"seen": None if seen is None else seen.did, "made": len(made)})


def open_libraries(settings: Settings, fds: list[int]) -> None:
    """What the watch saw when the candidate opened one, and when torch did for the candidate."""
    import torch

    text = "import ctypes\n\n\ndef opens():\n    ctypes.CDLL(None)\n"
    of_torch: dict[str, Any] = {}
    exec(compile(text, str(Path(torch.__file__).with_name("hub.py")), "exec"), of_torch)
    own: dict[str, Any] = {"of_torch": of_torch["opens"]}
    text += "\n\ndef asks_torch():\n    of_torch()\n"
    exec(compile(text, str(candidate_file()), "exec"), own)
    watch = Watch()
    seen = []
    for name in ("asks_torch", "opens"):
        own[name]()
        sighting = watch.take()
        seen.append(None if sighting is None else [sighting.code, sighting.did])
    _answer(fds, seen)


def know_the_platform(settings: Settings, fds: list[int]) -> None:
    """Whether triton's key of the platform is there before anybody asks for it."""
    build = triton.runtime.build
    _answer(fds, build.platform_key.cache_info().currsize)


def forbid_torch(settings: Settings, fds: list[int]) -> None:
    """What entering the mode of `--policy pure` leaves changed in a candidate's turn."""
    import torch

    from kernelagent.tools.candidate_runner.forbidding import Forbidding

    integrity, failure = Integrity(), None
    try:
        with integrity.kept("the forward", keeps_random_state=True), Forbidding():
            torch.empty(2).view(-1)
    except CandidateFailure as failed:
        failure = failed.message
    loaded = [
        name for name in ("torch._dynamo", "torch._inductor.compile_fx") if name in sys.modules
    ]
    _answer(fds, {"failure": failure, "loaded": loaded})


def prepare_for_the_clock(settings: Settings, fds: list[int]) -> None:
    """Whose launch is triton's before and after a candidate is prepared for timing."""
    from triton.compiler import CompiledKernel

    from kernelagent.tools.candidate_runner.main import Runner

    original = CompiledKernel.run
    launches = Launches(str(candidate_file()))
    watch_launches(launches)
    before = CompiledKernel.run is original
    nothing: Any = None
    runner = Runner(nothing, "cpu", contextlib.nullcontext, launches, may_compile=False)
    runner.load(Frame({"source": MODULE}, memoryview(b"")))
    given = {"how": "init", "keeps_random_state": True, "training": False, "empty": False}
    runner.construct(_frame(((), {}), **given))
    runner.prepare(_frame(([((), {"x": 1})], None)))
    _answer(fds, [before, CompiledKernel.run is original])


def overwrite_free_memory(settings: Settings, fds: list[int]) -> None:
    """Whether free memory is overwritten before a candidate's file is imported, and before it is constructed."""
    from test_unwritten import Arena

    from kernelagent.tools.candidate_runner.main import Runner
    from kernelagent.tools.candidate_runner.unwritten import Unwritten

    arena = Arena(4096, [(0, 4096)])
    nothing: Any = None
    launches = Launches(str(candidate_file()))
    runner = Runner(
        nothing,
        "cpu",
        contextlib.nullcontext,
        launches,
        may_compile=False,
        unwritten=Unwritten(arena),
    )
    given = {"how": "init", "keeps_random_state": True, "training": False, "empty": False}
    seen = [bool(arena.content.all())]
    runner.load(Frame({"source": MODULE}, memoryview(b"")))
    seen.append(bool(arena.content.all()))
    arena.content[:] = 0
    runner.construct(_frame(((), {}), **given))
    seen.append(bool(arena.content.all()))
    _answer(fds, seen)


def _frame(value: Any, **header: Any) -> Frame:
    packed = parcel(value)
    payload = memoryview(b"".join(bytes(part) for part in packed.payload))
    return Frame({"parcel": packed.header, **header}, payload)


def _answer(fds: list[int], value: Any) -> None:
    os.write(fds[0], json.dumps(value).encode())
