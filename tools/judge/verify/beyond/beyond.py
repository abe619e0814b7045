"""Calls after the verdict's own that ask what lies beyond the user's inputs; the answer is told, never a refusal.

What a candidate does wrong there is a disclosure. A fault that would corrupt memory, or that would never
end, where the reference has an answer, is still one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import partial

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import name_of_input
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.steps.steps import single_step
from kernelagent.tools.judge.problem.trials.input_domain import observe
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import named_tensors, share_nonfinite
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.problem.trials.variation import (
    BOUND,
    EXTREMES,
    FREE,
    OUTSIDE,
    Extreme,
    softened,
    varied,
    with_extremes,
    with_integers_outside,
)
from kernelagent.tools.judge.verify.beyond.allowance import Spans
from kernelagent.tools.judge.verify.beyond.asking import (
    TIMEOUT,
    Asked,
    ask,
    with_changed,
    without_end,
)
from kernelagent.tools.judge.verify.beyond.beyond_inputs import BeyondInputs
from kernelagent.tools.judge.verify.beyond.infinities import SPANS as OF_INFINITIES
from kernelagent.tools.judge.verify.beyond.infinities import Infinities
from kernelagent.tools.judge.verify.beyond.other_buffers import OtherBuffers
from kernelagent.tools.judge.verify.beyond.other_numbers import OtherNumbers
from kernelagent.tools.judge.verify.beyond.searched_rows import SPANS as OF_A_SEARCH
from kernelagent.tools.judge.verify.beyond.searched_rows import SearchedRows
from kernelagent.tools.judge.verify.beyond.shared_tensors import SharedTensors
from kernelagent.tools.judge.verify.beyond.unlike_calls import SPANS as OF_UNLIKE_CALLS
from kernelagent.tools.judge.verify.beyond.unlike_inputs import UnlikeInputs
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

Fixed = Mapping[tuple[str, str], str | None]
"""By input set and place: a digest of the values that every call had; None: they cannot be compared."""
_MOST_BYTES = 256 << 20
"""Of inputs that are drawn at full size to know what a mask holds there."""
_TRIES = 3
_PLAIN_KINDS = ("real", "positive")
"""Of these the judged calls hold any values."""


def beyond(
    context: JudgeContext, process: CandidateProcess, findings: Findings, *, sample: bool
) -> Fixed:
    """Adds disclosures to `findings`; returns what the emitted module has to compare.

    `sample`: of the calls that only tell, a sample is made, as in a turn, whose winner is judged again.
    """
    generator = torch.Generator().manual_seed(fresh_seed())
    context.oracle.use_weights(context.oracle.given_weights)
    for source in context.sources:
        _extremes(context, process, findings, source, generator)
        _integers_outside(context, process, findings, source, generator)
        BeyondInputs(context, process, findings, generator).about(source)
        SharedTensors(context, process, findings).about(source)
        OtherNumbers(context, process, findings).about(source)
    fixed: dict[tuple[str, str], str | None] = {}
    for source in context.sources:
        never = [
            name
            for (of, name), value in findings.constant.items()
            if of == source.name and value is not None
        ]
        holding = named_tensors(draw(source))
        for name in never:
            if name in holding and not holding[name].numel():
                continue
            tried = _with_other_values(context, process, findings, source, name, generator)
            if not isinstance(tried, str) and tried.wrong is None:
                continue
            wrong = tried if isinstance(tried, str) else f"with others: {tried.wrong:.200}"
            digest = _digest_at_full_size(context, source, name)
            fixed[source.name, name] = digest
            label = _argument(context, source, name)
            compared = (
                "the emitted module compares them and calls the original where they differ"
                if digest is not None
                else "at full size they are not compared: they are too large to be drawn here"
            )
            findings.disclose(
                f"values_never_varied_{label}",
                f"{label} held the same values in every call of input set {source.name} ({wrong}); "
                f"{compared}",
            )
        _other_kinds(context, process, findings, source, generator, never)
        _soft_masks(context, process, findings, source, generator)
    if findings.kept_buffers:
        others = OtherBuffers(context, process, findings, generator)
        varied_ones = others.about(context.sources[0], findings.kept_buffers)
        findings.keep_buffers([name for name in findings.kept_buffers if name not in varied_ones])
    # The work of a GPU is no processor time.
    spans = partial(Spans.allowance, sample=sample, by_work=context.device.kind == "virtual")
    asking = context, process, findings, generator
    SearchedRows(*asking, spans(OF_A_SEARCH)).about_all()
    Infinities(*asking, spans(OF_INFINITIES)).about_all()
    UnlikeInputs(*asking, spans(OF_UNLIKE_CALLS)).about_all()
    return fixed


def _other_kinds(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    generator: torch.Generator,
    never: Collection[str],
) -> None:
    """Replaces each input that has a structure, such as being sorted, a permutation or a mask, by values without it.

    The probes of the judged calls preserve the structure.
    """
    natural = named_tensors(draw(source))
    for name, tensor in natural.items():
        if name in never or observe(tensor).kind in _PLAIN_KINDS:
            continue
        try:
            tried = _with_other_values(
                context, process, findings, source, name, generator, in_disorder=True
            )
        except Rejected as refused:
            tried = without_end(refused)
        if isinstance(tried, str) or tried.wrong is None:
            continue
        label = _argument(context, source, name)
        findings.disclose(
            f"differs_on_other_{label}",
            f"in your inputs and in every judged call {label} has a structure (such as sorted, a permutation, or a "
            f"mask that begins with its True); on values without it, which your module accepts, the candidate's "
            f"result differs from your module's: {tried.wrong:.200}",
        )
        if tried.code == TIMEOUT:
            return


def _soft_masks(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    generator: torch.Generator,
) -> None:
    """Masks that are added hold zeros and what hides: nothing tells a candidate that adds them from one that compares them."""
    natural = draw(source)
    for name, tensor in named_tensors(natural).items():
        soft = softened(tensor, generator)
        if soft is None:
            continue
        label = _argument(context, source, name)
        arguments = with_changed(natural, {name: soft})
        asked = ask(context, process, findings, source, arguments, f"other numbers in {label}")
        if asked is not None and asked.wrong is not None:
            findings.disclose(
                f"differs_on_other_{label}",
                f"in your inputs and in every judged call {label} holds zeros and what hides alone; with other numbers, as "
                f"distances are added, the candidate's result differs from your module's: {asked.wrong:.200}",
            )


def digest_of(tensor: torch.Tensor) -> str:
    """Of type, shape and values; as the emitted module's guard makes it."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def _extremes(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    generator: torch.Generator,
) -> None:
    # In calls of their own: one NaN more hides what another would show.
    bound: tuple[Extreme, ...] = ("nan", "infinity")
    kinds = [*((kind, FREE) for kind in EXTREMES), *((kind, BOUND) for kind in bound)]
    for kind, of in kinds:
        what = EXTREMES[kind]
        natural = draw(source)
        tensors = with_extremes(named_tensors(natural), kind, generator, of)
        if not tensors:
            continue
        arguments = with_changed(natural, tensors)
        if kind == "zero" and not _less_finite(context.oracle, arguments, natural):
            # The probes have zeros, wherever the right answer stays finite.
            continue
        asked = ask(context, process, findings, source, arguments, f"inputs with {what}")
        if asked is None or asked.wrong is None:
            continue
        if asked.code == "out_of_bounds":
            raise Rejected(
                "out_of_bounds", f"on inputs that hold {what}: {asked.wrong}", {"probe": kind}
            )
        findings.disclose(
            f"differs_on_{kind}",
            f"on inputs that hold {what} it answers otherwise than your module: {asked.wrong}",
        )


