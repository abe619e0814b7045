"""Concurrent model requests in daemon threads, which do not keep the program from ending."""

from __future__ import annotations

from collections.abc import Callable
from threading import BoundedSemaphore, Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class ConcurrentQuery(Generic[T]):
    """A task in its own thread; `result` waits for it."""

    def __init__(self, task: Callable[[], T], places: BoundedSemaphore) -> None:
        """`places`: how many such tasks may run at once."""
        self._done = Event()
        self._task = task
        self._places = places
        self._value: list[T] = []
        self._error: BaseException | None = None
        # A daemon thread, so that a second Ctrl-C does not wait minutes for a reply.
        Thread(target=self._run, daemon=True).start()

    def result(self) -> T:
        """What the task returned, or raises what it raised."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self) -> None:
        try:
            with self._places:
                self._value.append(self._task())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._error = error
        finally:
            self._done.set()
