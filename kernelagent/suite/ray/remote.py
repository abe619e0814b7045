"""A judge for one problem on whichever device of a cluster is free; what is lost there runs again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from kernelagent.domain import errors
from kernelagent.domain.candidate import Candidate
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, KernelAgentError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, Stage
from kernelagent.domain.problem import ProblemFacts
from kernelagent.domain.replies.tool_calls import ToolCall, ToolResult
from kernelagent.domain.serialization import from_data, to_data, to_json
from kernelagent.loop.queries.exclusive_gpu import Say
from kernelagent.suite.ray.connection import HostLost
from kernelagent.suite.ray.packaging import pack
from kernelagent.tools.closing import Closing

if TYPE_CHECKING:
    from kernelagent.suite.ray.cluster import Cluster, Device

Message = dict[str, Any]
MOST_LOST = 10
"""Hosts that may die under one request; a candidate that takes nodes down must end some time."""
MOST_FAULTS = 3
"""Devices on which one request is tried, each with a new judge, before it counts as failed."""


class RemoteJudge(Closing):
    """As `JudgeProcess`; a context manager. Raises what the judge could not do on any device."""

    def __init__(self, cluster: Cluster, settings: JudgeSettings, say: Say) -> None:
        """Pack the problem and let a device read it; `say(level, message)` goes into the run's log."""
        parcel = pack(settings.problem)
        self._cluster = cluster
        self._say = say
        self._settings = to_data(settings)
        self._parcel = cluster.put(parcel)
        self._key = hashlib.sha256(parcel.sha256.encode() + to_json(settings)).hexdigest()
        self._used: list[Device] = []
        opened = self._ask("reading the problem", {"kind": "open"}, _ignore)
        self.facts = from_data(opened["facts"], ProblemFacts)
        self.device = from_data(opened["device"], DeviceFacts)
        self.sandbox = str(opened["sandbox"])

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        """Judge one candidate as a turn does."""
        return self._judge(candidate, "turn", on_stage)

    def evaluate_final(
        self, candidate: Candidate, on_stage: Callable[[Stage], None], seconds: float | None = None
    ) -> Evaluation:
        """Judge the winner again: fresh processes, new seeds, the long measurement on `cuda`."""
        return self._judge(candidate, "certificate", on_stage, seconds)

    def call_tool(self, call: ToolCall, seconds: float) -> ToolResult:
        """Answer a writer's call beside its turns, within that time."""
        request = {"kind": "tool", "call": to_data(call), "seconds": seconds}
        return from_data(self._ask(f"the {call.tool}", request, _ignore)["result"], ToolResult)

    def widen(self, candidate: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with the neighbouring inputs that were verified too, in that time."""
        return self._further("widen", f"widening {candidate.id}", candidate, evaluation, seconds)

    def try_emitted(self, file: Candidate, evaluation: Evaluation, seconds: float) -> Evaluation:
        """The acceptance with what calls of the emitted file on the user's module have shown."""
        return self._further("try_emitted", "trying the emitted file", file, evaluation, seconds)

    def _further(
        self, kind: str, what: str, candidate: Candidate, evaluation: Evaluation, seconds: float
    ) -> Evaluation:
        request = {
            "kind": kind,
            "source": candidate.source,
            "evaluation": to_data(evaluation),
            "seconds": seconds,
        }
        return from_data(self._ask(what, request, _ignore)["evaluation"], Evaluation)

    def close(self) -> None:
        """Its judges on the nodes end."""
        for device in self._used:
            if self._key in device.open:
                self._forget(device)
        self._used.clear()

    def _forget(self, device: Device) -> None:
        device.open.discard(self._key)
        # A host that is gone has forgotten already.
        with suppress(Exception):
            device.host.forget(self._key)

    def _judge(
        self,
        candidate: Candidate,
        purpose: Literal["turn", "certificate"],
        on_stage: Callable[[Stage], None],
        seconds: float | None = None,
    ) -> Evaluation:
        request = {
            "kind": "evaluate",
            "source": candidate.source,
            "purpose": purpose,
            "seconds": seconds,
        }
        reported = self._ask(f"the evaluation of {candidate.id}", request, on_stage)
        return from_data(reported["evaluation"], Evaluation)

    def _ask(self, what: str, request: Message, on_stage: Callable[[Stage], None]) -> Message:
        lost = 0
        failed: list[Device] = []
        while True:
            device = self._cluster.take(self._key, failed)
            try:
                reported = self._on(device, request, on_stage)
            except HostLost as error:
                self._cluster.lost(device)
                lost += 1
                if lost > MOST_LOST:
                    raise EnvironmentFault(
                        f"{what} was lost {lost} times with its node or worker, the last time on "
                        f"{device.name}: {error}. See `ray status` and the nodes' logs"
                    ) from error
                self._say(
                    "warning", f"{device.name} was lost ({error}); {what} runs again elsewhere"
                )
                continue
            except BaseException:
                # A fault of ours or the user's interrupt: what the host still does is dropped.
                self._cluster.lost(device)
                raise
            fault = _fault_of_the_machine(reported)
            self._cluster.give_back(device, worked=fault is None)
            if fault is None:
                return _unless_fault(reported)
            # The next judge there is a new one.
            self._forget(device)
            failed.append(device)
            if len(failed) >= MOST_FAULTS:
                return _unless_fault(reported)
            self._say(
                "warning", f"{device.name} could not do its part ({fault}); {what} runs again"
            )

    def _on(self, device: Device, request: Message, on_stage: Callable[[Stage], None]) -> Message:
        parcel = None if self._key in device.open else self._parcel
        reported = self._listen(device, parcel, request, on_stage)
        if reported["kind"] == "unknown":
            reported = self._listen(device, self._parcel, request, on_stage)
        if reported["kind"] != "fault":
            device.open.add(self._key)
            if device not in self._used:
                self._used.append(device)
        return reported

    def _listen(
        self, device: Device, parcel: Any, request: Message, on_stage: Callable[[Stage], None]
    ) -> Message:
        for reported in device.host.run(self._key, self._settings, parcel, request):
            if reported["kind"] == "stage":
                on_stage(from_data(reported["stage"], Stage))
            elif reported["kind"] == "waiting":
                self._say("info", f"{device.name}: {reported['message']}")
            else:
                return reported
        raise HostLost("its answer broke off")


def _fault_of_the_machine(message: Message) -> str | None:
    """Why another device should try; None for an answer, also one that the user has to mend."""
    if message["kind"] == "fault":
        is_machine = message["class"] == EnvironmentFault.__name__
        return str(message["message"]).partition("\n")[0] if is_machine else None
    if message["kind"] == "evaluation" and message["evaluation"]["verdict"] == "error":
        reason = message["evaluation"].get("reason") or {}
        return str(reason.get("message", "no verdict"))
    return None


def _unless_fault(message: Message) -> Message:
    if message["kind"] != "fault":
        return message
    kind = getattr(errors, str(message["class"]), KernelAgentError)
    raise kind(str(message["message"]))


def _ignore(_: Stage) -> None:
    pass
