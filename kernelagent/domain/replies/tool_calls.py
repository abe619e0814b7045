"""What a writer may ask without spending a turn, and what it is answered: calls and their results as data.

Which tools there are, and what each takes, stands in `tool_registry`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kernelagent.domain.evaluation import Estimate, KernelFacts, Reason, Timing


@dataclass(frozen=True)
class ToolCall:
    """One call as the writer made it; whether it fits the tool is asked of the registry."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    """The endpoint's name for it, where the writer calls functions."""
    unread: str = ""
    """What stood in the place of the arguments, where it could not be read as such."""

    @classmethod
    def of(cls, tool: str, **arguments: Any) -> ToolCall:
        return cls(tool, arguments)

    @property
    def code(self) -> str:
        """The source it is about; empty for tools that take none."""
        code = self.arguments.get("code", "")
        return code if isinstance(code, str) else ""

    def same_as(self, other: ToolCall) -> bool:
        """Whether both ask the same; an endpoint's names for them do not count."""
        ours, theirs = ((c.tool, c.arguments, c.unread) for c in (self, other))
        return ours == theirs


@dataclass(frozen=True)
class Checked:
    """A candidate compiled and counted at the user's sizes; nothing of it has been verified."""

    fault: Reason | None = None
    """Why it does not come so far."""
    kernels: tuple[KernelFacts, ...] = ()
    estimate: Estimate | None = None
    """Of the input set that gains least; None on `cuda`, where times are measured in a turn."""
    torch_operations: tuple[str, ...] = ()
    """What torch still computes beside the kernels."""
    loops_by_values: tuple[str, ...] = ()
    """Kernels with a loop whose rounds loaded values decide: without contents there are none, and the estimate is not theirs."""


@dataclass(frozen=True)
class Difference:
    """One floating output of one call beside the reference's."""

    output: str
    dtype: str
    shape: tuple[int, ...]
    worst: tuple[int, ...]
    """Where the two lie furthest apart."""
    got: str
    expected: str
    """In float64."""
    ulps: float | None
    """How far apart they are there, in units of the last place; None: it has none, being 0 or not finite."""
    rms_error: float
    """Here and below: of the region nearest to its limits, or furthest over them."""
    rms_allowed: float
    max_error: float
    max_allowed: float
    within: bool
    """The judge's gate lets it pass."""


@dataclass(frozen=True)
class Probed:
    """One comparison on one input set; nothing else was looked at."""

    input_set: str
    executed: str | None = None
    """The smaller shapes that were run; None when run as given."""
    differences: tuple[Difference, ...] = ()
    kernels: tuple[str, ...] = ()
    """Of the call, in the order of their launches."""
    fault: Reason | None = None
    """Why such an answer is refused, or why there is none."""
    with_backward: bool = False
    """It was a training step (`--train`): gradients are among the differences."""


@dataclass(frozen=True)
class TensorStatistics:
    """A tensor of the reference; the numbers are of its finite values, None where it has none."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    least: float | None = None
    most: float | None = None
    mean: float | None = None
    deviation: float | None = None
    rms: float | None = None
    zeros: float | None = None
    """Share of elements, here and below."""
    nonfinite: float = 0.0


@dataclass(frozen=True)
class ReferenceLook:
    """What the reference computed once, in a submodule or as a whole."""

    input_set: str
    executed: str | None
    submodule: str
    """Empty: the whole module."""
    calls: int
    """How often it was called in one forward."""
    outputs: tuple[TensorStatistics, ...]
    submodules: tuple[str, ...]
    """What there is to look into."""


@dataclass(frozen=True)
class Assembly:
    """The machine code of one kernel at the user's sizes."""

    kernel: str
    form: str
    """`sass` or `ptx`."""
    line: int | None
    """The source line that was asked for."""
    kernels: tuple[str, ...] = ()
    """All that one forward launches."""
    total: int = 0
    """Instructions; 0 where no such kernel is launched."""
    by_line: tuple[tuple[int, int], ...] = ()
    """Source lines, each with its instructions' number."""
    mix: tuple[tuple[str, int], ...] = ()
    """The commonest instructions."""
    shown: tuple[str, ...] = ()
    """Those of the line, and what stands around them."""
    fault: Reason | None = None


@dataclass(frozen=True)
class SweptRow:
    """One configuration of a sweep."""

    values: dict[str, int | float | str | bool]
    us: float | None
    """Of one forward: an estimate on `virtual`, measured on `cuda`; None where there is none."""
    kernels: tuple[KernelFacts, ...] = ()
    fault: Reason | None = None
    loops_by_values: tuple[str, ...] = ()
    """As of a check: kernels whose estimate is not theirs."""


@dataclass(frozen=True)
class Swept:
    """One source in many configurations, fastest first; nothing was verified."""

    rows: tuple[SweptRow, ...]
    measured: bool
    """False: the times are estimates."""
    untried: int = 0
    """Configurations for which the seconds did not suffice."""
    best: str = ""
    """The source of the fastest; empty where none came so far."""
    changed: tuple[str, ...] = ()
    """Its lines that differ from the source that was sent."""


@dataclass(frozen=True)
class Benched:
    """A candidate's time on a GPU; nothing was verified."""

    timing: Timing | None = None
    kernels: tuple[KernelFacts, ...] = ()
    fault: Reason | None = None


@dataclass(frozen=True)
class Library:
    """The library of kernels, or one file of it."""

    listed: dict[str, str] = field(default_factory=dict)
    """What each is, by its name; empty where one was asked for."""
    name: str = ""
    source: str = ""


ToolPart: TypeAlias = Checked | Probed | ReferenceLook | Assembly | Swept | Benched | Library
"""What a tool answers with, each of a kind of its own."""


@dataclass(frozen=True)
class ToolResult:
    """What came of a call that was made: `unfit`, or the part that belongs to its tool."""

    seconds: float = 0.0
    """How long the device or the judge was at it."""
    unfit: str | None = None
    """Why the call could not be answered: an argument that does not fit, or a device that lacks it."""
    checked: Checked | None = None
    probed: Probed | None = None
    reference: ReferenceLook | None = None
    assembly: Assembly | None = None
    swept: Swept | None = None
    benched: Benched | None = None
    library: Library | None = None

    @property
    def part(self) -> ToolPart | None:
        """The one that there is."""
        every = (
            self.checked,
            self.probed,
            self.reference,
            self.assembly,
            self.swept,
            self.benched,
            self.library,
        )
        return next((part for part in every if part is not None), None)


@dataclass(frozen=True)
class ToolAnswer:
    """What the writer reads."""

    text: str
    refused: bool = False
    """The call was not made, since the budget of calls is used up."""


@dataclass(frozen=True)
class ToolRound:
    """The calls that a writer made at once, in mid-turn, and what it was answered."""

    said: str
    """All that it wrote, with the calls where they stand in its text."""
    calls: tuple[ToolCall, ...]
    answers: tuple[str, ...] = ()
