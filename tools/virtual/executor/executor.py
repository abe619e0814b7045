"""The executor's process: compiles and runs a candidate's kernels from their text, and keeps the log.

It is asked by the runner to compile and launch, and by the judge what happened. The runner cannot
reach the judge's line, so neither the log nor a knock-out can be forged or noticed by the candidate.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

from kernelagent.domain.serialization import to_data
from kernelagent.tools.calls.tensors import open_parcel, parcel
from kernelagent.tools.compiler_options import EXECUTED
from kernelagent.tools.heap import keep_freed
from kernelagent.tools.virtual.compiled.compiling import (
    CompileFailure,
    compile_kernel,
    gpu_target,
    needs_hints,
)
from kernelagent.tools.virtual.compiled.dependent_launch import waits_first
from kernelagent.tools.virtual.compiled.fetched_ahead import loops_of
from kernelagent.tools.virtual.compiled.synchronising import (
    dropped_atomics,
    non_synchronizing_atomics,
)
from kernelagent.tools.virtual.device.binding import Kernel
from kernelagent.tools.virtual.device.codec import (
    NotEncodable,
    decode_paths,
    decode_types,
    fields_in,
)
from kernelagent.tools.virtual.executor.brief_counting import BriefCounting
from kernelagent.tools.virtual.executor.launching import Launcher, NoContents
from kernelagent.tools.virtual.executor.requests import Forged
from kernelagent.tools.virtual.executor.source import KernelSource, OtherText, UnknownKernel
from kernelagent.tools.virtual.executor.vocabulary import Refused
from kernelagent.tools.virtual.interpreter.interleaving import Order
from kernelagent.tools.virtual.kernel_text.omissions import Omission, Omitting
from kernelagent.tools.virtual.provenance.altering import Altering
from kernelagent.tools.virtual.provenance.marking import Marks
from kernelagent.tools.virtual.provenance.replay import Replay
from kernelagent.tools.wire import Channel, ChannelClosed, ChannelViolation

_MAX_HEADER = 1 << 26
_MAX_PAYLOAD = 1 << 36
_KEPT_BLOCK, _KEPT_TOGETHER = 64 << 20, 256 << 20
"""Bytes of arrays that the next operation of a kernel will want again."""
_NOTHING = memoryview(b"")
_MISSHAPEN = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: source, target, seconds; `fds`: runner's socket, judge's, arena."""
    # Small blocks gain nothing from threads, and other candidates are judged beside this one.
    torch.set_num_threads(1)
    keep_freed(_KEPT_BLOCK, _KEPT_TOGETHER)
    runner, judge = (Channel(socket.socket(fileno=fd)) for fd in fds[:2])
    executor = Executor(settings, fds[2])
    poll = select.poll()
    for channel in (runner, judge):
        poll.register(channel.socket, select.POLLIN)
    with contextlib.suppress(ChannelClosed):
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if judge.socket.fileno() in ready:
                frame = judge.receive(max_header=_MAX_HEADER, max_payload=_MAX_PAYLOAD)
                if frame.kind == "stop":
                    return
                judge.send(*executor.command(frame.header, frame.payload))
            elif runner.socket.fileno() in ready:
                try:
                    request = runner.receive(max_header=_MAX_HEADER).header
                    runner.send(executor.request(request))
                except ChannelViolation as error:
                    executor.forged(str(error))
                    poll.unregister(runner.socket)
                    runner.close()
                except ChannelClosed:
                    poll.unregister(runner.socket)