def _less_finite(oracle: Oracle, arguments: Arguments, natural: Arguments) -> bool:
    """Whether the reference answers these, with more that is NaN or infinite than the natural ones."""
    try:
        return share_nonfinite(oracle.eager(arguments)) > share_nonfinite(oracle.eager(natural))
    except (ProblemError, RuntimeError, ValueError, ArithmeticError):
        return False


def _integers_outside(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    generator: torch.Generator,
) -> None:
    """Numbers that the reference takes, as a loss takes its `ignore_index`; a wrong access is told like a wrong answer."""
    for number in OUTSIDE:
        natural = draw(source)
        tensors = with_integers_outside(named_tensors(natural), number, generator)
        if not tensors:
            return
        arguments = with_changed(natural, tensors)
        asked = ask(context, process, findings, source, arguments, f"integers of {number}")
        if asked is None or asked.wrong is None:
            continue
        findings.disclose(
            "differs_on_integers",
            f"where integer inputs hold {number}, which yours do not and your module takes, it answers otherwise: "
            f"{asked.wrong}",
        )
        return


def _with_other_values(
    context: JudgeContext,
    process: CandidateProcess,
    findings: Findings,
    source: InputSource,
    name: str,
    generator: torch.Generator,
    *,
    in_disorder: bool = False,
) -> Asked | str:
    """How a call with other values of this input went; a sentence where there was none."""
    usual: float | None = None
    for _ in range(_TRIES):
        natural = draw(source)
        other = varied(named_tensors(natural)[name], generator, in_disorder=in_disorder)
        if other is None:
            return "no others could be thought of"
        if usual is None:
            usual = share_nonfinite(context.oracle.eager(natural))
        arguments = with_changed(natural, {name: other})
        try:
            if share_nonfinite(context.oracle.eager(arguments)) > usual:
                continue
        except ProblemError:
            continue
        called = f"other values of {_argument(context, source, name)}"
        asked = ask(context, process, findings, source, arguments, called)
        if asked is not None and asked.agrees and context.trains:
            step = single_step(context.oracle, arguments, generator)
            asked = ask(context, process, findings, source, arguments, called, step=step) or asked
        if asked is not None:
            return "there was no time to try others" if asked.late else asked
    return "your module takes no others that were tried"


def _digest_at_full_size(context: JudgeContext, source: InputSource, name: str) -> str | None:
    whole = source.full
    if source.shrunk is None:
        whole = draw(source)
    else:
        if sum(t.numel() * t.element_size() for t in named_tensors(whole).values()) > _MOST_BYTES:
            return None
        with context.judge_device.scope():
            whole = (context.whole or context.problem).input_sets()[source.name]
    return digest_of(named_tensors(whole)[name])


def _argument(context: JudgeContext, source: InputSource, name: str) -> str:
    """As the forward names it."""
    return name_of_input(context.oracle.module, source.full, name)
