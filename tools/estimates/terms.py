"""The kernels behind an operation of torch on CUDA, as terms of bytes and operations with shape features.

A term's time is what its bytes and its operations take at the GPU's ceilings, each times
`exp(features . constants)`. What is known of the libraries (how often a kernel reads its operand,
which kernel adds a bias) stands here; how much of a ceiling they reach is fitted (`library.toml`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kernelagent.tools.estimates.fusing import Call, Group
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.products import convolution, matmul
from kernelagent.tools.estimates.term import Site, Term, bytes_of, log_of
from kernelagent.tools.virtual.ceilings import DeviceCeilings


def terms_of(operation: Operation, gpu: DeviceCeilings, cold_share: float = 1.0) -> list[Term]:
    """The kernels of one operation; `cold_share` of its bytes crosses DRAM, the rest stays in L2."""
    maker = _MAKERS.get(operation.kind, _pointwise)
    return maker(operation, Site(gpu, cold_share))


def terms_of_step(step: Group | Call, gpu: DeviceCeilings) -> list[Term]:
    """The kernels of one step of a module that `torch.compile` has compiled."""
    site = Site(gpu, 1.0)
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


def _fused(group: Group, site: Site) -> Term:
    reads = sum(o.moved_bytes for o in group.reads.values()) + group.again
    size = reads + sum(o.moved_bytes for o in group.writes.values())
    by = {
        "fused": 1.0,
        "fused.reduction": float(group.reduces),
        "fused.starved": site.starved(group.rows, 2.0) if group.reduces else 0.0,
        "fused.strided": float(group.strided),
        "fused.scan": float(group.scan),
        "fused.long": log_of(group.length / 8192) if group.reduces else 0.0,
    }
    return Term("fused", site.bytes_us(size), bytes_by=by)


def _pointwise(op: Operation, site: Site) -> list[Term]:
    features = {"pointwise": 1.0, "pointwise.strided": op.facts.get("strided", 0.0)}
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=features)]


def _copy(op: Operation, site: Site) -> list[Term]:
    features = {
        "copy": 1.0,
        "copy.strided": op.facts.get("strided", 0.0),
        "copy.cat": float(op.name == "cat"),
        "copy.flip": float(op.name == "flip"),
    }
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=features)]


def _random(op: Operation, site: Site) -> list[Term]:
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by={"pointwise": 1.0, "random": 1.0})]


def _resampled(op: Operation, site: Site) -> list[Term]:
    kernels = 2 if op.name == "constant_pad_nd" else 1
    size = op.bytes + (bytes_of(op.writes) if kernels == 2 else 0)
    return [Term("pointwise", site.bytes_us(size), bytes_by={"pointwise": 1.0}, kernels=kernels)]


def _normalised(op: Operation, site: Site) -> list[Term]:
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
        f"norm.{kind}.long": log_of(length / 65536),
        f"norm.{kind}.short": log_of(1024 / length),
        "norm.per_sample": facts.get("per_sample", 0.0),
        "norm.small_plane": log_of(256 / facts.get("plane", 256.0)),
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


def _softmax(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    size, length = max(bytes_of(op.reads), bytes_of(op.writes)), facts["length"]
    inner = float(facts["inner"] > 1)
    # Longer rows than shared memory holds are read three times: maximum, sum, result.
    reads = 1.0 if length * 4 <= 48 * 1024 and not inner else 3.0
    by = {
        "softmax": 1.0,
        "softmax.inner": inner,
        "softmax.inner.long": inner * log_of(length / 64),
        "softmax.starved": site.starved(facts["rows"], 1.0),
        "softmax.block": float(reads > 1 and not inner),
    }
    return [Term("softmax", site.bytes_us((reads + 1) * size), bytes_by=by)]


def _reduction(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    inner = float(facts["inner"] > 1)
    by = {
        "reduction": 1.0,
        "reduction.inner": inner,
        "reduction.indices": facts["indices"],
        "reduction.norm": float("norm" in op.name),
        "reduction.short": log_of(128 / facts["length"]) * (1 - inner),
        "reduction.strided": op.facts.get("strided", 0.0),
    }
    if op.name != "logsumexp":
        return [Term("reduction", site.bytes_us(op.bytes), bytes_by=by)]
    size = bytes_of(op.reads)
    return [
        Term("reduction", site.bytes_us(2 * size), bytes_by=by, kernels=2),
        Term("pointwise", site.bytes_us(4 * size), bytes_by={"pointwise": 1.0}, kernels=4),
    ]


def _scan(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    by = {
        "scan": 1.0,
        "scan.inner": float(facts["inner"] > 1),
        "scan.starved": site.starved(facts["rows"], 2.0),
        "scan.long": log_of(facts["length"] / 4096),
        "scan.masked": float(op.dtype == "bool"),
    }
    return [Term("scan", site.bytes_us(op.bytes), bytes_by=by)]


def _sorted(op: Operation, site: Site) -> list[Term]:
    # A radix sort of 32-bit keys with 64-bit places passes over both about five times.
    size = 5 * 2 * 12 * max(o.elements for o in op.reads)
    return [Term("sort", site.bytes_us(size), bytes_by={"sort": 1.0}, kernels=6)]


def _pooled(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    wide = {
        "pool": 1.0,
        "pool.indices": facts["indices"],
        "pool.deep": float(facts["dims"] == 3),
        "pool.adaptive": facts["adaptive"],
        "pool.reuse": log_of(facts["reuse"]),
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
        "pool.bytes.reuse": log_of(facts["reuse"]),
        "pool.bytes.indices": facts["indices"],
    }
    return [Term("pool", site.bytes_us(op.bytes), site.fp32_us(work), by, wide)]


def _attention(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    wide = op.dtype == "float32"
    kind = site.gpu.dot_kind(op.dtype, rounds=False)
    by = {
        "attention": 1.0,
        "attention.fp32": float(wide),
        "attention.head": log_of(facts["head"] / 64),
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


def _recurrent(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    kind = site.gpu.dot_kind(op.dtype, rounds=True)
    steps = facts["steps"] * facts["layers"]
    by = {"recurrent": 1.0, "recurrent.narrow": log_of(64 / facts["batch"])}
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


def _loss(op: Operation, site: Site) -> list[Term]:
    reads = bytes_of(op.reads)
    if not op.writes or op.writes[0].elements > 1:
        return _pointwise(op, site)
    return [
        Term("pointwise", site.bytes_us(1.5 * reads), bytes_by={"pointwise": 1.0}),
        Term("reduction", site.bytes_us(0.5 * reads), bytes_by={"reduction": 1.0}),
    ]


def _nll(op: Operation, site: Site) -> list[Term]:
    rows = op.reads[1].elements if len(op.reads) > 1 else 1
    # One block adds up the picked values of all rows.
    return [Term("reduction", site.bytes_us(rows * 40.0), bytes_by={"nll": 1.0})]


def _indexed(op: Operation, site: Site) -> list[Term]:
    return [Term("indexing", site.bytes_us(op.bytes), bytes_by={"pointwise": 1.0, "indexing": 1.0})]


_MAKERS: Mapping[str, Callable[[Operation, Site], list[Term]]] = {
    "pointwise": _pointwise,
    "copy": _copy,
    "fill": _pointwise,
    "random": _random,
    "resampling": _resampled,
    "matmul": matmul,
    "convolution": convolution,
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
