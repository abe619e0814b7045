"""The judge's process: reads the problem once, then gives a verdict on each candidate it is handed."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import tempfile
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.judge.environment import adopt
from kernelagent.tools.judge.fork_server import (
    is_likely_virtual,
    open_fork_server,
    split_off_fork_server,
)
from kernelagent.tools.judge.problem.memory_limit import (
    first_to_go,
    is_lack_of_memory,
    lack_of_memory,
    memory_limit,
)
from kernelagent.tools.sandbox.spawn import ForkServer
from kernelagent.tools.sandbox.sweeping import sweep
from kernelagent.tools.wire import Channel, ChannelClosed, Frame

if TYPE_CHECKING:
    from kernelagent.tools.judge.judge import Judge

_JUDGE = ("kernelagent.tools.judge.judge", "torch._dynamo")
"""Seconds to import: it is done while a fork server of its own imports the same."""
_PR_SET_PDEATHSIG = 1
_MAX_HEADER = 1 << 28


def main(fd: int) -> None:
    """Serve requests on the socket `fd` until its other end is closed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # Inherited by child processes: when memory runs out, the OOM killer ends these first.
    first_to_go()
    channel = Channel(socket.socket(fileno=fd))
    try:
        fork_server = _begun(channel)
    except ChannelClosed:
        return
    # One folder for all temporary files: removed when the judge ends, also by SIGTERM.
    tempfile.tempdir = folder = tempfile.mkdtemp(prefix="kernelagent-judge-")
    signal.signal(signal.SIGTERM, partial(_sent_away, folder))
    server = _Server(channel, fork_server)
    try:
        while server.answer():
            pass
    finally:
        try:
            server.close()
        finally:
            sweep(folder)


def _begun(channel: Channel) -> ForkServer | None:
    """Take the request that comes first: the fork server it asks for, and the environment of whoever asks.

    The environment comes after the fork: a candidate finds nothing of it.
    """
    if not channel.receive().header["split_off"]:
        channel.send({"kind": "begun"})
        return None
    try:
        fork_server = split_off_fork_server(keep_out=[channel.socket])
    except EnvironmentFault as error:
        channel.send(_fault(EnvironmentFault.__name__, str(error)))
        raise ChannelClosed from error
    channel.send({"kind": "begun"})
    adopt(channel.receive(max_header=_MAX_HEADER).header["environment"])
    channel.send({"kind": "adopted"})
    return fork_server


def _sent_away(folder: str, *_: object) -> None:
    sweep(folder)
    os._exit(143)


class _Server:
    def __init__(self, channel: Channel, fork_server: ForkServer | None) -> None:
        self._channel = channel
        self._judge: Judge | None = None
        self._fork_server = fork_server
        """Of `virtual`, for all problems that are read."""
        self._limit = 0

    def answer(self) -> bool:
        """Handle one request; False when nobody asks any more."""
        try:
            request = self._channel.receive(max_header=_MAX_HEADER)
        except ChannelClosed:
            return False
        try:
            self._channel.send(self._handle(request))
        except KernelAgentError as error:
            self._channel.send(_fault(type(error).__name__, str(error)))
        except ChannelClosed:
            return False
        except Exception as error:  # noqa: BLE001 - the process border: an unknown fault is told, not lost
            if is_lack_of_memory(error):
                text = lack_of_memory(self._limit)
                self._channel.send(_fault(EnvironmentFault.__name__, text))
                return True
            text = f"the judge itself failed: {error!r}\n{traceback.format_exc()}"
            self._channel.send(_fault(EnvironmentFault.__name__, text))
        return True

    def close(self) -> None:
        self._close_judge()
        if self._fork_server is not None:
            self._fork_server.close()

    def _handle(self, request: Frame) -> dict[str, Any]:
        if request.kind == "open":
            settings = from_data(request.header["settings"], JudgeSettings)
            self._limit = memory_limit(settings)
            self._close_judge()
            fork_server = self._fork_server_for(settings)
            from kernelagent.tools.judge.judge import Judge

            self._judge = Judge(settings, fork_server)
            return {
                "kind": "opened",
                "facts": to_data(self._judge.facts),
                "device": to_data(self._judge.device),
                "sandbox": self._judge.sandbox,
            }
        if request.kind in _OF_WHOLE_MODELS:
            return self._of_a_whole_model(request)
        if self._judge is None:
            raise EnvironmentFault("the judge was asked for a verdict before it read a problem")
        if request.kind == "widen":
            given = from_data(request.header["evaluation"], Evaluation)
            wider = self._judge.widen(request.header["source"], given, request.header["seconds"])
            return {"kind": "evaluation", "evaluation": to_data(wider)}
        if request.kind == "try_emitted":
            given = from_data(request.header["evaluation"], Evaluation)
            tried = self._judge.try_emitted(
                request.header["source"], given, request.header["seconds"]
            )
            return {"kind": "evaluation", "evaluation": to_data(tried)}
        if request.kind == "count":
            given = from_data(request.header["evaluation"], Evaluation)
            counted = self._judge.count(request.header["source"], given)
            return {"kind": "evaluation", "evaluation": to_data(counted)}
        if request.kind == "tool":
            call = from_data(request.header["call"], ToolCall)
            result = self._judge.call_tool(call, request.header["seconds"])
            return {"kind": "answered", "result": to_data(result)}
        if request.kind == "profile":
            rows = self._judge.profile_reference()
            return {"kind": "profiled", "reference": [to_data(row) for row in rows]}
        evaluation = self._judge.evaluate(
            request.header["source"],
            request.header["purpose"],
            self._tell,
            request.header["seconds"],
        )
        return {"kind": "evaluation", "evaluation": to_data(evaluation)}

    def _of_a_whole_model(self, request: Frame) -> dict[str, Any]:
        from kernelagent.tools.judge.whole_model.scan import scan
        from kernelagent.tools.judge.whole_model.submodules import Whole
        from kernelagent.tools.judge.whole_model.whole import captured, verify_whole

        header = request.header
        settings = from_data(header["settings"], JudgeSettings)
        if request.kind == "scan":
            return {"kind": "scanned", "scan": to_data(scan(Whole.open(settings)))}
        if request.kind == "capture":
            alike = captured(settings, header["path"], Path(header["folder"]))
            return {"kind": "captured", "alike": list(alike)}
        result = verify_whole(
            settings,
            header["paths"],
            header["source"],
            header["ratio"],
            header["envelope"],
            self._fork_server_for(settings),
        )
        return {"kind": "whole", "whole": to_data(result)}

    def _fork_server_for(self, settings: JudgeSettings) -> ForkServer | None:
        """None: the judge is to start its own, as on a GPU, whose fork server is made ready for it."""
        # Which device it is can only be asked of torch, which takes seconds to import.
        if self._fork_server is None and is_likely_virtual(settings.device):
            self._fork_server = open_fork_server("virtual", meanwhile=_import_judge)
        from kernelagent.tools.judge.problem.devices import open_device

        is_virtual = open_device(settings.device, settings.target).kind == "virtual"
        return self._fork_server if is_virtual else None

    def _close_judge(self) -> None:
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def _tell(self, stage: Stage) -> None:
        self._channel.send({"kind": "stage", "stage": to_data(stage)})


def _import_judge() -> None:
    for name in _JUDGE:
        import_module(name)


_OF_WHOLE_MODELS = frozenset({"scan", "capture", "whole"})


def _fault(kind: str, message: str) -> dict[str, Any]:
    return {"kind": "fault", "class": kind, "message": message}
