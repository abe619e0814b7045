"""The runner's process: imports one candidate, runs it on request, and reports what came out.

It holds no expected output, no seed and no reference. What it says about itself is evidence for the
judge; the bytes of the outputs are what counts.
"""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.calls.loading import is_free, memory_left_by
from kernelagent.tools.calls.memory_sharing import Watched
from kernelagent.tools.calls.own_state import with_own_state
from kernelagent.tools.calls.result_form import form_of
from kernelagent.tools.calls.same_values import same_values
from kernelagent.tools.calls.surroundings import (
    Surroundings,
    as_given,
    in_its_thread,
    other_weights,
    settings_of,
)
from kernelagent.tools.calls.tensors import dtype_of, open_parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.calls.whereabouts import Before
from kernelagent.tools.calls.writes import Writes, held_by
from kernelagent.tools.candidate_runner.candidate import (
    CandidateFailure,
    LoadedCandidate,
    candidate_file,
    failure_of,
)
from kernelagent.tools.candidate_runner.device import (
    Scope,
    counts_of,
    gpu,
    values_launched,
    virtual,
)
from kernelagent.tools.candidate_runner.flags import Flags
from kernelagent.tools.candidate_runner.forbidding import Forbidding
from kernelagent.tools.candidate_runner.held_calls import (
    Held,
    can_take,
    copied,
    gaps_kept,
    tensors_in,
)
from kernelagent.tools.candidate_runner.host.host_reads import HostReads
from kernelagent.tools.candidate_runner.host.host_work import HostWork
from kernelagent.tools.candidate_runner.host.torch_choices import TorchChoices
from kernelagent.tools.candidate_runner.kept.kept_state import changed as changed_ways
from kernelagent.tools.candidate_runner.launches import Launches
from kernelagent.tools.candidate_runner.measuring import Measuring
from kernelagent.tools.candidate_runner.put_on import NotReadHere, Original, answered_by_original
from kernelagent.tools.candidate_runner.unwritten import (
    CachedGpuMemory,
    Unwritten,
    keeps_free_blocks,
)
from kernelagent.tools.wire import Channel, ChannelClosed, Frame

