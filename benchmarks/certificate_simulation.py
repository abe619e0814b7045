"""Simulated certificates on timing streams with known truth: coverage, false claims, launches.

    python -m benchmarks.certificate_simulation [--certificates N] [--seed N] [--write FILE]

Each certificate runs through `tools.cuda.certificate.certify`, the loop of the real measurement, with
synthetic clocks in the place of processes. No number here was measured on a GPU.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import NormalDist, median

from benchmarks.timing_streams import STREAMS, World
from kernelagent.domain.evaluation import Interval
from kernelagent.tools.cuda.certificate import (
    Certificate,
    Launch,
    Rules,
    certify,
    measure_block,
    ratio_of,
    shuffled,
)
from kernelagent.tools.cuda.sequence import FEWEST
from kernelagent.tools.cuda.statistics import narrow_enough

ROOT = Path(__file__).resolve().parents[1]
RULES = Rules()
BLOCKS_PER_LAUNCH = 4
SLIGHTLY_FASTER = 1.03


@dataclass(frozen=True)
class Outcome:
    """What many certificates on one stream came to; shares from 0 to 1."""

    coverage: float
    faster: float
    """Share that claims "faster"; false claims where the true ratio is 1."""
    narrow: float
    """Share that reached the interval asked for before the most launches were made."""
    launches: float
    """Mean over certificates."""
    reach: float
    """Median half width of the interval, as a share of the ratio."""


def simulate(stream: str, truth: float, certificates: int, seed: int) -> Outcome:
    """Certificates on one stream, each with its own clocks, under optional stopping."""
    return _outcome(
        [_certificate(f"{seed} {stream} {truth} {i}", stream, truth) for i in range(certificates)],
        truth,
    )


def simulate_pooled(stream: str, truth: float, certificates: int, seed: int) -> float:
    """Coverage of what is NOT done: a fixed-sample interval over all blocks, looked at repeatedly."""
    covered = 0
    for i in range(certificates):
        interval = _pooled(_launcher(f"{seed} {stream} {truth} {i}", stream, truth))
        covered += interval.low <= truth <= interval.high
    return covered / certificates


def _certificate(seed: str, stream: str, truth: float) -> Certificate:
    return certify(_launcher(seed, stream, truth), RULES, expired=lambda: False)


def _launcher(seed: str, stream: str, truth: float) -> Callable[[int], Launch]:
    chance = Random(seed)
    world = World(STREAMS[stream], chance)

    def launch(_: int) -> Launch:
        sides = {"eager": world.process(100.0 * truth), "candidate": world.process(100.0)}
        blocks = [
            measure_block(sides, shuffled(list(sides), chance)) for _ in range(BLOCKS_PER_LAUNCH)
        ]
        return {"base": blocks}

    return launch


def _pooled(launch: Callable[[int], Launch]) -> Interval:
    ratios: list[float] = []
    for number in range(RULES.most_launches):
        ratios += [ratio_of([block], RULES) for block in launch(number)["base"]]
        ratios.sort()
        rank = max(1, int(NormalDist(len(ratios) / 2, len(ratios) ** 0.5 / 2).inv_cdf(0.025)))
        interval = Interval(median(ratios), ratios[rank - 1], ratios[-rank])
        if len(ratios) >= 2 * FEWEST and narrow_enough(interval, RULES.share):
            break
    return interval


def _outcome(found: list[Certificate], truth: float) -> Outcome:
    count = len(found)
    intervals = [certificate.speedup for certificate in found]
    return Outcome(
        coverage=sum(i.low <= truth <= i.high for i in intervals) / count,
        faster=sum(certificate.faster for certificate in found) / count,
        narrow=sum(certificate.narrow for certificate in found) / count,
        launches=sum(certificate.launches for certificate in found) / count,
        reach=median((i.high - i.low) / (2 * i.value) for i in intervals),
    )


def table(certificates: int, seed: int) -> list[str]:
    """The lines of the result's table, a row per stream."""
    lines = [
        "| stream | coverage | false faster | launches | blocks | within ±2 % | reach "
        f"| faster at {SLIGHTLY_FASTER} | pooled coverage |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in STREAMS:
        even = simulate(name, 1.0, certificates, seed)
        ahead = simulate(name, SLIGHTLY_FASTER, certificates, seed)
        pooled = simulate_pooled(name, 1.0, certificates, seed)
        lines.append(
            f"| {name} | {even.coverage:.1%} | {even.faster:.1%} | {even.launches:.1f} "
            f"| {even.launches * BLOCKS_PER_LAUNCH:.0f} | {even.narrow:.1%} | ±{even.reach:.1%} "
            f"| {ahead.faster:.1%} | {pooled:.1%} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--certificates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--write", type=Path, default=ROOT / "benchmarks/results/certificate_simulation.md"
    )
    arguments = parser.parse_args()
    lines = [
        "# Simulated certificates",
        "",
        f"`python -m benchmarks.certificate_simulation --certificates {arguments.certificates} "
        f"--seed {arguments.seed}`, {platform.machine()}, Python {platform.python_version()}; "
        f"{arguments.certificates} certificates per cell, synthetic clocks, nothing measured on a "
        f"GPU. At least {FEWEST} and at most {RULES.most_launches} launches of one process per "
        f"side, {BLOCKS_PER_LAUNCH} A/B/B/A blocks each, stopped once within ±{RULES.share:.0%}. "
        "`false faster`: claims at a true ratio of 1. `pooled coverage`: what an ordinary interval "
        "over all blocks, looked at after each launch, would cover.",
        "",
        *table(arguments.certificates, arguments.seed),
        "",
        "Streams:",
        "",
        *(f"- {name}: {stream.words}" for name, stream in STREAMS.items()),
    ]
    arguments.write.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
