"""Matrix products and convolutions as terms."""

from __future__ import annotations

import math

from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.term import Site, Term, log_of


def matmul(op: Operation, site: Site) -> list[Term]:
    """One product, of a batch where there is one."""
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
        "matmul.narrow": log_of(128 / short),
        "matmul.shallow": math.log1p(64 / k),
        "matmul.batched": float(batch > 1),
        "matmul.starved": site.starved(tiles),
        "matmul.uneven": min(site.uneven(tiles), 0.7) if tiles >= site.gpu.sms else 0.0,
    }
    bytes_by = {"matmul.bytes": 1.0, "matmul.bytes.narrow": log_of(64 / short)}
    return [
        Term(
            "matmul",
            site.bytes_us(op.bytes),
            site.dot_us(op.flops, kind),
            bytes_by,
            math_by,
        )
    ]


def convolution(op: Operation, site: Site) -> list[Term]:
    """Its main kernel, and the one that adds the bias."""
    facts = op.facts
    if facts["depthwise"] and facts["channels_out"] >= facts["channels_in"]:
        return [_depthwise(op, site)]
    terms = [_implicit_gemm(op, site)]
    if facts["bias"]:
        size = 2 * facts["out_bytes"]
        terms.append(Term("pointwise", site.bytes_us(size), bytes_by={"pointwise": 1.0}))
    return terms


def _depthwise(op: Operation, site: Site) -> Term:
    facts = op.facts
    deep = float(facts["dims"] == 3)
    shape = {
        "depthwise": 1.0,
        "depthwise.deep": deep,
        "depthwise.column": float(facts["longest"] > facts["shortest"]),
        "depthwise.dilated": float(facts["dilation"] > 1),
        "depthwise.strided": float(facts["stride"] > 1),
        "depthwise.small": log_of(256 / facts["width"]),
    }
    flops = 2 * facts["window"] * facts["out_bytes"] / 4
    return Term(
        "depthwise",
        site.bytes_us(facts["in_bytes"] + facts["out_bytes"]),
        site.fp32_us(flops),
        {"depthwise.bytes": 1.0, "depthwise.bytes.strided": float(facts["stride"] > 1)},
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
    math_by = {
        "conv": 1.0,
        f"conv.{kind}": 1.0,
        "conv.deep": deep,
        "conv.transposed": transposed,
        "conv.transposed.deep": transposed * deep,
        "conv.transposed.strided": transposed * strided,
        "conv.transposed.spread": transposed * log_of(facts["places_out"] / facts["places_in"]),
        "conv.transposed.dilated": transposed * dilated,
        "conv.transposed.line": transposed * float(facts["dims"] == 1),
        "conv.line": float(facts["dims"] == 1),
        "conv.point": flat,
        "conv.strided": strided * (1 - transposed),
        "conv.dilated": dilated,
        "conv.grouped": grouped,
        "conv.grouped.narrow": grouped * log_of(64 / min(k_in, n_out)),
        "conv.grouped.transposed": grouped * transposed,
        "conv.in.narrow": log_of(64 / k_in),
        "conv.in.few": float(k_in <= 4),
        "conv.in.wide": log_of(k_in / 64),
        "conv.out.narrow": log_of(128 / n_out),
        "conv.out.few": float(n_out < 16),
        "conv.transposed.narrow": transposed * log_of(64 / k_in),
        "conv.deep.narrow": deep * log_of(64 / k_in),
        "conv.odd": float(k_in % 4 != 0 or n_out % 4 != 0),
        "conv.column": float(facts["longest"] != facts["shortest"] and facts["dims"] > 1),
        "conv.window": log_of(facts["window"] / 9.0),
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
