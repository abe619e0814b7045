"""The runner's process: imports one candidate, runs it on request, and reports what came out.

It holds no expected output, no seed and no reference. What it says about itself is evidence for the
judge; the bytes of the outputs are what counts.
"""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from kernelagent.domain.serialization import from_data, to_data
from kernelagent.tools.calls.loading import is_free, memory_left_by
from kernelagent.tools.calls.memory_sharing import Watched
from kernelagent.tools.calls.result_form import form_of
from kernelagent.tools.calls.same_values import same_values
from kernelagent.tools.calls.surroundings import (
    Surroundings,
    as_given,
    in_its_thread,
    other_weights,
    settings_of,
)
from kernelagent.tools.calls.tensors import NotPortable, dtype_of, open_parcel, parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.calls.whereabouts import Before
from kernelagent.tools.calls.writes import Writes, held_by
from kernelagent.tools.candidate_runner.candidate import (
    CandidateFailure,
    LoadedCandidate,
    candidate_file,
    failure_of,
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
from kernelagent.tools.candidate_runner.host.host_time import HostTime
from kernelagent.tools.candidate_runner.host.host_work import HostWork
from kernelagent.tools.candidate_runner.integrity.integrity import Integrity, let_torch_compile
from kernelagent.tools.candidate_runner.integrity.watch import Watch
from kernelagent.tools.candidate_runner.integrity.whole_interpreter import WholeInterpreter
from kernelagent.tools.candidate_runner.kept.kept_state import changed as changed_ways
from kernelagent.tools.candidate_runner.launches import Launches, watch_launches
from kernelagent.tools.candidate_runner.unwritten import (
    CachedGpuMemory,
    Unwritten,
    is_noise,
    keeps_free_blocks,
)
from kernelagent.tools.wire import Channel, ChannelClosed, Frame

if TYPE_CHECKING:
    from kernelagent.tools.candidate_runner.repeat import Repeated

_MAX_FRAME = 1 << 40
_ALLOCATED_PER_INPUT = 4
"""What a call allocates, at a guess: this many times the bytes of its inputs."""
_HELD_BYTES = 256 << 20
"""Calls stay alive up to this size, and always the last two, so that a reused buffer shows."""


def serve(settings: dict[str, Any], fds: list[int]) -> None:
    """Process main; `settings`: `device` (`virtual` or `cuda`), its `index` on `cuda`, and `target`.

    `default_dtype`: torch's, as the judge has it. `may_compile`: the policy lets the candidate put torch.compile to work.
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
        runner = Runner(judge, *_gpu(settings), may_compile=may, unwritten=unwritten)
    else:
        launches = Launches(str(candidate_file()))
        runner = Runner(judge, *_virtual(settings, fds), launches, may_compile=may)
    with contextlib.suppress(ChannelClosed):
        while runner.answer(judge.receive(max_header=1 << 26, max_payload=_MAX_FRAME)):
            pass


def _remote_executor() -> Any:
    """The line to the executor, taken before a candidate could put another in its place."""
    import triton

    from kernelagent.tools.virtual.device.driver import VirtualDriver

    driver = triton.runtime.driver._active
    return driver.remote if isinstance(driver, VirtualDriver) else None


Scope = Callable[[], AbstractContextManager[Any]]


def _launching() -> float:
    from kernelagent.tools.virtual.device.driver import Spent

    return Spent.seconds


def _values_launched() -> int:
    from kernelagent.tools.virtual.device.driver import Spent

    return Spent.values


def _counts_of(work: HostWork, launched: int) -> list[float]:
    """`launched`: values, before the call."""
    values = _values_launched() - launched
    return [work.lines, work.calls, work.elsewhere_s, work.busy_s, values]


def _gpu(settings: dict[str, Any]) -> tuple[str, Scope, Launches]:
    """Create the CUDA context before the integrity snapshot, because creating it sets variables."""
    torch.cuda.set_device(int(settings["index"]))
    torch.cuda.init()  # type: ignore[no-untyped-call]
    launches = Launches(str(candidate_file()))
    watch_launches(launches)
    return "cuda", contextlib.nullcontext, launches


def _virtual(settings: dict[str, Any], fds: list[int]) -> tuple[str, Scope]:
    from kernelagent.tools.virtual.device import driver
    from kernelagent.tools.virtual.device import fake_cuda as cuda_names

    target = str(settings["target"])
    driver.install(Channel(socket.socket(fileno=fds[1])), fds[2], target)
    # torch.use_deterministic_algorithms would import the whole of Inductor first.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    return "cpu", lambda: cuda_names.pretending_cuda(target, rounds=True)


class Runner:
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
    ) -> None:
        self._judge = judge
        self._unwritten = unwritten
        self._calls = 0
        self._device = device
        self._may_compile = may_compile
        self._scope = scope
        self._launches = launches
        self._candidate: LoadedCandidate | None = None
        self._construction: Frame | None = None
        self._another: LoadedCandidate | None = None
        self._held: dict[int, Held] = {}
        self._repeated: Repeated | None = None
        self._keeps_random_state = False
        with scope():
            if may_compile:
                let_torch_compile()
            native = device != "cuda"
            self._integrity = Integrity(may_compile=may_compile, native_threads=native)
        self._watch = Watch(may_compile=may_compile)
        # What torch.compile replaces at its first use is torch's own business.
        self._interpreter = None if may_compile else WholeInterpreter(native)
        self._remote: Any = _remote_executor() if native else None
        self._host = HostTime(_launching if device != "cuda" else float)

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

    @contextlib.contextmanager
    def _candidates_turn(
        self, doing: str, *, keeps_random_state: bool = False, given: Any = ()
    ) -> Iterator[None]:
        """The candidate's code runs in it, and must leave everything as it found it."""
        self._overwrite_unwritten(doing, given)
        with self._scope(), self._integrity.kept(doing, keeps_random_state=keeps_random_state):
            yield

    def _overwrite_unwritten(self, doing: str, given: Any) -> None:
        if self._unwritten is None or given is None:
            return
        size = _ALLOCATED_PER_INPUT * sum(t.numel() * t.element_size() for t in tensors_in(given))
        try:
            self._unwritten.overwrite(noise=is_noise(self._calls), expected_bytes=size)
        except RuntimeError as error:
            # What an earlier kernel did wrong comes out here.
            raise failure_of(error, doing) from error

    def load(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        with self._candidates_turn("importing the file"):
            self._candidate = LoadedCandidate.from_source(frame.header["source"])
        return {"kind": "loaded", "envelope": self._candidate.envelope}, ()

    def construct(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        value = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        self._keeps_random_state = frame.header["keeps_random_state"]
        self._construction = frame
        hollow = torch.device("meta") if frame.header["empty"] else contextlib.nullcontext()
        with self._candidates_turn("constructing ModelNew"), hollow, self._places():
            state = self._loaded().construct(
                frame.header["how"],
                value,
                "meta" if frame.header["empty"] else self._device,
                training=frame.header["training"],
            )
            self._gone_to_the_gpu(self._loaded().instance)
        return {"kind": "constructed", "state": state}, ()

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
        with self._candidates_turn("constructing a second ModelNew"):
            if self._another is None:
                self._another = self._loaded().another(*self._constructed_from(), self._device)
            else:
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
        launched = 0 if work is None else _values_launched()
        allowed: AbstractContextManager[Any] = reads or contextlib.nullcontext()
        allowed = Forbidding() if frame.header["forbidding"] else allowed
        keeps = self._keeps_random_state
        tuning: AbstractContextManager[set[str]] = contextlib.nullcontext(set())
        if self._device != "cuda":
            tuning = self._take_configuration(int(frame.header["configuration"]))
        # In the memory of another call they would begin where that one's begin.
        if frame.header["in_place"] and asked.inside == "no" and asked.given == "tensors":
            args, kwargs = self._in_the_same_memory((args, kwargs))
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
        if work is not None:
            header["host_work"] = _counts_of(work, launched)
        if self._device == "cuda":
            header["devices"] = [tensor.device.type for tensor in tensors_in(output)]
            header["launches"], header["others"] = self._launches.take()
        return header, payload

    def _stored(self) -> set[int]:
        """Storages that kernels have stored to since this was last asked; on `cuda` nobody sees that."""
        return set() if self._remote is None else self._remote.take_stored()

    def _memory_of(self, asked: Surroundings) -> AbstractContextManager[None]:
        if self._device == "cuda":
            return contextlib.nullcontext()
        from kernelagent.tools.virtual.device.old_contents import OLD_CONTENTS

        return OLD_CONTENTS.of_a_call(asked.memory)

    def _places(self) -> AbstractContextManager[None]:
        """In it tensors are told apart that would lie on the host and on the GPU."""
        if self._device == "cuda":
            return contextlib.nullcontext()
        from kernelagent.tools.virtual.device.host_tensors import HOST_TENSORS

        return HOST_TENSORS.watching()

    def _gone_to_the_gpu(self, module: torch.nn.Module) -> None:
        if self._device != "cuda":
            from kernelagent.tools.virtual.device.host_tensors import HOST_TENSORS

            with torch._C.DisableTorchFunction():
                HOST_TENSORS.placed(module)

    def _copied_between_places(self) -> list[str]:
        """By which of torch's functions the last call has copied between the host and the GPU."""
        from kernelagent.tools.virtual.device.host_tensors import HOST_TENSORS

        return HOST_TENSORS.copied

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

    def _opened(self, frame: Frame) -> tuple[Any, TrainingStep | None]:
        """The arguments of a call (or sets of them) and the training step it is part of."""
        arguments, step = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        return arguments, _step_of(step)

    def _take_configuration(self, number: int) -> AbstractContextManager[set[str]]:
        """The call happens within what it returns, which holds the kernels that were tuned in it."""
        from kernelagent.tools.virtual.device.autotuning import CHOICE

        CHOICE.take(number)
        return CHOICE.tuning()

    def _most_configurations(self) -> int:
        """How many an autotuned kernel had to choose from, at most."""
        import triton

        autotuned: dict[str, int] = getattr(triton.runtime.driver.active, "autotuned", {})
        return max(autotuned.values(), default=1)

    def _tunings(self) -> list[dict[str, Any]]:
        from kernelagent.tools.virtual.device.autotuning import CHOICE

        return CHOICE.tunings()

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
        from kernelagent.tools.virtual.provenance.mirroring import Mirroring

        (args, kwargs), _ = self._opened(frame)
        mirroring = Mirroring(self._remote)
        keeps = self._keeps_random_state
        mirroring.begin(tensors_in((args, kwargs)))
        with self._candidates_turn("the forward", keeps_random_state=keeps), mirroring:
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
        if any(item.alive for item in (*outputs, *inputs)):
            # What is left in a cycle of references is nobody's any more.
            gc.collect()
        kept = {"outputs": sum(o.alive for o in outputs), "inputs": sum(i.alive for i in inputs)}
        return {"kind": "done", "calls": len(numbers), **kept}, ()

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

    def account(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """Run once and count torch's operations, unless `contents` on tensors that hold nothing."""
        (args, kwargs), given = open_parcel(frame.header["parcel"], frame.payload)
        from kernelagent.tools.virtual.cost.eager import watched
        from kernelagent.tools.virtual.device.fake_cuda import WithoutContents

        loaded, target, reported = self._loaded(), frame.header["target"], None
        if frame.header["contents"]:
            called = partial(loaded.call_counted, args, kwargs, _step_of(given))
            work = self._followed() if frame.header["followed"] else None
            launched = _values_launched()
            with self._scope(), self._host.call():
                with work or contextlib.nullcontext():
                    seen = watched(called, (), {}, target)
                self._host.elsewhere += seen.clock.seconds
            if work is not None:
                reported = _counts_of(work, launched)
        else:
            with self._scope(), WithoutContents():
                loaded.drop_contents()
                if given is None:
                    seen = watched(loaded.forward_without_contents, args, kwargs, target)
                else:
                    step = TrainingStep.from_value(given)
                    called = partial(loaded.step_without_contents, (args, kwargs), step)
                    seen = watched(called, (), {}, target)
        answer = {"torch": to_data(seen.rows), "allocated_bytes": seen.allocated_bytes}
        return {"kind": "done", **answer, "host_work": reported}, ()

    def _followed(self) -> HostWork | None:
        """What counts a call's work on the host; None where that is not looked at."""
        if self._device == "cuda" or self._may_compile:
            return None
        return HostWork(str(candidate_file()), _launching)

    def observe(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        """What only this process sees of the device: launches, traces, graphs, machine code."""
        from kernelagent.tools.candidate_runner.observing import observed

        if frame.header.get("of") == "host":
            return {"kind": "done", "host": self._host.take()}, ()
        given = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        forward = None if given is None else partial(self._loaded().forward, *given)
        with self._scope():
            answer = observed(frame, forward, self._launches, self._device)
        return {"kind": "done", **answer}, ()

    def prepare(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        from kernelagent.tools.candidate_runner.repeat import Repeated

        # What is timed is Triton's own launch, as in the user's program.
        self._launches.stand_aside()
        sets, step = self._opened(frame)
        module = self._loaded().instance
        self._repeated = Repeated(module, self._device)
        with self._timed("the calls before the clock"):
            self._repeated.prepare(sets, step, module)
        return {"kind": "done"}, ()

    def time(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        repeated = self._prepared()
        with self._timed("a timed call"):
            repeated.run(int(frame.header["calls"]))
        return {"kind": "done", "peak_bytes": repeated.peak_bytes}, ()

    def chain(self, frame: Frame) -> tuple[dict[str, Any], Any]:
        repeated = self._prepared()
        calls, secret = int(frame.header["calls"]), int(frame.header["secret"])
        with self._timed("a chained call"):
            digests = repeated.chain(calls, secret, empty=False)
        return self._sent("digests", digests)

    def _prepared(self) -> Repeated:
        if self._repeated is None:
            raise CandidateFailure("unverifiable", "timing was asked for before it was prepared")
        return self._repeated

    @contextlib.contextmanager
    def _timed(self, doing: str) -> Iterator[None]:
        with self._scope():
            try:
                yield
            except CandidateFailure:
                raise
            except BaseException as error:
                raise failure_of(error, doing) from error

    def _loaded(self) -> LoadedCandidate:
        if self._candidate is None:
            raise CandidateFailure("unverifiable", "the candidate is asked before it is loaded")
        return self._candidate

    def _settle(self) -> None:
        if self._device == "cuda":
            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                # What a kernel did wrong comes out here.
                raise failure_of(error, "the forward") from error

    def _sent(self, kind: str, value: Any) -> tuple[dict[str, Any], Any]:
        try:
            packed = parcel(value)
        except NotPortable as error:
            raise CandidateFailure("wrong_structure", str(error)) from error
        except RuntimeError as error:
            raise failure_of(error, "reading the output") from error
        return {"kind": kind, "parcel": packed.header}, packed.payload


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


def _step_of(value: Any) -> TrainingStep | None:
    return None if value is None else TrainingStep.from_value(value)
