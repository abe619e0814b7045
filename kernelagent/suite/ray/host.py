"""What Ray runs on a node, once for each device: judges of the problems that were sent here.

The actor imports neither torch nor the user's code. The judge is a separate process, as on one
machine, its runner a sandboxed one below it; a killed actor takes both along.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import kernelagent
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.replies.tool_calls import ToolCall
from kernelagent.domain.serialization import from_data, from_json, to_data
from kernelagent.loop.queries.exclusive_gpu import ExclusiveGpuJudge
from kernelagent.suite.ray.packaging import Parcel
from kernelagent.tools.gpu_lock import GpuLock, gpu_of
from kernelagent.tools.judge_client import JudgeProcess

_MOST_OPEN = 4
_DESCRIBE = (
    "import sys; from kernelagent.domain.serialization import to_json; "
    "from kernelagent.tools.judge.problem.devices import open_device; "
    "sys.stdout.buffer.write(to_json(open_device(sys.argv[1], sys.argv[2]).facts))"
)
_DESCRIBE_S = 300.0
Message = dict[str, Any]


@dataclass
class Opened:
    """A problem that is open here."""

    judge: JudgeProcess
    folder: Path
    parcel: Parcel


class DeviceHost:
    """One device of a node; one evaluation at a time."""

    def __init__(self, device: str, target: str) -> None:
        self._device = device
        self._target = target
        self._open: OrderedDict[str, Opened] = OrderedDict()

    def describe(self) -> Message:
        """Which device this is, by which versions; `fault` where it does not work."""
        reported = {
            "kernelagent": kernelagent.__version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        command = [sys.executable, "-P", "-c", _DESCRIBE, self._device, self._target]
        # -P keeps the worker's folder out of the path, where this package may be all there is.
        root = str(Path(kernelagent.__file__).resolve().parent.parent)
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=_DESCRIBE_S,
                check=False,
                env=os.environ | {"PYTHONPATH": paths},
            )
        except subprocess.TimeoutExpired:
            return reported | {"fault": f"its device did not answer within {_DESCRIBE_S:.0f} s"}
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return reported | {"fault": last or f"exit status {done.returncode}"}
        return reported | {"device": to_data(from_json(done.stdout, DeviceFacts))}

    def run(
        self, key: str, settings: Message, parcel: Parcel | None, request: Message
    ) -> Iterator[Message]:
        """Stages and remarks as they come, then the answer, `fault`, or `unknown`: send the parcel."""
        if key not in self._open and parcel is None:
            yield {"kind": "unknown"}
            return
        try:
            opened = self._opened(key, settings, parcel)
        except KernelAgentError as error:
            yield _fault(error)
            return
        for reported in self._answers(opened, request):
            if reported["kind"] == "fault" and reported["class"] == EnvironmentFault.__name__:
                self.forget(key)
            yield reported

    def forget(self, key: str) -> None:
        """Close the problem's judge, if it is open."""
        opened = self._open.pop(key, None)
        if opened is not None:
            opened.judge.close()
            shutil.rmtree(opened.folder, ignore_errors=True)

    def _opened(self, key: str, settings: Message, parcel: Parcel | None) -> Opened:
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        assert parcel is not None
        while len(self._open) >= _MOST_OPEN:
            self.forget(next(iter(self._open)))
        folder = Path(tempfile.mkdtemp(prefix="kernelagent-ray-"))
        try:
            asked = from_data(settings, JudgeSettings)
            here = replace(asked, problem=parcel.unpack(folder), device=self._device)
            # `pkg.mod` is looked for where the judge's process runs.
            with contextlib.chdir(folder):
                judge = JudgeProcess(here)
        except KernelAgentError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise type(error)(parcel.as_at_home(str(error), folder)) from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._open[key] = Opened(judge, folder, parcel)
        return self._open[key]

    def _answers(self, opened: Opened, request: Message) -> Iterator[Message]:
        """From a thread beside this one: the judge's process lives as long as the thread it began in."""
        queue: SimpleQueue[Message] = SimpleQueue()

        def work() -> None:
            try:
                queue.put(_answer(opened, request, queue.put))
            except KernelAgentError as error:
                home = opened.parcel.as_at_home(str(error), opened.folder)
                queue.put(_fault(type(error)(home)))
            except BaseException as error:  # noqa: BLE001 - told at the border, as the judge does
                queue.put(_fault(EnvironmentFault(f"the node's host failed: {error!r}")))

        Thread(target=work, name="evaluation").start()
        while True:
            reported = queue.get()
            yield reported
            if reported["kind"] not in {"stage", "waiting"}:
                return


def _answer(opened: Opened, request: Message, send: Callable[[Message], None]) -> Message:
    judge = opened.judge
    if request["kind"] == "open":
        return {
            "kind": "opened",
            "facts": to_data(judge.facts),
            "device": to_data(judge.device),
            "sandbox": judge.sandbox,
        }
    alone = _with_the_gpu_to_itself(judge, lambda text: send({"kind": "waiting", "message": text}))
    if request["kind"] == "tool":
        call = from_data(request["call"], ToolCall)
        return {"kind": "answered", "result": to_data(alone.call_tool(call, request["seconds"]))}
    candidate = Candidate(request["source"])
    if request["kind"] in ("widen", "try_emitted"):
        known = from_data(request["evaluation"], Evaluation)
        further = judge.widen if request["kind"] == "widen" else judge.try_emitted
        return _evaluated(further(candidate, known, request["seconds"]))

    def on_stage(stage: Stage) -> None:
        send({"kind": "stage", "stage": to_data(stage)})

    if request["purpose"] == "certificate":
        return _evaluated(alone.evaluate_final(candidate, on_stage, request["seconds"]))
    return _evaluated(alone.evaluate(candidate, on_stage))


def _with_the_gpu_to_itself(
    judge: JudgeProcess, say: Callable[[str], None]
) -> ExclusiveGpuJudge | JudgeProcess:
    if judge.device.kind != "cuda":
        return judge
    return ExclusiveGpuJudge(judge, GpuLock(gpu_of("cuda:0").id), (), say)


def _evaluated(evaluation: Evaluation) -> Message:
    return {"kind": "evaluation", "evaluation": to_data(evaluation)}


def _fault(error: KernelAgentError) -> Message:
    return {"kind": "fault", "class": type(error).__name__, "message": str(error)}
