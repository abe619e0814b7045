"""What the evidence says of the kernels: a sentence each, a table, before and after, the roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts, Evaluation, KernelFacts
from kernelagent.domain.serialization import to_data
from kernelagent.report.charts.bars import Bar, bars_svg, bars_text
from kernelagent.report.charts.roofline import Ceilings, Work, roofline_svg, roofline_text
from kernelagent.report.charts.series import with_prefix
from kernelagent.report.document import (
    Block,
    Bullets,
    Chart,
    Mono,
    Paragraph,
    Table,
    Words,
    present,
)
from kernelagent.report.headroom import BOUNDS
from kernelagent.storage.run_state import RunState
from kernelagent.tools.virtual.cost.data_sheets import ceilings_of, row_near

_NO_PRODUCTS = (
    "A kernel without matrix products has the DRAM's bandwidth as its roof; here is the share of it "
    "that each attains, its launches included in the time."
)


def kernels(winner: Evaluation) -> tuple[Block, ...]:
    """What each kernel does, then the same as a table."""
    if not winner.kernels:
        return (Paragraph("No launch of a kernel is in the evidence."),)
    by_cost = sorted(winner.kernels, key=lambda k: -(k.share_of_device_time or 0.0))
    return (
        Bullets(tuple(sentence(kernel, winner.device) for kernel in by_cost)),
        kernels_table(by_cost),
        Paragraph(
            "An empty cell: the tools at hand could not know. Known by: compiler, the machine code; "
            "counted, the addresses of an interpreted launch; cupti and ncu, the device's counters."
        ),
    )


def sentence(kernel: KernelFacts, device: DeviceFacts) -> Words:
    """One kernel in one sentence, each part only where its evidence is there."""
    result = (_share(kernel, device), _traffic(kernel), _machine(kernel), _counted(kernel))
    parts = [part for part in result if part]
    if kernel.bound is not None:
        parts.append(f"bound by {BOUNDS.get(kernel.bound, kernel.bound)}")
    where = f" (line {kernel.line} of the candidate)" if kernel.line is not None else ""
    return Mono(kernel.name), f"{where}: " + "; ".join([_launches(kernel), *parts]) + "."


def _launches(kernel: KernelFacts) -> str:
    text = "launched once" if kernel.launches == 1 else f"launched {kernel.launches} times"
    if kernel.grid is not None:
        text += f" on a grid of {' × '.join(map(str, kernel.grid))}"
    if kernel.num_warps is not None:
        text += f", {kernel.num_warps} warp{'' if kernel.num_warps == 1 else 's'} a program"
    return text


def _share(kernel: KernelFacts, device: DeviceFacts) -> str:
    if kernel.share_of_device_time is None:
        return ""
    word = "estimated " if device.kind == "virtual" else ""
    return f"{kernel.share_of_device_time:.0%} of the {word}device time"


def _traffic(kernel: KernelFacts) -> str:
    if kernel.loaded_bytes is None or kernel.stored_bytes is None:
        return ""
    text = f"loads {with_prefix(kernel.loaded_bytes, 'B')}"
    if kernel.fewest_loaded_bytes:
        text += (
            f" ({kernel.loaded_bytes / kernel.fewest_loaded_bytes:.2f} times the distinct bytes)"
        )
    text += f" and stores {with_prefix(kernel.stored_bytes, 'B')}"
    if kernel.dram_bytes is not None:
        text += f", {with_prefix(kernel.dram_bytes, 'B')} of DRAM traffic"
    return text


def _machine(kernel: KernelFacts) -> str:
    parts = []
    if kernel.registers is not None:
        spills = "no spills" if kernel.spills == 0 else f"{kernel.spills} spill instructions"
        parts.append(f"{kernel.registers} registers a thread, {spills}")
    if kernel.occupancy is not None:
        limit = f", limited by {kernel.occupancy_limiter}" if kernel.occupancy_limiter else ""
        parts.append(f"{kernel.occupancy:.0%} occupancy{limit}")
    if kernel.tensor_core is not None:
        parts.append(f"tensor cores by {kernel.tensor_core}")
    return ", ".join(parts)


def _counted(kernel: KernelFacts) -> str:
    """What the device's own counters say, in percent of its peak."""
    parts = [
        f"{kernel.counters[name]:.0f} % {words}"
        for name, words in _COUNTED.items()
        if name in kernel.counters
    ]
    if kernel.stall is not None:
        parts.append(f"its warps wait most for: {kernel.stall}")
    return ", ".join(parts)


