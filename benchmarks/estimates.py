"""Holds estimates against published times, and runs them over all of KernelBench; writes the page.

    python -m benchmarks.estimates --predictions FILE --problems DIR [--out benchmarks/results]

`--predictions` is what `benchmarks.fit_estimates --predictions` wrote: every number in the tables
was predicted by a fit that saw nothing of the problem. `--problems` holds level1..3; each is
estimated in a process of its own, for time, memory and failures; measured times are not used there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SETS = {
    "H100_Modal": "H100 SXM (423217d)",
    "H100_PCIe_LambdaLabs": "H100 PCIe (423217d)",
    "H100_together": "H100 SXM (7dd9cfa)",
    "A100-80GB_modal": "A100 SXM (7dd9cfa)",
    "L40S_matx3": "L40S (7dd9cfa)",
    "B200_together": "B200 (7dd9cfa)",
    "A10G_modal": "A10G (7dd9cfa)",
    "L4_modal": "L4 (7dd9cfa)",
    "T4_modal": "T4 (7dd9cfa)",
}
LEVELS = ("level1", "level2", "level3")
LEAST_US = 100.0
"""Shorter ones are the host's time more than the GPU's."""
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--problems", type=Path)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    rows = json.loads(options.predictions.read_text(encoding="utf-8"))
    text = [_HEAD, *_tables(rows), *_compile_signs(rows), *_by_class(rows)]
    for way in ("eager", "compiled"):
        chosen = [r for r in rows if r["way"] == way and r["set"] == "H100_Modal"]
        title = f"{way}: estimate over measured, H100 SXM"
        drawing = scatter_svg(chosen, title)
        (options.out / f"estimates-{way}.svg").write_text(drawing, encoding="utf-8")
        text.append(f"![{title}](estimates-{way}.svg)\n")
    if options.problems is not None:
        text += _all_problems(options.problems, options.target)
    (options.out / "estimates.md").write_text("\n".join(text), encoding="utf-8")


_HEAD = """# Estimates held against published times

Measured: KernelBench's own times of its reference modules (ScalingIntelligence/KernelBench,
results/timing, MIT licence), odd-numbered problems. Every prediction below comes from a fit that saw
nothing of that problem, at any commit, on any GPU (five folds). Problems from 0.1 ms on.

    python -m benchmarks.fit_estimates --measured kernelbench-measured.json \\
        --problems 423217d=DIR --problems 7dd9cfa=DIR --predictions predictions.json
    python -m benchmarks.estimates --predictions predictions.json --problems DIR

423217d's times were published on 2025-12-31, before `level1/97` became fp32: the fit reads the
problems as they were then (1f8d20f).
"""


def _error(row: Row) -> float:
    return math.log(row["held_out_us"] / row["measured_us"])


def _tables(rows: Sequence[Row]) -> list[str]:
    text = []
    for way in ("eager", "compiled"):
        text += [f"## {'Eager' if way == 'eager' else 'torch.compile'}\n", _HEADINGS, _RULE]
        for name, label in SETS.items():
            for level in (*LEVELS, ""):
                chosen = [
                    r
                    for r in rows
                    if r["way"] == way
                    and r["set"] == name
                    and r["problem"].startswith(level)
                    and r["measured_us"] >= LEAST_US
                ]
                if chosen:
                    text.append(_line(label, level or "all", chosen))
        text.append("")
    return text


_HEADINGS = (
    "| GPU (commit) | level | problems | median estimate / measured | within ±25 % | within ±35 % "
    "| Spearman | in the 80 % interval | median half-width |"
)
_RULE = "|---|---|--:|--:|--:|--:|--:|--:|--:|"


def _line(label: str, level: str, rows: Sequence[Row]) -> str:
    errors = [_error(row) for row in rows]
    inside = [abs(e) <= row["spread"] for e, row in zip(errors, rows, strict=True)]
    cells = (
        label,
        level,
        str(len(rows)),
        f"{math.exp(statistics.median(errors)):.2f}",
        f"{_share(abs(e) <= math.log(1.25) for e in errors):.0%}",
        f"{_share(abs(e) <= math.log(1.35) for e in errors):.0%}",
        f"{spearman([r['held_out_us'] for r in rows], [r['measured_us'] for r in rows]):.2f}",
        f"{_share(inside):.0%}",
        f"×{math.exp(statistics.median(r['spread'] for r in rows)):.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _share(values: Any) -> float:
    kept = list(values)
    return sum(kept) / len(kept)


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of the ranks; 0 for fewer than three."""
    if len(first) < 3:
        return 0.0
    ranks = [_ranks(first), _ranks(second)]
    return statistics.correlation(*ranks)


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks = [0.0] * len(values)
    for rank, at in enumerate(order):
        ranks[at] = float(rank)
    return ranks


