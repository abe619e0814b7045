"""Fits `tools/estimates/library.toml` to published times of KernelBench's reference modules.

    python -m benchmarks.fit_estimates --measured FILE --problems 423217d=DIR --problems 7dd9cfa=DIR

`--measured` is a JSON of sets (commit, hardware, milliseconds by problem, eager and compiled);
`--problems` names the folder with level1..3 of each commit. Robust (soft absolute error of the
logarithm), ridge towards priors, GPUs as small offsets. Cross-validation leaves whole problems out
of all sets; its residuals make the intervals. Writes predictions with `--predictions FILE`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.estimates.cached import cold_shares
from kernelagent.tools.estimates.fusing import compiled
from kernelagent.tools.estimates.library import (
    least_offset,
    on_tensor_cores,
    root,
    together,
    waits,
)
from kernelagent.tools.estimates.modules import operations_of
from kernelagent.tools.estimates.operations import Operation
from kernelagent.tools.estimates.term import Term
from kernelagent.tools.estimates.terms import terms_of, terms_of_step
from kernelagent.tools.virtual.cost.ceilings import ceilings_for

GPUS = {
    "H100_Modal": "h100",
    "H100_PCIe_LambdaLabs": "h100-pcie",
    "A100-80GB_modal": "a100",
    "H100_together": "h100",
    "B200_together": "b200",
    "L40S_matx3": "l40s",
    "A10G_modal": "a10g",
    "L4_modal": "l4",
    "T4_modal": "t4",
}
"""Short name of the GPU behind each set of measurements."""
MAIN = ("H100_Modal", "H100_PCIe_LambdaLabs", "A100-80GB_modal", "L40S_matx3", "B200_together")
BASE = "h100"
"""Has no offsets of its own."""
LIKE = {
    "h200": "h100", "gh200": "h100", "h100-nvl": "h100", "h20": "h100", "sm_90": "h100",
    "h100": "h100", "h100-pcie": "h100-pcie", "a100": "a100", "a100-40": "a100",
    "a100-pcie": "a100", "a30": "a100", "sm_80": "a100", "a10g": "a10g", "a10": "a10g",
    "a40": "a10g", "rtx-a6000": "a10g", "rtx-3090": "a10g", "rtx-3090-ti": "a10g",
    "sm_86": "a10g", "l40s": "l40s", "l40": "l40s", "rtx-4090": "l40s", "sm_89": "l40s",
    "l4": "l4", "b200": "b200", "sm_100": "b200", "rtx-5090": "l40s", "sm_120": "l40s",
    "t4": "t4", "sm_75": "t4",
}  # fmt: skip
"""Whose constants a GPU uses that nobody measured: the same or the nearest architecture."""
PRIORS = {
    "pointwise": 0.1, "pointwise.mapped": 0.2, "matmul": 0.25, "matmul.bytes": 0.2, "conv": 0.5,
    "conv.bytes": 0.15, "conv.transposed.zeros": 1.0,
    "conv.transposed": 0.5, "conv.transposed.deep": 1.0, "conv.out.narrow": 1.0, "conv.in.narrow": 1.0,
    "depthwise": 0.0, "norm": 0.2, "softmax": 0.2, "reduction": 0.15,
    "scan": 0.1, "pool": 0.0, "pool.bytes": 0.1, "attention": 0.7, "recurrent": 1.0,
    "matvec": 0.2, "fused": 0.15, "matmul.starved": 0.7, "conv.starved": 0.7,
    "matmul.uneven": 0.7, "conv.uneven": 0.7,
}  # fmt: skip
"""Logarithm of how much longer than at the ceiling; 0 for what is not named."""
SOFT = 0.15
"""Errors of the logarithm above this count linearly."""
RARE = 5
"""A constant that fewer problems than this tell of stays near its prior."""
FOLDS = 5
WAYS = ("eager", "compiled")


@dataclass(frozen=True)
class Sample:
    """One module on one GPU: what was measured, and the terms that should explain it."""

    set_name: str
    problem: str
    measured_us: float
    lists: tuple[tuple[Term, ...], ...]
    launches: tuple[float, float]
    """Operations that begin a call, and operations later in one."""

    @property
    def gpu(self) -> str:
        return GPUS[self.set_name]

    @property
    def key(self) -> str:
        """Level and number: the same problem at all commits, on all GPUs."""
        return self.problem.partition("_")[0]


Traces = Mapping[str, Mapping[str, Sequence[Operation]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--problems", action="append", required=True, metavar="COMMIT=DIR")
    parser.add_argument("--strength", type=float, default=1.5, help="of the ridge")
    parser.add_argument("--out", type=Path, default=Path("tools/estimates/library.toml"))
    parser.add_argument("--predictions", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets = json.loads(options.measured.read_text(encoding="utf-8"))["sets"]
    folders = dict(text.split("=", 1) for text in options.problems)
    traces = {commit: traces_of(commit, Path(folder), sets) for commit, folder in folders.items()}
    eager = Fit(samples_of(sets, traces, "eager"), options.strength, {})
    eager_held = eager.cross_validated()
    eager.run()
    late = Fit(samples_of(sets, traces, "compiled"), options.strength, eager.constants())
    late_held = late.cross_validated()
    late.run()
    held = {"eager": (eager, eager_held), "compiled": (late, late_held)}
    options.out.write_text(_as_toml(held, options.measured.name), encoding="utf-8")
    if options.predictions is not None:
        options.predictions.write_text(json.dumps(_predictions(held)), encoding="utf-8")


def traces_of(
    commit: str, folder: Path, sets: Mapping[str, Any]
) -> dict[str, tuple[Operation, ...]]:
    wanted = {name for s in sets.values() if s["commit"] == commit for name in s["rows"]}
    return {
        name: operations_of(ProblemSpec(path=str(folder / name)))
        for name in sorted(wanted)
        if (folder / name).is_file()
    }


def samples_of(sets: Mapping[str, Any], traces: Traces, way: str) -> list[Sample]:
    result = []
    for name, measured in sets.items():
        gpu = ceilings_for(GPUS[name])
        for problem, row in measured["rows"].items():
            operations = traces.get(measured["commit"], {}).get(problem)
            ms = row["eager_ms" if way == "eager" else "compile_ms"]
            if not operations or not ms:
                continue
            if way == "eager":
                shares = cold_shares(operations, gpu.l2_bytes)
                lists = [
                    tuple(terms_of(op, gpu, share))
                    for op, share in zip(operations, shares, strict=True)
                ]
                later = float(sum(op.later for op in operations))
            else:
                lists = [tuple(terms_of_step(step, gpu)) for step in compiled(operations)]
                later = 0.0
            launches = len(lists) - later, later
            result.append(Sample(name, problem, 1e3 * ms, tuple(lists), launches))
    return result


class Fit:
    """All samples as arrays, and the constants that explain them; those near `known` values are kept there."""

    def __init__(
        self, samples: Sequence[Sample], strength: float, known: Mapping[str, float]
    ) -> None:
        self.samples, self._strength, self._known = samples, strength, known
        self._sets = list(dict.fromkeys(s.set_name for s in samples))
        rows = [
            (at, term, features)
            for at, sample in enumerate(samples)
            for terms in sample.lists
            for term in terms
            for features in [_with_gpu(term, sample.gpu)]
        ]
        names = dict.fromkeys(n for _, _, (b, m) in rows for n in (*b, *m))
        self._names = {name: at for at, name in enumerate(names)}
        shape = len(rows), len(self._names)
        self._by = [torch.zeros(shape, dtype=torch.float64) for _ in range(2)]
        for row, (_, _, sides) in enumerate(rows):
            for matrix, features in zip(self._by, sides, strict=True):
                for name, value in features.items():
                    matrix[row, self._names[name]] = value
        self._sample = torch.tensor([at for at, _, _ in rows])
        self._least = torch.tensor([least_offset(t) for _, t, _ in rows], dtype=torch.float64)
        self._families = [term.family for _, term, _ in rows]
        self._bytes, self._math, self._kernels, self._steps = (
            torch.tensor(column, dtype=torch.float64)
            for column in zip(
                *[(t.bytes_us, t.math_us, float(t.kernels), t.steps) for _, t, _ in rows],
                strict=True,
            )
        )
        self._set = torch.tensor([self._sets.index(s.set_name) for s in samples])
        self._launches = torch.tensor([s.launches for s in samples], dtype=torch.float64)
        self.truth = torch.log(torch.tensor([s.measured_us for s in samples], dtype=torch.float64))
        self._weights = torch.tensor(
            [
                (4.0 if s.set_name == "H100_Modal" else 1.0) * (0.5 if s.measured_us < 100 else 1.0)
                for s in samples
            ],
            dtype=torch.float64,
        )
        self._start, self._ridge = self._priors()
        self.weights = self._start.clone()
        count = len(self._sets)
        self._host_start = torch.log(
            torch.tensor([6.0] * count + [7.0] * count + [6.0] * count + [0.6, 2.0])
        ).double()
        self.host = self._host_start.clone()

    def _priors(self) -> tuple[torch.Tensor, torch.Tensor]:
        start, ridge = [], []
        for name in self._names:
            start.append(self._known.get(name, PRIORS.get(name, 0.0)))
            weight = 0.5 if "." in name else 0.1
            if self._problems_with(name) < RARE:
                weight = 4.0
            if name.startswith("gpu."):
                general = name.rpartition(".")[2] in ("bytes", "math", "tensor_cores")
                weight = 1.0 if general else 6.0
            ridge.append(8 * weight if name in self._known else weight)
        return torch.tensor(start, dtype=torch.float64), torch.tensor(ridge, dtype=torch.float64)

    def _problems_with(self, name: str) -> int:
        at = self._names[name]
        rows = ((self._by[0][:, at] != 0) | (self._by[1][:, at] != 0)).nonzero().flatten()
        return len({self.samples[int(self._sample[row])].key for row in rows})

    def parts(self, weights: torch.Tensor, host: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Time of each term; of each sample on the device, on the host, and in all."""
        moved = self._bytes * torch.exp((self._by[0] @ weights).clamp(-3, 7))
        offsets = torch.maximum(self._by[1] @ weights, self._least)
        computed = self._math * torch.exp(offsets.clamp(max=7))
        values, count = torch.exp(host), len(self._sets)
        steps = values[2 * count + self._set[self._sample]] * self._steps
        terms = (moved**3 + computed**3 + 1e-9) ** (1 / 3) + self._kernels * values[-1] + steps
        device = torch.zeros(len(self.samples), dtype=torch.float64).index_add(
            0, self._sample, terms
        )
        calls = self._launches[:, 0] + self._launches[:, 1] * values[-2]
        on_host = calls * values[count + self._set]
        total = values[self._set] + (device**4 + on_host**4) ** 0.25
        return terms, device, on_host, total

    def run(self, keep: torch.Tensor | None = None) -> None:
        """Fit on the samples that are kept, from the priors on."""
        chosen = torch.ones(len(self.samples), dtype=torch.bool) if keep is None else keep
        weights = self._start.clone().requires_grad_(True)
        host = self._host_start.clone().requires_grad_(True)
        search = torch.optim.LBFGS(
            [weights, host],
            max_iter=200,
            max_eval=400,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def loss() -> torch.Tensor:
            search.zero_grad()
            error = (torch.log(self.parts(weights, host)[3]) - self.truth)[chosen] / SOFT
            misfit = (self._weights[chosen] * SOFT * (torch.sqrt(1 + error**2) - 1)).sum()
            strain = self._strength * 0.5 * (self._ridge * (weights - self._start) ** 2).sum()
            whole: torch.Tensor = misfit + strain + 0.1 * ((host - self._host_start) ** 2).sum()
            whole.backward()  # type: ignore[no-untyped-call]
            return whole

        search.step(loss)  # type: ignore[arg-type]
        self.weights, self.host = weights.detach(), host.detach()

    def cross_validated(self) -> torch.Tensor:
        """The logarithm of each sample's prediction by a fit that saw nothing of its problem."""
        keys = sorted({s.key for s in self.samples})
        random.Random(1).shuffle(keys)
        held = torch.zeros_like(self.truth)
        for fold in range(FOLDS):
            out = set(keys[fold::FOLDS])
            keep = torch.tensor([s.key not in out for s in self.samples])
            self.run(keep)
            held[~keep] = torch.log(self.parts(self.weights, self.host)[3])[~keep]
        return held

    def constants(self) -> dict[str, float]:
        return {name: float(self.weights[at]) for name, at in self._names.items()}

    def feature_counts(self) -> dict[str, int]:
        """In how many terms each feature occurs."""
        seen = (self._by[0] != 0).sum(0) + (self._by[1] != 0).sum(0)
        return {name: int(seen[at]) for name, at in self._names.items()}

    def host_of(self, set_name: str) -> tuple[float, float, float]:
        """Microseconds: once a forward, each operation, each step of a recurrent layer."""
        at, count = self._sets.index(set_name), len(self._sets)
        base, call, step = (float(torch.exp(self.host[at + k * count])) for k in range(3))
        return base, call, step

    def shares(self) -> list[dict[str, float]]:
        """Of each sample's time, by family; `host` is one of them."""
        terms, device, on_host, _ = self.parts(self.weights, self.host)
        result: list[dict[str, float]] = [{} for _ in self.samples]
        weight = device**4 / (device**4 + on_host**4)
        for row, family in enumerate(self._families):
            at = int(self._sample[row])
            part = float(terms[row] / device[at] * weight[at])
            result[at][family] = result[at].get(family, 0.0) + part
        for at, shares in enumerate(result):
            shares["host"] = 1.0 - float(weight[at])
        return result


def _with_gpu(term: Term, gpu: str) -> tuple[dict[str, float], dict[str, float]]:
    moved, computed = ({k: v for k, v in by.items() if v} for by in (term.bytes_by, term.math_by))
    if gpu != BASE:
        for side, features in (("bytes", moved), ("math", computed)):
            if side == "bytes" or not waits(term):
                features[f"gpu.{gpu}.{side}"] = 1.0
            features[f"gpu.{gpu}.{root(term.family)}"] = 1.0
        if on_tensor_cores(term):
            computed[f"gpu.{gpu}.tensor_cores"] = 1.0
    return moved, computed


def spreads_of(fit: Fit, held: torch.Tensor, way: str) -> dict[str, float]:
    """Half-widths of 80 % intervals by family, and a factor for each GPU.

    With the factor the intervals hold 80 % of the level that needs the widest: single operations,
    pairs of them and networks err differently.
    """
    error = (held - fit.truth).abs()
    shares = fit.shares()
    recent = [at for at, s in enumerate(fit.samples) if s.set_name in MAIN and s.measured_us >= 100]
    overall = float(torch.quantile(error[recent], 0.8))
    by_family: dict[str, list[float]] = {}
    for at in recent:
        by_family.setdefault(max(shares[at], key=lambda f: shares[at][f]), []).append(
            float(error[at])
        )
    result = {f"{way}.all": overall}
    for family, errors in sorted(by_family.items()):
        own = _four_fifths(errors)
        result[f"{way}.{family}"] = (len(errors) * own + 8 * overall) / (len(errors) + 8)
    factors = []
    for gpu in dict.fromkeys(GPUS.values()):
        by_level: dict[str, list[float]] = {}
        for at, sample in enumerate(fit.samples):
            if (
                sample.gpu == gpu
                and sample.measured_us >= 100
                and sample.set_name != "H100_together"
            ):
                ratio = float(error[at]) / _combined(shares[at], result, way)
                by_level.setdefault(sample.problem.partition("/")[0], []).append(ratio)
        factors.append(max(_four_fifths(ratios) for ratios in by_level.values()))
        result[f"{way}.gpu.{gpu}"] = factors[-1]
    result[f"{way}.gpu.other"] = max(factors)
    return result


def _four_fifths(values: Sequence[float]) -> float:
    return float(torch.quantile(torch.tensor(values), 0.8))


def _combined(shares: Mapping[str, float], spreads: Mapping[str, float], way: str) -> float:
    overall = spreads[f"{way}.all"]
    return max(0.03, together([v * spreads.get(f"{way}.{f}", overall) for f, v in shares.items()]))


def _as_toml(held: Mapping[str, tuple[Fit, torch.Tensor]], measured: str) -> str:
    eager, late = held["eager"][0], held["compiled"][0]
    lines = [
        "# Written by benchmarks/fit_estimates.py; edit that, not this.",
        "# Source of every number: fitted to KernelBench's published times of its reference modules",
        f"# (ScalingIntelligence/KernelBench, results/timing, MIT licence; {measured}, odd problems),",
        "# eager and torch.compile, on the GPUs named under [host]; ceilings from ../virtual/cost/gpus.toml.",
        "",
        "[constants] # logarithm of how much longer than at the ceiling, per unit of the feature",
    ]
    lines += _table(eager)
    lines.append(
        f"kernel_us = {math.exp(float(eager.host[-1])):.3f} # least time of a kernel, fitted"
    )
    lines.append(
        f"later_share = {math.exp(float(eager.host[-2])):.3f} # host cost of a further operation in "
        f"one call, fitted"
    )
    lines += [
        "",
        "[compiled] # the same constants inside torch.compile, fitted starting from those above",
    ]
    lines += _table(late)
    lines += [
        "",
        "[like] # whose constants a GPU uses: its own, or those of the nearest measured one",
    ]
    lines += [f'"{name}" = "{like}" # assumption unless the same' for name, like in LIKE.items()]
    for gpu in dict.fromkeys(GPUS.values()):
        source = next(name for name, key in GPUS.items() if key == gpu)
        base, call, step = eager.host_of(source)
        late_base, late_call, _ = late.host_of(source)
        # A compiled kernel's launch is no more work than an operation of eager's, which checks and allocates too.
        late_call = min(late_call, call)
        lines += [
            "",
            f'[host."{gpu}"] # microseconds, fitted to the set {source}',
            f"eager_base_us = {base:.2f} # fitted: once a forward",
            f"eager_call_us = {call:.2f} # fitted: each operation",
            f"compiled_base_us = {late_base:.2f} # fitted: guards and entry",
            f"compiled_call_us = {late_call:.2f} # fitted: each kernel",
            f"step_us = {step:.2f} # fitted: each step of a recurrent layer",
        ]
    lines += [
        "",
        "[spreads] # half-width of the 80 % interval as a logarithm; GPUs: a factor on it",
    ]
    for way, (fit, predicted) in held.items():
        for name, value in spreads_of(fit, predicted, way).items():
            lines.append(f'"{name}" = {value:.4f} # residuals of the cross-validation')
    return "\n".join(lines) + "\n"


def _table(fit: Fit) -> list[str]:
    constants, counts = fit.constants(), fit.feature_counts()
    return [
        f'"{name}" = {constants[name]:.4f} # fitted, {counts[name]} terms'
        for name in sorted(constants)
    ]


def _predictions(held: Mapping[str, tuple[Fit, torch.Tensor]]) -> list[dict[str, Any]]:
    rows = []
    for way, (fit, predicted) in held.items():
        spreads, shares = spreads_of(fit, predicted, way), fit.shares()
        fitted = torch.log(fit.parts(fit.weights, fit.host)[3])
        for at, sample in enumerate(fit.samples):
            rows.append(
                {
                    "way": way,
                    "set": sample.set_name,
                    "problem": sample.problem,
                    "measured_us": sample.measured_us,
                    "held_out_us": math.exp(float(predicted[at])),
                    "fitted_us": math.exp(float(fitted[at])),
                    "family": max(shares[at], key=lambda f: shares[at][f]),
                    "spread": _combined(shares[at], spreads, way)
                    * spreads[f"{way}.gpu.{sample.gpu}"],
                }
            )
    return rows


if __name__ == "__main__":
    main()
