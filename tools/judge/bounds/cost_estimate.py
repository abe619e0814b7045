"""What a candidate would cost on the device it was compiled for: an estimate, at the user's sizes.

Its launches, the torch operations beside them and the reference's are counted by what they move;
`real_work` says in which calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.domain.evaluation import (
    NO_TIME_TO_ESTIMATE,
    Disclosure,
    Estimate,
    HeadroomFacts,
    KernelFacts,
)
from kernelagent.tools.estimates.least import facts_of_least
from kernelagent.tools.estimates.library import library_for
from kernelagent.tools.judge.bounds.counted_calls import Launches, looping_by_values
from kernelagent.tools.judge.bounds.counted_costs import CountedCosts, costs_of, launch_cost
from kernelagent.tools.judge.bounds.headroom import most_left
from kernelagent.tools.judge.bounds.real_work import (
    NEEDS_VALUES,
    NotCounted,
    Start,
    counted_calls,
    reference_rows,
    reference_stops,
)
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.steps.training import WITH_BACKWARD
from kernelagent.tools.judge.verify.rejection import Rejected, beyond_means
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.forward_cost import whole_forward

_REWRITTEN = 0.6
"""With less than this share of the reference's operations a candidate must have used algebra."""
_SLOWER = 1.1
"""Two counts of the same work differ by less."""
_MORE_THAN_BYTES = frozenset(
    """_trilinear _euclidean_dist _cdist_forward _linalg_eigh _linalg_eigvals _linalg_svd _linalg_solve_ex _linalg_det
    _linalg_slogdet linalg_eig linalg_inv_ex linalg_qr linalg_cholesky_ex linalg_lu linalg_lu_factor_ex linalg_lu_solve
    linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_householder_product linalg_solve_triangular
    linalg_matrix_exp cholesky cholesky_inverse cholesky_solve triangular_solve geqrf ormqr mode kthvalue median nanmedian
    histc bincount unique_dim _unique2 unique_consecutive""".split()
)
"""Torch's operations that decompose matrices, select by rank or count, or form products: no formula counts their arithmetic."""
_SCRATCH = 4
_SCRATCH_BYTES = 1 << 18
"""A call is reported if it allocates more than `_SCRATCH` times the bytes that the reference reads and writes, plus
`_SCRATCH_BYTES`."""


@dataclass(frozen=True)
class Account:
    """Estimates by input set, and the kernels behind the slowest one."""

    kernels: tuple[KernelFacts, ...] = ()
    estimates: dict[str, Estimate] = field(default_factory=dict)
    coverage: float | None = None
    """Smallest share of the estimated device time in the candidate's own kernels."""
    torch_operations: tuple[str, ...] | None = None
    """What torch still computes; None where it could not be counted."""
    headroom: HeadroomFacts | None = None
    disclosures: tuple[Disclosure, ...] = ()

    def without_estimates(self, why: Disclosure) -> Account:
        """The same where no time can be promised; shares of what was counted stay."""
        kept = tuple(
            replace(kernel, estimate_us=None, spills_us=None, stages_us=None)
            for kernel in self.kernels
        )
        disclosures = (*self.disclosures, why)
        return replace(self, kernels=kept, estimates={}, headroom=None, disclosures=disclosures)

    @property
    def worst(self) -> Estimate | None:
        """The estimate of the input set that gains least."""
        return min(self.estimates.values(), key=lambda e: e.ratio, default=None)