def _compile_signs(rows: Sequence[Row]) -> list[str]:
    text = ["## Is torch.compile at least 1.2 times as fast as eager?\n"]
    text += [
        "| GPU (commit) | level | problems | it is, measured | said rightly |",
        "|---|---|--:|--:|--:|",
    ]
    by_key = {(r["way"], r["set"], r["problem"]): r for r in rows}
    for name, label in SETS.items():
        for level in (*LEVELS, ""):
            pairs = [
                (row, by_key["compiled", name, row["problem"]])
                for row in rows
                if row["way"] == "eager"
                and row["set"] == name
                and row["problem"].startswith(level)
                and row["measured_us"] >= LEAST_US
                and ("compiled", name, row["problem"]) in by_key
            ]
            truth = [e["measured_us"] >= 1.2 * c["measured_us"] for e, c in pairs]
            message = [e["held_out_us"] >= 1.2 * c["held_out_us"] for e, c in pairs]
            right = _share(t == s for t, s in zip(truth, message, strict=True))
            text.append(
                f"| {label} | {level or 'all'} | {len(pairs)} | {sum(truth)} | {right:.0%} |"
            )
    return [*text, ""]


def _by_class(rows: Sequence[Row]) -> list[str]:
    text = ["## By the class that takes most of the time, H100 SXM (423217d), eager\n"]
    text += ["| class | problems | median | within ±25 % | worst |", "|---|--:|--:|--:|--:|"]
    chosen = [r for r in rows if r["way"] == "eager" and r["set"] == "H100_Modal"]
    for family in sorted({r["family"] for r in chosen}):
        errors = [_error(r) for r in chosen if r["family"] == family]
        worst = max(errors, key=abs)
        near = _share(abs(e) <= math.log(1.25) for e in errors)
        middle = math.exp(statistics.median(errors))
        text.append(
            f"| {family} | {len(errors)} | {middle:.2f} | {near:.0%} | ×{math.exp(worst):.2f} |"
        )
    return [*text, ""]


