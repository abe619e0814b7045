"""What `torch.compile` makes of a module's operations: Inductor's kernels, and the library calls it keeps.

Element by element operations, reductions and small windows are fused with their neighbours where
they run over the same elements; products, convolutions, sorts and recurrent layers stay calls.
Two-dimensional convolutions are given channels-last tensors, by Inductor's own rule for inference
(`decide_layout_opt` in torch/_inductor/graph.py, with its multipliers).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kernelagent.tools.estimates.operations import Operand, Operation

_CALLS = frozenset({"matmul", "convolution", "attention", "recurrent", "sort"})
_ROWS = frozenset({"softmax", "layer_norm"})
_TWO_PASSES = frozenset({"batch_norm", "group_norm"})
_PERSISTENT = 1024
"""Rows up to this many elements are held in registers between a reduction and what follows."""
_LARGEST_WINDOW = 25
"""Pooling windows up to this size are unrolled, larger ones stay calls (inductor's lowering)."""
_GROUPED, _DEFAULT, _WIDENING, _SMALL = 1.358, 0.823, 0.725, 0.783
"""Relative time of channels-last convolutions, by class (decide_layout_opt)."""


@dataclass
class Group:
    """One kernel of Inductor's."""

    elements: int
    """That it runs over."""
    reads: dict[int, Operand] = field(default_factory=dict)
    again: int = 0
    """Bytes read a second time, after a reduction over long rows."""
    writes: dict[int, Operand] = field(default_factory=dict)
    rows: int = 0
    """Of its reduction, where there is one."""
    length: int = 1
    strided: bool = False
    scan: bool = False
    operations: int = 0
    closed: bool = False

    @property
    def reduces(self) -> bool:
        return self.rows > 0


@dataclass(frozen=True)
class Call:
    """A library call that stays one."""

    operation: Operation
    channels_last: bool = False
    moved_in: bool = False
    """Its input is copied to channels-last first."""
    moved_out: bool = False
    """Its output is copied back, because nothing else uses it."""


def compiled(operations: Sequence[Operation]) -> list[Group | Call]:
    """Inductor's kernels and calls in order; the module runs in inference, shapes are static."""
    return _Fusion(operations).run()


class _Fusion:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._layout = _prefers_channels_last(operations)
        self._made_by: dict[int, Group | None] = {}
        """Who wrote a tensor: a group, or None for a call."""
        self._steps: list[Group | Call] = []

    def run(self) -> list[Group | Call]:
        for at, operation in enumerate(self._operations):
            if not operation.writes or max(o.elements for o in operation.writes) == 1 == max(
                (o.elements for o in operation.reads), default=1
            ):
                continue
            if _stays_call(operation):
                self._call(at, operation)
            else:
                self._fuse(operation)
        self._drop_what_nobody_reads()
        return [s for s in self._steps if isinstance(s, Call) or s.writes or s.reads]

    def _call(self, at: int, operation: Operation) -> None:
        facts = operation.facts
        flat = operation.kind == "convolution" and facts["dims"] == 2 and self._layout
        source = operation.reads[0].key if operation.reads else 0
        result = operation.writes[0].key
        used = any(result == o.key for later in self._operations[at + 1 :] for o in later.reads)
        self._steps.append(
            Call(
                operation,
                channels_last=flat,
                moved_in=flat and source not in self._made_by,
                moved_out=flat and not used,
            )
        )
        for operand in operation.writes:
            self._made_by[operand.key] = None
        if operation.kind == "convolution" and facts["bias"]:
            # A separate kernel adds the bias; the operations that follow are fused into that kernel.
            bias = Group(operation.writes[0].elements, operations=1)
            bias.reads[result] = operation.writes[0]
            bias.writes[result] = operation.writes[0]
            self._steps.append(bias)
            self._made_by[result] = bias

    def _fuse(self, operation: Operation) -> None:
        largest = max(o.elements for o in (*operation.reads, *operation.writes))
        group = self._joined(operation, largest)
        if group is None:
            group = Group(largest)
            self._steps.append(group)
        self._read(group, operation)
        reducing = operation.kind in ("reduction", "nll_loss") or operation.kind in _TWO_PASSES
        if operation.kind in _ROWS or reducing:
            length = int(operation.facts.get("length", largest))
            group.length = max(group.length, length)
            group.rows = max(group.rows, largest // max(1, length))
            group.strided |= operation.facts.get("inner", 1.0) > 1
        if operation.kind in _ROWS and group.length > _PERSISTENT:
            group.again = sum(o.moved_bytes for o in group.reads.values() if o.elements == largest)
        if operation.kind in _TWO_PASSES and operation.facts.get("training", 1.0):
            second = Group(largest)
            second.reads = dict(group.reads)
            group.closed = True
            self._steps.append(second)
            group = second
        group.scan |= operation.kind == "scan"
        group.operations += 1
        results = (
            operation.writes[:1] if operation.kind in ("pool", *_TWO_PASSES) else operation.writes
        )
        for operand in results:
            group.writes[operand.key] = operand
            self._made_by[operand.key] = group

    def _joined(self, operation: Operation, largest: int) -> Group | None:
        """The kernel that made an operand of this operation, if it runs over the same elements."""
        if operation.kind == "pool" or operation.facts.get("strided"):
            return None
        makers = [self._made_by.get(o.key) for o in operation.reads]
        for group in reversed([m for m in makers if isinstance(m, Group) and not m.closed]):
            results = max(o.elements for o in operation.writes)
            if group.scan or (group.length > 65536 and group.reduces and results > group.rows):
                continue
            if operation.kind in ("reduction", *_ROWS, *_TWO_PASSES, "scan") and group.reduces:
                continue
            if group.elements == largest or (group.reduces and largest == group.rows):
                if group.reduces and results == group.elements and group.length > _PERSISTENT:
                    group.again = sum(
                        o.moved_bytes for o in group.reads.values() if o.elements == largest
                    )
                return group
        return None

    def _read(self, group: Group, operation: Operation) -> None:
        for operand in operation.reads:
            if self._made_by.get(operand.key) is not group:
                group.reads.setdefault(operand.key, operand)

    def _drop_what_nobody_reads(self) -> None:
        """A tensor that only its own kernel uses is never written."""
        outside: dict[int, set[int]] = {}
        for step in self._steps:
            for key in _read_keys(step):
                outside.setdefault(key, set()).add(id(step))
        inside = {operand.key for operation in self._operations for operand in operation.reads}
        for step in self._steps:
            if isinstance(step, Group):
                for key in list(step.writes):
                    others = outside.get(key, set()) - {id(step)}
                    if not others and key in inside and len(step.writes) > 1:
                        last = list(step.writes)[-1]
                        if key != last:
                            del step.writes[key]


def _read_keys(step: Group | Call) -> Iterable[int]:
    if isinstance(step, Group):
        return step.reads.keys()
    return [o.key for o in step.operation.reads]


def _stays_call(operation: Operation) -> bool:
    if operation.kind in _CALLS:
        return True
    if operation.kind == "pool":
        return operation.facts["dims"] == 3 or operation.facts["window"] > _LARGEST_WINDOW
    return False


def _prefers_channels_last(operations: Sequence[Operation]) -> bool:
    convolutions = [o for o in operations if o.kind == "convolution"]
    total = sum(o.flops for o in convolutions)
    if not total:
        return False
    return sum(o.flops * _multiplier(o) for o in convolutions) <= total


def _multiplier(operation: Operation) -> float:
    facts = operation.facts
    inside, outside = facts["channels_in"] / facts["groups"], facts["channels_out"]
    if facts["groups"] > 1 and inside > 1:
        return _GROUPED
    if outside <= 64 and inside <= 64:
        return _SMALL
    return _WIDENING if inside * 2 <= outside and outside > 32 else _DEFAULT
