"""Stops a model from using the GPU while candidates are timed: running requests end, new ones wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition
from typing import Protocol, runtime_checkable

from kernelagent.domain.configuration.budget import Cost
from kernelagent.domain.events import Event, Remarked
from kernelagent.domain.history import Message
from kernelagent.models import (
    Concurrent,
    Exhausted,
    Model,
    ModelQuery,
    NotAnswered,
    Priced,
    Reply,
    Windowed,
)
from kernelagent.tools.gpu_lock import Gpu, GpuLock


@runtime_checkable
class Pausable(Protocol):
    """A model whose answers are generated on a GPU that something else wants for a while."""

    def pause(self) -> None:
        """After this nothing is generated until `resume`; what was being generated is finished."""
        ...

    def resume(self) -> None:
        """Allow requests again; raises nothing, so that no evaluation is lost."""
        ...


class Gate:
    """Counts running requests; while it is closed, no request can start."""

    def __init__(
        self,
        sharing: Callable[[], AbstractContextManager[object]] = nullcontext,
        before_first: Callable[[], None] = lambda: None,
    ) -> None:
        """`sharing` is held while anything is generated; `before_first` runs when that begins."""
        self._changed = Condition()
        self._inside = 0
        self._closed = False
        self._sharing = sharing
        self._before_first = before_first
        self._held: AbstractContextManager[object] | None = None

    @contextmanager
    def generating(self) -> Iterator[None]:
        """One ask; waits while the gate is closed."""
        with self._changed:
            while self._closed:
                self._changed.wait()
            # Others wait here as well: a server that is being woken answers no one.
            if self._inside == 0:
                self._enter_first()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if self._inside == 0:
                    self._leave_last()
                self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more begin and wait for what has begun."""
        with self._changed:
            self._closed = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        with self._changed:
            self._closed = False
            self._changed.notify_all()

    def _enter_first(self) -> None:
        held = self._sharing()
        held.__enter__()
        try:
            self._before_first()
        except BaseException:
            held.__exit__(None, None, None)
            raise
        self._held = held

    def _leave_last(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.__exit__(None, None, None)


class DrainedModel:
    """A local model that we did not start: requests can be drained, but its memory cannot be freed."""

    def __init__(self, model: Model, gate: Gate) -> None:
        self._model = model
        self._gate = gate

    @property
    def name(self) -> str:
        return self._model.name

    def reply(
        self, ask: ModelQuery, on_text: Callable[[str], None]
    ) -> Reply | Exhausted | NotAnswered:
        with self._gate.generating():
            return self._model.reply(ask, on_text)

    def pause(self) -> None:
        self._gate.close()

    def resume(self) -> None:
        self._gate.open()

    def close(self) -> None:
        self._model.close()


class DrainedEndpoint(DrainedModel):
    """The same for a server that is asked several things at once, and counts what they cost."""

    def __init__(self, model: Model, gate: Gate, most_in_flight: int, priced: Priced) -> None:
        super().__init__(model, gate)
        self.most_in_flight = most_in_flight
        self._priced = priced

    @property
    def prompt_room(self) -> int | None:
        return self._model.prompt_room if isinstance(self._model, Windowed) else None

    def worst_case(self, messages: Sequence[Message], tokens_left: int | None) -> Cost:
        return self._priced.worst_case(messages, tokens_left)


def drained(model: Model, gpu: Gpu, publish: Callable[[Event], None]) -> Model:
    """`model` behind its own gate, which shares the GPU's lock while it answers."""
    lock = GpuLock(gpu.id)
    gate = Gate(lambda: lock.shared(lambda why: publish(Remarked("info", why))))
    if isinstance(model, Concurrent) and isinstance(model, Priced):
        return DrainedEndpoint(model, gate, model.most_in_flight, model)
    return DrainedModel(model, gate)