def account(
    context: JudgeContext,
    start: Start,
    idle: Mapping[str, frozenset[int]],
    expected: Mapping[str, int],
    sample: int,
) -> Account:
    """Estimate every input set; where what would be counted is not what runs, says so instead.

    `start`: a process of the candidate, nothing loaded. `idle`: launches by set that the knock-out
    found to change nothing; they earn no share. `expected`: how many launches each set had where the
    candidate was judged. `sample`: draws the programs of large grids that are counted.
    """
    try:
        calls = counted_calls(context, start, sample)
    except NotCounted as why:
        cause = why.__cause__
        no_time = isinstance(cause, Rejected) and beyond_means(cause)
        return _without_estimate(str(why), NO_TIME_TO_ESTIMATE if no_time else "not_estimated")
    except Rejected as refused:
        if not beyond_means(refused):
            raise
        # It was verified before; what is not known is only what it costs.
        return _without_estimate(
            f"counting its work had no time left: {refused}", NO_TIME_TO_ESTIMATE
        )
    counted: list[CountedCosts] = []
    contents: list[str] = []
    scratch: list[Disclosure] = []
    smaller: list[Disclosure] = []
    for source in context.sources_with_results:
        call = calls[source.name]
        if not call.launches and expected.get(source.name, 0):
            return _without_estimate(
                f"in the call that is counted (input set {source.name!r}) nothing is launched"
            )
        without_effect = idle.get(source.name, frozenset())
        try:
            reference = reference_rows(context, source)
        except NEEDS_VALUES as error:
            return _without_estimate(reference_stops(source.name, error))
        more = _not_priced(call.torch_rows) - _not_priced(reference)
        if more:
            names = ", ".join(dict.fromkeys(more.elements()))
            return _without_estimate(
                f"torch computes {names} (input set {source.name!r}), of which only the bytes that it moves are known and "
                f"not its arithmetic, and your module does not"
            )
        scratch += _scratch_memory(source.name, call.allocated_bytes, reference)
        rows = call.torch_rows, reference
        ceilings = context.judge_device.promised
        natural = costs_of(context, source, call.launches, rows, ceilings, without_effect)
        smaller += _slower_where_less(source.name, call.smaller, natural, ceilings)
        dearest = natural
        contents += _by_values(source.name, call.launches)
        for other in call.dearer:
            same = len(other.launches) == len(call.launches)
            idle_there = without_effect if same else frozenset[int]()
            costs = costs_of(context, source, other.launches, rows, ceilings, idle_there)
            usual, dear = natural.estimate.candidate_us, costs.estimate.candidate_us
            contents.append(dearer_words(source.name, other.where, usual, dear))
            if costs.estimate.candidate_us > dearest.estimate.candidate_us:
                dearest = costs
        counted.append(dearest)
    return Account(
        kernels=min(counted, key=lambda c: c.estimate.ratio).kernels,
        estimates={c.name: c.estimate for c in counted},
        coverage=min(c.coverage for c in counted),
        torch_operations=tuple(dict.fromkeys(name for c in counted for name in c.torch_operations)),
        headroom=_headroom(context, counted, ceilings),
        disclosures=(
            *_costs_by_contents(contents),
            *scratch[:1],
            *smaller[:1],
            *_library_share(counted),
            *_idle_launches(counted),
            *_less_work(counted),
            *(WITH_BACKWARD if context.trains else ()),
        ),
    )


def _not_priced(rows: Sequence[EagerRow]) -> Counter[str]:
    """Operations that compute far more than they move, and how often; what they compute, nothing counts."""
    return Counter(row.name for row in rows if row.name in _MORE_THAN_BYTES)


def _scratch_memory(
    name: str, allocated: int, reference: Sequence[EagerRow]
) -> tuple[Disclosure, ...]:
    """A disclosure if a call allocates far more memory than the reference reads and writes in all."""
    usual = sum(row.loaded_bytes + row.stored_bytes for row in reference)
    if allocated <= _SCRATCH * usual + _SCRATCH_BYTES:
        return ()
    return (
        Disclosure(
            "scratch_memory",
            f"a call makes {allocated / 1e6:,.1f} MB of memory where all that the reference reads and writes "
            f"is {usual / 1e6:,.1f} MB (input set {name!r})",
        ),
    )


