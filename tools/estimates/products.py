"""Matrix products and convolutions as terms."""

from __future__ import annotations

import math

from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.term import Site, Term, log_of

_MOST_SPLIT = 8.0
"""Parts that a tile's sum is split into, so that idle multiprocessors have some (assumption)."""
_START, _READ = 250.0, 12.0
"""Instructions of torch's depthwise kernel (assumption): four divisions of the thread's number; for each element
of the window two bounds, two loads, a product."""


def matmul(op: Operation, site: Site) -> list[Term]:
    """One product, of a batch where there is one."""
    m, n, k = (op.facts.get(name, 1.0) for name in ("m", "n", "k"))
    batch = op.facts.get("batch", 1.0)
    kind = site.gpu.dot_kind(op.dtype, rounds=False)
    short = min(m, n)
    if short < 8 and batch == 1:
        by = {"matvec": 1.0}
        return [Term("matmul.small", site.bytes_us(op.bytes), bytes_by=by)]
    tiles = batch * math.ceil(m / 128) * math.ceil(n / 128)
    math_by = {
        "matmul": 1.0,
        f"matmul.{kind}": 1.0,
        "matmul.narrow": log_of(128 / short),
        "matmul.shallow": math.log1p(64 / k),
        "matmul.starved": site.starved(tiles),
        "matmul.uneven": min(site.uneven(tiles), 0.7) if tiles >= site.gpu.sms else 0.0,
    }
    bytes_by = {"matmul.bytes": 1.0, "matmul.bytes.narrow": log_of(64 / short)}
    return [
        Term(
            "matmul" if tiles >= 2 * site.gpu.sms else "matmul.small",
            site.bytes_us(op.bytes),
            site.dot_us(op.flops, kind),
            bytes_by,
            math_by,
        )
    ]


def convolution(op: Operation, site: Site) -> list[Term]:
    """Its main kernel, those that turn its tensors, and the one that adds the bias."""
    facts = op.facts
    if facts["depthwise"] and facts["channels_out"] >= facts["channels_in"]:
        return [_depthwise(op, site)]
    terms = [_implicit_gemm(op, site), *turned(op, site)]
    if facts["bias"]:
        size = 2 * facts["out_bytes"]
        by = {"pointwise": 1.0, "pointwise.mapped": 1.0}
        terms.append(Term("pointwise", site.bytes_us(size), bytes_by=by))
    return terms


def turned(op: Operation, site: Site) -> list[Term]:
    """cuDNN's kernels for tensor cores want channels last: it copies the input so, and the result back.

    Windows of one element are a plain product, which needs neither.
    """
    facts = op.facts
    if facts["window"] == 1 or facts["depthwise"] or _on_plain_units(op, site):
        return []
    size = 2 * (facts["in_bytes"] + facts["out_bytes"])
    return [Term("turned", site.bytes_us(size), bytes_by={"conv.bytes": 1.0}, kernels=2)]


def _on_plain_units(op: Operation, site: Site) -> bool:
    return site.gpu.dot_kind(op.dtype, rounds=True) == "fp32"


def _depthwise(op: Operation, site: Site) -> Term:
    facts = op.facts
    deep = float(facts["dims"] == 3)
    shape = {
        "depthwise": 1.0,
        "depthwise.deep": deep,
        "depthwise.dilated": float(facts["dilation"] > 1),
        "depthwise.strided": float(facts["stride"] > 1),
    }
    # One thread for each result: it divides its number into places, then tests and reads the window.
    results = facts["out_bytes"] / 4
    work = 2 * results * (_START + _READ * facts["window"])
    return Term(
        "depthwise",
        site.bytes_us(facts["in_bytes"] + facts["out_bytes"]),
        site.fp32_us(work),
        {"depthwise.bytes": 1.0},
        shape,
    )


def _implicit_gemm(op: Operation, site: Site) -> Term:
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
    # A stride lays zeros between the inputs; kernels for dilated windows do not skip them.
    zeros = dilated * log_of(facts["places_out"] / facts["places_in"]) if transposed else 0.0
    math_by = {
        "conv": 1.0,
        f"conv.{kind}": 1.0,
        "conv.deep": deep * (1 - transposed),
        "conv.point": flat,
        "conv.strided": strided * (1 - transposed),
        "conv.grouped": grouped,
        "conv.transposed": transposed * (1 - deep),
        "conv.transposed.deep": transposed * deep,
        "conv.transposed.zeros": zeros,
        # Tiles of 128 results by 16 channels are computed whole.
        "conv.out.narrow": log_of(128 / n_out),
        "conv.in.narrow": log_of(16 / k_in),
        # Where there are few tiles, their sums are split too.
        "conv.starved": min(site.starved(tiles), math.log(_MOST_SPLIT)),
        "conv.uneven": min(site.uneven(tiles), 0.7) if tiles >= site.gpu.sms else 0.0,
    }
    size = facts["in_bytes"] + facts["out_bytes"] + facts["weight_bytes"]
    # A window of one element is a plain product.
    bytes_by = {"matmul.bytes" if flat else "conv.bytes": 1.0, "conv.bytes.grouped": grouped}
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
