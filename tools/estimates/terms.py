"""The kernels behind an operation of torch on CUDA, as terms of bytes and operations with shape features.

A term's time is what its bytes and its operations take at the GPU's ceilings, each times
`exp(features . constants)`. What is known of the libraries (how often a kernel reads its operand,
which kernel adds a bias) stands here; how much of a ceiling they reach is fitted (`library.toml`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from kernelagent.tools.estimates.fusing import Call, Group
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.products import convolution, matmul, turned
from kernelagent.tools.estimates.term import Site, Term, bytes_of, log_of
from kernelagent.tools.virtual.cost.ceilings import SECTOR_BYTES, DeviceCeilings

_ADDITION_CLOCKS = 4
"""Until a sum can be added to (CUDA C++ Programming Guide, multiprocessor level)."""
_POOL_START, _POOL_ADD, _POOL_COMPARE = 100.0, 15.0, 30.0
"""Instructions of a pooling thread (assumption): three divisions of its number; for each element of the
window an address, a load, a sum, or a comparison that keeps value and place and looks for NaN."""
_WIDEST_HEAD = 128
"""Of attention whose sums stay in registers."""


def terms_of(operation: Operation, gpu: DeviceCeilings, cold_share: float = 1.0) -> list[Term]:
    """The kernels of one operation; `cold_share` of its bytes crosses DRAM, the rest stays in L2."""
    maker = _MAKERS.get(operation.kind, _pointwise)
    return maker(operation, Site(gpu, cold_share))


def terms_of_step(step: Group | Call, gpu: DeviceCeilings) -> list[Term]:
    """The kernels of one step of a module that `torch.compile` has compiled."""
    site = Site(gpu, 1.0)
    if isinstance(step, Group):
        return [_fused(step, site)]
    made = terms_of(step.operation, gpu)
    if step.operation.kind != "convolution":
        return made
    facts = step.operation.facts
    term = made[0]
    around: list[Term] = []
    if not step.channels_last:
        around = turned(step.operation, site)
    else:
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
    if moved:
        by = {"fused": 1.0, "compiled.layout": 1.0}
        around.append(Term("fused", site.bytes_us(moved), bytes_by=by))
    return [term, *around]


def _fused(group: Group, site: Site) -> Term:
    reads = sum(o.moved_bytes for o in group.reads.values()) + group.again
    size = reads + sum(o.moved_bytes for o in group.writes.values())
    by = {
        "fused": 1.0,
        "fused.reduction": float(group.reduces),
        "fused.strided": float(group.strided),
        "fused.scan": float(group.scan),
    }
    return Term("fused", site.bytes_us(size), bytes_by=by)


def _pointwise(op: Operation, site: Site) -> list[Term]:
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=_elementwise(op))]


def _elementwise(op: Operation) -> dict[str, float]:
    return {
        "pointwise": 1.0,
        "pointwise.mapped": op.facts.get("mapped", 0.0),
        "pointwise.strided": op.facts.get("strided", 0.0),
    }


def _copy(op: Operation, site: Site) -> list[Term]:
    # The kernel of `cat` knows that its operands lie one after another.
    by = {"pointwise": 1.0} if op.name == "cat" else _elementwise(op)
    return [Term("pointwise", site.bytes_us(op.bytes), bytes_by=by)]


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
    kind = op.kind
    by = {
        "norm": 1.0,
        f"norm.{kind}": 1.0,
        "norm.small_plane": log_of(256 / facts.get("plane", 256.0)),
    }
    waiting = {"waits": 1.0, f"waits.{kind}": 1.0}
    # Moments first, then the values again: from DRAM where the rows at work do not stay in the cache.
    again = 1.0 if 4 * length * min(rows, 2 * site.gpu.sms) > site.gpu.l2_bytes / 2 else 0.0
    if kind == "layer_norm":
        # A block of 128 threads for each row; a thread takes four elements at once, in both passes,
        # and adds up across warps twice.
        waits = site.waits_us(rows, 128, 2 * math.ceil(length / 512) + 2)
        return [Term("norm", site.bytes_us((2 + again) * size), waits, by, waiting)]
    cold = site.cold_share if 2 * size < site.gpu.l2_bytes else 1.0
    if kind == "batch_norm" and facts.get("dims", 4) > 2:
        # cuDNN's training kernel: a block of 512 threads for each channel, in both passes.
        waits = site.waits_us(rows, 512, math.ceil(length / 2048))
        return [
            Term("norm", site.bytes_us(size), waits, by, waiting),
            Term("norm", site.bytes_us(2 * size, cold), waits, {**by, "norm.apply": 1.0}, waiting),
        ]
    threads = 512 if length >= 512 else 32
    waits = (
        site.waits_us(rows, threads, math.ceil(length / threads)) if kind == "group_norm" else 0.0
    )
    apply = {"pointwise": 1.0, "pointwise.mapped": 1.0}
    return [
        Term("norm", site.bytes_us(size), waits, by, waiting, kernels=2),
        Term("norm", site.bytes_us(2 * size, cold), bytes_by=apply),
    ]


def _softmax(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    size, length = max(bytes_of(op.reads), bytes_of(op.writes)), facts["length"]
    inner = float(facts["inner"] > 1)
    # Rows that shared memory does not hold are read three times: maximum, sum, result; again from
    # DRAM where those at work do not stay in the cache either.
    again = 0.0 if length * 4 <= 48 * 1024 and not inner else 2.0
    strip = min(1024.0, facts["inner"])
    at_work = 4 * length * strip * 2 * site.gpu.sms
    lost = float(at_work > site.gpu.l2_bytes)
    by = {
        "softmax": 1.0,
        "softmax.inner": inner,
    }
    moved = site.bytes_us(2 * size) + site.bytes_us(again * size, lost)
    if inner or length <= 1024:
        return [Term("softmax", moved, bytes_by=by)]
    # A block of 1024 threads for each row, four elements at once; it adds up across threads twice.
    loads = (1 + again) * math.ceil(length / 4096) + 2
    waiting = {"waits": 1.0, "waits.softmax": 1.0}
    return [Term("softmax", moved, site.waits_us(facts["rows"], 1024, loads), by, waiting)]


def _reduction(op: Operation, site: Site) -> list[Term]:
    by = {"reduction": 1.0}
    if op.name != "logsumexp":
        return [Term("reduction", site.bytes_us(op.bytes), bytes_by=by)]
    size = bytes_of(op.reads)
    return [
        Term("reduction", site.bytes_us(2 * size), bytes_by=by, kernels=2),
        Term("pointwise", site.bytes_us(4 * size), bytes_by={"pointwise": 1.0}, kernels=4),
    ]


def _scan(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    rows, length = facts["rows"], facts["length"]
    by = {"scan": 1.0}
    if facts["inner"] > 1:
        # One thread for each row, which adds up number after number.
        steps = 1e6 * length * _ADDITION_CLOCKS / site.gpu.clock_hz
        return [Term("scan", site.bytes_us(op.bytes), steps, by)]
    # A block of 512 threads takes several rows at once, each in pieces of two elements a thread:
    # it loads a piece, adds it up in as many steps as the piece has doublings, stores it.
    wide = math.ceil(math.log2(max(2.0, length))), math.ceil(math.log2(max(2.0, rows)))
    doublings = min(9, max(4, (9 + wide[0] - wide[1]) // 2))
    side_by_side = 2 ** (9 - doublings)
    pieces = math.ceil(length / 2 ** (doublings + 1))
    waits = site.waits_us(rows / side_by_side, 512, pieces * (1 + (doublings + 1) / 8))
    waiting = {"waits": 1.0, "waits.scan": 1.0}
    return [
        Term("scan", site.bytes_us(op.bytes), bytes_by=by),
        Term("scan", math_us=waits, math_by=waiting, kernels=0),
    ]


def _sorted(op: Operation, site: Site) -> list[Term]:
    # A radix sort of 32-bit keys with 64-bit places passes over both about five times.
    size = 5 * 2 * 12 * max(o.elements for o in op.reads)
    return [Term("sort", site.bytes_us(size), bytes_by={"sort": 1.0}, kernels=6)]


def _pooled(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    if facts["adaptive"] or facts["window"] * facts["results"] <= facts["results"]:
        by = {"reduction": 1.0, "pool.adaptive": 1.0}
        return [Term("pool", site.bytes_us(op.bytes), bytes_by=by)]
    # One thread for each result: it divides its number into places, then tests and reads the window.
    read = _POOL_COMPARE if facts["indices"] else _POOL_ADD
    work = 2 * facts["results"] * (_POOL_START + read * facts["window"])
    wide, by = {"pool": 1.0}, {"pool.bytes": 1.0}
    return [Term("pool", site.bytes_us(op.bytes), site.fp32_us(work), by, wide)]


def _attention(op: Operation, site: Site) -> list[Term]:
    facts = op.facts
    wide = op.dtype == "float32"
    kind = site.gpu.dot_kind(op.dtype, rounds=False)
    by = {
        "attention": 1.0,
        "attention.fp32": float(wide),
    }
    main = Term(
        "attention",
        site.bytes_us(op.bytes),
        site.dot_us(op.flops, kind),
        {"attention.bytes": 1.0},
        {**by, "attention.masked": facts["masked"]},
    )
    if facts["head"] <= _WIDEST_HEAD:
        return [main]
    # The sums no longer fit in registers: they are read and written in fp32 for every 64 keys.
    sums = 4.0 * facts["heads"] * facts["queries"] * facts["head"]
    again = 2 * sums * math.ceil(facts["keys"] / 64)
    spilled = Term(
        "attention", site.bytes_us(again, 0.0), bytes_by={"attention.bytes": 1.0}, kernels=0
    )
    return [main, spilled]


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
    # One block adds up all rows; a thread loads a target, then the value that it picks.
    waits = site.waits_us(1, 1024, 2 * math.ceil(rows / 1024))
    return [Term("reduction", math_us=waits, math_by={"waits": 1.0, "waits.nll": 1.0})]


def _indexed(op: Operation, site: Site) -> list[Term]:
    by = {"pointwise": 1.0, "indexing": 1.0}
    return [Term("indexing", site.bytes_us(op.bytes), _added_us(op, site), by)]


def _added_us(op: Operation, site: Site) -> float:
    """What is added to one sector is added one after another; at best all sectors get as much."""
    sectors = math.ceil(op.facts.get("sum_bytes", 0.0) / SECTOR_BYTES)
    if not sectors:
        return 0.0
    return 1e6 * op.facts["added"] / sectors / site.gpu.same_address_atomics_per_s


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