def _slower_where_less(
    name: str, smaller: Mapping[str, Launches], step: CountedCosts, ceilings: DeviceCeilings
) -> tuple[Disclosure, ...]:
    """Told where a forward alone, as a trained module is used, or fewer gradients take longer than a whole step."""
    for what, launches in smaller.items():
        costs = [launch_cost(row, ceilings)[2] for row in launches]
        us = whole_forward(costs, (), ceilings).us
        if us > _SLOWER * step.estimate.candidate_us:
            return (
                Disclosure(
                    "slower_without_gradients",
                    f"{what} launches {len(launches)} kernel(s), an estimate of {us:.3g} us, where a forward with "
                    f"its whole backward takes {step.estimate.candidate_us:.3g} us (input set {name!r}): the "
                    f"estimate is of the latter",
                ),
            )
    return ()


def dearer_words(name: str, where: str, usual: float, dear: float) -> str:
    """Of inputs with which more is counted: what they cost, as far as the estimate shows it."""
    less, us = f"{usual:.3g}", f"{dear:.3g}"
    if us == less:
        return f"{where}, which leaves the estimate at {us} us (input set {name!r})"
    return f"{where}, an estimate of {us} us instead of {less} (input set {name!r})"


def _by_values(name: str, launches: Launches) -> list[str]:
    """In words, the kernels with a loop that goes on for as long as loaded values say, whatever was drawn for them."""
    return [
        f"loaded values say how many rounds a loop of `{kernel}` has (input set {name!r})"
        for kernel in looping_by_values(launches)
    ]


def _costs_by_contents(causes: Sequence[str]) -> tuple[Disclosure, ...]:
    if not causes:
        return ()
    return (
        Disclosure(
            "costs_by_contents",
            f"what the kernels do depends on values: {'; '.join(causes)}; the dearest that was tried is "
            f"estimated, and other values may cost more",
        ),
    )


def _headroom(
    context: JudgeContext, counted: Sequence[CountedCosts], ceilings: DeviceCeilings
) -> HeadroomFacts | None:
    library = library_for(ceilings)
    return most_left(
        facts_of_least(c.name, c.least, c.estimate.candidate_us, c.estimate.eager_us, library)
        for c in counted
        if c.name in context.headroom and c.estimate.candidate_us > 0
    )


def _without_estimate(why: str, code: str = "not_estimated") -> Account:
    return Account(disclosures=(Disclosure(code, f"no estimate: {why}"),))


def _less_work(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    shares = [c.work_share for c in counted if c.work_share is not None]
    if not shares or min(shares) >= _REWRITTEN:
        return ()
    return (
        Disclosure(
            "algebraic_rewrite",
            f"it needs {min(shares):.0%} of the floating point operations of the reference's matrix "
            f"products: the speed comes from algebra, which torch could do as well",
        ),
    )


def _idle_launches(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    names = [name for c in counted for name in c.idle]
    if not names:
        return ()
    return (
        Disclosure(
            "idle_launches",
            f"{len(names)} launch(es) of {', '.join(dict.fromkeys(names))} change nothing that "
            f"shows in the results of the judged calls (what they add may fade), and earn no share of the device time",
        ),
    )


def _library_share(counted: Sequence[CountedCosts]) -> tuple[Disclosure, ...]:
    names = tuple(dict.fromkeys(name for c in counted for name in c.torch_operations))
    if not names:
        return ()
    share = max(c.library_share for c in counted)
    return (
        Disclosure(
            "library_share",
            f"torch computes {', '.join(names)}: {share:.0%} of the estimated device time",
        ),
    )


def kernels_of(launches: Sequence[Mapping[str, Any]]) -> tuple[KernelFacts, ...]:
    """What the verified launches alone say, where nothing could be counted."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in launches:
        rows.setdefault(str(row["kernel"]), []).append(row)
    return tuple(
        KernelFacts(
            name=name,
            launches=len(result),
            line=int(result[0]["line"]),
            num_warps=result[0]["options"]["num_warps"],
            num_stages=result[0]["options"]["num_stages"],
            shared_bytes=result[0]["metadata"]["shared"],
        )
        for name, result in rows.items()
    )
