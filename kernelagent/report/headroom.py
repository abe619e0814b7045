"""What could still be gained on a problem, in words: the least time it needs, and how near a candidate came."""

from __future__ import annotations

from kernelagent.domain.evaluation import HeadroomFacts
from kernelagent.report.charts.series import with_prefix

BOUNDS = {
    "dram": "DRAM bandwidth",
    "l2": "L2 bandwidth",
    "shared": "shared memory",
    "dot": "matrix products",
    "math": "matrix products",
    "fp": "floating point operations",
    "special": "special functions such as exp",
    "atomics": "atomic operations",
    "launch": "the cost of a launch",
}
"""By what stands in the evidence, of a kernel or of a whole problem."""


def headroom_rows(facts: HeadroomFacts) -> tuple[tuple[str, str], ...]:
    """Name and words of each fact, for a screen."""
    products = ", ".join(
        f"{with_prefix(count, 'FLOP')} in {dtype}" for dtype, count in facts.fewest_flops.items()
    )
    rows = [
        ("least time", f"{facts.least_us:.4g} µs a call, input set {facts.input_set}"),
        ("what binds it", BOUNDS.get(facts.binds, facts.binds)),
        ("has to move", with_prefix(facts.fewest_bytes, "B")),
        ("has to multiply", products),
        ("attained", f"{facts.attained:.0%} of the possible speed"),
        ("could be saved", f"at most {facts.left:.0%} of this candidate's time"),
        ("ceilings", f"the device's, from its {facts.ceilings}"),
    ]
    if facts.ceilings == "measured":
        rows[-1] = ("ceilings", "the device's, measured here")
    return tuple((name, words) for name, words in rows if words)