_MAX_FRAME = 1 << 40
_HELD_BYTES = 256 << 20
"""Calls stay alive up to this size, and always the last two, so that a reused buffer shows."""


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: `device` (`virtual` or `cuda`), its `index` on `cuda`, and `target`.

    `default_dtype`: torch's, as the judge has it. `may_compile`: the policy lets the candidate put torch.compile to work.
    `problem`: the user's, where the candidate's text is an emitted file that is to be put on it.
    `fds`: the judge's socket, and on `virtual` the executor's socket and the arena.
    """
    judge = Channel(socket.socket(fileno=fds[0]))
    may = bool(settings["may_compile"])
    # `torch.Storage` follows it; what is loaded will be compared with what was before this process began.
    storage = vars(torch)["Storage"]
    torch.set_default_dtype(dtype_of(settings["default_dtype"]))
    vars(torch)["Storage"] = storage
    if settings["device"] == "cuda":
        memory = CachedGpuMemory(int(settings["index"])) if keeps_free_blocks() else None
        unwritten = None if memory is None else Unwritten(memory)
        device, scope, launches = gpu(settings)
    else:
        launches, unwritten = Launches(str(candidate_file())), None
        device, scope = virtual(settings, fds)
    original: Original | None = None
    if "problem" in settings:
        # Before what is loaded is taken note of, as being there before the candidate.
        with scope():
            original = Original(settings["problem"], settings["path"])
    runner = Runner(
        judge, device, scope, launches, may_compile=may, unwritten=unwritten, original=original
    )
    with contextlib.suppress(ChannelClosed):
        while runner.answer(judge.receive(max_header=1 << 26, max_payload=_MAX_FRAME)):
            pass


class Runner(Measuring):
    """Answers the judge's requests about one candidate, one at a time."""

    def __init__(
        self,
        judge: Channel,
        device: str,
        scope: Scope,
        launches: Launches,
        *,
        may_compile: bool,
        unwritten: Unwritten | None = None,
        original: Original | None = None,
    ) -> None:
        """`original`: the user's module, where the candidate's text is an emitted file to be put on it."""
        super().__init__(
            device,
            scope,
            launches,
            may_compile=may_compile,
            unwritten=unwritten,
            with_users_code=original is not None,
        )
        self._original = original
        self._judge = judge
        self._construction: Frame | None = None
        self._another: LoadedCandidate | None = None
        self._held: dict[int, Held] = {}
        self._keeps_random_state = False

    def answer(self, frame: Frame) -> bool:
        """Do what `frame` asks and reply; False when asked to leave."""
        if frame.kind == "leave":
            return False
        try:
            header, payload = REQUESTS[frame.kind](self, frame)
        except CandidateFailure as failure:
            header, payload = failure.as_header(), ()
        if (seen := self._watch.take()) is not None:
            header, payload = seen.as_failure().as_header(), ()
        header = {**header, "compiles": self._watch.compiles}
        self._judge.send(header | {"signatures": self._launches.take_signatures()}, payload)
        return True

    def load(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        with self._candidates_turn("importing the file"):
            self._candidate = LoadedCandidate.from_source(frame.header["source"])
        return {"kind": "loaded", "envelope": self._candidate.envelope}, ()

    def construct(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        value = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        self._keeps_random_state = frame.header["keeps_random_state"]
        self._construction = frame
        onto = self._users_module(value, training=frame.header["training"])
        hollow = torch.device("meta") if frame.header["empty"] else contextlib.nullcontext()
        with self._candidates_turn("constructing ModelNew"), hollow, self._places():
            state = self._loaded().construct(
                frame.header["how"],
                value,
                "meta" if frame.header["empty"] else self._device,
                training=frame.header["training"],
                onto=onto,
            )
            left = self._gone_to_the_gpu(self._loaded().instance)
        return {"kind": "constructed", "state": state, "left": left}, ()

    def _users_module(self, value: Any, *, training: bool) -> torch.nn.Module | None:
        """Made before the candidate's turn, which answers for nothing that happens here."""
        if self._original is None:
            return None
        try:
            with self._scope(), self._places():
                return self._original.made(value, self._device, training=training)
        except NotReadHere as error:
            raise failure_of(error, "making the user's module") from error

    def weights(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        values = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        with self._candidates_turn("loading the weights"):
            self._loaded().load_weights(values, frame.header["how"], self._freed_memory())
        return {"kind": "done"}, ()

    def beside(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """Call another instance, whose weights are other ones each time; nobody wants its answer.

        `fresh`: one that has not been called.
        """
        args, kwargs = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        if frame.header["fresh"]:
            self._another = None
        if self._another is None:
            how, value = self._constructed_from()
            onto = self._users_module(value, training=self._loaded().trains)
            with self._candidates_turn("constructing a second ModelNew"):
                self._another = self._loaded().another(how, value, self._device, onto)
        else:
            with self._candidates_turn("constructing a second ModelNew"):
                other_weights(self._another.instance)
        keeps = self._keeps_random_state
        with self._candidates_turn("the forward of a second ModelNew", keeps_random_state=keeps):
            # Its weights are no user's: where they suit no forward, there is nothing to learn.
            with contextlib.suppress(CandidateFailure):
                self._another.forward(args, kwargs)
            self._settle()
        if self._device == "cuda":
            self._launches.take()
        return {"kind": "done"}, ()

    def _freed_memory(self) -> dict[str, torch.UntypedStorage]:
        """Let go of the other instance; new Parameters may lie where its were, as in a user's program."""
        if self._another is None:
            return {}
        left = memory_left_by(self._another.instance)
        self._another = None
        gc.collect()
        return {name: storage for name, storage in left.items() if is_free(storage)}

    def _constructed_from(self) -> tuple[str, Any]:
        frame = self._construction
        if frame is None:
            raise CandidateFailure("unverifiable", "the candidate is called before it is built")
        value = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        return frame.header["how"], value

    def call(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        (args, kwargs), step = self._opened(frame)
        pristine, _ = self._opened(frame)
        asked = from_data(frame.header["surroundings"], Surroundings)
        args, kwargs = as_given((args, kwargs), asked)
        pristine = as_given(pristine, asked)
        reads = HostReads(str(candidate_file())) if asked.looked_at else None
        before = None if reads is None else self._loaded().kept()
        work = None if reads is None else self._followed()
        launched = 0 if work is None else values_launched()
        # What such a call does on the host is counted: nothing else looks on meanwhile.
        watches = self._device != "cuda" and reads is None and not frame.header["forbidding"]
        choices = TorchChoices(str(candidate_file())) if watches else None
        allowed: AbstractContextManager[Any] = reads or contextlib.nullcontext()
        if choices is not None:
            from kernelagent.tools.virtual.device.fake_cuda import observed_by

            allowed = observed_by(choices.note)
        allowed = Forbidding() if frame.header["forbidding"] else allowed
        keeps = self._keeps_random_state
        tuning: AbstractContextManager[set[str]] = contextlib.nullcontext(set())
        if self._device != "cuda":
            tuning = self._take_configuration(int(frame.header["configuration"]))
        # In the memory of another call they would begin where that one's begin.
        if frame.header["in_place"] and asked.inside == "no" and asked.given == "tensors":
            args, kwargs = self._in_the_same_memory((args, kwargs))
        args, kwargs = with_own_state(self._loaded().instance, (args, kwargs), asked.own_state)
        given = Writes({str(at): t for at, t in enumerate(tensors_in((args, kwargs)))})
        held = Writes(held_by(self._loaded().instance))
        self._stored()
        whole = partial(self._forward, (args, kwargs), step, asked, allowed, keeps, work)
        with settings_of(asked), self._memory_of(asked), tuning as tuned:
            output, not_copied, before_it = in_its_thread(asked, whole)
        self._calls += 1
        changed = not same_values(pristine, (args, kwargs))
        as_left = copied((args, kwargs)) if changed else pristine
        self._held[frame.header["call"]] = Held(output, (args, kwargs), as_left, changed)
        while len(self._held) > 2 and sum(h.bytes for h in self._held.values()) > _HELD_BYTES:
            del self._held[next(iter(self._held))]
        header, payload = self._sent("output", (output, (args, kwargs) if changed else None))
        stored = self._stored()
        header["written_meanwhile"] = not changed and bool(given.since(stored))
        if step is None or step.changes is None:
            header["weights_written"] = held.since(stored)
        if self._original is not None:
            header["by_original"] = answered_by_original(self._loaded().instance)
        header["gaps_written"] = not (changed or gaps_kept(pristine, (args, kwargs)))
        if step is None:
            left = before_it.after(output, (args, kwargs), pristine)
            header["whereabouts"] = to_data(left)
            header["form"] = to_data(form_of(output))
            header["not_copied"] = not_copied
        if reads is not None and before is not None:
            header["reads"] = reads.names
            after = self._loaded().kept()
            header["changed"] = changed_ways(before.state, after.state)
            header["kept_bytes"] = after.bytes
        if self._device != "cuda":
            header["configurations"] = self._most_configurations()
            header["tuned"] = sorted(tuned)
            header["tunings"] = self._tunings()
            header["copied"] = self._copied_between_places()
        if choices is not None:
            header["torch_choices"] = choices.rows()
        if work is not None:
            header["host_work"] = counts_of(work, launched)
        if self._device == "cuda":
            header["devices"] = [tensor.device.type for tensor in tensors_in(output)]
            header["launches"], header["others"] = self._launches.take()
        return header, payload

    def _forward(
        self,
        arguments: Any,
        step: TrainingStep | None,
        asked: Surroundings,
        allowed: AbstractContextManager[Any],
        keeps: bool,
        work: HostWork | None,
    ) -> tuple[Any, str | None, Before]:
        """The answer, why no copy of the module could make it where one was asked for, and what there was before it.

        `work`: counts what the forward does on the host.
        """
        args, kwargs = arguments
        loaded, not_copied = self._loaded(), None
        # On `cuda` free memory is found as it was where it is not overwritten.
        given = None if asked.memory in ("found", "kept") else arguments
        turn = self._candidates_turn("the forward", keeps_random_state=keeps, given=given)
        flags = Flags.of(loaded.instance, tensors_in(arguments))
        with turn, allowed:
            module = loaded.instance
            if step is None:
                module, not_copied = loaded.as_asked(asked)
            before = Before(arguments, module)
            with self._host.call(), self._places(), work or contextlib.nullcontext():
                if step is None:
                    output = loaded.forward(args, kwargs, asked, module)
                else:
                    output = loaded.training_step(args, kwargs, step)
                self._settle()
        flags.require_as_they_were()
        return output, not_copied, before

    def _in_the_same_memory(self, fresh: Any) -> Any:
        """The last call's tensors with new contents, as whoever keeps static buffers calls.

        `fresh` itself where that memory is still needed: it was written to, or the output lies in it.
        """
        if not self._held:
            return fresh
        number, held = list(self._held.items())[-1]
        if not held.inputs_kept or not can_take(held, fresh):
            return fresh
        for old, new in zip(tensors_in(held.arguments), tensors_in(fresh), strict=True):
            # Through `.data`, so that the tensor's version counter does not reveal the write.
            old.data.copy_(new)
        self._held[number] = replace(held, arguments=(), left=())
        return held.arguments

    def replay(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """An ordinary forward, each step of which the executor does on other values as well."""
        from kernelagent.tools.virtual.device.conversions import rounding_told_to
        from kernelagent.tools.virtual.provenance.mirroring import Mirroring

        (args, kwargs), _ = self._opened(frame)
        mirroring = Mirroring(self._remote)
        keeps = self._keeps_random_state
        mirroring.begin(tensors_in((args, kwargs)))
        with (
            self._candidates_turn("the forward", keeps_random_state=keeps),
            rounding_told_to(mirroring.rounded),
            mirroring,
        ):
            output = self._loaded().forward(args, kwargs)
        mirroring.end(tensors_in(output))
        return self._sent("output", (output, None))

    def held(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        held = self._held.get(frame.header["call"])
        if held is None:
            raise CandidateFailure(
                "unverifiable", "a call that is asked about is not held any more"
            )
        header, payload = self._sent("held", held.output)
        return header | {"inputs_kept": held.inputs_kept}, payload

    def forget(self, _: Frame) -> tuple[dict[str, Any], Any]:
        """Free all calls but the last, as a user's program does: what waits for that happens now."""
        numbers = list(self._held)[:-1]
        outputs = [Watched(tensors_in(self._held[number].output)) for number in numbers]
        inputs = [Watched(tensors_in(self._held[number].arguments)) for number in numbers]
        with self._candidates_turn("freeing earlier results"):
            for number in numbers:
                del self._held[number]
            for number, held in list(self._held.items()):
                if held.mutated:
                    # What the last call put into its caller's containers may go before its result does.
                    self._held[number] = replace(held, arguments=(), left=())
                    del held
        at_once = [o.alive or i.alive for o, i in zip(outputs, inputs, strict=True)]
        if any(at_once):
            # What is left in a cycle of references is nobody's any more.
            gc.collect()
        kept = {"outputs": sum(o.alive for o in outputs), "inputs": sum(i.alive for i in inputs)}
        lasting = (o.alive or i.alive for o, i in zip(outputs, inputs, strict=True))
        cycles = sum(first and not last for first, last in zip(at_once, lasting, strict=True))
        return {"kind": "done", "calls": len(numbers), "in_cycles": cycles, **kept}, ()

    def left(self, _: Frame) -> tuple[dict[str, Any], Any]:
        """Asked once, when all is judged: is everything that was loaded before still as it was?"""
        if self._interpreter is not None:
            self._interpreter.require_as_it_was()
        return {"kind": "done"}, ()

    def state(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        return self._sent("state", self._loaded().state(frame.header["how"]))

    def attributes(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """What the module holds under these names besides its state, where it holds anything."""
        held = self._loaded().attributes(frame.header["names"])
        return self._sent("attributes", held)


REQUESTS: dict[str, Callable[[Runner, Frame], tuple[dict[str, Any], Any]]] = {
    "load": Runner.load,
    "construct": Runner.construct,
    "weights": Runner.weights,
    "beside": Runner.beside,
    "call": Runner.call,
    "replay": Runner.replay,
    "held": Runner.held,
    "forget": Runner.forget,
    "left": Runner.left,
    "state": Runner.state,
    "attributes": Runner.attributes,
    "account": Runner.account,
    **dict.fromkeys(("suppress", "trace", "graph", "facts"), Runner.observe),
    "prepare": Runner.prepare,
    "time": Runner.time,
    "chain": Runner.chain,
}
