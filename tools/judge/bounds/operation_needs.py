"""What one torch operation cannot compute its whole result without, operand by operand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.estimates.recurrent import NAMES as RECURRENT

ATTENTION = "scaled_dot_product_attention"
_ALL = frozenset(
    """mm bmm addmm baddbmm addmv mv dot vdot linear _softmax _log_softmax sum mean amax amin max min
    prod var std var_mean std_mean norm linalg_vector_norm argmax argmin cumsum cumprod logsumexp cat
    stack copy sort topk flip roll any all _to_copy clone glu prelu _prelu_kernel native_layer_norm div
    native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _fused_rms_norm repeat add sub mul clamp_min clamp_max
    linalg_norm frobenius_norm""".split()
)
"""The result depends on every element of every operand, unless values of one mask another (0 * x, inf + x)."""
_NORMS = frozenset(
    """native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training _fused_rms_norm""".split()
)
"""Zeros in the running mean switch nothing off here."""
_SUMS = frozenset("add sub rsub".split())
"""For these only an infinity in one operand makes the other irrelevant; a zero does not."""
_ONE_BY_ONE = frozenset(
    "_to_copy clone copy mul div add sub native_dropout cat stack repeat flip roll".split()
)
"""What is hidden, or nothing, stays so in their results, but for sums with what is not."""
_TRIANGLES = frozenset({"tril", "triu"})
_HIDES = -1e3
"""Filled in before a softmax it leaves nothing there."""
_PICKED_BY = {"embedding": (1,), "index": (1,), "index_select": (2,), "gather": (2,), "take": (1,)}
"""Positions of the index arguments. The indexed tensor itself is not counted: one element of it may be enough."""
_ZEROS, _INFINITIES = 1, 2


@dataclass(frozen=True)
class Operation:
    """One operation as it was called, with what it returned."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[torch.Tensor, ...]
    changed: tuple[torch.Tensor, ...]
    """Operands written in place."""
    function: Any = None


@dataclass(frozen=True)
class Known:
    """What else is known of the storages of one call."""

    levels: Mapping[int, int]
    """Storages whose values may make other operands cease to matter: 1 zeros, 2 infinities too."""
    log_probabilities: frozenset[int]
    """Storages of softmax results, each element of which depends on its whole row."""


@dataclass(frozen=True)
class Demand:
    """An operand that must be read."""

    tensor: torch.Tensor
    least_bytes: int | None = None
    """None: all of it; else at least so many bytes, nobody knows which."""


def demands_of(operation: Operation, known: Known) -> list[Demand]:
    """What must be read of the operands when the whole result is needed; empty when unknown."""
    name, args, levels = operation.name.rstrip("_"), operation.args, known.levels
    if name in _PICKED_BY:
        picking = [t for at in _PICKED_BY[name] for t in tensors_of(args[at])]
        return [Demand(t) for t in picking if not _is_mask(t)]
    if name == "nll_loss_forward":
        picked, labels = tensors_of(args[:2])
        whole = key_of(picked) in known.log_probabilities
        return [Demand(labels), *([Demand(picked)] if whole else [])]
    if name == "convolution":
        return _convolution(args, levels)
    if name == "constant_pad_nd":
        return _unless(min(args[1]) < 0, tensors_of(args[0]))
    if name == ATTENTION:
        return _attention(*args, levels=levels, **operation.kwargs)
    if name in RECURRENT:
        return _recurrent(args, levels)
    if name not in _ALL and not _is_pointwise(operation):
        return []
    operands = tensors_of((args, operation.kwargs))
    if operation.name == "copy_":
        operands = operands[1:]
    if name == "mul" and any(v == 0 for v in args if isinstance(v, int | float)):
        return []
    if name in _NORMS:
        return [Demand(t) for t in operands]
    least = _INFINITIES if name in _SUMS else _ZEROS
    return [
        Demand(t)
        for t in operands
        if not any(_level(o, levels) >= least for o in operands if o is not t)
    ]


def known_of(
    operations: Sequence[Operation], args: Any, kwargs: Any, state: Mapping[int, int]
) -> Known:
    """Find what may switch other operands off.

    Booleans, integers, what is computed from these alone, and what the function makes itself.
    """
    levels = dict(state)
    for tensor in tensors_of((args, kwargs)):
        if not tensor.is_floating_point() and not tensor.is_complex():
            levels[key_of(tensor)] = _ZEROS
    for operation in operations:
        operands = tensors_of((operation.args, operation.kwargs))
        for result in operation.results:
            if result.dtype == torch.bool:
                levels[key_of(result)] = _ZEROS
            elif all(_level(o, levels) for o in operands):
                levels[key_of(result)] = _INFINITIES if result.is_floating_point() else _ZEROS
    softmaxed = (op for op in operations if op.name == "_log_softmax")
    return Known(levels, frozenset(key_of(r) for op in softmaxed for r in op.results))


