"""Runs the gate over honest and wrong kernels on every probe: `python -m benchmarks.gate_table`.

Prints the table and writes it to benchmarks/results/gate.md. Exit status 1 when one is misjudged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.gate_cases import OPERATIONS, SPOILED, Operation, Tensors, Version
from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.judge.problem.reference.conditioning import noise_on_demand
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.probes import Dropped, Probe, make_probe
from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of

RESULT = Path(__file__).parent / "results" / "gate.md"


@dataclass(frozen=True)
class Row:
    operation: str
    dtype: str
    version: str
    honest: bool
    refused_on: tuple[str, ...]
    disclosures: tuple[str, ...]
    ratio: float
    """Largest error over budget on any probe."""

    @property
    def right(self) -> bool:
        return bool(self.refused_on) != self.honest


@dataclass(frozen=True)
class Trial:
    """One probe of one operation, with everything a comparison needs."""

    probe: str
    tensors: Tensors
    expected: Expected


def reference64(operation: Operation, tensors: Tensors) -> torch.Tensor:
    raised = {k: t.double() if t.is_floating_point() else t for k, t in tensors.items()}
    return operation.reference(raised)


def trials(operation: Operation, dtype: torch.dtype, seed: int) -> Iterator[Trial]:
    """Every probe of the operation that its reference has an answer to, weights drawn anew."""
    generator = torch.Generator().manual_seed(seed)

    def natural() -> dict[str, torch.Tensor]:
        made = operation.inputs(generator)
        return {k: t.to(dtype) if t.is_floating_point() else t for k, t in made.items()}

    given = natural()
    scale = scales_of(reference64(operation, given))
    weights = {k: t for k, t in given.items() if k in operation.weights}
    for name in (name for name, kind in PROBE.items() if not kind.planted):
        drawn = {k: t for k, t in natural().items() if k not in weights}
        state = perturbed_state(weights, operation.weights, generator).tensors
        state = weights if name == "natural" else state
        probe = make_probe(
            name, drawn, generator, lambda t, s=state: reference64(operation, {**t, **s})
        )
        if isinstance(probe, Dropped):
            continue
        yield _trial(operation, probe, state, scale, generator)


def _trial(
    operation: Operation,
    probe: Probe,
    state: dict[str, torch.Tensor],
    scale: dict[str, float],
    generator: torch.Generator,
) -> Trial:
    tensors = {**probe.tensors, **state}
    eager = operation.reference(tensors)
    measure = noise_on_demand(
        lambda t: reference64(operation, t), tensors, probe.oracle64, generator
    )
    return Trial(probe.name, tensors, Expected(eager, probe.oracle64, scale, measure_noise=measure))


def judge(found: list[Trial], name: tuple[str, str, str], version: Version, honest: bool) -> Row:
    refused, disclosed, ratio = [], set(), 0.0
    for trial in found:
        verdict = compare(
            version(trial.tensors), trial.expected, input_set="default", probe=trial.probe
        )
        disclosed |= {item.code for item in verdict.disclosures}
        if not verdict.passed:
            refused.append(trial.probe)
        for case in verdict.cases:
            over = case.rms_error / case.rms_budget if case.rms_budget else 0.0
            ratio = max(ratio, over, case.max_error / case.max_budget if case.max_budget else 0.0)
    return Row(*name, honest, tuple(refused), tuple(sorted(disclosed)), ratio)


def rows(operation: Operation, seed: int = 0) -> Iterator[Row]:
    for dtype in operation.dtypes:
        result = list(trials(operation, dtype, seed))
        spelt = str(dtype).removeprefix("torch.")
        for version, function in operation.honest.items():
            yield judge(result, (operation.name, spelt, version), function, True)
        wrong = dict(operation.wrong)
        if dtype == torch.float32:
            wrong |= operation.wrong_in_float32
        for version, function in wrong.items():
            yield judge(result, (operation.name, spelt, version), function, False)
        for version, spoil in SPOILED.items():

            def spoiled(t: Tensors, spoil=spoil) -> torch.Tensor:
                return spoil(operation.reference(t))

            yield judge(result, (operation.name, spelt, version), spoiled, False)


def table(found: list[Row]) -> str:
    honest = [row for row in found if row.honest]
    wrong = [row for row in found if not row.honest]
    lines = [
        "# The gate on honest and wrong kernels",
        "",
        "Written by `python -m benchmarks.gate_table`: each kernel is run on every probe; honest",
        "ones must pass all, wrong ones must fail at least one. Error over budget is the largest",
        "on any probe; above 1 is refused.",
        "",
        f"Honest: {len(honest)}, refused {sum(not row.right for row in honest)}. "
        f"Wrong: {len(wrong)}, accepted {sum(not row.right for row in wrong)}.",
        "",
        "| operation | dtype | kernel | is | refused on | error / budget | disclosed |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        kind = ("honest" if row.honest else "wrong") + ("" if row.right else " (MISJUDGED)")
        where = ", ".join(row.refused_on) or "nothing"
        lines.append(
            f"| {row.operation} | {row.dtype} | {row.version} | {kind} | {where} | "
            f"{row.ratio:.2g} | {', '.join(row.disclosures)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    result = [row for operation in OPERATIONS for row in rows(operation)]
    text = table(result)
    RESULT.write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(row.right for row in result) else 1


if __name__ == "__main__":
    sys.exit(main())
