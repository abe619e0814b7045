"""What an operation of torch is to a library: its kind, its sizes, the shape features that decide its speed.

A record holds numbers only: no tensor is kept, so that millions of bytes cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelagent.tools.calls.torch_dtypes import name_of
from kernelagent.tools.estimates.windows import read_share
from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES

Call = tuple[tuple[Any, ...], Mapping[str, Any], Any]
"""Positional arguments, keywords, result."""


@dataclass(frozen=True)
class Operand:
    """One tensor that an operation reads or writes."""

    key: int
    """The storage; views of one tensor share it."""
    moved_bytes: int
    elements: int
    row: int = 1
    """Length of its last dimension."""


@dataclass(frozen=True)
class Operation:
    """One call of an ATen operator, as its kernels see it."""

    name: str
    kind: str
    """`convolution`, `matmul`, `reduction`, `pointwise`, ...: what `library.toml` has a table for."""
    dtype: str
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    flops: int = 0
    facts: Mapping[str, float] = field(default_factory=dict)
    """Sizes by name; which ones depends on the kind."""
    later: bool = False
    """Not the first operation that one call launched, which costs less host time."""

    @property
    def bytes(self) -> int:
        """Of all operands, each moved once."""
        return sum(operand.moved_bytes for operand in (*self.reads, *self.writes))


_MATMULS = frozenset("mm addmm bmm baddbmm _scaled_mm addmv mv dot addbmm".split())
_REDUCTIONS = frozenset(
    """sum mean amax amin max min argmax argmin prod var std var_mean std_mean norm all any
    linalg_vector_norm logsumexp nansum count_nonzero aminmax median""".split()
)
_SCANS = frozenset("cumsum cumprod cummax cummin logcumsumexp".split())
_NORMS = {
    "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "_batch_norm_with_update": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "rms_norm": "layer_norm",
    "_fused_rms_norm": "layer_norm",
}
_SOFTMAXES = frozenset("_softmax _log_softmax _safe_softmax softmax log_softmax".split())
_POOLS = frozenset(
    """max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d
    _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d""".split()
)
_PICKING = frozenset("embedding index index_select gather take".split())
_PLACING = frozenset(
    """index_put index_put_ _index_put_impl_ index_copy_ index_add_ index_add scatter scatter_
    scatter_add scatter_add_ scatter_reduce scatter_reduce_ masked_scatter_""".split()
)
_SORTS = frozenset("sort topk argsort kthvalue msort".split())
_COPIES = frozenset("copy_ clone _to_copy cat stack contiguous repeat roll flip copy".split())
_FILLS = frozenset("fill_ zero_ zeros ones full fill zeros_like ones_like full_like arange".split())
_RANDOM = frozenset(
    """rand randn rand_like randn_like bernoulli bernoulli_ native_dropout uniform_ normal_
    randint randperm exponential_ multinomial""".split()
)
_RESAMPLINGS = frozenset(
    """upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d
    upsample_bicubic2d upsample_linear1d upsample_trilinear3d grid_sampler_2d grid_sampler_3d
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d
    constant_pad_nd pixel_shuffle pixel_unshuffle im2col col2im""".split()
)
_REORDERING = frozenset("flip roll".split())
_OF_TWO_TYPES = frozenset("where masked_fill masked_fill_".split())
"""Written for a mask beside their values: nothing is cast."""
_LOSSES = frozenset(
    """mse_loss smooth_l1_loss huber_loss binary_cross_entropy soft_margin_loss
    multi_margin_loss multilabel_margin_loss_forward""".split()
)
ATTENTION = "scaled_dot_product_attention"
ATTENTION_BACKWARD = f"{ATTENTION}_backward"
"""One operation on CUDA as well; priced with the constants of the forward, which are measured."""
RECURRENT = frozenset("lstm gru rnn_tanh rnn_relu".split())


def kind_of(name: str) -> str:
    """Which table of constants an operator belongs to; what is not named works element by element."""
    plain = name.rstrip("_") if name not in _COPIES | _FILLS | _RANDOM | _PLACING else name
    if name == "convolution" or name == "_convolution":
        return "convolution"
    if name in _NORMS:
        return _NORMS[name]
    for kind, names in _BY_KIND:
        if name in names or plain in names:
            return kind
    return "pointwise"


_BY_KIND = (
    ("matmul", _MATMULS),
    ("reduction", _REDUCTIONS),
    ("scan", _SCANS),
    ("softmax", _SOFTMAXES),
    ("pool", _POOLS),
    ("picking", _PICKING),
    ("placing", _PLACING),
    ("sort", _SORTS),
    ("copy", _COPIES),
    ("fill", _FILLS),
    ("random", _RANDOM),
    ("resampling", _RESAMPLINGS),
    ("loss", _LOSSES),
    ("nll_loss", frozenset({"nll_loss_forward", "nll_loss2d_forward"})),
    ("attention", frozenset({ATTENTION, ATTENTION_BACKWARD})),
    ("recurrent", RECURRENT),
)


def describe(
    name: str, call: Call, reads: Sequence[Operand], writes: Sequence[Operand], flops: int
) -> Operation:
    """The record of one call; `reads` and `writes` as the caller counted them."""
    args, kwargs, result = call
    kind = kind_of(name)
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    out = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    first = next(iter(tensors or out), None)
    dtype = "float32" if first is None else name_of(first.dtype)
    facts: dict[str, float] = {}
    reader = _READERS.get(kind)
    if reader is not None and first is not None:
        facts = reader(name, args, kwargs, out)
    if first is not None and kind in _LAID_OUT:
        facts = {**facts, **_layout(name, tensors, out)}
    return Operation(name, kind, dtype, tuple(reads), tuple(writes), flops, facts)


def _mapped(name: str, tensors: Sequence[torch.Tensor], out: Sequence[torch.Tensor]) -> bool:
    """Whether operands lie differently, or are of several types: then torch's elementwise kernel takes
    one element at a time, at an address that it works out, where it otherwise takes four."""
    if not tensors or not out:
        return False
    differ = any(_lies(t) != _lies(out[0]) for t in tensors)
    cast = len({t.dtype for t in tensors}) > 1 and name not in _OF_TWO_TYPES
    return differ or cast


def _lies(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Sizes and strides, without dimensions of one element, which lie nowhere."""
    return [(n, s) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def _layout(
    name: str, tensors: Sequence[torch.Tensor], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    """Whether a big operand is read across its rows, so that neighbours in the result lie apart."""
    size = max((t.numel() for t in [*tensors, *out]), default=1)
    strided = any(
        t.dim() > 1 and t.numel() * 2 > size and t.shape[-1] > 1 and t.stride(-1) > 1
        for t in tensors
    )
    dense = bool(tensors) and tensors[0].is_contiguous()
    return {
        "strided": float(strided),
        "mapped": float(name in _REORDERING or _mapped(name, tensors, out)),
        "channels_last": float(_channels_last(tensors) and not dense),
    }


def _channels_last(tensors: Sequence[torch.Tensor]) -> bool:
    return any(
        t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last) and t.shape[1] > 1
        for t in tensors
    )


def _convolution(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = args[:9]
    spatial = list(weight.shape[2:])
    result = list(out[0].shape[2:])
    channels_in = int(x.shape[1])
    channels_out = int(out[0].shape[1])
    window = math.prod(spatial)
    # One-dimensional convolutions are run as two-dimensional ones of height 1.
    sizes = [*spatial] if len(spatial) > 1 else [1, *spatial]
    places = [int(n) for n in x.shape[2:]]
    met = 1.0
    if not transposed:
        each = [_for_each(numbers, len(places)) for numbers in (stride, padding, dilation)]
        met = read_share(places, spatial, result, *each)
    return {
        "dims": len(spatial),
        "read_share": met,
        "transposed": float(bool(transposed)),
        "groups": groups,
        "channels_in": channels_in,
        "channels_out": channels_out,
        "window": window,
        "longest": max(spatial),
        "shortest": min(sizes),
        "stride": max(stride) if stride else 1,
        "dilation": max(dilation) if dilation else 1,
        "padded": float(any(p > 0 for p in padding)),
        "batch": int(x.shape[0]),
        "places_in": math.prod(x.shape[2:]),
        "places_out": math.prod(result),
        "width": result[-1],
        "bias": float(bias is not None),
        "depthwise": float(groups > 1 and groups == channels_in and not transposed),
        "in_bytes": x.numel() * x.itemsize,
        "out_bytes": out[0].numel() * out[0].itemsize,
        "weight_bytes": weight.numel() * weight.itemsize,
    }


def _matmul(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    matrices = [a for a in args if isinstance(a, torch.Tensor)][-2:]
    a, b = matrices[0], matrices[-1]
    k = int(a.shape[-1])
    n = int(b.shape[-1]) if b.dim() > 1 else 1
    m = int(a.shape[-2]) if a.dim() > 1 else 1
    return {
        "m": m,
        "n": n,
        "k": k,
        "batch": int(a.shape[0]) if a.dim() == 3 else 1,
        "a_transposed": float(a.dim() > 1 and a.stride(-1) != 1),
        "b_transposed": float(b.dim() > 1 and b.stride(-1) != 1),
        "added": float(name in ("addmm", "baddbmm", "addbmm", "addmv")),
    }


def _reduced(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    x = next(a for a in args if isinstance(a, torch.Tensor))
    results = max(1, out[0].numel()) if out else 1
    return {
        "rows": results,
        "length": max(1.0, x.numel() / results),
        "inner": _inner(x, _dims_of(name, args, kwargs, x)),
        "indices": float(name.startswith("arg") or (name in ("max", "min") and len(out) > 1)),
    }


def _dims_of(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], x: torch.Tensor
) -> list[int]:
    """The dimensions an operation works along; all of them where none is named."""
    place = 2 if name in ("linalg_vector_norm", "norm") else 1
    result = kwargs.get("dim", args[place] if len(args) > place else None)
    if isinstance(result, bool) or result is None or result == []:
        return list(range(x.dim()))
    given = [result] if isinstance(result, int) else list(result)
    return [d % max(1, x.dim()) for d in given if isinstance(d, int)] or list(range(x.dim()))


def _inner(x: torch.Tensor, dims: Sequence[int]) -> float:
    """Elements that lie between neighbours along the dimensions: 1 for a row in one piece."""
    steps = [abs(x.stride(d)) for d in dims if x.shape[d] > 1]
    return float(max(1, min(steps, default=1)))


def _along(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    x = next(a for a in args if isinstance(a, torch.Tensor))
    if x.dim() == 0:
        return {"rows": 1, "length": 1, "inner": 1}
    dims = _dims_of(name, args, kwargs, x) if name not in _SORTS else [_sorted_dim(args, kwargs, x)]
    length = max(1, int(x.shape[dims[0]])) if dims else 1
    return {"rows": x.numel() / length, "length": length, "inner": _inner(x, dims[:1])}


def _sorted_dim(args: tuple[Any, ...], kwargs: Mapping[str, Any], x: torch.Tensor) -> int:
    integers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    return int(kwargs.get("dim", integers[-1] if integers else -1)) % x.dim()


def _normalised(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    x = args[0]
    facts: dict[str, float] = {"elements": x.numel(), "size": x.numel() * x.itemsize}
    if name in ("native_group_norm",):
        group = x.numel() / max(1, int(x.shape[0]) * int(args[6]))
        return {**facts, "length": group, "rows": x.numel() / group, "training": 1.0}
    if _NORMS[name] == "batch_norm":
        channels = int(x.shape[1])
        training = name not in ("_native_batch_norm_legit_no_training",) and (
            bool(args[5]) if name == "native_batch_norm" else True
        )
        if name == "_native_batch_norm_legit":
            training = next((bool(a) for a in args[3:] if isinstance(a, bool)), True)
        return {
            **facts,
            "rows": channels,
            "length": x.numel() / max(1, channels),
            "plane": math.prod(x.shape[2:]) if x.dim() > 2 else 1,
            "batch": int(x.shape[0]),
            "training": float(training),
            "dims": x.dim(),
            "per_sample": float(name == "_native_batch_norm_legit" and args[3] is None),
        }
    shape = args[1] if isinstance(args[1], list | tuple) else list(x.shape[-1:])
    length = math.prod(int(s) for s in shape)
    return {**facts, "length": length, "rows": x.numel() / max(1, length), "training": 1.0}


def _pooled(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    x, result = args[0], out[0]
    dims = 3 if "3d" in name else 2
    places_in = math.prod(x.shape[-dims:])
    places_out = math.prod(result.shape[-dims:])
    adaptive, met = "adaptive" in name, 1.0
    if adaptive:
        window = places_in / max(1, places_out)
    else:
        sizes = _of_each(args, 1, dims, [1] * dims)
        window = math.prod(s for s, n in zip(sizes, x.shape[-dims:], strict=False) if n)
        strides, paddings = _of_each(args, 2, dims, sizes), _of_each(args, 3, dims, [0] * dims)
        dilations = _of_each(args, 4, dims, [1] * dims) if name.startswith("max") else [1] * dims
        inside, outside = list(x.shape[-dims:]), list(result.shape[-dims:])
        met = read_share(inside, sizes, outside, strides, paddings, dilations)
    return {
        "dims": dims,
        "window": float(window),
        "read_share": met,
        "adaptive": float(adaptive),
        "indices": float(len(out) > 1),
        "results": result.numel(),
        "flat": float(x.shape[-2] == 1),
        "reuse": float(window) * places_out / max(1, places_in),
    }


def _of_each(args: tuple[Any, ...], at: int, dims: int, usual: list[int]) -> list[int]:
    """An argument with a number for each dimension, or one for all; `usual` where it was not given."""
    given = args[at] if at < len(args) else ()
    return _for_each(given, dims) or usual


def _for_each(given: Any, dims: int) -> list[int]:
    """A number for each dimension, of as many or of one for all; none where none was given."""
    numbers = [int(n) for n in (given if isinstance(given, list | tuple) else [given])]
    return numbers[-dims:] if len(numbers) > 1 else numbers * dims


def _attended(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    query, key = args[0], args[1]
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    return {
        "head": int(query.shape[-1]),
        "queries": int(query.shape[-2]),
        "keys": int(key.shape[-2]),
        "heads": math.prod(query.shape[:-2]),
        "masked": float(mask is not None),
        "causal": float(bool(kwargs.get("is_causal", args[5] if len(args) > 5 else False))),
    }


def _placed(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    """How many times something is added to how many bytes; which of them meet is in the contents.

    Neighbours of a row are added by one request, as in the counted launches of kernels. `index_put` adds equal places one
    after another, too.
    """
    tensors = [t for t in tree_leaves((args[1:], kwargs)) if isinstance(t, torch.Tensor)]
    adds = any(word in name for word in ("_add", "_reduce"))
    if "index_put" in name:
        adds = bool(kwargs.get("accumulate", args[3] if len(args) > 3 else False))
    if not tensors or not adds:
        return {"added": 0.0, "sum_bytes": 0.0}
    index, total = tensors[0], args[0]
    added = float(index.numel())
    if "index_add" in name:
        beside = tensors[-1].numel() / max(1.0, added)
        added = tensors[-1].numel() / min(max(1.0, beside), SECTOR_BYTES / total.itemsize)
    return {"added": added, "sum_bytes": total.numel() * total.itemsize}


def _copied(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Sequence[torch.Tensor]
) -> dict[str, float]:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    return {"parts": float(len(tensors))}


_READERS: Mapping[str, Callable[..., dict[str, float]]] = {
    "convolution": _convolution,
    "matmul": _matmul,
    "reduction": _reduced,
    "scan": _along,
    "softmax": _along,
    "sort": _along,
    "batch_norm": _normalised,
    "layer_norm": _normalised,
    "group_norm": _normalised,
    "pool": _pooled,
    "attention": _attended,
    "copy": _copied,
    "placing": _placed,
}
_LAID_OUT = frozenset({"pointwise", "copy", "reduction", "softmax"})
