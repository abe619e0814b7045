"""A process that runs the user's own module on the GPU, eager or compiled, for the measurement.

It answers the same requests about time as a candidate's runner, so both sides are measured alike.
Never run on a GPU so far.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import torch

from kernelagent.problem import ProblemSpec
from kernelagent.records import from_data
from kernelagent.tools.judge.load import load_problem
from kernelagent.tools.runner.repeat import Repeated
from kernelagent.tools.tensors import open_parcel
from kernelagent.tools.wire import Channel, ChannelClosed

_MAX_FRAME = 1 << 40


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: `problem` (as data) and `compile` (a torch.compile mode, or None)."""
    judge = Channel(socket.socket(fileno=fds[0]))
    module = load_problem(from_data(settings["problem"], ProblemSpec)).build().cuda().eval()
    mode = settings["compile"]
    call = module if mode is None else torch.compile(module, mode=mode)
    repeated = Repeated(call)
    with contextlib.suppress(ChannelClosed):
        while True:
            frame = judge.receive(max_header=1 << 26, max_payload=_MAX_FRAME)
            match frame.kind:
                case "weights":
                    values = open_parcel(frame.header["parcel"], frame.payload, device="cuda")
                    module.load_state_dict(values, strict=True)
                case "prepare":
                    repeated.prepare(
                        open_parcel(frame.header["parcel"], frame.payload, device="cuda")
                    )
                case "time":
                    repeated.run(int(frame.header["calls"]))
                case _:
                    return
            judge.send({"kind": "done"})
