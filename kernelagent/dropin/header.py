"""The first lines of an emitted module: what was verified, against what, where, and what was not."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import dataclass, field
from typing import Literal

from kernelagent.domain.better import perhaps_behind, standing
from kernelagent.domain.certificate import Asked
from kernelagent.domain.evaluation import Evaluation, Interval, Timing
from kernelagent.domain.problem import ProblemFacts
from kernelagent.storage.output_file import MARKER

_WIDTH = 96


@dataclass(frozen=True)
class Certificate:
    """What the header says beside the evaluation itself."""

    run: str
    """The run's id."""
    date: str
    """Of the verdict, ISO 8601."""
    policy: str
    baseline: str
    reproduce: str
    """The command that judges the file again."""
    kernelagent: str
    """Version of kernelagent."""
    tolerance: str = (
        "RMS and maximum error against a float64 oracle, in units of the eager module's own error"
    )
    seeds: str = "inputs drawn anew for each trial from seeds the candidate could not know"
    asked: Asked = field(default_factory=Asked)


def header(
    facts: ProblemFacts,
    evaluation: Evaluation,
    certificate: Certificate,
    runtime: Literal["inline", "package"] = "inline",
) -> str:
    """The emitted module's docstring, quotes included; no line reaches 100 columns."""
    needs = "torch and triton, nothing else"
    if runtime == "package":
        needs = "torch, triton and, for `optimized`, the package kernelagent-runtime"
    blocks = [
        f"A drop-in for {facts.entry_point}: `optimized(module)` returns it.",
        _wrapped(
            f"{MARKER} {certificate.kernelagent} in run {certificate.run} on {certificate.date}. "
            f"Needs {needs}."
        ),
        _wrapped(_result(evaluation, certificate)),
        *_rest(facts, evaluation, certificate),
    ]
    text = "\n\n".join(blocks).replace('"""', "'''")
    return ('r"""' if "\\" in text else '"""') + text + '\n"""'


def _rest(facts: ProblemFacts, evaluation: Evaluation, certificate: Certificate) -> list[str]:
    blocks = [
        _listed("Verified", _verified(facts, evaluation, certificate)),
        _wrapped(f"Not verified: {'; '.join(_not_verified(evaluation))}."),
    ]
    if evaluation.disclosures:
        blocks.append(_listed("To know", [d.message for d in evaluation.disclosures]))
    blocks.append("Judge it again:\n" + _command(certificate.reproduce))
    return blocks


def _result(evaluation: Evaluation, certificate: Certificate) -> str:
    device = evaluation.device
    versions = f"torch {device.torch}, triton {device.triton}"
    if device.driver is not None:
        versions += f", driver {device.driver}"
    if evaluation.timing is not None:
        where = f"Measured on {device.name} ({device.target}; {versions})"
        return f"{where}: {_measured(evaluation.timing, certificate)}"
    text = (
        f"Verified, not timed. No GPU was there: the kernels were compiled for {device.target} and "
        f"executed by an interpreter ({versions})."
    )
    estimate = evaluation.estimate
    if estimate is not None:
        text += (
            f" The estimate for {device.name}, counted and not measured: "
            f"{_microseconds(estimate.candidate_us)} a call, bound by {estimate.bound}, where the "
            f"estimate for the eager module is {_microseconds(estimate.eager_us)} "
            f"({estimate.shapes})."
        )
        if estimate.compile is not None:
            warning = perhaps_behind(estimate)
            near = f": {warning}" if warning is not None else ""
            text += f" For torch.compile it is {_microseconds(estimate.compile.value)}{near}."
        within = standing(evaluation) == "not told apart"
        place = "lies within" if within else "is more than"
        text += f" The difference to eager {place} what such estimates are uncertain by."
    return text


def _measured(timing: Timing, certificate: Certificate) -> str:
    text = (
        f"{_microseconds(timing.candidate_us)} a call against {_microseconds(timing.eager_us)} for "
        f"the eager module, a speedup of {_interval(timing.speedup_eager)}"
    )
    if timing.compile_us is not None and timing.speedup_compile is not None:
        text += (
            f"; against {_microseconds(timing.compile_us)} for torch.compile, a speedup of "
            f"{_interval(timing.speedup_compile)}"
        )
    if timing.noise_floor is not None:
        text += f"; the eager module against itself gives {_interval(timing.noise_floor)}"
    return f"{text}. The baseline asked for was `{certificate.baseline}`."


def _verified(facts: ProblemFacts, evaluation: Evaluation, certificate: Certificate) -> list[str]:
    sets = [
        f"input set {item.name}: forward{item.arguments}"
        + (f", executed at {item.executed}" if item.executed is not None else "")
        for item in evaluation.input_sets
    ] or [f"input set {item.name}: forward{item.arguments}" for item in facts.input_sets]
    result = evaluation.correctness
    worst = (
        ""
        if result is None
        else (
            f" ({result.trials} trials; the worst RMS error takes "
            f"{result.error / result.budget if result.budget else 0.0:.0%} of its budget)"
        )
    )
    kernels = ", ".join(dict.fromkeys(kernel.name for kernel in evaluation.kernels))
    return [
        *sets,
        f"in {_regime(evaluation)}, matmul precision: {evaluation.precision or facts.precision}",
        f"tolerance: {certificate.tolerance}{worst}",
        f"seeds: {certificate.seeds}",
        f"policy `{certificate.policy}`, kernels: {kernels or 'none seen'}; the candidate's "
        f"sandbox: {evaluation.sandbox}",
    ]


def _regime(evaluation: Evaluation) -> str:
    if evaluation.mode == "eval":
        return "eval mode"
    result = evaluation.correctness
    names = ", ".join(result.gradients) if result is not None else ""
    return f"eval and train mode, with the gradients of {names}"


def _not_verified(evaluation: Evaluation) -> list[str]:
    gradients = ", gradients, training mode" if evaluation.mode == "eval" else ""
    rows = [
        f"another dtype, device, shape or stride, autocast, torch.func transforms{gradients} (the "
        f"original forward runs there)",
        "changes to tensors that are neither parameters nor persistent buffers",
        "other versions of torch, triton or the driver",
    ]
    if evaluation.mode != "eval":
        rows.insert(1, "gradients of gradients (create_graph=True)")
    if evaluation.device.kind == "virtual":
        rows.append("speed, real hardware, races within a program")
    if any(item.executed is not None for item in evaluation.input_sets):
        rows.append("the numbers at full size where a smaller one was executed, as said above")
    return rows


def _listed(title: str, rows: list[str]) -> str:
    shown = [
        textwrap.fill(row, _WIDTH, initial_indent="- ", subsequent_indent="  ") for row in rows
    ]
    return "\n".join([f"{title}:", *shown])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH)


def _command(command: str) -> str:
    """The command, broken between words where it is long, still to be pasted into a shell."""
    lines, line = [], "   "
    for word in map(shlex.quote, shlex.split(command)):
        if len(line) + len(word) + 3 > _WIDTH and line.strip():
            lines.append(f"{line} \\")
            line = "       "
        line += f" {word}"
    return "\n".join([*lines, line])


def _interval(interval: Interval) -> str:
    return f"{interval.value:.3g}x (95 % interval {interval.low:.3g} to {interval.high:.3g})"


def _microseconds(value: float) -> str:
    return f"{value:.4g} µs"