_COUNTED = {
    "dram_percent": "of the DRAM's throughput",
    "sm_percent": "of the multiprocessors' throughput",
    "tensor_percent": "of the tensor pipe",
    "occupancy_percent": "achieved occupancy",
    "l2_hit_percent": "of L2 accesses hit",
}


def kernels_table(rows: Sequence[KernelFacts]) -> Table:
    """One row a kernel; bytes are of all its launches in one forward."""
    heads = ("kernel", "launches", "share", "bound by", "registers", "spills", "shared")
    return Table(
        (*heads, "occupancy", "loaded", "stored", "DRAM", "known by"),
        tuple(
            (
                Mono(k.name),
                str(k.launches),
                _percent(k.share_of_device_time),
                "" if k.bound is None else BOUNDS.get(k.bound, k.bound),
                *("" if n is None else str(n) for n in (k.registers, k.spills)),
                _size(k.shared_bytes),
                _percent(k.occupancy),
                *(_size(n) for n in (k.loaded_bytes, k.stored_bytes, k.dram_bytes)),
                k.tier.replace("+", ", "),
            )
            for k in rows
        ),
        frozenset(range(1, 11)) - {3},
    )


def before_and_after(state: RunState, winner: Evaluation) -> tuple[Block, ...]:
    """The time of a call before and after, and the kernels of the first accepted turn and the last."""
    bars = _bars(winner)
    chart = None
    least = _headroom(winner)
    if least is not None:
        us = float(least["least_us"])
        bars.append(Bar("least possible", us, f"{us:.4g} µs", 7))
    if bars:
        message = "measured" if winner.timing is not None else "estimate, not timed"
        title = f"Time of a call in microseconds ({message})"
        chart = Chart(bars_svg(bars, title=title), f"{title}\n{bars_text(bars)}")
    accepted = [turn for turn in state.history.turns if turn.accepted and turn.evaluation]
    first = accepted[0] if accepted else None
    least_sentence = None if least is None else Paragraph(_least(least, winner))
    if first is None or first.index == state.winner_turn or first.evaluation is None:
        return present(chart, least_sentence)
    before = first.evaluation
    return present(
        chart,
        least_sentence,
        Paragraph(f"The first accepted turn ({first.index}) beside the emitted one:"),
        Table(
            ("of one forward", f"turn {first.index}", f"turn {state.winner_turn}, emitted"),
            tuple(
                (name, was, now)
                for (name, was), (_, now) in zip(_profile(before), _profile(winner), strict=True)
                if was or now
            ),
            frozenset({1, 2}),
        ),
    )


def _headroom(winner: Evaluation) -> dict[str, Any] | None:
    """What the judge says of the least time the problem needs; None where it says nothing of it."""
    facts = to_data(winner.headroom) if winner.headroom is not None else {}
    return facts if "least_us" in facts else None


def headroom_words(winner: Evaluation) -> str | None:
    """What could still be gained, and what binds; None where the judge did not work it out."""
    facts = _headroom(winner)
    return None if facts is None else _least(facts, winner)


def _least(facts: Mapping[str, Any], winner: Evaluation) -> str:
    text = (
        f"The least this problem needs on this device is {facts['least_us']:.4g} µs a call (input set "
        f"{facts['input_set']}; {with_prefix(facts['fewest_bytes'], 'B')} have to move; what binds "
        f"is {BOUNDS.get(facts['binds'], facts['binds'])}; ceilings: {facts['ceilings']}). "
    )
    text += (
        f"The emitted module attains {facts['attained']:.0%} of the possible speed; at most "
        f"{facts['left']:.0%} of its time could still be saved."
    )
    compiled = None if winner.estimate is None else winner.estimate.compile
    if facts["binds"] == "launch" and compiled is not None and compiled.value < facts["least_us"]:
        text += (
            f" That is with a launch by `triton.jit`; the code of torch.compile launches in less time, and its "
            f"estimate of {compiled.value:.4g} µs lies below."
        )
    return text


def _bars(winner: Evaluation) -> list[Bar]:
    if winner.timing is not None:
        t = winner.timing
        times = [("eager", t.eager_us, 1), ("torch.compile", t.compile_us, 2)]
        times.append(("emitted module", t.candidate_us, 0))
    elif winner.estimate is not None:
        e = winner.estimate
        times = [("eager", e.eager_us, 1)]
        times.append(("torch.compile", None if e.compile is None else e.compile.value, 2))
        times.append(("emitted module", e.candidate_us, 0))
    else:
        times = []
    return [Bar(name, us, f"{us:.4g} µs", hue) for name, us, hue in times if us is not None]