def masked_by(operations: Sequence[Operation], known: Known) -> frozenset[int]:
    """Storages of which a mask may have left a part, the rest being zero, and what is made of them one by one.

    Of a triangle, of what is filled with zeros, and of exponentials behind a mask a kernel may leave whole tiles out of a
    product, as in causal attention.
    """
    hidden: set[int] = set()
    """Minus infinity may stand in these, or a number so large that its exponential is zero."""
    shares: set[int] = set()
    for operation in operations:
        name = operation.name.rstrip("_")
        operands = tensors_of((operation.args, operation.kwargs))
        read = {key_of(t) for t in operands}
        written = {key_of(t) for t in (*operation.results, *operation.changed)}
        if name in _TRIANGLES or (name == "masked_fill" and _filled(operation) == 0):
            shares |= written
        elif _lays_a_mask(name, operation, operands, known):
            hidden |= written
        elif name in ("_softmax", "exp", "exp2") and read & hidden:
            shares |= written
        elif name in _ONE_BY_ONE:
            hidden |= written if read & hidden else set()
            # The sum of what is zero here and what is not there is not zero.
            whole = read <= shares if name in _SUMS else bool(read & shares)
            shares |= written if whole else set()
    return frozenset(shares)


def _filled(operation: Operation) -> Any:
    """What `masked_fill` fills in."""
    return operation.args[2] if len(operation.args) > 2 else operation.kwargs.get("value")


def _lays_a_mask(
    name: str, operation: Operation, operands: Sequence[torch.Tensor], known: Known
) -> bool:
    if name == "masked_fill":
        filled = _filled(operation)
        return not isinstance(filled, int | float) or filled <= _HIDES
    if name == "where":
        return any(map(_is_mask, operands))
    return name in _SUMS and any(_level(t, known.levels) >= _INFINITIES for t in operands)


def attention_pairs(query: torch.Tensor, key: torch.Tensor, causal: bool) -> int:
    """Pairs of a query and a key that take part, over all heads."""
    queries, keys = query.shape[-2], key.shape[-2]
    pairs = sum(min(i + 1, keys) for i in range(queries)) if causal else queries * keys
    return math.prod(query.shape[:-2]) * pairs


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    levels: Mapping[int, int],
    **_: Any,
) -> list[Demand]:
    if attn_mask is not None and _level(attn_mask, levels):
        return [Demand(attn_mask)]
    queries, keys = query.shape[-2], key.shape[-2]
    # With causal attention the first query sees one key only, so its scores do not matter; its row is still counted.
    scored = [query, key] if keys > 1 and (queries > 1 or not is_causal) else []
    if is_causal and keys > queries:
        share = [Demand(t, t.numel() // keys * queries * t.itemsize) for t in (key, value)]
        return [Demand(query), *share] if scored else share[1:]
    return [Demand(t) for t in (*scored, value, *tensors_of(attn_mask))]


def _recurrent(args: tuple[Any, ...], levels: Mapping[int, int]) -> list[Demand]:
    """Of a layer of more than one step: each hands its state on to the next, through all weights."""
    x, state, weights, *_ = args
    factors = [x, *(weight for weight in weights if weight.dim() > 1)]
    if any(_level(t, levels) for t in factors):
        return []
    return [Demand(t) for t in (x, *weights, *tensors_of(state))]


def _convolution(args: tuple[Any, ...], levels: Mapping[int, int]) -> list[Demand]:
    values, weight, bias, stride, padding, dilation, transposed, *_ = args
    if transposed or any(_level(t, levels) for t in (values, weight)):
        return _unless(True, ()) if bias is None else [Demand(bias)]
    seen = taps = 1
    for at, size in enumerate(values.shape[2:]):
        step, pad, gap = (v[at % len(v)] for v in (stride, padding, dilation))
        width = weight.shape[2 + at]
        count = (size + 2 * pad - gap * (width - 1) - 1) // step + 1
        met = {
            (o * step + tap * gap - pad, tap)
            for o in range(count)
            for tap in range(width)
            if 0 <= o * step + tap * gap - pad < size
        }
        seen *= len({place for place, _ in met})
        taps *= len({tap for _, tap in met})
    return [
        _part(values, seen * math.prod(values.shape[:2])),
        _part(weight, taps * math.prod(weight.shape[:2])),
        *(Demand(t) for t in tensors_of(bias)),
    ]


def _part(tensor: torch.Tensor, elements: int) -> Demand:
    return Demand(tensor, None if elements == tensor.numel() else elements * tensor.itemsize)


def _unless(unknown: bool, tensors: Sequence[torch.Tensor]) -> list[Demand]:
    return [] if unknown else [Demand(t) for t in tensors]


def _is_pointwise(operation: Operation) -> bool:
    if operation.function is None:
        return False
    if torch.Tag.pointwise in operation.function.tags:
        return True
    packet = getattr(torch.ops.aten, operation.name.rstrip("_"), None)
    twin = getattr(packet, operation.function._overloadname, None)
    return twin is not None and torch.Tag.pointwise in twin.tags


def _is_mask(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.bool


def _level(tensor: torch.Tensor, levels: Mapping[int, int]) -> int:
    return levels.get(key_of(tensor), 0)


def key_of(tensor: torch.Tensor) -> int:
    """The identity of a tensor's storage while anything holds it."""
    return int(tensor.untyped_storage()._cdata)


def tensors_of(values: Any) -> tuple[torch.Tensor, ...]:
    """All strided tensors with contents in a nest of values."""
    return tuple(
        t
        for t in tree_leaves(values)
        if isinstance(t, torch.Tensor) and t.layout is torch.strided and t.numel()
    )
