"""The kernels behind an operation of torch on CUDA, as terms of bytes and operations with shape features.

A term's time is what its bytes and its operations take at the GPU's ceilings, each times
`exp(features . constants)`. What is known of the libraries (how often a kernel reads its operand,
which kernel adds a bias) stands here; how much of a ceiling they reach is fitted (`library.toml`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kernelagent.tools.estimates.fusing import Call, Group
from kernelagent.tools.estimates.operations import Operand, Operation
from kernelagent.tools.virtual.ceilings import DeviceCeilings

Features = Mapping[str, float]


@dataclass(frozen=True)
class Term:
    """One kernel, or several alike that run one after another."""

    family: str
    """The class that its interval and its constants belong to."""
    bytes_us: float = 0.0
    """At peak bandwidth, before the constants."""
    math_us: float = 0.0
    bytes_by: Features = field(default_factory=dict)
    math_by: Features = field(default_factory=dict)
    steps: float = 0.0
    """Dependent steps inside that cost a latency each."""
    kernels: int = 1


def terms_of(operation: Operation, gpu: DeviceCeilings, cold_share: float = 1.0) -> list[Term]:
    """The kernels of one operation; `cold_share` of its bytes crosses DRAM, the rest stays in L2."""
    maker = _MAKERS.get(operation.kind, _pointwise)
    return maker(operation, _Site(gpu, cold_share))


def terms_of_step(step: Group | Call, gpu: DeviceCeilings) -> list[Term]:
    """The kernels of one step of a module that `torch.compile` has compiled."""
    site = _Site(gpu, 1.0)
    if isinstance(step, Group):
        return [_fused(step, site)]
    made = terms_of(step.operation, gpu)[:1]
    if step.operation.kind != "convolution":
        return made
    facts = step.operation.facts
    term = made[0]
    if step.channels_last:
        extra = {
            "compiled.flat": 1.0,
            "compiled.flat.depthwise": float(term.family == "depthwise"),
            "compiled.flat.point": float(facts["window"] == 1),
            "compiled.flat.transposed": facts["transposed"],
            "compiled.flat.few": float(facts["channels_in"] <= 4),
        }
        by = {**term.bytes_by, **extra}
        term = replace(term, bytes_by=by, math_by={**term.math_by, **extra})
    moved = 2 * (facts["in_bytes"] * step.moved_in + facts["out_bytes"] * step.moved_out)
    if not moved:
        return [term]
    by = {"fused": 1.0, "compiled.layout": 1.0}
    return [term, Term("fused", site.bytes_us(moved), bytes_by=by)]


def _fused(group: Group, site: _Site) -> Term:
    reads = sum(o.moved_bytes for o in group.reads.values()) + group.again
    size = reads + sum(o.moved_bytes for o in group.writes.values())
    by = {
        "fused": 1.0,
        "fused.reduction": float(group.reduces),
        "fused.starved": site.starved(group.rows, 2.0) if group.reduces else 0.0,
        "fused.strided": float(group.strided),
        "fused.scan": float(group.scan),
        "fused.long": _log(group.length / 8192) if group.reduces else 0.0,
    }
    return Term("fused", site.bytes_us(size), bytes_by=by)


@dataclass(frozen=True)
class _Site:
    gpu: DeviceCeilings
    cold_share: float

    def bytes_us(self, size: float, cold_share: float | None = None) -> float:
        cold = self.cold_share if cold_share is None else cold_share
        return (
            1e6 * size * (cold / self.gpu.dram_bytes_per_s + (1 - cold) / self.gpu.l2_bytes_per_s)
        )

    def fp32_us(self, flops: float) -> float:
        return 1e6 * flops / self.gpu.fp32_flops_per_s

    def dot_us(self, flops: float, kind: str) -> float:
        return 1e6 * flops / self.gpu.dot_rate(kind)

    def starved(self, blocks: float, each: float = 1.0) -> float:
        """How few blocks there are for the multiprocessors: 0 where there are enough."""
        return max(0.0, math.log(each * self.gpu.sms / max(1.0, blocks)))

    def uneven(self, tiles: float) -> float:
        """What the last round of tiles leaves idle."""
        rounds = tiles / self.gpu.sms
        return math.log(math.ceil(rounds) / rounds) if rounds > 0 else 0.0


def _sum(operands: tuple[Operand, ...]) -> int:
    return sum(o.moved_bytes for o in operands)


def _log(value: float, least: float = 1.0) -> float:
    return math.log(max(value, least))


def _pointwise(op: Operation, site: _Site) -> list[Term]:
    features = {"pointwise": 1.0, "pointwise.strided": op.facts.get("strided", 0.0)}
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=features)]


def _copy(op: Operation, site: _Site) -> list[Term]:
    features = {
        "copy": 1.0,
        "copy.strided": op.facts.get("strided", 0.0),
        "copy.cat": float(op.name == "cat"),
        "copy.flip": float(op.name == "flip"),
    }
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=features)]


def _random(op: Operation, site: _Site) -> list[Term]:
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by={"pointwise": 1.0, "random": 1.0})]


def _resampled(op: Operation, site: _Site) -> list[Term]:
    kernels = 2 if op.name == "constant_pad_nd" else 1
    size = op.bytes + (_sum(op.writes) if kernels == 2 else 0)
    return [Term("pointwise", site.bytes_us(size), bytes_by={"pointwise": 1.0}, kernels=kernels)]


def _matmul(op: Operation, site: _Site) -> list[Term]:
    m, n, k = (op.facts.get(name, 1.0) for name in ("m", "n", "k"))
    batch = op.facts.get("batch", 1.0)
    kind = site.gpu.dot_kind(op.dtype, rounds=False)
    short = min(m, n)
    if short < 8 and batch == 1:
        by = {"matvec": 1.0}
        return [Term("matmul", site.bytes_us(op.bytes), bytes_by=by)]
    tiles = batch * math.ceil(m / 128) * math.ceil(n / 128)
    math_by = {
        "matmul": 1.0,
        f"matmul.{kind}": 1.0,
        "matmul.narrow": _log(128 / short),
        "matmul.shallow": math.log1p(64 / k),
        "matmul.batched": float(batch > 1),
        "matmul.starved": site.starved(tiles),
        "matmul.uneven": min(site.uneven(tiles), 0.7) if tiles >= site.gpu.sms else 0.0,
    }
    bytes_by = {"matmul.bytes": 1.0, "matmul.bytes.narrow": _log(64 / short)}
    return [
        Term(
            "matmul",
            site.bytes_us(op.bytes),
            site.dot_us(op.flops, kind),
            bytes_by,
            math_by,
        )
    ]


def _convolution(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    if facts["depthwise"] and facts["channels_out"] >= facts["channels_in"]:
        return [_depthwise(op, site)]
    terms = [_implicit_gemm(op, site)]
    if facts["bias"]:
        size = 2 * facts["out_bytes"]
        terms.append(Term("pointwise", site.bytes_us(size), bytes_by={"pointwise": 1.0}))
    return terms


def _depthwise(op: Operation, site: _Site) -> Term:
    facts = op.facts
    deep = float(facts["dims"] == 3)
    shape = {
        "depthwise": 1.0,
        "depthwise.deep": deep,
        "depthwise.column": float(facts["longest"] > facts["shortest"]),
        "depthwise.dilated": float(facts["dilation"] > 1),
        "depthwise.strided": float(facts["stride"] > 1),
        "depthwise.small": _log(256 / facts["width"]),
    }
    flops = 2 * facts["window"] * facts["out_bytes"] / 4
    return Term(
        "depthwise",
        site.bytes_us(facts["in_bytes"] + facts["out_bytes"]),
        site.fp32_us(flops),
        {"depthwise.bytes": 1.0, "depthwise.bytes.strided": float(facts["stride"] > 1)},
        shape,
    )


def _implicit_gemm(op: Operation, site: _Site) -> Term:
    facts = op.facts
    groups = facts["groups"]
    transposed, deep = facts["transposed"], float(facts["dims"] == 3)
    k_in, n_out = facts["channels_in"] / groups, facts["channels_out"] / groups
    places = facts["places_in"] if transposed else facts["places_out"]
    rows = facts["batch"] * places
    kind = site.gpu.dot_kind(op.dtype, rounds=True)
    grouped = float(groups > 1)
    tiles = math.ceil(rows / 128) * math.ceil(n_out / 128) * groups
    strided, dilated = float(facts["stride"] > 1), float(facts["dilation"] > 1)
    flat = float(facts["window"] == 1)
    math_by = {
        "conv": 1.0,
        f"conv.{kind}": 1.0,
        "conv.deep": deep,
        "conv.transposed": transposed,
        "conv.transposed.deep": transposed * deep,
        "conv.transposed.strided": transposed * strided,
        "conv.transposed.spread": transposed * _log(facts["places_out"] / facts["places_in"]),
        "conv.transposed.dilated": transposed * dilated,
        "conv.transposed.line": transposed * float(facts["dims"] == 1),
        "conv.line": float(facts["dims"] == 1),
        "conv.point": flat,
        "conv.strided": strided * (1 - transposed),
        "conv.dilated": dilated,
        "conv.grouped": grouped,
        "conv.grouped.narrow": grouped * _log(64 / min(k_in, n_out)),
        "conv.grouped.transposed": grouped * transposed,
        "conv.in.narrow": _log(64 / k_in),
        "conv.in.few": float(k_in <= 4),
        "conv.in.wide": _log(k_in / 64),
        "conv.out.narrow": _log(128 / n_out),
        "conv.out.few": float(n_out < 16),
        "conv.transposed.narrow": transposed * _log(64 / k_in),
        "conv.deep.narrow": deep * _log(64 / k_in),
        "conv.odd": float(k_in % 4 != 0 or n_out % 4 != 0),
        "conv.column": float(facts["longest"] != facts["shortest"] and facts["dims"] > 1),
        "conv.window": _log(facts["window"] / 9.0),
        "conv.starved": site.starved(tiles),
        "conv.uneven": min(site.uneven(tiles), 0.7) if tiles >= site.gpu.sms else 0.0,
    }
    size = facts["in_bytes"] + facts["out_bytes"] + facts["weight_bytes"]
    bytes_by = {
        "conv.bytes": 1.0,
        "conv.bytes.deep": deep,
        "conv.bytes.transposed": transposed,
        "conv.bytes.point": flat,
        "conv.bytes.grouped": grouped,
    }
    name = ".transposed" if transposed else ".point" if flat else ""
    family = "conv" + ("3d" if deep else "") + name + (".grouped" if grouped else "")
    return Term(
        family,
        site.bytes_us(size),
        site.dot_us(op.flops, kind),
        bytes_by,
        math_by,
        kernels=2,
    )


def _normalised(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    size, rows, length = facts["size"], facts["rows"], facts["length"]
    if not facts["training"]:
        return [Term("pointwise", site.bytes_us(2 * size), bytes_by={"pointwise": 1.0})]
    row_bytes = 4 * length
    kind = op.kind
    by = {
        "norm": 1.0,
        f"norm.{kind}": 1.0,
        "norm.starved": site.starved(rows, 2.0),
        f"norm.{kind}.starved": site.starved(rows, 2.0),
        f"norm.{kind}.long": _log(length / 65536),
        f"norm.{kind}.short": _log(1024 / length),
        "norm.per_sample": facts.get("per_sample", 0.0),
        "norm.small_plane": _log(256 / facts.get("plane", 256.0)),
    }
    # Moments first, then the values again: from DRAM where a row does not stay in the cache.
    again = 1.0 if row_bytes * min(rows, 2 * site.gpu.sms) > site.gpu.l2_bytes / 2 else 0.0
    if kind == "layer_norm":
        return [Term("norm", site.bytes_us((2 + again) * size), bytes_by=by)]
    first = Term("norm", site.bytes_us(size), bytes_by=by, kernels=2)
    cold = site.cold_share if 2 * size < site.gpu.l2_bytes else 1.0
    second = Term(
        "norm", site.bytes_us(2 * size, cold), bytes_by={"pointwise": 1.0, "norm.apply": 1.0}
    )
    return [first, second]


def _softmax(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    size, length = max(_sum(op.reads), _sum(op.writes)), facts["length"]
    inner = float(facts["inner"] > 1)
    # Longer rows than shared memory holds are read three times: maximum, sum, result.
    reads = 1.0 if length * 4 <= 48 * 1024 and not inner else 3.0
    by = {
        "softmax": 1.0,
        "softmax.inner": inner,
        "softmax.inner.long": inner * _log(length / 64),
        "softmax.starved": site.starved(facts["rows"], 1.0),
        "softmax.block": float(reads > 1 and not inner),
    }
    return [Term("softmax", site.bytes_us((reads + 1) * size), bytes_by=by)]


def _reduction(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    inner = float(facts["inner"] > 1)
    by = {
        "reduction": 1.0,
        "reduction.inner": inner,
        "reduction.indices": facts["indices"],
        "reduction.norm": float("norm" in op.name),
        "reduction.short": _log(128 / facts["length"]) * (1 - inner),
        "reduction.strided": op.facts.get("strided", 0.0),
    }
    if op.name != "logsumexp":
        return [Term("reduction", site.bytes_us(op.bytes), bytes_by=by)]
    size = _sum(op.reads)
    return [
        Term("reduction", site.bytes_us(2 * size), bytes_by=by, kernels=2),
        Term("pointwise", site.bytes_us(4 * size), bytes_by={"pointwise": 1.0}, kernels=4),
    ]


def _scan(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    by = {
        "scan": 1.0,
        "scan.inner": float(facts["inner"] > 1),
        "scan.starved": site.starved(facts["rows"], 2.0),
        "scan.long": _log(facts["length"] / 4096),
        "scan.masked": float(op.dtype == "bool"),
    }
    return [Term("scan", site.bytes_us(op.bytes), bytes_by=by)]


def _sorted(op: Operation, site: _Site) -> list[Term]:
    # A radix sort of 32-bit keys with 64-bit places passes over both about five times.
    size = 5 * 2 * 12 * max(o.elements for o in op.reads)
    return [Term("sort", site.bytes_us(size), bytes_by={"sort": 1.0}, kernels=6)]


def _pooled(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    wide = {
        "pool": 1.0,
        "pool.indices": facts["indices"],
        "pool.deep": float(facts["dims"] == 3),
        "pool.adaptive": facts["adaptive"],
        "pool.reuse": _log(facts["reuse"]),
        "pool.flat": facts["flat"],
    }
    if facts["adaptive"] or facts["window"] * facts["results"] <= facts["results"]:
        by = {"reduction": 1.0, "pool.adaptive": 1.0}
        return [Term("pool", site.bytes_us(op.bytes), bytes_by=by)]
    work = 4.0 * facts["window"] * facts["results"]
    by = {
        "pool.bytes": 1.0,
        "pool.bytes.deep": float(facts["dims"] == 3),
        "pool.bytes.flat": facts["flat"],
        "pool.bytes.reuse": _log(facts["reuse"]),
        "pool.bytes.indices": facts["indices"],
    }
    return [Term("pool", site.bytes_us(op.bytes), site.fp32_us(work), by, wide)]


def _attention(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    wide = op.dtype == "float32"
    kind = site.gpu.dot_kind(op.dtype, rounds=False)
    by = {
        "attention": 1.0,
        "attention.fp32": float(wide),
        "attention.head": _log(facts["head"] / 64),
    }
    return [
        Term(
            "attention",
            site.bytes_us(op.bytes),
            site.dot_us(op.flops, kind),
            {"attention.bytes": 1.0},
            {**by, "attention.masked": facts["masked"]},
        )
    ]


def _recurrent(op: Operation, site: _Site) -> list[Term]:
    facts = op.facts
    kind = site.gpu.dot_kind(op.dtype, rounds=True)
    steps = facts["steps"] * facts["layers"]
    by = {"recurrent": 1.0, "recurrent.narrow": _log(64 / facts["batch"])}
    return [
        Term(
            "recurrent",
            site.bytes_us(op.bytes),
            site.dot_us(op.flops, kind),
            {"recurrent.bytes": 1.0},
            by,
            steps=steps * facts["directions"],
        )
    ]


def _loss(op: Operation, site: _Site) -> list[Term]:
    reads = _sum(op.reads)
    if not op.writes or op.writes[0].elements > 1:
        return _pointwise(op, site)
    return [
        Term("pointwise", site.bytes_us(1.5 * reads), bytes_by={"pointwise": 1.0}),
        Term("reduction", site.bytes_us(0.5 * reads), bytes_by={"reduction": 1.0}),
    ]


def _nll(op: Operation, site: _Site) -> list[Term]:
    rows = op.reads[1].elements if len(op.reads) > 1 else 1
    # One block adds up the picked values of all rows.
    return [Term("reduction", site.bytes_us(rows * 40.0), bytes_by={"nll": 1.0})]


def _indexed(op: Operation, site: _Site) -> list[Term]:
    return [Term("indexing", site.bytes_us(op.bytes), bytes_by={"pointwise": 1.0, "indexing": 1.0})]


_MAKERS: Mapping[str, Callable[[Operation, _Site], list[Term]]] = {
    "pointwise": _pointwise,
    "copy": _copy,
    "fill": _pointwise,
    "random": _random,
    "resampling": _resampled,
    "matmul": _matmul,
    "convolution": _convolution,
    "batch_norm": _normalised,
    "layer_norm": _normalised,
    "group_norm": _normalised,
    "softmax": _softmax,
    "reduction": _reduction,
    "scan": _scan,
    "sort": _sorted,
    "pool": _pooled,
    "attention": _attention,
    "recurrent": _recurrent,
    "loss": _loss,
    "nll_loss": _nll,
    "picking": _indexed,
    "placing": _indexed,
}
