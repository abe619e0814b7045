"""A candidate's turns: its code runs in them, on the device, and must leave everything as it found it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from kernelagent.tools.calls.surroundings import Surroundings
from kernelagent.tools.calls.tensors import NotPortable, open_parcel, parcel
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.candidate_runner.candidate import (
    CandidateFailure,
    LoadedCandidate,
    failure_of,
)
from kernelagent.tools.candidate_runner.device import Scope, remote_executor
from kernelagent.tools.candidate_runner.held_calls import tensors_in
from kernelagent.tools.candidate_runner.integrity.integrity import Integrity, let_torch_compile
from kernelagent.tools.candidate_runner.integrity.watch import Watch
from kernelagent.tools.candidate_runner.integrity.whole_interpreter import WholeInterpreter
from kernelagent.tools.candidate_runner.launches import Launches
from kernelagent.tools.candidate_runner.unwritten import Unwritten, is_noise
from kernelagent.tools.wire import Frame

_ALLOCATED_PER_INPUT = 4
"""What a call allocates, at a guess: this many times the bytes of its inputs."""


class Turns:
    """One candidate, and what is watched and checked around whatever it does."""

    def __init__(
        self,
        device: str,
        scope: Scope,
        launches: Launches,
        *,
        may_compile: bool,
        unwritten: Unwritten | None,
        with_users_code: bool = False,
    ) -> None:
        """`with_users_code`: the user's module is in this process too."""
        self._unwritten = unwritten
        self._calls = 0
        self._device = device
        self._may_compile = may_compile
        self._scope = scope
        self._launches = launches
        self._candidate: LoadedCandidate | None = None
        with scope():
            if may_compile:
                let_torch_compile()
            native = device != "cuda"
            self._integrity = Integrity(
                may_compile=may_compile, native_threads=native, with_users_code=with_users_code
            )
        self._watch = Watch(may_compile=may_compile)
        # What torch.compile replaces at its first use is torch's own business.
        self._interpreter = None if may_compile else WholeInterpreter(native)
        self._remote: Any = remote_executor() if native else None

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

    def _stored(self) -> set[int]:
        """Storages that kernels have stored to since this was last asked; on `cuda` nobody sees that."""
        return set() if self._remote is None else self._remote.take_stored()

    def _memory_of(self, asked: Surroundings) -> AbstractContextManager[None]:
        if self._device == "cuda":
            return contextlib.nullcontext()
        from kernelagent.tools.virtual.device.storages.old_contents import OLD_CONTENTS

        return OLD_CONTENTS.of_a_call(asked.memory)

    def _places(self) -> AbstractContextManager[None]:
        """In it tensors are told apart that would lie on the host and on the GPU."""
        if self._device == "cuda":
            return contextlib.nullcontext()
        from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS

        return HOST_TENSORS.watching()

    def _gone_to_the_gpu(self, module: torch.nn.Module) -> list[str]:
        """Names of what lies there and is moved by nobody; on `cuda` none are known."""
        if self._device == "cuda":
            return []
        from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS

        with torch._C.DisableTorchFunction():
            HOST_TENSORS.placed(module)
            return HOST_TENSORS.left_on_the_gpu(module)

    def _copied_between_places(self) -> list[str]:
        """By which of torch's functions the last call has copied between the host and the GPU."""
        from kernelagent.tools.virtual.device.storages.host_tensors import HOST_TENSORS

        return HOST_TENSORS.copied

    def _opened(self, frame: Frame) -> tuple[Any, TrainingStep | None]:
        """The arguments of a call (or sets of them) and the training step it is part of."""
        arguments, step = open_parcel(frame.header["parcel"], frame.payload, device=self._device)
        return arguments, step_of(step)

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


def step_of(value: Any) -> TrainingStep | None:
    return None if value is None else TrainingStep.from_value(value)
