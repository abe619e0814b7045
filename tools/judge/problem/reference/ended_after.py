"""Ends what a user's code does when it takes too long: a forward on numbers that nobody gave it may never end."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class TakesTooLongError(RuntimeError):
    """Raised within the code that was to be done by now, at its next line of Python."""


class _NothingMore(BaseException):
    """Raised and caught at the end, in place of what has not arrived yet."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """What runs inside, in this thread, is ended by `TakesTooLongError`; a single call into C is waited for."""
    thread, lock, is_inside = threading.get_ident(), threading.Lock(), True

    def raise_there(error: type[BaseException]) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))

    def end() -> None:
        with lock:
            if is_inside:
                raise_there(TakesTooLongError)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            is_inside = False
        # What was raised at the last moment and has not arrived must not come later. It is replaced and not withdrawn: CPython
        # 3.11 goes on believing that something is to arrive, and never gets past the first function that is traced then.
        with suppress(_NothingMore):
            raise_there(_NothingMore)
            while True:
                pass
