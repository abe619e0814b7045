"""Counts what torch's own operations move and compute, without a GPU and without contents.

Best run on meta tensors at full size: CPU tensors may be dispatched differently from CUDA ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter as _now
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from kernelagent.tools.calls.higher_order import by_its_own_code, is_higher_order
from kernelagent.tools.calls.torch_dtypes import allowed_product
from kernelagent.tools.estimates import recurrent
from kernelagent.tools.estimates.operations import ATTENTION, Operand, Operation, describe
from kernelagent.tools.virtual.cost import attention_steps
from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES, ceilings_for
from kernelagent.tools.virtual.cost.residency import AddressSpace, L2Cache, Stretch, stream

_FREE = frozenset(
    """empty empty_like empty_strided new_empty new_empty_strided _unsafe_view detach lift_fresh
    lift is_same_size _local_scalar_dense resize_ set_ record_stream scalar_tensor""".split()
)
"""Not views by their schema, and still no kernel."""
_TORCHS_OWN = frozenset({"aten", "prims", "quantized", "mkldnn", "torchvision", "fbgemm"})
"""Namespaces of libraries; an operator in any other is the program's own."""
_SPECIAL = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan
    atan2 sigmoid log_sigmoid_forward erf erfc erfinv gelu silu mish softplus elu selu logit pow
    softmax log_softmax safe_softmax logsumexp logaddexp""".split()
)
_PICKING = frozenset("embedding index index_select gather take take_along_dim".split())
"""These read as much of their first tensor as they return."""
_PLACING = frozenset(
    """index_put index_put_ _index_put_impl_ index_copy_ index_add_ scatter_ scatter_add_
    scatter_reduce_ masked_scatter_""".split()
)
"""In place these touch as much of their first tensor as the other tensors hold."""
_WRITING = frozenset(
    "copy_ fill_ zero_ uniform_ normal_ bernoulli_ random_ exponential_ trunc_normal_".split()
)
"""In place without reading what was there."""
_FUSED_ON_CUDA = frozenset({"rms_norm"})
"""One kernel on CUDA, several operations on meta tensors."""


@dataclass(frozen=True)
class EagerRow:
    """What one torch operation moves and computes."""

    name: str
    loaded_bytes: int
    """Bytes in the sectors of all operands, each read once."""
    stored_bytes: int
    dram_bytes: int
    """What of both crosses to or from DRAM, given what the L2 cache holds."""
    dot_flops: int = 0
    dot_type: str = ""
    """Operand type of a matrix operation: `bf16`, `fp16`, `tf32`, `fp32`, ..."""
    fp_operations: int = 0
    fp64_operations: int = 0
    special_operations: int = 0
    operation: Operation | None = None
    """What a library makes of it; None in a record of an older version."""


def eager_rows(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: str = "sm_90",
) -> list[EagerRow]:
    """Call the function once and count the torch operations in it, L2 cold at the start.

    `target` decides how large the L2 cache is. Raises what the function raises.
    """
    return timed_rows(function, args, kwargs, target)[0]


def timed_rows(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: str = "sm_90",
) -> tuple[list[EagerRow], float]:
    """The same, and the seconds that torch's operations and counting them took."""
    traffic = watched(function, args, kwargs, target)
    return traffic.rows, traffic.clock.seconds


def watched(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: str = "sm_90",
) -> EagerTraffic:
    """The same, with all that was seen."""
    cache = L2Cache(AddressSpace(), ceilings_for(target).l2_bytes)
    # What it writes into containers is not left in the caller's, who has more to ask with the same ones.
    args, kwargs = tree_map(lambda leaf: leaf, (tuple(args), dict(kwargs)))
    with EagerTraffic(cache, reserved=True) as traffic, torch.no_grad():
        function(*args, **kwargs)
    return traffic


@dataclass(frozen=True)
class _Work:
    """What an operation is, beyond the tensors it is called with."""

    name: str
    flops: int = 0
    special: int = 0
    """Special functions, where they are not one per element."""
    facts: Mapping[str, float] = field(default_factory=dict)
    """Shape features, where the call alone does not show them."""