def scatter_svg(rows: Sequence[Row], title: str) -> str:
    """Measured across, estimated up, both logarithmic, with ±25 % lines and 80 % intervals."""
    size, edge, low, high = 520, 56, 1.0, 6.0

    def place(us: float) -> float:
        return (math.log10(max(us, 1.0)) - low) / (high - low) * (size - 2 * edge) + edge

    def up(us: float) -> float:
        return size - place(us)

    colours = {"level1": "#1f77b4", "level2": "#d95f02", "level3": "#2a9d5c"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{size}" height="{size}" fill="white"/>',
        f'<text x="{edge}" y="24" font-size="14">{title}</text>',
    ]
    for power in range(int(low), int(high) + 1):
        at = 10.0**power
        name = f"{at / 1e3:g} ms"
        parts.append(
            f'<text x="{place(at):.1f}" y="{size - edge + 18}" text-anchor="middle">{name}</text>'
        )
        parts.append(f'<text x="{edge - 6}" y="{up(at) + 4:.1f}" text-anchor="end">{name}</text>')
    for factor, style in ((1.0, "#444"), (1.25, "#bbb"), (0.8, "#bbb")):
        ends = (10**low, 10**high)
        parts.append(
            f'<line x1="{place(ends[0]):.1f}" y1="{up(ends[0] * factor):.1f}" '
            f'x2="{place(ends[1]):.1f}" y2="{up(ends[1] * factor):.1f}" stroke="{style}"/>'
        )
    for row in rows:
        x, spread = place(row["measured_us"]), math.exp(row["spread"])
        estimate, colour = row["held_out_us"], colours[row["problem"].partition("/")[0]]
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(estimate / spread):.1f}" '
            f'y2="{up(estimate * spread):.1f}" stroke="{colour}" opacity="0.35"/>'
        )
        parts.append(
            f'<circle cx="{x:.1f}" cy="{up(estimate):.1f}" r="3" fill="{colour}" opacity="0.8">'
            f"<title>{row['problem']}</title></circle>"
        )
    for at, (level, colour) in enumerate(colours.items()):
        parts.append(
            f'<text x="{size - edge - 70}" y="{size - edge - 50 + 16 * at}" fill="{colour}">'
            f"{level}</text>"
        )
    parts.append(
        f'<text x="{size / 2}" y="{size - 12}" text-anchor="middle">measured</text>'
        f'<text x="14" y="{size / 2}" transform="rotate(-90 14 {size / 2})" '
        f'text-anchor="middle">estimate</text></svg>'
    )
    return "\n".join(parts)


def _all_problems(folder: Path, target: str) -> list[str]:
    text = [
        f"\n## Every problem at its own size, target {target}\n",
        "| level | problems | estimated | median s | longest s | most memory, GB |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    failures = []
    for level in LEVELS:
        files = sorted((folder / level).glob("*.py"), key=lambda p: int(p.name.partition("_")[0]))
        result = [_in_a_process(lambda path=file: _estimate(path, target)) for file in files]
        failures += [
            f"- `{level}/{f.name}`: {why}"
            for f, (why, _, _) in zip(files, result, strict=True)
            if why
        ]
        seconds = [s for _, s, _ in result]
        good = sum(not why for why, _, _ in result)
        text.append(
            f"| {level} | {len(files)} | {good} | {statistics.median(seconds):.2f} | "
            f"{max(seconds):.1f} | {max(m for _, _, m in result):.2f} |"
        )
    return [*text, "", "Failures: none." if not failures else "Failures:", *failures, ""]


def _estimate(path: Path, target: str) -> str:
    from kernelagent.domain.errors import KernelAgentError
    from kernelagent.domain.problem import ProblemSpec
    from kernelagent.tools.estimates.library import library_for
    from kernelagent.tools.estimates.main import estimates_of
    from kernelagent.tools.virtual.cost.ceilings import ceilings_for

    try:
        result, _ = estimates_of(ProblemSpec(path=str(path)), library_for(ceilings_for(target)))
    except KernelAgentError as error:
        return str(error).splitlines()[-1][:160]
    over = [e for e in result if e.least_us > e.eager.us.value]
    return "the least lies above eager" if over else ""


def _in_a_process(work: Callable[[], str]) -> tuple[str, float, float]:
    """What went wrong (nothing: empty), seconds, gigabytes at most; torch is imported before."""
    import kernelagent.tools.estimates.main
    import kernelagent.tools.judge.bounds.headroom  # noqa: F401 - before the fork, so that it counts once

    read, write = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(2, 1)
        try:
            message = work()
        except BaseException as error:  # noqa: BLE001 - the child's border: all of it is the answer
            message = f"{type(error).__name__}: {error}"[:160]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        os.write(write, json.dumps([message, peak]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        return "the process ended without an answer", time.monotonic() - started, 0.0
    message, peak = json.loads(text)
    return message, time.monotonic() - started, peak


if __name__ == "__main__":
    sys.exit(main())
