"""How much a forward does in Python on the host: lines of the candidate's own text that run, and their time.

Counting does not depend on how busy the machine is, so that a loop too short for a clock shows. What its lines and
functions of other libraries take is measured, but for torch's and Triton's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter as _clock
from types import FrameType, TracebackType
from typing import Any, Self

import torch
import triton

from kernelagent.tools.candidate_runner.host.own_work import OwnWork

_MOST_LINES = 20_000
"""Counted no further: following each line takes a hundred times as long as running it."""
_FREE = (
    *(str(Path(str(module.__file__)).parent) + os.sep for module in (torch, triton)),
    # What stands in for torch's functions on `virtual`, and this.
    str(Path(__file__).parents[2]) + os.sep,
)
_FREE_MODULES = frozenset({"torch", "triton"})


class HostWork:
    """While entered, follows the thread; a context manager."""

    def __init__(self, file: str, launching: Callable[[], float] = float) -> None:
        """`file`: of the candidate; `launching`: seconds that launches have taken so far."""
        self.lines = 0
        """Of the candidate's text, as often as they ran."""
        self.calls = 0
        """Of torch's and Triton's functions by the text, whether they launch anything or not."""
        self.elsewhere_s = 0.0
        """In functions that the text calls and that are neither its own nor torch's nor Triton's."""
        self.busy_s = 0.0
        """What the thread has worked in such functions and in the text's own lines, whether they call anything or not."""
        self._own = OwnWork(self._is_counted)
        self._file = file
        self._launching = launching
        self._caller: FrameType | None = None
        self._callee: FrameType | None = None
        self._began = self._following = 0.0
        self._before: tuple[Any, Any] = (None, None)

    def __enter__(self) -> Self:
        self._before = sys.gettrace(), sys.getprofile()
        sys.settrace(self._entered)
        sys.setprofile(self._called)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trace, profile = self._before
        sys.setprofile(profile)
        sys.settrace(trace)
        self._own.pause()
        self.busy_s = self._own.seconds()
        self._caller = self._callee = None

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Only the lines of the candidate's own text are followed."""
        if frame.f_code.co_filename != self._file or self.lines >= _MOST_LINES:
            return None
        began = _clock()
        self._own.pause()
        self.lines += 1
        self._own.go_on()
        self._following += _clock() - began
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        began = _clock()
        self._own.pause()
        self.lines += event == "line"
        if self.lines >= _MOST_LINES:
            # Taking the function off here would look as if the candidate had done it.
            frame.f_trace_lines = False
        self._own.go_on()
        self._following += _clock() - began
        return self._line

    def _is_counted(self, frame: FrameType) -> bool | None:
        file = frame.f_code.co_filename
        if file == self._file:
            return True
        return False if file.startswith(_FREE) else None

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        began = _clock()
        if event == "call":
            self._own.called(frame)
        elif event == "c_call":
            self._own.called(frame, free=_is_free(argument))
        else:
            self._own.returned()
        self._look(frame, event, argument, began)
        self._own.go_on()
        self._following += _clock() - began

    def _look(self, frame: FrameType, event: str, argument: Any, now: float) -> None:
        """What is spent elsewhere, and how often torch is called."""
        if self._caller is None:
            self._may_begin(frame, event, argument, now)
        elif frame is self._caller and event in ("c_return", "c_exception"):
            if self._callee is None:
                self._end(now)
        elif frame is self._callee and event == "return":
            self._end(now)

    def _may_begin(self, frame: FrameType, event: str, argument: Any, now: float) -> None:
        if event == "c_call" and frame.f_code.co_filename == self._file:
            self._begin(frame, None, now, free=_is_free(argument))
        elif event == "call":
            caller, file = frame.f_back, frame.f_code.co_filename
            if (
                caller is not None
                and caller.f_code.co_filename == self._file
                and file != self._file
            ):
                self._begin(caller, frame, now, free=file.startswith(_FREE))

    def _begin(
        self, caller: FrameType, callee: FrameType | None, now: float, *, free: bool
    ) -> None:
        """`callee`: None for a function written in C."""
        if free:
            self.calls += 1
        else:
            self._caller, self._callee, self._began = caller, callee, self._besides(now)

    def _end(self, now: float) -> None:
        self.elsewhere_s += max(0.0, self._besides(now) - self._began)
        self._caller = self._callee = None

    def _besides(self, now: float) -> float:
        """The clock without what launches have taken, and what following has."""
        return now - self._launching() - self._following


def _is_free(function: Any) -> bool:
    """Whether a function written in C is torch's or Triton's."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor | torch.nn.Module):
        return True
    names = (
        getattr(function, "__module__", None),
        getattr(owner, "__name__", None),
        type(owner).__module__,
    )
    return any(str(name).partition(".")[0] in _FREE_MODULES for name in names if name)