def _profile(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Name and amount, the same names for every evaluation."""
    rows = evaluation.kernels
    t, e = evaluation.timing, evaluation.estimate
    us = t.candidate_us if t else e.candidate_us if e else None
    return [
        ("time" if t else "time, estimated", "" if us is None else f"{us:.4g} µs"),
        ("kernels", str(len(rows))),
        ("launches", str(sum(k.launches for k in rows))),
        ("bytes loaded", _sum(k.loaded_bytes for k in rows)),
        ("bytes stored", _sum(k.stored_bytes for k in rows)),
        ("DRAM traffic", _sum(k.dram_bytes for k in rows)),
        ("most registers", _most(k.registers for k in rows)),
        ("spill instructions", _most(k.spills for k in rows)),
    ]


def roofline(winner: Evaluation) -> tuple[Block, ...]:
    """Each kernel under the device's ceilings, or why it cannot be drawn."""
    known = ceilings(winner.device)
    if known is None:
        return (
            Paragraph(f"No roofline: the ceilings of {winner.device.name} are not known here."),
        )
    result = works(winner)
    others = [k for k in winner.kernels if not k.flops and k.dram_bytes and _seconds(winner, k)]
    return present(
        _roofline_chart(result, known) if result else None,
        Paragraph(_NO_PRODUCTS) if others else None,
        _bandwidth_chart(others, winner, known) if others else None,
        None
        if result or others
        else Paragraph("No roofline: no kernel's operations, bytes and time are all known."),
    )


def _roofline_chart(works: Sequence[Work], known: Ceilings) -> Chart:
    title = "Roofline of the kernels"
    if works[0].estimated:
        title += " (estimate, not timed)"
    text = f"{title}\n{roofline_text(works, known)}"
    return Chart(roofline_svg(works, known, title=title), text)


def _bandwidth_chart(rows: Sequence[KernelFacts], winner: Evaluation, known: Ceilings) -> Chart:
    """Kernels without matrix products: their roof is the DRAM's bandwidth."""
    message = "estimate, not timed" if winner.timing is None else "measured"
    top = known.bytes_per_s
    title = f"DRAM bandwidth attained, of {with_prefix(top, 'B/s')} ({message})"
    rates: list[tuple[str, float]] = [
        (k.name, (k.dram_bytes or 0) / (_seconds(winner, k) or 1.0)) for k in rows
    ]
    bars = [Bar(name, r, f"{with_prefix(r, 'B/s')}, {r / top:.0%}") for name, r in rates]
    return Chart(bars_svg(bars, title=title, most=top), f"{title}\n{bars_text(bars, most=top)}")


def works(winner: Evaluation) -> list[Work]:
    """The kernels whose operations, DRAM bytes and time are known, as points of a roofline."""
    result = []
    for kernel in winner.kernels:
        seconds = _seconds(winner, kernel)
        if kernel.flops and kernel.dram_bytes and seconds:
            intensity, rate = kernel.flops / kernel.dram_bytes, kernel.flops / seconds
            result.append(Work(kernel.name, intensity, rate, estimated=winner.timing is None))
    return result


def ceilings(device: DeviceFacts) -> Ceilings | None:
    """The data sheet's, where the device is one that the table knows."""
    try:
        row, listed = ceilings_of(device.name, device.target)
    except UsageError:
        return None
    # A target names several devices: of a real one the model itself must be known.
    if device.kind == "cuda" and not listed:
        return None
    if device.kind == "virtual":
        row = row_near(device.target)
    rates: list[tuple[str, float]] = [
        (name, row.dot_flops_per_s[name])
        for name in ("bf16", "tf32")
        if name in row.dot_flops_per_s
    ]
    rates.append(("fp32", row.fp32_flops_per_s))
    return Ceilings(row.dram_bytes_per_s, tuple(rates), f"data sheet of {row.name}")


def _seconds(winner: Evaluation, kernel: KernelFacts) -> float | None:
    """Of all the kernel's launches in one forward: its share of a measured call, or its estimate."""
    if winner.timing is not None:
        share = kernel.share_of_device_time
        whole = winner.timing.device_us or winner.timing.candidate_us
        return share * whole * 1e-6 if share else None
    return kernel.estimate_us * 1e-6 if kernel.estimate_us else None


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _size(count: int | None) -> str:
    return "" if count is None else with_prefix(count, "B")


def _sum(counts: Iterable[int | None]) -> str:
    known = list(counts)
    return "" if None in known else _size(sum(n for n in known if n is not None))


def _most(counts: Iterable[int | None]) -> str:
    return str(max((n for n in counts if n is not None), default=""))
