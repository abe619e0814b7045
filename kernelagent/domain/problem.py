"""What is to be optimised: where the user keeps it (`ProblemSpec`), what the judge found (`ProblemFacts`).

Nothing here imports the user's module: the judge does, and describes it as data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from kernelagent.domain.configuration.options import PROBLEM, Option
from kernelagent.domain.estimated import Estimated
from kernelagent.domain.profile import Operation

Mode = Literal["eval", "train"]


@dataclass(frozen=True)
class ProblemSpec:
    """How to find a module and its inputs; exactly one of `path`, `import_name`, `bundle` is set."""

    path: str | None = None
    """A Python file, KernelBench style or any other."""
    import_name: str | None = None
    """`pkg.mod`, importable from where the command runs."""
    bundle: str | None = None
    """A folder written by a library call for a live module (see `tools/judge/problem/bundle.py`)."""
    module: Annotated[str | None, Option("The nn.Module to optimize.", PROBLEM, shown="Model")] = (
        None
    )
    """None: `Model`, or the only one there is."""
    inputs: Annotated[
        str | None,
        Option("Function that returns the example inputs.", PROBLEM, shown="get_inputs"),
    ] = None
    init: Annotated[
        str | None,
        Option(
            "Function that returns the constructor arguments.", PROBLEM, shown="get_init_inputs"
        ),
    ] = None
    check: Annotated[
        str | None,
        Option("Your own test fn(output, *inputs), run by the judge in addition.", PROBLEM),
    ] = None

    submodule: str | None = None
    """The path in a whole model at which the module in `bundle` was captured."""
    whole: ProblemSpec | None = None
    """That model, as the user named it."""

    @property
    def label(self) -> str:
        """What a person calls this problem."""
        return self.path or self.import_name or self.bundle or "problem"


@dataclass(frozen=True)
class NamesInFile:
    """What a problem's file will be used by, read from its text; None where the text does not settle it."""

    module: str | None = None
    inputs: str | None = None
    init: str | None = None


@dataclass(frozen=True)
class TensorFacts:
    """One tensor of an input, an output or the state."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """As torch spells it without the prefix, for example `bfloat16`."""
    strides: tuple[int, ...] = ()
    kind: Literal["input", "output", "parameter", "buffer"] = "input"

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie as torch lays them out by default; True where no strides are known."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=False):
            if size not in (0, 1) and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True)
class InputSet:
    """One named set of arguments, as data."""

    name: str
    tensors: tuple[TensorFacts, ...]
    arguments: str
    """The call written out for a reader, for example `(x: float32[64, 4096], eps=1e-05)`."""
    executed: tuple[TensorFacts, ...] | None = None
    """The shrunk tensors that were really run on `virtual`; None when nothing was shrunk."""


@dataclass(frozen=True)
class DynamicSize:
    """One size that was declared dynamic, in one input set."""

    input_set: str
    places: tuple[tuple[int, int], ...]
    """Tensors, by their number among those of the set, and the axes of theirs that change together."""


@dataclass(frozen=True)
class Remark:
    """Something about the problem itself that a careful reader wants to know."""

    code: str
    message: str


@dataclass(frozen=True)
class LeastTime:
    """The least time of one forward, from what it must move and compute at the device's peak rates."""

    moved_bytes: int
    """Inputs, weights and buffers that are read, once, and outputs."""
    flops: dict[str, int]
    """Of products, by the type they are computed in; a multiply-add counts twice."""
    bytes_us: float
    operations_us: float
    """Products and elementwise operations; fp32 products as three of tf32 where that is faster."""
    us: float
    """The longer of the two in one launch, host included; never above the estimate of eager."""


@dataclass(frozen=True)
class ReferenceEstimate:
    """What the user's own module takes for one input set at its own sizes: never a measurement."""

    input_set: str
    eager_us: Estimated
    compile_us: Estimated
    operations: tuple[Operation, ...] = ()
    """Of eager, dearest first; empty here, and below None, in records of older versions."""
    least: LeastTime | None = None


@dataclass(frozen=True)
class Tolerance:
    """The errors against float64 that one output may have, on an ordinary draw of the first input set."""

    output: str
    scale: float
    """RMS of its values."""
    rms_error: float
    max_error: float


@dataclass(frozen=True)
class ProblemFacts:
    """What the judge says about the user's module; all that controller, models and reports know."""

    name: str
    source: str
    """The text a model is shown: the module's class and what it needs."""
    entry_point: str
    """Name of the reference class."""
    constructor: Literal["init", "from_reference"]
    """How `ModelNew` is built: with the reference's arguments, or from a shell of a live module."""
    init_arguments: str
    """The constructor call written out, for example `(4096, eps=1e-06)`."""
    input_sets: tuple[InputSet, ...]
    outputs: tuple[TensorFacts, ...]
    state: tuple[TensorFacts, ...]
    mode: Mode
    sha256: str
    """Hash of the problem's source, names and shapes."""
    precision: str
    """The matmul precision both sides run at, for example `tf32 off`."""
    executed_arguments: tuple[tuple[int, int], ...] = ()
    """Integers among the constructor's arguments that were replaced where it is executed: from, to."""
    dynamic: tuple[str, ...] = ()
    """Sizes that change from call to call, each written out for a reader."""
    dynamic_sizes: tuple[DynamicSize, ...] = ()
    """The same as places; empty in records of older versions."""
    estimates: tuple[ReferenceEstimate, ...] = ()
    """Of the module as it is, where there is no GPU; a module that does not run on meta has none."""
    tolerances: tuple[Tolerance, ...] = ()
    """Of the floating outputs at the sizes that are executed; empty in records of older versions."""
    matmul_precision: str = ""
    """What torch allows products of float32: `highest`, `high` or `medium`; empty in older records."""
    convolutions_round: bool = False
    """Whether it has convolutions of float32 that torch may round to tf32."""
    disclosures: tuple[Remark, ...] = field(default=())
    """What a careful reader should know about the problem itself."""
