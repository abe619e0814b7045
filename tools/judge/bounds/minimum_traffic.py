"""Which bytes of its tensors a module's result cannot do without, whatever the algorithm.

The module runs once on meta tensors; its operations are then followed from the outputs backwards.
Bytes not known to be necessary are not counted: the result is a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernelagent.tools.estimates.recurrent import NAMES as RECURRENT
from kernelagent.tools.estimates.recurrent import Layers, understood
from kernelagent.tools.judge.bounds.operation_needs import (
    ATTENTION,
    Demand,
    Known,
    Operation,
    demands_of,
    key_of,
    known_of,
    masked_by,
    tensors_of,
)

_EITHER_RESULT = frozenset("max min topk sort median kthvalue mode cummax cummin".split())
"""Each result of these depends on the whole operand."""
_MOST_MASKED = 1 << 27
"""Storages with more elements are not marked element by element."""


@dataclass
class Need:
    """What of one storage is needed."""

    views: list[torch.Tensor] = field(default_factory=list)
    counted_bytes: int = 0
    """At least so much is, at unknown places."""
    spoiled: bool = False
    """Part of it is overwritten later, so earlier contents are not counted as needed."""

    def bytes(self) -> int:
        """Distinct bytes that are surely needed."""
        return 0 if self.spoiled else max(self.counted_bytes, _distinct_bytes(self.views))

    def whole(self, storage: torch.UntypedStorage) -> bool:
        return not self.spoiled and _distinct_bytes(self.views) >= storage.nbytes()


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, keeps every operation that computes something; views are followed by storage."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self._calls = _WholeCalls(self)
        self._silent = False

    def __enter__(self) -> Recorder:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._calls.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        self._calls.__exit__(*raised)  # type: ignore[no-untyped-call]
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self._silent:
            operands = {key_of(t) for t in tensors_of((args, kwargs))}
            results = tensors_of(result)
            mutable = func._schema.is_mutable
            if mutable or any(key_of(t) not in operands for t in results):
                changed = _changed(func, args, kwargs) if mutable else ()
                name = str(func.overloadpacket).partition(".")[2]
                self.operations.append(Operation(name, args, kwargs, results, changed, func))
        return result

    def as_one(
        self,
        name: str,
        answer: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Keep a call as one operation, whatever its answer is made of."""
        self._silent = True
        try:
            result = answer()
        finally:
            self._silent = False
        self.operations.append(Operation(name, args, kwargs, tensors_of(result), ()))
        return result


class _WholeCalls(TorchFunctionMode):
    """Attention and recurrent layers, which are many operations on meta tensors: a long sequence 46,000 of them."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        if name == ATTENTION:
            return self._recorder.as_one(name, lambda: func(*args, **named), args, named)
        if name in RECURRENT and understood(args) and args[0].device.type == "meta":
            layers = Layers.of(name, args)
            if layers.steps > 1 and not layers.dropped:
                return self._recorder.as_one(name, layers.results, args, named)
        return func(*args, **named)


@dataclass(frozen=True)
class Necessary:
    """What was found for one call."""

    needs: Mapping[int, Need]
    """By storage."""
    written: Mapping[int, Need]
    """Storages whose new contents the caller sees: outputs, and operands changed in place."""
    operations: tuple[Operation, ...]
    """Those whose whole result is needed."""
    masked: frozenset[int] = frozenset()
    """Storages of which a mask may leave a part, and a product with the rest may be left out."""


def necessary(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    state: Sequence[torch.Tensor],
    switches: Mapping[int, int],
) -> Necessary:
    """Run the function on meta tensors and follow its operations back from what the caller sees.

    `switches` names the storages among `state` whose values may make other operands cease to matter
    (1: zeros, 2: infinities as well). Raises what the function raises.
    """
    with Recorder() as recorder, torch.no_grad():
        result = function(*args, **kwargs)
    given = {key_of(t) for t in [*tensors_of((args, kwargs)), *state]}
    written: dict[int, Need] = {}
    for tensor in tensors_of(result):
        if key_of(tensor) not in given:
            written.setdefault(key_of(tensor), Need()).views.append(tensor)
    for operation in recorder.operations:
        for tensor in operation.changed:
            if key_of(tensor) in given:
                written.setdefault(key_of(tensor), Need()).views.append(tensor)
    known = known_of(recorder.operations, args, kwargs, switches)
    needs = {key: Need(list(need.views)) for key, need in written.items()}
    whole = [op for op in reversed(recorder.operations) if _follow(op, needs, known)]
    return Necessary(needs, written, tuple(reversed(whole)), masked_by(recorder.operations, known))


def _follow(operation: Operation, needs: dict[int, Need], known: Known) -> bool:
    """Add what the operation's operands must be read for; true when its whole result is needed."""
    targets = operation.results or operation.changed
    if operation.name in RECURRENT:
        # The last cell needs all but the last step's output gate: too little is counted, never too much.
        targets = targets[:2]
    elif operation.name.rstrip("_") not in _EITHER_RESULT:
        targets = targets[:1]
    whole = any(key_of(t) in needs and needs[key_of(t)].whole(t.untyped_storage()) for t in targets)
    for tensor in operation.changed:
        need = needs.get(key_of(tensor))
        if need is not None and _distinct_bytes([tensor]) >= tensor.untyped_storage().nbytes():
            # What the operation itself reads of the old contents is among its demands.
            needs[key_of(tensor)] = Need()
        elif need is not None:
            need.spoiled = True
    if whole:
        for demand in demands_of(operation, known):
            _add(needs.setdefault(key_of(demand.tensor), Need()), demand)
    return whole


def _add(need: Need, demand: Demand) -> None:
    if demand.least_bytes is None:
        need.views.append(demand.tensor)
    else:
        need.counted_bytes = max(need.counted_bytes, demand.least_bytes)


def _changed(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, ...]:
    result: list[torch.Tensor] = []
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            result += tensors_of(value)
    return tuple(result)


def _distinct_bytes(views: Sequence[torch.Tensor]) -> int:
    """Bytes of one storage that the views cover, each byte once."""
    largest = max((_elements(v) * v.itemsize for v in views), default=0)
    if len(views) < 2 or largest >= views[0].untyped_storage().nbytes():
        return largest
    size = views[0].itemsize
    count = views[0].untyped_storage().nbytes() // size
    if count > _MOST_MASKED or any(v.itemsize != size for v in views):
        return largest
    mask = torch.zeros(count, dtype=torch.bool)
    for view in views:
        mask.as_strided(view.shape, view.stride(), int(view.storage_offset())).fill_(True)
    return int(mask.sum()) * size


def _elements(view: torch.Tensor) -> int:
    """Distinct elements, expanded dimensions once; of a view whose elements overlap, a lower bound."""
    steps = sorted((s, n) for n, s in zip(view.shape, view.stride(), strict=True) if s and n > 1)
    reach = 0
    for step, size in steps:
        if step <= reach:
            return max(n for _, n in steps)
        reach += step * (size - 1)
    return math.prod(n for _, n in steps)
