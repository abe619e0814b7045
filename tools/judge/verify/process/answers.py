"""What a candidate's process answers, as records."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from kernelagent.tools.calls.result_form import Part
from kernelagent.tools.calls.whereabouts import Whereabouts
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.timing.observed import LaunchRow, rows_of
from kernelagent.tools.virtual.cost.eager import EagerRow

_LONGEST_NAME = 60


@dataclass(frozen=True)
class OnTheHost:
    """What a forward does in Python."""

    lines: int = 0
    """Of the candidate's text, as often as they ran."""
    calls: int = 0
    """Of torch's and Triton's functions, by the text."""
    elsewhere_s: float = 0.0
    """In other functions that the text calls, besides launches."""
    busy_s: float = 0.0
    """What its thread worked in its own lines and in such functions."""
    values: int = 0
    """Arguments of launches, with what tuples hold."""

    def least(self, other: OnTheHost) -> OnTheHost:
        """Of two calls, the least of each."""
        return OnTheHost(*map(min, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Answer:
    """What came back from one call."""

    output: Any
    changed_arguments: Arguments | None
    """The inputs after the call when the candidate changed them."""
    devices: tuple[str, ...] | None = None
    """On `cuda`: the kind of device each tensor of the output lay on, in the order of its leaves."""
    launches: tuple[LaunchRow, ...] = ()
    """On `cuda`: the candidate's own, as its process tells of them."""
    whereabouts: Whereabouts | None = None
    """Of an ordinary call, as the candidate's process tells it: what it leaves where."""
    not_copied: str | None = None
    """Why no copy of the module could make the call that was asked of one."""
    reads: tuple[str, ...] = ()
    """Of a call that was looked at: how values of tensors were taken to the host, by torch's names."""
    changed: tuple[str, ...] = ()
    """Of the same: what the candidate keeps and the call changed, in its text's names."""
    form: tuple[Part, ...] = ()
    """Of an ordinary call: what the result is besides its values."""
    gaps_written: bool = False
    """Whether it has written between the elements of an input that is not contiguous."""
    copied: tuple[str, ...] = ()
    """On `virtual`: by which of torch's functions it has copied between the host and the GPU."""
    host_work: OnTheHost | None = None
    """Of a call that was looked at, as the candidate's process tells it."""
    kept_bytes: int = 0
    """Of the same: memory that the candidate keeps besides parameters and saved buffers."""
    written_meanwhile: bool = False
    """Whether an input was written to that holds what it held before."""
    weights_written: tuple[str, ...] = ()
    """Parameters and buffers that were written to, whatever they hold afterwards."""
    torch_choices: tuple[tuple[int, str, int], ...] = ()
    """On `virtual`: line and text of each condition of data that it computes by torch, and the ways it came out."""


@dataclass(frozen=True)
class Kept:
    """Of so many earlier calls, how many have results or inputs whose memory nobody frees."""

    calls: int = 0
    outputs: int = 0
    inputs: int = 0
    in_cycles: int = 0
    """Calls of which something is freed only when Python looks for cycles of references."""


@dataclass(frozen=True)
class Replayed:
    """A forward done by the executor alone, on values that the candidate's process did not hold."""

    output: Any
    """The candidate's own, on the values it held."""
    hidden: list[Any]
    """The tensors of the output on the hidden values, in the order of its leaves."""
    torch_rows: list[EagerRow]
    told: int
    """Hidden numbers that the forward asked for."""
    failure: str | None
    """Why it could not be done; then `hidden` says nothing."""


def host_work(reported: Any) -> OnTheHost | None:
    return (
        None
        if reported is None
        else OnTheHost(*rows_of(reported, tuple[int, int, float, float, int]))
    )


def names(reported: Any) -> tuple[str, ...]:
    return tuple(printable(str(name)) for name in reported) if isinstance(reported, list) else ()


def printable(name: str) -> str:
    """A terminal would obey control characters."""
    return "".join(c if c.isprintable() else "?" for c in name[:_LONGEST_NAME])
