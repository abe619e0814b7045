"""The forward of a reference with each step of its own text at hand: to note them, or to do one of them wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from kernelagent.tools.candidate_runner.host.asking_line import frame_of, place_of
from kernelagent.tools.candidate_runner.host.host_reads import TELLING
from kernelagent.tools.judge.problem.wrong_steps.changes import (
    Change,
    DoesNotFitError,
    changes_of,
    is_in_place,
)

_ROUNDS_FROM = (0.0, 0.5, 0.8)
"""A step that is done many times is done wrong from these shares of its rounds on; the last of all is often one too many."""
_FEWEST_ROUNDS = 3
_MORE_STEPS = 100
_SIZED_BY_VALUES = frozenset("repeat_interleave bincount one_hot".split())
"""Values decide how much memory these take."""
_MADE_OF_SIZES = frozenset("arange linspace logspace zeros ones full empty rand randn".split())
_SIZED = frozenset(
    """new_zeros new_ones new_full new_empty expand repeat tile narrow view reshape pad split unfold
    as_strided resize_""".split()
)
"""The same where one of their sizes, not the first argument, is a tensor."""
_OF_MODULES = "/torch/nn/modules/"


class Step(NamedTuple):
    """A function of torch's at a place of the text."""

    code: CodeType
    instruction: int
    function: str


@dataclass(frozen=True)
class WrongStep:
    """One step done wrong, from a certain time that it is done in a forward on."""

    step: Step
    place: str
    """As it is told: line, text, and the function where that is not in the text."""
    change: Change
    begin: int = 0
    rounds: int = 1
    """As often it was done in the forward that was looked at."""
    steps: int = 1
    """Of that forward, all together."""

    @property
    def words(self) -> str:
        """What is wrong with it, and when."""
        when = f" from round {self.begin + 1} of {self.rounds} on" if self.begin else ""
        return f"{self.change.words}{when}"


Visit = Callable[[Any, Step, int, Any, Any, Any], Any]
"""`(frame, step, how often it was done before, function, positional and named arguments) -> its answer`."""


class TooManyStepsError(RuntimeError):
    """A forward with a step done wrong takes many more steps than the right one."""


class Following(TorchFunctionMode):
    """While entered, hands each step of the file's own text to `visit` with its function, its arguments, and how often it
    was done before; what `visit` returns is its answer. After `most` steps the forward ends in an error: done wrong, a
    loop until something holds may never end."""

    def __init__(self, file: str, visit: Visit, most: int | None = None) -> None:
        super().__init__()
        self._file = file
        self._visit = visit
        self._most = most
        self.times: dict[Step, int] = {}
        """How often each step was done."""
        self.count = 0
        """Of all steps."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        frame = frame_of(self._file, sys._getframe(1))
        if frame is None:
            return func(*args, **(kwargs or {}))
        self.count += 1
        if self._most is not None and self.count > self._most:
            raise TooManyStepsError
        step = Step(frame.f_code, frame.f_lasti, getattr(func, "__name__", ""))
        times = self.times.get(step, 0)
        self.times[step] = times + 1
        return self._visit(frame, step, times, func, args, kwargs or {})


@dataclass(frozen=True)
class Looked:
    """What one forward answers, and how each step of it can be done wrong."""

    answer: Any
    wrong: tuple[WrongStep, ...]
    most_rounds: int
    """How often the step was done that was done most often; 0 where the host reads values, which may be of any of them."""


def look_at(file: str, forward: Callable[[], Any]) -> Looked:
    """Make one forward and look at its steps; those whose answer depends on sizes alone cannot be done wrong unseen."""
    first: dict[Step, tuple[str, list[Change]]] = {}
    of_no_data: WeakIdKeyDictionary = WeakIdKeyDictionary()

    begun: dict[Step, int] = {}
    last_read = -1

    def visit(frame: Any, step: Step, times: int, func: Any, args: Any, kwargs: Any) -> Any:
        nonlocal last_read
        begun.setdefault(step, following.count)
        if step.function in TELLING or _reads_a_size(step.function, args, kwargs):
            last_read = following.count
        result = func(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if all(t in of_no_data for t in tensors):
            for made in tree_leaves(result):
                if isinstance(made, torch.Tensor):
                    of_no_data[made] = True
            return result
        if isinstance(args[0] if args else None, torch.Tensor) and is_in_place(step.function):
            # Data was written into what was made of sizes.
            for written in (args[0], args[0]._base):
                if written in of_no_data:
                    del of_no_data[written]
        if step not in first:
            changes = list(changes_of(step.function, args, kwargs, result))
            if changes:
                place = place_of(frame)
                text = f"`{place.text}`"
                if _is_in_a_module(frame):
                    text = f"`{step.function}` in {text}"
                first[step] = f"line {place.line} {text}", changes
        return result

    following = Following(file, visit)
    with following:
        answer = forward()
    times = following.times
    # What the host has read of a step decides what it does next: how often it goes round, how much memory it asks for.
    first = {step: made for step, made in first.items() if begun[step] > last_read}
    wrong = tuple(
        WrongStep(step, place, change, begin, times[step], following.count)
        for step, (place, changes) in first.items()
        for change in changes
        for begin in _begins(times[step] if change.in_late_rounds else 1)
    )
    return Looked(answer, wrong, max(times.values(), default=0) if last_read < 0 else 0)


def with_wrong_step(wrong: WrongStep, file: str, forward: Callable[[], Any]) -> Any:
    """What the forward answers with this step done wrong."""

    def visit(frame: Any, step: Step, times: int, func: Any, args: Any, kwargs: Any) -> Any:
        if step != wrong.step or times < wrong.begin:
            return func(*args, **kwargs)
        try:
            return wrong.change.answer(func, args, kwargs)
        except DoesNotFitError:
            return func(*args, **kwargs)

    following = Following(file, visit, most_steps(wrong.steps))
    with settings_kept(), following:
        return forward()


@contextmanager
def settings_kept() -> Iterator[None]:
    """What a forward sets of torch's without a `with`, and puts back at its end, is put back where it ends in an error, too."""
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(gradients)


def _reads_a_size(function: str, args: Any, kwargs: Any) -> bool:
    """Whether torch takes a value out of a tensor to know how much memory it needs."""
    if function in _MADE_OF_SIZES:
        sizes = (args, kwargs)
    elif function in _SIZED:
        sizes = (args[1:], kwargs)
    else:
        return function in _SIZED_BY_VALUES
    return any(isinstance(size, torch.Tensor) for size in tree_leaves(sizes))


def _is_in_a_module(frame: FrameType) -> bool:
    """Whether a module of torch's asks, called from `frame`: the text there stands for all that the module does."""
    inner: FrameType | None = sys._getframe(2)
    while inner is not None and inner is not frame:
        if _OF_MODULES in inner.f_code.co_filename:
            return True
        inner = inner.f_back
    return False


def most_steps(steps: int) -> int:
    """So many are allowed where the right forward takes `steps`."""
    return 2 * steps + _MORE_STEPS


def _begins(rounds: int) -> list[int]:
    if rounds < _FEWEST_ROUNDS:
        return [0]
    return sorted({int(share * rounds) for share in _ROUNDS_FROM})