class _Clock:
    """Adds up the seconds inside it; entered again inside itself it counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._began = _now()
        self._depth += 1

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += _now() - self._began


class EagerTraffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, appends a row per operation; shares its cache with a `TrafficCounter`.

    Without a cache everything is taken to cross DRAM, which costs no memory however large tensors are.
    `reserved`: each storage has an address of its own, as tensors without memory have, even where the
    allocator has given its memory to a later one.
    """

    supports_higher_order_operators = True

    def __init__(self, cache: L2Cache | None, *, reserved: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows: list[EagerRow] = []
        self._memory = _Memory(cache, reserved=reserved)
        self._fused = _FusedOnCuda(self)
        self._silent = False
        self.clock = _Clock()
        self.calls = 0
        """Functions of torch that Python called so far; one of them may be several operations."""
        self.allocated_bytes = 0
        """Of all memory that torch's operations made, what was freed again included."""
        self._last_call = -1

    def __enter__(self) -> EagerTraffic:
        super().__enter__()  # type: ignore[no-untyped-call]
        self._fused.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        self._fused.__exit__(*raised)  # type: ignore[no-untyped-call]
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if is_higher_order(func):
            return by_its_own_code(self, func, args, kwargs)
        with self.clock:
            return self._counted(func, args, kwargs or {})

    def _counted(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        name = str(func.overloadpacket).partition(".")[2]
        if not func.is_view:
            self.allocated_bytes += _fresh_bytes((args, kwargs), result)
        of_torch = func.namespace in _TORCHS_OWN
        if not self._silent and of_torch and not func.is_view and name not in _FREE:
            count = flop_registry.get(func.overloadpacket)
            flops = count(*args, **kwargs, out_val=result) if count is not None else 0
            self.record(_Work(name, int(flops)), args, kwargs, result)
        return result

    def silence(self, silent: bool) -> None:
        """What follows is a part of an operation that is recorded as a whole."""
        self._silent = silent

    def step(
        self,
        step: attention_steps.Step,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """Append the row of an attention, or of its backward."""
        self.record(_Work(step.name, step.flops, step.special), args, dict(kwargs), result)

    def whole(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], work: _Work) -> Any:
        """Run a function that is one kernel on CUDA, whatever it is made of here."""
        self._silent = True
        try:
            result = func(*args, **kwargs)
        finally:
            self._silent = False
        self.record(work, args, kwargs, result)
        return result

    def record(
        self, work: _Work, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Append the row of an operation that has been run, or that was worked out otherwise."""
        name = work.name
        operands = _operands(name, args, kwargs, result)
        if not operands:
            return
        dram = self._memory.moved(operands)
        elements = max(size // tensor.itemsize for tensor, size, _ in operands)
        wide = any(tensor.dtype == torch.float64 for tensor, _, _ in operands)
        special = elements if name.strip("_") in _SPECIAL else 0
        self.rows.append(
            EagerRow(
                name=name,
                loaded_bytes=sum(size for _, size, write in operands if not write),
                stored_bytes=sum(size for _, size, write in operands if write),
                dram_bytes=dram,
                dot_flops=work.flops,
                dot_type=allowed_product(name, operands[0][0].dtype) if work.flops else "",
                fp_operations=0 if wide else elements,
                fp64_operations=elements if wide else 0,
                special_operations=work.special or special,
                operation=self._described(work, (args, kwargs, result), operands),
            )
        )

    def _described(
        self, work: _Work, call: tuple[Any, Any, Any], operands: Sequence[_Operand]
    ) -> Operation:
        reads = [self._memory.operand(t, size) for t, size, write in operands if not write]
        writes = [self._memory.operand(t, size) for t, size, write in operands if write]
        made = describe(work.name, call, reads, writes, work.flops)
        later = self.calls == self._last_call
        self._last_call = self.calls
        return replace(made, facts={**made.facts, **work.facts}, later=later)


def _fresh_bytes(given: Any, result: Any) -> int:
    """Bytes of the storages of a result that no operand lies in."""
    known = {t.untyped_storage()._cdata for t in tree_leaves(given) if type(t) is torch.Tensor}
    made = {
        t.untyped_storage()._cdata: t.untyped_storage().nbytes()
        for t in tree_leaves(result)
        if type(t) is torch.Tensor
    }
    return sum(size for storage, size in made.items() if storage not in known)


class _FusedOnCuda(TorchFunctionMode):
    """Catches the functions that CUDA does not decompose before torch decomposes them here."""

    def __init__(self, traffic: EagerTraffic) -> None:
        super().__init__()
        self._traffic = traffic

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        with self._traffic.clock:
            return self._called(func, args, kwargs or {})

    def _called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        self._traffic.calls += 1
        if name in recurrent.NAMES and recurrent.understood(args):
            layers = recurrent.Layers.of(name, args)
            result = layers.results()
            work = _Work(name, layers.flops, layers.special_functions, layers.facts)
            self._traffic.record(work, args, kwargs, result)
            return result
        if name == ATTENTION:
            return attention_steps.attended(self._traffic, func, args, kwargs)
        if name not in _FUSED_ON_CUDA:
            return func(*args, **kwargs)
        return self._traffic.whole(func, args, kwargs, _Work(name))


class _Memory:
    """Where tensors live in the cache's address space; those without memory get a place there."""

    def __init__(self, cache: L2Cache | None, *, reserved: bool) -> None:
        self._cache = cache
        self._space = AddressSpace() if cache is None else cache.space
        self._all_reserved = reserved
        self._reserved: dict[int, tuple[int, StorageWeakRef]] = {}

    def moved(self, operands: Sequence[_Operand]) -> int:
        """Bytes that cross DRAM when the operands stream through the cache."""
        if self._cache is None:
            return sum(size for _, size, _ in operands)
        return sum(stream(self._cache, [self._stretch(*operand) for operand in operands]))

    def _stretch(self, tensor: torch.Tensor, moved_bytes: int, write: bool) -> Stretch:
        address = self._base(tensor) + int(tensor.storage_offset()) * tensor.itemsize
        return Stretch(address, _span_bytes(tensor), moved_bytes, write)

    def operand(self, tensor: torch.Tensor, moved_bytes: int) -> Operand:
        row = int(tensor.shape[-1]) if tensor.dim() else 1
        return Operand(self._base(tensor), moved_bytes, tensor.numel(), row)

    def _base(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if tensor.device.type != "meta" and not self._all_reserved:
            return storage.data_ptr()
        # A weak reference keeps a later storage from taking over the identity; memory is given back.
        if storage._cdata not in self._reserved:
            address = self._space.reserve(int(storage.nbytes()))
            kept = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._reserved[storage._cdata] = (address, kept)
        return self._reserved[storage._cdata][0]


_Operand = tuple[torch.Tensor, int, bool]
"""A tensor, the bytes in the sectors touched, and whether they are written."""


def _operands(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> list[_Operand]:
    out = _tensors(kwargs.get("out"))
    read = [t for t in _tensors((args, kwargs)) if all(t is not o for o in out)]
    written = _tensors(result)
    if name in _WRITING:
        read = read[1:]
    sizes = {id(t): _sector_bytes(t) for t in [*read, *written]}
    if read and name in _PICKING:
        _lower(sizes, read[0], sum(sizes[id(t)] for t in written))
    elif read and name in _PLACING:
        _lower(sizes, read[0], sum(sizes[id(t)] for t in read[1:]))
    elif name == "nll_loss_forward" and len(read) > 1:
        _lower(sizes, read[0], read[1].numel() * SECTOR_BYTES)
    return [(t, sizes[id(t)], False) for t in read] + [(t, sizes[id(t)], True) for t in written]


def _lower(sizes: dict[int, int], tensor: torch.Tensor, size: int) -> None:
    sizes[id(tensor)] = min(sizes[id(tensor)], size)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [
        t
        for t in tree_leaves(values)
        if isinstance(t, torch.Tensor) and t.layout is torch.strided and t.numel()
    ]


def _span_bytes(tensor: torch.Tensor) -> int:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return (sum((size - 1) * abs(step) for size, step in steps) + 1) * tensor.itemsize


def _sector_bytes(tensor: torch.Tensor) -> int:
    """Bytes in the sectors that hold the tensor's elements, expanded dimensions counting once."""
    steps = [(n, abs(s)) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if s and n > 1]
    elements = math.prod(n for n, _ in steps)
    closest = min((s for _, s in steps), default=1)
    each = min(SECTOR_BYTES, closest * tensor.itemsize)
    return -(-min(elements * each, _span_bytes(tensor)) // SECTOR_BYTES) * SECTOR_BYTES