class Executor:
    """Handles requests; its state is the log."""

    def __init__(self, settings: dict[str, Any], arena: int) -> None:
        self._target = gpu_target(str(settings["target"]))
        self._source = KernelSource(str(settings["source"]))
        self._launcher = Launcher(arena, self._target, float(settings["seconds"]))
        self._launcher.non_synchronizing_atomics = non_synchronizing_atomics(
            str(settings["source"])
        )
        self._launcher.dropped_atomics = dropped_atomics(str(settings["source"]))
        self._launcher.loops = loops_of(str(settings["source"]))
        self._by_request: dict[str, int] = {}
        self._failures: list[dict[str, Any]] = []
        """Kernels that did not compile, even if the candidate caught the exception."""
        self._forged: str | None = None
        """The first request that the runner's own code never makes."""
        self._answered = 0
        """Requests of the runner's so far."""

    def command(
        self, request: dict[str, Any], payload: memoryview = _NOTHING
    ) -> tuple[dict[str, Any], Sequence[memoryview | bytes]]:
        """What the judge asks; tensors come and go beside the header."""
        match request["kind"]:
            case "mode":
                self._launcher.mode = request["mode"]
                self._launcher.altering = _altering(request)
                only = request.get("only")
                self._launcher.only = None if only is None else frozenset(only)
                self._launcher.sample = int(request.get("seed", 0))
                self._launcher.whole_grids = bool(request.get("whole_grids", False))
                self._launcher.part = request.get("part", "all")
                if "seconds" in request:
                    self._launcher.allow(float(request["seconds"]))
                self._launcher.brief = BriefCounting() if request.get("brief", False) else None
            case "turns":
                secret = request["secret"]
                how = {name: bool(request.get(name, False)) for name in ("lanes_only", "scattered")}
                self._launcher.in_turns = None if secret is None else Order(int(secret), **how)
            case "rounding":
                order = request["order"]
                self._launcher.order = None if order is None else str(order)
                self._launcher.errs = secrets.randbits(32) if request["errs"] else None
            case "lanes":
                self._launcher.numbers_in_lanes = bool(request["numbers"])
            case "omit":
                omitted = request["omitted"]
                parts = [Omission(*part) for part in omitted or ()]
                self._launcher.omitting = None if omitted is None else Omitting(parts)
            case "met":
                omitting = self._launcher.omitting
                met = [] if omitting is None else [list(part) for part in omitting.met]
                return {"kind": "met", "parts": met}, ()
            case "observe":
                self._launcher.watch_bounds = bool(request["bounds"])
                self._launcher.watch_races = bool(request["races"])
                self._launcher.count_traffic = bool(request["traffic"])
            case "reset":
                self._forget()
            case "log":
                rows = self._launcher.rows(request.get("facts", False))
                failures = [*self._failures]
                if request.get("forget", False):
                    self._forget()
                return {
                    "kind": "log",
                    "launches": rows,
                    "failures": failures,
                    "forged": self._forged,
                }, ()
            case "code":
                listed = self._launcher.code(int(request["handle"]), str(request["form"]))
                return {"kind": "code", "instructions": listed}, ()
            case "replay":
                self._launcher.replay = Replay(open_parcel(request["parcel"], payload))
            case "replayed":
                return self._replayed()
            case "ask":
                return {"kind": "done", "answered": self._answered}, ()
        return {"kind": "done"}, ()

    def _forget(self) -> None:
        self._launcher.reset()
        self._failures.clear()

    def _replayed(self) -> tuple[dict[str, Any], Sequence[memoryview | bytes]]:
        replay, self._launcher.replay = self._launcher.replay, None
        if replay is None:
            return {"kind": "replayed", "failure": "nothing was replayed"}, ()
        packed = parcel(replay.outputs)
        return {
            "kind": "replayed",
            "parcel": packed.header,
            "torch": to_data(replay.rows),
            "told": replay.told,
            "failure": replay.failure,
        }, packed.payload

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the runner asks."""
        try:
            answer = self._answer(request)
            self._answered += 1
        except Forged as forged:
            return self._refused(str(forged))
        except _MISSHAPEN as error:
            what = f"{type(error).__name__}: {error}"
            if request.get("kind") == "compile":
                return _failed("unverifiable", f"the kernel cannot be compiled here: {what}"[:2000])
            # Such an error can only come from reading the request, and the runner's own requests are always valid.
            return self._refused(what)
        if request["kind"] == "compile" and answer["kind"] == "failed":
            self._failures.append(answer)
        return answer

    def forged(self, why: str) -> None:
        """Something that is no request came on the runner's line."""
        self._refused(why)

    def _refused(self, why: str) -> dict[str, Any]:
        self._forged = self._forged or why[:500]
        return _failed("tampering", f"a request to the executor was forged: {why[:500]}")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            match request["kind"]:
                case "compile":
                    return self._compile(request)
                case "resources":
                    handle = request["handle"]
                    if type(handle) is not int or not 0 <= handle < len(self._launcher.kernels):
                        raise Forged(f"there is no kernel {handle!r:.60}")
                    return {"kind": "resources", **self._launcher.resources(handle)}
                case "launch":
                    return self._launcher.launch(request)
                case "replay":
                    return self._replay_step(request)
            raise Forged(f"there is no request {request['kind']!r:.60}")
        except CompileFailure as failure:
            return _failed(failure.code, str(failure), line=failure.line, detail=failure.detail)
        except Refused as refused:
            return _failed("compile_error", str(refused))
        except OtherText as other:
            return _failed("tampering", str(other))
        except NoContents as error:
            return _failed("runtime_error", str(error))
        except MemoryError as error:
            return _failed("out_of_memory", str(error))
        except (UnknownKernel, NotEncodable) as error:
            return _failed("unverifiable", str(error))

    def _replay_step(self, request: dict[str, Any]) -> dict[str, Any]:
        replay = self._launcher.replay
        if replay is None:
            raise Forged("nothing is replayed now")
        return {"kind": "done", **replay.step(request, self._launcher.arena)}

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        key = repr(request)
        if key not in self._by_request:
            self._source.require_texts(request["texts"])
            told = [request["constants"], request["constexprs"], request["signature"]]
            module = self._source.load(request["constants"], frozenset(fields_in(told)))
            function = module.function(*request["function"])
            constants = decode_paths(request["constexprs"], module.function)
            given = (
                function,
                {name: decode_types(kind) for name, kind in request["signature"].items()},
                constants,
                decode_paths(request["attributes"], module.function),
                {key: request["options"][key] for key in EXECUTED if key in request["options"]},
                self._target,
            )
            compiled = compile_kernel(*given)
            if request["options"].get("launch_pdl") and not waits_first(
                compiled.ttir, compiled.ptx
            ):
                raise CompileFailure(
                    "data_race",
                    f"`{compiled.kernel}` is launched with launch_pdl=True, so that it may begin before the kernel "
                    f"before it has ended, and not every program waits for that one before it touches memory: call "
                    f"tl.extra.cuda.gdc_wait() before the first load or store, outside any `if` and loop, or launch it "
                    f"without launch_pdl",
                    line=compiled.line,
                )
            needs = cache(partial(needs_hints, compiled, given))
            kernel = Kernel(function, given[1], constants, compiled, needs)
            self._by_request[key] = self._launcher.add(kernel)
        handle = self._by_request[key]
        return {
            "kind": "compiled",
            "handle": handle,
            "metadata": to_data(dict(self._launcher.kernels[handle].compiled.metadata)),
        }


def _altering(request: Mapping[str, Any]) -> Altering | None:
    if request["mode"] != "alter":
        return None
    trace = bool(request.get("trace", False))
    return Altering(Marks(int(request["secret"])), bool(request["integers"]), trace)


def _failed(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"kind": "failed", "code": code, "message": message, **more}
