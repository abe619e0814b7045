"""The audit once more, at sizes of declared dynamic dimensions that the candidate was judged on and not told.

What torch computes, what the host does and how much kernels compute may be another thing there than at the given sizes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from kernelagent.domain.evaluation import Disclosure, KernelFacts
from kernelagent.tools.calls.tensors import tensors_of
from kernelagent.tools.judge.bounds import host_time
from kernelagent.tools.judge.bounds.real_work import make_ready
from kernelagent.tools.judge.contribution import knock_out
from kernelagent.tools.judge.contribution.check import Report, Start, Step, audited
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.dynamic import again_at
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import share_nonfinite
from kernelagent.tools.judge.problem.trials.refusals import REFUSALS
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.timing import observed
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means

IN_A_TURN, AT_THE_END = 1, 3
"""So many hidden sizes are audited."""
_CALLS = 2
_QUICK_CALLS = 5
"""So many calls must be slow before the host is looked at in a process of its own."""
_NOT_KNOWN = frozenset({"timeout", "unverifiable", "out_of_memory"})
_SLOWER = 1.1
"""Two estimates of the same work differ by less."""
_MORE_WORK = 2.0
_LESS = 1.25
"""So much less is gained than at the given sizes, where these were executed as they are."""


def audit_hidden_sizes(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Step,
    known: Report,
    most: int,
) -> tuple[Disclosure, ...]:
    """What is to be told of some that are drawn, besides what is known; raises `Rejected`.

    On `cuda` the knock-out alone is repeated: the clock runs at the given sizes.
    """
    if context.device.kind != "virtual":
        _knocked_out_on_cuda(context, start, findings, step, most)
        return ()
    told: dict[str, Disclosure] = {}
    known_codes = {each.code for each in (*findings.disclosures.values(), *known.disclosures)}
    as_given = all(source.shrunk is None for source in context.sources)
    for source in _drawn(context, findings, most):
        try:
            there = context.at(source)
            sources = context.sources
            for each in _audit(
                there,
                start,
                findings,
                step,
                source,
                known,
                known_sources=sources,
                as_given=as_given,
            ):
                if each.code not in known_codes:
                    told.setdefault(each.code, each)
        except Rejected as refused:
            if not beyond_means(refused) and refused.reason.code not in _NOT_KNOWN:
                raise Rejected(
                    refused.reason.code,
                    f"at a size that is declared dynamic ({source.name}): {refused.reason.message}",
                    refused.reason.detail,
                ) from refused
            told["hidden_size_not_audited"] = Disclosure(
                "hidden_size_not_audited",
                f"whether kernels compute the result, and how long it takes, is not known at {source.name}, a size "
                f"that is declared dynamic: {refused.reason.message:.200}",
            )
    return tuple(told.values())


def _knocked_out_on_cuda(
    context: JudgeContext, start: Start, findings: Findings, step: Step, most: int
) -> None:
    """Never run on a GPU so far."""
    if context.settings.policy == "any":
        return
    for source in _drawn(context, findings, most):
        there = context.at(source)
        with step("knock-out"), start() as process:
            # Before the file is imported, so that no CUDA graph holds what is launched.
            observed.suppress(process)
            make_ready(there, process)
            knock_out.require_wrong(there, process)


def _drawn(context: JudgeContext, findings: Findings, most: int) -> Iterator[InputSource]:
    """Sizes of one are left out where there are others: an answer may be a constant there, or none at all."""
    names = [*findings.hidden]
    secrets.SystemRandom().shuffle(names)
    names.sort(key=lambda name: _has_one(context, findings, name))
    for name in names:
        if most <= 0:
            return
        named = [s for s in context.sources if name.startswith(f"{s.name} with ")]
        source = max(named, key=lambda s: len(s.name))
        chosen = again_at(source, context.dynamic[source.name], name, findings.hidden[name])
        if _as_finite(context, chosen, source):
            most -= 1
            yield chosen


def _has_one(context: JudgeContext, findings: Findings, name: str) -> bool:
    shapes = findings.hidden[name]
    places = (p for items in context.dynamic.values() for item in items for p in item.places)
    return any(tensor in shapes and shapes[tensor][axis] < 2 for tensor, axis in places)


def _as_finite(context: JudgeContext, chosen: InputSource, given: InputSource) -> bool:
    """Where the right answer is NaN, whatever is stored is right."""
    oracle = context.oracle
    oracle.use_weights(oracle.given_weights)
    try:
        there, here = (share_nonfinite(oracle.eager(draw(s))) for s in (chosen, given))
    except REFUSALS:
        # It took the values of another draw: of this size nothing can be asked.
        return False
    return there <= here


def _audit(
    context: JudgeContext,
    start: Start,
    findings: Findings,
    step: Step,
    source: InputSource,
    known: Report,
    *,
    known_sources: Sequence[InputSource],
    as_given: bool,
) -> Iterator[Disclosure]:
    with step("audit"), start() as process:
        make_ready(context, process)
        seen = _looked_at(context, process, findings, source)
        for _ in range(_QUICK_CALLS):
            arguments = draw(source)
            process.account(arguments, contents=True, followed=False)
        slow = host_time.looks_slow(process, len(seen.launches))
    account, result = audited(context, start, seen, step, fresh_seed(), slow=slow)
    hidden = () if result is None else result.disclosures
    for each in (*account.disclosures, *hidden):
        yield Disclosure(each.code, f"at {source.name}, a size declared dynamic: {each.message}")
    now, then = account.worst, known.estimate
    if then is None or now is None:
        return
    if now.ratio * _SLOWER < 1 <= then.ratio or (as_given and now.ratio * _LESS < then.ratio):
        yield Disclosure(
            "slower_at_hidden_size",
            f"at {source.name}, a size declared dynamic, it gains less: an estimate of {now.candidate_us:.1f} µs where the "
            f"original takes {now.eager_us:.1f} µs; at the given sizes {then.candidate_us:.1f} and {then.eager_us:.1f} µs",
        )
        return
    given = next(s for s in known_sources if source.name.startswith(f"{s.name} with "))
    growth = _elements(source.full) / max(1, _elements(given.full))
    there, here = _in_kernels(account.kernels), _in_kernels(known.kernels)
    # A reduction over pairs grows by the square of a size.
    if as_given and there > _MORE_WORK * here * max(1.0, growth) ** 2 > 0.0:
        yield Disclosure(
            "slower_at_hidden_size",
            f"at {source.name}, a size declared dynamic, its kernels do more than the size explains: an estimate of "
            f"{there:.2f} µs in them, and {here:.2f} µs at the given sizes",
        )


def _elements(arguments: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_of(arguments))


def _in_kernels(kernels: Sequence[KernelFacts]) -> float:
    """Estimated microseconds of one call besides launching."""
    return sum(kernel.estimate_us or 0.0 for kernel in kernels)


def _looked_at(
    context: JudgeContext, process: CandidateProcess, findings: Findings, source: InputSource
) -> Findings:
    """What a forward launches there, and what it does on the host."""
    seen = Findings(kernels=findings.kernels)
    for _ in range(_CALLS):
        process.take_launches()
        process.account(draw(source), contents=True)
        seen.launches = [row | {"input_set": source.name} for row in process.take_launches()]
        if process.host_work is not None:
            least = seen.host_work.get(source.name, process.host_work)
            seen.host_work[source.name] = least.least(process.host_work)
    return seen
