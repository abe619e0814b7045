"""Follows, while a kernel is interpreted, after how many clocks each value can be there at the earliest.

However many units a GPU has, an instruction starts when its operands are there: what a program stores takes at
least as long as the longest chain that leads to it. Throughput is counted elsewhere (`traffic`, `cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

from kernelagent.tools.virtual.arithmetic.numerics import Array

DEPENDENT_CLOCKS = 4
"""From an arithmetic instruction to one that needs its result (CUDA C++ Programming Guide, multiprocessor level)."""
EXCHANGE_CLOCKS = 3 * DEPENDENT_CLOCKS
"""At least, of what the compiler makes of an exchange between threads: a store, a barrier and a load, in turn."""
CLOCKS_AT_BARRIER = 2
"""Of a multiprocessor for each warp that comes to a barrier: 16 threads a clock (CUDA C++ Programming Guide,
"Synchronization Instruction", compute capability 7.x and later)."""
Ready = Any
"""Clocks since a program began: one number for all programs, or an array with one each."""
_READY, _KNOWN, _LOADED, _RELEASED = "ready", "known", "loaded", "released"
_FLAGS = 64
"""Places of one access at most that other programs may wait for."""
_JOINED = 2
"""Clocks of a simple operation: half of the four from an instruction to one that needs its result (CUDA C++
Programming Guide, multiprocessor level), as the compiler makes one instruction of a product and a sum, or of two sums."""
_L2 = 200
"""Clocks of a trip to L2, which loads make unless L1 serves them and atomics always (A100 and H100: 200, table 3 of
doi:10.1016/j.ultsonch.2023.106546; 222 to 339 on an L40, arXiv 2606.22588)."""
_SPECIAL = 16
"""Clocks of a special function: 16 lanes a clock of the 32 that a warp has, and no less than four stages (assumption)."""
_SHARED = 20
"""Clocks of a trip to shared memory (table 3 of doi:10.1016/j.ultsonch.2023.106546: 20)."""
_DIVISION = 60
"""Clocks of an integer division by what is known at run time only: a conversion, a reciprocal, a conversion back and
three multiply-adds that each need the one before, as `nvdisasm` shows for sm_90."""
_DIVISION_BY_CONSTANT = 8
"""The upper half of a product and a shift."""
_STEP = 16
"""Clocks of one instruction of the tensor cores, of 32 bytes of each row (assumption: half of what `mma` takes)."""
_STEP_BYTES = 32
_ISSUED = frozenset({"fp", "special", "slot"})
"""What the arithmetic of one program is measured by; integers, which are mostly addresses, are left out."""
_PLAIN, _OF_SPECIAL = 0.5, 8
"""Clocks of a scheduler, each with 32 lanes: 128 plain operations a clock and multiprocessor, of which two may be one
multiply-add, and 16 special ones."""
CLOCKS_OF_LANES = {"issued_fp": _PLAIN, "issued_special": _OF_SPECIAL}
"""The same of what the compiled code has."""
_FREE = (
    "expand_dims", "broadcast", "splat", "unsplat", "reshape", "trans", "cat", "join", "split", "make_range",
    "get_", "bitcast", "ptr_to_int", "int_to_ptr", "int_cast", "make_tensor_descriptor", "make_block_ptr", "assume",
    "print", "assert", "barrier",
)  # fmt: skip
_DIVISIONS = frozenset({"sdiv", "udiv", "idiv", "srem", "urem"})
_SPECIALS = frozenset(
    {
        "fdiv", "frem", "precise_divf", "approx_divf", "cos", "sin", "exp", "exp2", "log", "log2", "precise_sqrt",
        "sqrt", "rsqrt", "erf", "extern_elementwise",
    }
)  # fmt: skip
_LATENCY: Mapping[str, int] = {
    **dict.fromkeys(_SPECIALS, _SPECIAL),
    **dict.fromkeys(("gather", "histogram"), _SHARED),
    **dict.fromkeys(
        (
            "load", "masked_load", "descriptor_load", "descriptor_gather", "tensor_pointer_load", "atomic_rmw",
            "atomic_cas", "atomic_load", "atomic_poll",
        ),
        _L2,
    ),
}  # fmt: skip
_SINKS = (
    "store",
    "masked_store",
    "descriptor_store",
    "descriptor_scatter",
    "tensor_pointer_store",
    "atomic_",
)
"""What others see of a program: a value that leads to none of it was not needed."""
_SHOWN = ("store", "masked_store", "atomic_")
"""What other programs may wait for."""


class Dataflow:
    """One builder's; while it is `on`, the builder's operations go through it."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self.on = False
        self._floor: Ready = 0.0
        """When the branch under way was decided."""
        self._path: Ready = 0.0
        self._steps: dict[str, Ready] = {}
        self._changed: dict[int, float] = {}
        """By address, when programs of this launch that run one by one changed it last, had all begun together."""
        self._queued = False
        """Whether the program under way has waited for another."""

    def launch_begins(self) -> None:
        """No program has changed anything yet."""
        self._changed = {}

    def attach(self) -> None:
        """Put itself before the builder's operations."""
        if self.on:
            return
        self.on = True
        own = vars(self._builder)
        for name in dir(type(self._builder)):
            what = name.removeprefix("create_")
            if what != name:
                own[name] = self._followed(what, getattr(self._builder, name))
            elif name.startswith("get_"):
                own[name] = _known(getattr(self._builder, name))

    def detach(self) -> None:
        """Leave the builder as it was."""
        self.on = False
        own = vars(self._builder)
        for name in [item for item in own if item.startswith(("create_", "get_"))]:
            del own[name]

    def begins(self) -> None:
        """Some programs begin, together."""
        self._floor = self._path = 0.0
        self._steps = {}
        self._queued = False

    def ends(self, programs: int) -> tuple[int, dict[str, int]]:
        """Clocks of the chains of all programs together, and the most that one program had: of them, and of each step."""
        each = np.broadcast_to(self._path, (programs,))
        most = {kind: int(np.max(number)) for kind, number in self._steps.items()}
        if self._queued:
            most["queued"] = int(each.max())
        return int(each.sum()), {"chain": int(each.max()), **most}

    def stepped(self, kind: str, number: float = 1) -> None:
        """The programs that run now do so many more steps of this kind."""
        if self.on:
            active = self._builder.active
            more = number if active is None else number * active
            self._steps[kind] = self._steps.get(kind, 0) + more

    def worked(self, kind: str, lanes: float, dtype: str) -> None:
        """Each of the programs that run now issues an operation for so many lanes."""
        weight = _PLAIN if dtype != "fp64" else 0
        weight = _OF_SPECIAL if weight and kind in ("special", "slot") else weight
        if self.on and weight and kind in _ISSUED:
            active = self._builder.active
            more = weight * lanes
            self._steps["work"] = self._steps.get("work", 0) + (
                more if active is None else more * active
            )

    def waits_for(self, *handles: Any) -> None:
        """A branch, or how often a loop runs, depends on these: nothing after them is begun ahead."""
        if self.on:
            self._floor = self._of_running(self._begin(handles), self._floor)
            self._path = _later(self._path, self._floor)

    def waits_for_others(self, *tests: Any) -> None:
        """A `while` goes on until this holds: if it is of what other programs change, they came before."""
        released = max(map(_released, tests), default=0.0) if self.on else 0.0
        if released:
            self._queued = True
            self._floor = _later(self._floor, released + _L2)
            self._path = _later(self._path, self._floor)

    def meets_barrier(self) -> None:
        """No thread goes on before all have come so far: what was stored before was computed."""
        if self.on:
            self._floor = self._of_running(self._path, self._floor)

    def exchanged(self, given: Any, made: Any, clocks: float = 0) -> None:
        """Threads formed `made` of what each of them had, for which they took so many clocks at least."""
        if self.on:
            held = _handles(given)
            _set(
                made, self._begin(held) + max(_SHARED, clocks), known=False, loaded=is_loaded(*held)
            )

    def same(self, given: Any, made: Any) -> None:
        """`made` is `given` in another shape."""
        if self.on:
            _set([made], _ready(given), known=False, loaded=is_loaded(given))

    def latest(self, given: Any, made: Any) -> None:
        """`made` is there once all of those given are, and whatever was decided before."""
        if self.on:
            held = _handles(given)
            _set([made], self._begin(held), known=False, loaded=is_loaded(*held))

    def select(self, where: Array, new: Any, old: Any, made: Any) -> None:
        """`made` is `new` for the programs `where` and `old` for the others."""
        if self.on:
            left, right = _ready(new), _ready(old)
            same = np.ndim(left) == np.ndim(right) == 0 and left == right
            ready = left if same else np.where(where, left, right)
            _set([made], ready, known=False, loaded=is_loaded(new, old))

    def _followed(self, what: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        free, sink = what.startswith(_FREE), what.startswith(_SINKS)
        latency = 0 if free else _LATENCY.get(what, _JOINED)
        loads = latency == _L2 and not what.startswith("atomic_")
        shown = what.startswith(_SHOWN)

        def followed(*args: Any, **kwargs: Any) -> Any:
            given = _handles((*args, *kwargs.values()))
            begin = self._begin(given)
            made = inner(*args, **kwargs)
            released = 0.0
            if shown or self._changed:
                released = self._meet_others(what, args, given, begin)
            if sink:
                self._path = self._of_running(begin, self._path)
            after = latency
            if what in _DIVISIONS:
                after = _DIVISION_BY_CONSTANT if is_known(args[1]) else _DIVISION
            elif what.startswith("dot"):
                after = _product_clocks(args[0])
            known = bool(given) and latency != _L2 and all(map(is_known, given))
            fresh = [
                item for item in _handles((made,)) if not any(item is single for single in given)
            ]
            _set(fresh, begin + after, known=known, loaded=loads or is_loaded(*given))
            if released:
                for item in fresh:
                    item.attr[_RELEASED] = released
            if released and what == "atomic_poll":
                self.waits_for_others(*fresh)
            return made

        return followed

    def _meet_others(self, what: str, args: Any, given: list[Any], begin: Ready) -> float:
        """When other programs had changed what this operation's result comes from; notes what it changes itself.

        Of programs that run one by one, and of few places: those are what others wait for.
        """
        if self._builder.active is not None or np.ndim(begin) or not given:
            return 0.0
        released = max(map(_released, given)) if self._changed else 0.0
        changes = what.startswith(_SHOWN)
        volatile = what in ("load", "masked_load") and bool(args[-1])
        if not (changes or volatile) or given[0].data.size > _FLAGS:
            return released
        for address in np.unique(given[0].data).tolist():
            before = self._changed.get(address, 0.0)
            released = max(released, before)
            if changes:
                self._changed[address] = max(before, float(begin))
        return released

    def _begin(self, handles: Any) -> Ready:
        """When all of these are there."""
        result = self._floor
        for item in handles:
            result = _later(result, _ready(item))
        return result

    def _of_running(self, new: Ready, old: Ready) -> Ready:
        """The later of both for the programs that run now, the old one for the others."""
        active = self._builder.active
        later = _later(new, old)
        return later if active is None else np.where(active, later, old)


def is_loaded(*handles: Any) -> bool:
    """Whether one of these follows from what was loaded, as far as its values are followed."""
    return any(handle.attr.get(_LOADED, False) for handle in handles)


def _released(handle: Any) -> float:
    return float(handle.attr.get(_RELEASED, 0.0))


def is_known(handle: Any) -> bool:
    """Whether the compiler knows this value."""
    return bool(handle.attr.get(_KNOWN, False))


def _known(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A constant."""

    def followed(*args: Any, **kwargs: Any) -> Any:
        made = inner(*args, **kwargs)
        if isinstance(made, stock.TensorHandle):
            made.attr[_KNOWN] = True
        return made

    return followed


def _product_clocks(left: Any) -> int:
    """Clocks from a product's factors to its sum, at least."""
    if not isinstance(left, stock.TensorHandle):
        return _STEP
    return _STEP * max(1, int(left.data.shape[-1] * left.data.itemsize) // _STEP_BYTES)


def _ready(handle: Any) -> Ready:
    return handle.attr.get(_READY, 0.0)


def _set(made: Any, ready: Ready, *, known: bool, loaded: bool) -> None:
    for item in _handles(made):
        item.attr[_READY] = ready
        item.attr[_KNOWN] = known
        item.attr[_LOADED] = loaded


def _later(left: Ready, right: Ready) -> Ready:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.maximum(left, right)
    return left if left > right else right


def _handles(values: Any) -> list[Any]:
    """Handles among arguments or results, those of tensors included; a descriptor's base, a block pointer's place."""
    outcome: list[Any] = []
    for value in values:
        if isinstance(value, stock.TensorHandle):
            outcome.append(value)
        elif isinstance(value, list | tuple):
            outcome += _handles(value)
        elif hasattr(value, "block_shape"):
            outcome += [value.base, *getattr(value, "offsets", ())]
        else:
            inner = getattr(value, "handle", None)
            if isinstance(inner, stock.TensorHandle):
                outcome.append(inner)
    return outcome
