"""A sweep and a benchmark in words: the ranked table, and what the best changes."""

from __future__ import annotations

from kernelagent.domain.evaluation import KernelFacts
from kernelagent.domain.replies.tool_calls import Benched, Swept, SweptRow
from kernelagent.prompts.hints import by_share
from kernelagent.prompts.refusals import of_a_tool
from kernelagent.prompts.tools.checked import loops_by_values
from kernelagent.prompts.tools.probed import fault_lines

_ALIKE = 0.01


def swept_text(swept: Swept) -> str:
    """Fastest first; what failed last."""
    word = "measured" if swept.measured else "estimate, not measured"
    lines = [f"{len(swept.rows)} configurations, fastest first ({word}); nothing was verified."]
    if not swept.measured:
        lines.append(
            "Estimates that lie close together are no order: the interval of each is wider."
        )
    lines += [_row(row) for row in swept.rows]
    by_values = dict.fromkeys(name for row in swept.rows for name in row.loops_by_values)
    lines += loops_by_values(by_values)
    if swept.untried:
        lines.append(f"{swept.untried} more were not tried: the seconds of calls were used up.")
    alike = _alike(swept)
    if alike > 1:
        lines.append(
            f"{alike} of them lie within {_ALIKE:.0%} of the best: which of these you take does not matter by these "
            f"times; fewer spills and registers are no loss."
        )
    if swept.changed:
        lines.append("The best differs from what you sent in:")
        lines += swept.changed
    elif swept.best:
        lines.append("The best is what you sent.")
    if swept.best:
        lines.append("Hand in the one you choose to have it judged.")
    return "\n".join(lines)


def _alike(swept: Swept) -> int:
    """How many configurations take hardly longer than the best."""
    times = [row.us for row in swept.rows if row.us is not None and row.fault is None]
    return sum(us <= (1 + _ALIKE) * min(times) for us in times)


def swept_summary(swept: Swept) -> str:
    """One line."""
    came = [row for row in swept.rows if row.us is not None]
    if not came:
        return f"none of {len(swept.rows)} configurations came so far"
    word = "measured" if swept.measured else "estimate"
    return f"{len(swept.rows)} configurations, best {_values(came[0])}: {word} {came[0].us:.1f} us"


def benched_text(benched: Benched) -> str:
    """Times as called and by kernel."""
    if benched.fault is not None:
        message = "Stopped ({}): {}".format(*of_a_tool(benched.fault))
        return "\n".join([message, *fault_lines(benched.fault)])
    lines = ["Timed; nothing was verified."]
    if benched.timing is not None:
        t, s = benched.timing, benched.timing.speedup_eager
        lines.append(
            f"{t.candidate_us:.1f} us as called against {t.eager_us:.1f} us for eager: {s.value:.2f} of its "
            f"speed (95 % interval {s.low:.2f} to {s.high:.2f})."
        )
    lines += [
        f"Kernel `{k.name}`: {k.launches} launches, {k.device_us:.1f} us on the device."
        for k in by_share(benched.kernels)
        if k.device_us is not None
    ]
    return "\n".join(lines)


def benched_summary(benched: Benched) -> str:
    """One line."""
    if benched.fault is not None:
        return benched.fault.in_one_line
    return "timed" if benched.timing is None else f"measured {benched.timing.candidate_us:.1f} us"


def _values(row: SweptRow) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.values.items())


def _row(row: SweptRow) -> str:
    if row.us is None or row.fault is not None:
        why = "no time" if row.fault is None else ": ".join(of_a_tool(row.fault))
        return f"- {_values(row)}: {why.strip().splitlines()[0][:200]}"
    facts = "; ".join(_facts(kernel) for kernel in by_share(row.kernels)[:2])
    return f"- {_values(row)}: {row.us:.2f} us ({facts})"


def _facts(kernel: KernelFacts) -> str:
    known = (
        (kernel.estimate_us, "{:.2f} us"),
        (kernel.registers, "{} registers"),
        (kernel.spills or None, "{} spills"),
        (kernel.shared_bytes or None, "{} bytes shared"),
        (None if kernel.occupancy is None else f"{kernel.occupancy:.0%}", "occupancy {}"),
        (kernel.waves, "{:g} waves"),
        (kernel.bound, "bound by {}"),
    )
    return f"`{kernel.name}` " + ", ".join(t.format(v) for v, t in known if v is not None)
