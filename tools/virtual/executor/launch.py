"""What a kernel launch is on the `virtual` device, and how an instrument watches it run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelagent.tools.virtual.device.storages.addresses import Pointee

AccessKind = Literal["load", "store", "atomic"]
OperationKind = Literal[
    "fp", "int", "special", "slot", "dot", "split", "load", "copy", "copied", "round", "exchange", "chain", "longest",
    "issued_fp", "issued_int", "issued_special", "shared", "loading", "by_values", "asked", "combining", "times", "on", "met",
]  # fmt: skip
"""What is counted of a launch, each kind by operand type:

- `fp`, `int`, `special`: scalar operations; `dot`: operations of matrix products, a multiply-add counting twice.
- `slot`: extra time slots of the special-function unit, for an operation that needs more than one.
- `split`: instructions that split fp32 factors for tensor cores.
- `load`: one load instruction of one program, whatever its size.
- `copy`: a load through a tensor descriptor, which counts as a `load` too; `copied`: the bytes of such loads.
- `round`: one iteration of a loop by one program.
- `exchange`: one point where the threads of a program wait for each other's values.
- `chain`: length of a program's longest chain of dependent operations, in clocks, summed over programs.
- `issued_fp`, `issued_int`, `issued_special`: the same operations as the compiled code has them, each lane that repeats
  one included; `shared`: clocks of shared memory; `loading`: rounds of loops that load (see `code_regions`).
- `combining`: clocks of sums and running sums over several warps (see `code_regions`).
- `by_values`: one loop that a program came to and whose rounds are as many as loaded values say.
- `asked`: bytes that the loads of one line ask for, of all threads; the argument `dtype` then names the line.
- `times`, `on`, `met`: of loads on one line, in 65536ths of a load: all, the lanes that are not switched off, and those
  of programs where any lane is not; the argument `dtype` then names the line.
- `longest`: the largest count that one program had; the argument `dtype` then names the kind that was counted.
"""

_WARP = 32


@dataclass(frozen=True)
class TensorArgument:
    """A pointer argument, as the executor holds it."""

    name: str
    address: int
    """Address of the tensor's first element in the executor's memory."""
    storage_address: int
    storage_bytes: int
    item_bytes: int
    dtype: str
    """torch's spelling, for example `bfloat16`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    contents: int = 0
    """Storage bytes that hold real values; 0 means all. (A tensor of an accounting run may be empty.)"""


@dataclass(frozen=True)
class Launch:
    """One kernel launch: which function, specialised how, on what grid, with which tensors."""

    index: int
    """Position in the executor's log, from 0."""
    kernel: str
    line: int
    """Line of the kernel's `def` or first decorator in the candidate's source."""
    grid: tuple[int, int, int]
    tensors: tuple[TensorArgument, ...]
    scalars: dict[str, Any]
    constexprs: dict[str, Any]
    pointees: tuple[Pointee, ...] = ()
    """What tables of addresses among the arguments point at; also among `tensors`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Triton's launch options that matter: num_warps, num_stages, num_ctas, maxnreg."""

    @property
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Of each program; Triton's own number of warps where none is given."""
        return _WARP * int(self.options.get("num_warps", 4))


class Observer(Protocol):
    """An instrument attached to the interpreter; any of these may raise `MemoryFault`."""

    def launch_begins(self, launch: Launch) -> None: ...

    def program_begins(self, program: tuple[int, int, int]) -> None: ...

    def access(
        self, kind: AccessKind, addresses: NDArray[np.uint64], item_bytes: int, lanes: int
    ) -> None:
        """`addresses`: flat, the unmasked lanes only; `lanes`: how many lanes there were in all."""
        ...

    def operation(self, kind: OperationKind, count: int, dtype: str) -> None:
        """`count` scalar operations (`dot`: floating point operations) on operands of `dtype`.

        `dtype` is triton's spelling (`fp32`, `bf16`, `int8`, ...), `tf32` for a rounded fp32 dot.
        """
        ...

    def launch_ends(self, launch: Launch) -> None: ...


class MemoryFault(Exception):
    """An access no GPU would survive or define: out of bounds, or conflicting between programs."""

    def __init__(self, code: str, message: str, detail: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        """`out_of_bounds` or `data_race`."""
        self.detail = detail


class Unsupported(Exception):
    """Compiles for the target, and cannot be interpreted."""


ProgramOrder = Callable[[tuple[int, int, int]], "list[tuple[int, int, int]] | None"]
"""Which programs of a grid to run, in which order; None: all, row-major."""
