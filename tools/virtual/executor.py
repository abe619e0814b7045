"""The executor's process: compiles and runs a candidate's kernels from their text, and keeps the log.

It is asked by the runner to compile and launch, and by the judge what happened. The runner cannot
reach the judge's line, so neither the log nor a knock-out can be forged or noticed by the candidate.
"""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Any

import torch

from kernelagent.records import to_data
from kernelagent.tools.virtual.compiling import (
    OPTIONS,
    CompileFailure,
    compile_kernel,
    gpu_target,
)
from kernelagent.tools.virtual.launching import Launcher
from kernelagent.tools.virtual.source import KernelSource, UnknownKernel
from kernelagent.tools.virtual.spelling import Unspeakable, hear_paths, hear_types
from kernelagent.tools.virtual.vocabulary import Refused
from kernelagent.tools.wire import Channel, ChannelClosed

_MAX_HEADER = 1 << 26


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: source, target, seconds; `fds`: runner's socket, judge's, arena."""
    # Small blocks gain nothing from threads, and other candidates are judged beside this one.
    torch.set_num_threads(1)
    runner, judge = (Channel(socket.socket(fileno=fd)) for fd in fds[:2])
    executor = Executor(settings, fds[2])
    poll = select.poll()
    for channel in (runner, judge):
        poll.register(channel.socket, select.POLLIN)
    with contextlib.suppress(ChannelClosed):
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if judge.socket.fileno() in ready:
                request = judge.receive(max_header=_MAX_HEADER).header
                if request["kind"] == "stop":
                    return
                judge.send(executor.command(request))
            elif runner.socket.fileno() in ready:
                try:
                    request = runner.receive(max_header=_MAX_HEADER).header
                except ChannelClosed:
                    poll.unregister(runner.socket)
                    continue
                runner.send(executor.request(request))


class Executor:
    """Handles requests; its state is the log."""

    def __init__(self, settings: dict[str, Any], arena: int) -> None:
        self._target = gpu_target(str(settings["target"]))
        self._source = KernelSource(str(settings["source"]))
        self._launcher = Launcher(arena, self._target, float(settings["seconds"]))
        self._by_request: dict[str, int] = {}
        self._failures: list[dict[str, Any]] = []
        """Kernels that did not compile, whether or not the candidate let it be known."""

    def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the judge asks."""
        match request["kind"]:
            case "mode":
                self._launcher.mode = request["mode"]
                only = request.get("only")
                self._launcher.only = None if only is None else frozenset(only)
            case "observe":
                self._launcher.watch_bounds = bool(request["bounds"])
                self._launcher.watch_races = bool(request["races"])
                self._launcher.count_traffic = bool(request["traffic"])
            case "reset":
                self._launcher.reset()
                self._failures.clear()
            case "log":
                rows = self._launcher.rows(request.get("facts", False))
                return {"kind": "log", "launches": rows, "failures": self._failures}
        return {"kind": "done"}

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the runner asks."""
        answer = self._answer(request)
        if request["kind"] == "compile" and answer["kind"] == "failed":
            self._failures.append(answer)
        return answer

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            match request["kind"]:
                case "compile":
                    return self._compile(request)
                case "resources":
                    return {"kind": "resources", **self._launcher.resources(request["handle"])}
            return self._launcher.launch(request)
        except CompileFailure as failure:
            return _failed(failure.code, str(failure), line=failure.line, detail=failure.detail)
        except Refused as refused:
            return _failed("compile_error", str(refused))
        except MemoryError as error:
            return _failed("out_of_memory", str(error))
        except (UnknownKernel, Unspeakable) as error:
            return _failed("unverifiable", str(error))

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        key = repr(request)
        if key not in self._by_request:
            module = self._source.load(request["constants"])
            function = module.function(*request["function"])
            constants = hear_paths(request["constexprs"], module.function)
            compiled = compile_kernel(
                function,
                {name: hear_types(kind) for name, kind in request["signature"].items()},
                constants,
                hear_paths(request["attributes"], module.function),
                {key: request["options"][key] for key in OPTIONS if key in request["options"]},
                self._target,
            )
            self._by_request[key] = self._launcher.add(function, constants, compiled)
        handle = self._by_request[key]
        return {
            "kind": "compiled",
            "handle": handle,
            "metadata": to_data(dict(self._launcher.kernels[handle].compiled.metadata)),
        }


def _failed(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"kind": "failed", "code": code, "message": message, **more}
