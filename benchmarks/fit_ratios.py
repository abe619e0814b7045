"""How far estimated ratios are off: eager over torch.compile, predicted and measured, for problems unseen.

    python -m benchmarks.fit_ratios --measured FILE --problems 423217d=DIR --problems 7dd9cfa=DIR

The only pairs of forwards of one module that were both measured are eager and torch.compile. What
the two share cancels in their ratio, errors of its estimate included; what is left is measured here
and written to `tools/estimates/ratios.toml`, by what binds the eager forward. Folds are clean: the
fit of a fold saw no time of its problems, neither eager nor compiled.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.fit_estimates import FOLDS, MAIN, Fit, Sample, samples_of, traces_of
from kernelagent.tools.estimates.library import root

_MATH = ("matmul", "matvec", "conv", "conv3d", "depthwise", "attention", "recurrent")
_LEAST_US = 100.0
_LEAST_COUNT = 8
"""Samples that the residuals of all classes together count as in each class."""
_WORTH = 1.2


@dataclass(frozen=True)
class Pair:
    """One module on one GPU: eager over compiled, both ways known."""

    set_name: str
    problem: str
    family: str
    """Of operations, in which most of the eager forward is spent."""
    kind: str
    """What binds the eager forward: `dram`, `math` or `launch`."""
    predicted: float
    measured: float
    compiled_error: float
    """Logarithm of the compiled estimate over the measured time."""

    @property
    def error(self) -> float:
        return math.log(self.predicted / self.measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--problems", action="append", required=True, metavar="COMMIT=DIR")
    parser.add_argument("--strength", type=float, default=1.5, help="of the ridge")
    parser.add_argument("--sets", nargs="*", default=list(MAIN))
    parser.add_argument("--out", type=Path, default=Path("tools/estimates/ratios.toml"))
    parser.add_argument("--pairs", type=Path, help="every pair, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = json.loads(options.measured.read_text(encoding="utf-8"))["sets"]
    sets = {name: sets[name] for name in options.sets}
    folders = dict(text.split("=", 1) for text in options.problems)
    traces = {commit: traces_of(commit, Path(folder), sets) for commit, folder in folders.items()}
    eager = Fit(samples_of(sets, traces, "eager"), options.strength, {})
    late = samples_of(sets, traces, "compiled")
    pairs = _pairs(eager, late, options.strength)
    options.out.write_text(_as_toml(pairs, options.measured.name), encoding="utf-8")
    if options.pairs is not None:
        options.pairs.write_text(json.dumps([asdict(p) for p in pairs]), encoding="utf-8")
    print(_table(pairs))


def _pairs(eager: Fit, late: Sequence[Sample], strength: float) -> list[Pair]:
    keys = sorted({s.key for s in eager.samples} | {s.key for s in late})
    random.Random(1).shuffle(keys)
    pairs: list[Pair] = []
    for fold in range(FOLDS):
        out = set(keys[fold::FOLDS])
        eager.run(torch.tensor([s.key not in out for s in eager.samples]))
        after = Fit(late, strength, eager.constants())
        after.run(torch.tensor([s.key not in out for s in late]))
        pairs += _held_out(eager, after, out)
    return pairs


def _held_out(eager: Fit, late: Fit, out: set[str]) -> list[Pair]:
    before, after = (fit.parts(fit.weights, fit.host)[3] for fit in (eager, late))
    places = {(s.set_name, s.problem): at for at, s in enumerate(late.samples)}
    pairs = []
    for at, (sample, shares) in enumerate(zip(eager.samples, eager.shares(), strict=True)):
        other = places.get((sample.set_name, sample.problem))
        if sample.key not in out or other is None or sample.measured_us < _LEAST_US:
            continue
        compiled_us = late.samples[other].measured_us
        family = max(shares, key=lambda f: shares[f])
        pairs.append(
            Pair(
                sample.set_name,
                sample.problem,
                family,
                kind_of(family),
                float(before[at] / after[other]),
                sample.measured_us / compiled_us,
                math.log(float(after[other]) / compiled_us),
            )
        )
    return pairs


def kind_of(family: str) -> str:
    """What binds a forward most of whose time is in this family of operations."""
    if family == "host":
        return "launch"
    return "math" if root(family) in _MATH else "dram"


def spreads(pairs: Sequence[Pair]) -> dict[str, tuple[float, int]]:
    """Half-width of the 80 % interval as a logarithm and number of pairs, by what binds."""
    overall = _quantile(pairs)
    result = {"all": (overall, len(pairs))}
    for kind in ("dram", "math", "launch"):
        chosen = [p for p in pairs if p.kind == kind]
        own = _quantile(chosen) if chosen else overall
        count = len(chosen)
        mixed = (count * own + _LEAST_COUNT * overall) / (count + _LEAST_COUNT)
        result[kind] = (mixed, count)
    return result


def _quantile(pairs: Sequence[Pair]) -> float:
    errors = torch.tensor([abs(p.error) for p in pairs])
    return float(torch.quantile(errors, 0.8))


def _as_toml(pairs: Sequence[Pair], measured: str) -> str:
    lines = [
        "# Written by benchmarks/fit_ratios.py; edit that, not this.",
        "# Source of every number: residuals of the ratio eager over torch.compile in a cross-validation",
        "# on KernelBench's published times (ScalingIntelligence/KernelBench, results/timing, MIT",
        f"# licence; {measured}, odd problems, from 0.1 ms on). No pair with a Triton candidate in it has",
        "# been measured: for those the same width is an assumption.",
        "",
        "[ratio] # half-width of the 80 % interval of a ratio as a logarithm, by what binds eager",
    ]
    lines += [
        f"{kind} = {width:.4f} # {count} pairs" for kind, (width, count) in spreads(pairs).items()
    ]
    return "\n".join(lines) + "\n"


def _table(pairs: Sequence[Pair]) -> str:
    widths = spreads(pairs)
    lines = [
        "| set | pairs | median ratio off by | in the 80 % interval | sign of ≥ 1.2× right | compiled within ±25 % |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in [*dict.fromkeys(p.set_name for p in pairs), "all"]:
        chosen = [p for p in pairs if name in (p.set_name, "all")]
        inside = sum(abs(p.error) <= widths[p.kind][0] for p in chosen)
        sign = sum((p.predicted >= _WORTH) == (p.measured >= _WORTH) for p in chosen)
        near = sum(abs(p.compiled_error) <= math.log(1.25) for p in chosen)
        middle = float(torch.tensor([abs(p.error) for p in chosen]).median())
        count = len(chosen)
        lines.append(
            f"| {name} | {count} | ×{math.exp(middle):.2f} | {inside / count:.0%} | "
            f"{sign / count:.0%} | {near / count:.0%} |"
        )
    lines += ["", "| bound by | pairs | 80 % interval |", "|---|--:|--:|"]
    lines += [f"| {kind} | {n} | ×/÷ {math.exp(w):.2f} |" for kind, (w, n) in widths.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
