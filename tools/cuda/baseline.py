"""A process that runs the user's own module on the device, eager or compiled, for the measurement.

It answers the same requests about time as a candidate's runner, so both sides are measured alike.
Never run on a GPU so far.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.tools.calls.tensors import open_parcel, parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.candidate_runner.repeat import Repeated
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.wire import Channel, ChannelClosed, Frame

_MAX_FRAME = 1 << 40


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: `problem` (as data), `device`, `target`, `compile` (a mode, or None).

    `folder`, `path`: the user's own folder and import path, in which the module runs as in the judge.
    What the user's module raises is answered as `failed`, and ends the process.
    """
    judge = Channel(socket.socket(fileno=fds[0]))
    try:
        _serve(judge, settings)
    except ChannelClosed:
        return
    except Exception as error:  # noqa: BLE001 - told to the judge, which raises it
        message = f"{type(error).__name__}: {error}"
        with contextlib.suppress(ChannelClosed):
            judge.send({"kind": "failed", "message": message[:2000]})


def _serve(judge: Channel, settings: dict[str, Any]) -> None:
    device = str(settings["device"])
    os.chdir(str(settings["folder"]))
    sys.path[:] = [str(entry) for entry in settings["path"]]
    if device != "cpu":
        # What launches without being told a device, as Triton does, takes the current one.
        torch.cuda.set_device(device)
    with _scope(device, str(settings["target"])):
        module = load_problem(from_data(settings["problem"], ProblemSpec)).build().to(device).eval()
        mode = settings["compile"]
        call = module if mode is None else torch.compile(module, mode=mode)
        repeated = Repeated(call, device)
        while (frame := judge.receive(max_header=1 << 26, max_payload=_MAX_FRAME)) is not None:
            if frame.kind == "leave":
                return
            _answer(judge, frame, module, repeated, device)


def _answer(
    judge: Channel, frame: Frame, module: torch.nn.Module, repeated: Repeated, device: str
) -> None:
    match frame.kind:
        case "weights":
            values = open_parcel(frame.header["parcel"], frame.payload, device=device)
            module.load_state_dict(values, strict=True)
            judge.send({"kind": "done"})
        case "prepare":
            sets, value = open_parcel(frame.header["parcel"], frame.payload, device=device)
            step = None if value is None else TrainingStep.from_value(value)
            repeated.prepare(sets, step, module)
            judge.send({"kind": "done"})
        case "time":
            repeated.run(int(frame.header["calls"]))
            judge.send({"kind": "done", "peak_bytes": repeated.peak_bytes})
        case "chain":
            calls, secret = int(frame.header["calls"]), int(frame.header["secret"])
            packed = parcel(repeated.chain(calls, secret, empty=bool(frame.header["empty"])))
            judge.send({"kind": "digests", "parcel": packed.header}, packed.payload)
        case other:
            raise ValueError(f"the measurement has no request {other!r}")


def _scope(device: str, target: str) -> AbstractContextManager[Any]:
    if device != "cpu":
        return nullcontext()
    from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda

    return pretending_cuda(target)
