"""Calls of a candidate whose launches and torch operations are counted, and what two of them differ in.

Costs are those of an ordinary call on real contents. Only what was executed smaller is counted without
contents, at the user's sizes, and a candidate can see that it is: it must have done the same with and
without contents where both are possible.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelagent.domain.serialization import from_data
from kernelagent.tools.calls.surroundings import USUAL, Surroundings
from kernelagent.tools.calls.training_step import TrainingStep
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.steps.steps import single_step, smaller_steps
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.trials import draw, fresh_seed
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.virtual.cost.eager import EagerRow
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_MOST_BEFORE = 2
"""Most ordinary calls before the counted one; a random number of them hides which call it is."""
_ALIKE = 0.05
"""How far two counts of the same work may lie apart: tensors begin at other places in their sectors."""
_BYTES = "bytes moved"
_PRODUCTS = "operations of products"
_FUNCTIONS = "exponentials, roots and their like"
_PRODUCTS_TOO = frozenset({"pow"})
"""Counted as a function of torch's, and a product where the exponent is a whole number."""
_SMALL = 4096
"""Bytes or operations that are too few to compare."""
_GROWTH = 0.5
"""With less than this share of the reference's growth, less is done at the user's sizes."""
_COUNTS = (
    *("requested_load_bytes", "requested_store_bytes", "load_sector_bytes", "store_sector_bytes"),
    *("atomics", "fp_operations", "fp64_operations", "int_operations", "special_operations"),
)
_MANY = 2.0
"""Times the fewest bytes: with more, padding or scratch is a large part of what is moved."""
_FORWARDS = {
    "a forward without gradients": USUAL,
    "a forward with frozen weights": Surroundings(gradients="frozen"),
}


Launches = Sequence[Mapping[str, Any]]
"""Rows of the executor's log, with traffic and machine code."""


@dataclass(frozen=True)
class OnOtherContents:
    """A call that does more than the natural one; `where` says in words of what, and on which contents."""

    where: str
    launches: Launches


@dataclass(frozen=True)
class CountedCall:
    """The launches of one forward (or training step) in order, and what torch computed beside them."""

    launches: Launches
    torch_rows: Sequence[EagerRow]
    dearer: Sequence[OnOtherContents] = ()
    allocated_bytes: int = 0
    """Of all memory that the call made, what it freed again included."""
    smaller: Mapping[str, Launches] = field(default_factory=dict)
    """By what was asked for, where a training step is counted: forwards alone, steps for some gradients alone."""


class Unsteady(Exception):
    """Two calls on the same arguments, one of them watched, launch different kernels."""


def count_without_contents(
    process: CandidateProcess,
    arguments: Arguments,
    step: TrainingStep | None,
    *,
    sample: int,
    whole_grids: bool = False,
    brief: bool = False,
) -> CountedCall:
    """On tensors that hold nothing; of large grids the programs that `sample` draws, unless `whole_grids`.

    `brief`: for a look that decides nothing, see `executor.brief_counting`.
    """
    how = {"whole_grids": whole_grids, "brief": brief}
    mode = {"kind": "mode", "mode": "account", "seed": sample, **how}
    process.command_executor(mode)
    _observe_traffic(process, watched=True)
    torch_rows = process.account(arguments, step)
    launches = process.launches_with_facts()
    process.command_executor({"kind": "reset"})
    return CountedCall(launches, torch_rows, allocated_bytes=process.allocated_bytes)


def count_with_contents(
    context: JudgeContext, process: CandidateProcess, source: InputSource
) -> CountedCall:
    """An ordinary call on a natural draw, after others; every program of it is counted.

    Raises `Rejected`, and `Unsteady` if the candidate launches something else where torch is watched.
    """
    process.command_executor({"kind": "mode", "mode": "execute"})
    _observe_traffic(process, watched=False)
    for _ in range(1 + secrets.randbelow(_MOST_BEFORE)):
        arguments = draw(source)
        process.call(arguments, step=real_step(context, arguments))
    process.take_launches()
    arguments = draw(source)
    step = real_step(context, arguments)
    _observe_traffic(process, watched=True)
    process.call(arguments, step=step)
    launches = process.launches_with_facts()
    process.take_launches()
    smaller = {} if step is None else _smaller(context, process, arguments)
    _observe_traffic(process, watched=False)
    torch_rows = process.account(arguments, step, contents=True)
    watched = process.take_launches()
    if [_identity(row) for row in launches] != [_identity(row) for row in watched]:
        raise Unsteady
    return CountedCall(
        launches, torch_rows, allocated_bytes=process.allocated_bytes, smaller=smaller
    )


def _smaller(
    context: JudgeContext, process: CandidateProcess, arguments: Arguments
) -> dict[str, Launches]:
    """What is launched where less than the whole step is asked for."""
    result: dict[str, Launches] = {}
    for what, surroundings in _FORWARDS.items():
        process.call(arguments, surroundings=surroundings)
        result[what] = process.launches_with_facts()
        process.take_launches()
    generator = torch.Generator().manual_seed(fresh_seed())
    for chosen, step in smaller_steps(context.oracle, arguments, generator):
        process.call(arguments, step=step)
        result[f"a step for gradients of the {chosen} alone"] = process.launches_with_facts()
        process.take_launches()
    return result


def count_again(
    process: CandidateProcess, arguments: Arguments, step: TrainingStep | None
) -> Launches:
    """The launches of one more call, on these inputs."""
    process.take_launches()
    _observe_traffic(process, watched=True)
    process.call(arguments, step=step)
    launches = process.launches_with_facts()
    process.take_launches()
    _observe_traffic(process, watched=False)
    return launches


def looping_by_values(launches: Launches) -> tuple[str, ...]:
    """The kernels with a loop whose rounds are as many as loaded values say."""
    kernels = [
        str(row["kernel"])
        for row in launches
        if from_data(row["traffic"], TrafficFacts).loops_by_values
    ]
    return tuple(dict.fromkeys(kernels))


def difference(real: CountedCall, hollow: CountedCall) -> str | None:
    """What a call with contents does otherwise than one without, at the same sizes; None: nothing."""
    if [_identity(row) for row in real.launches] != [_identity(row) for row in hollow.launches]:
        return (
            f"a real call launches {_in_words(real.launches)}, one on tensors without contents "
            f"{_in_words(hollow.launches)}"
        )
    for first, other in zip(real.launches, hollow.launches, strict=True):
        what = _differs(_counts(first), _counts(other))
        if what is not None:
            return (
                f"`{first['kernel']}` has other {what} on real contents than without: its loops or branches go by values "
                f"that it loads, and of your sizes no values are known; those that go by sizes have an estimate"
            )
    names, without = (Counter(row.name for row in c.torch_rows) for c in (real, hollow))
    if names != without:
        more = ", ".join(sorted((names - without) + (without - names)))
        return f"torch computes {more} not as often on real contents as without"
    what = _differs(_work(real.torch_rows), _work(hollow.torch_rows))
    return None if what is None else f"torch has other {what} on real contents than without"


def grows_less(
    executed: CountedCall,
    full: CountedCall,
    reference: tuple[Sequence[EagerRow], Sequence[EagerRow]],
    fewest_bytes: tuple[int, int] | None = None,
    *,
    at_least: bool = False,
) -> str | None:
    """How the work at the user's sizes falls short of that at the executed ones; None where it does not.

    It falls short if other kernels are launched, or if a count grows less than half as much as the reference's.
    At the small executed sizes a tile may be larger than the matrix, so that the kernel does more multiply-adds
    than the reference. Growth of multiply-adds is therefore measured from the smaller of the two counts.

    A fused kernel moves no intermediate results: its bytes need not grow more than those of inputs, weights and outputs.

    `reference`: what torch computes in the reference, executed and at the user's sizes. `fewest_bytes`: what must be
    moved at both; None: not known. `at_least`: the reference is one with less to do, of whose products half must be done, too.
    """
    before, after = (dict.fromkeys(_names(c.launches)) for c in (executed, full))
    if list(before) != list(after):
        return (
            f"{', '.join(before) or 'nothing'} was launched where it was executed, and "
            f"{', '.join(after) or 'nothing'} at the user's sizes"
        )
    small, large = (_work(rows) for rows in reference)
    ours, theirs = _all_work(executed), _all_work(full)
    for what in (_BYTES, _PRODUCTS):
        if min(small[what], ours[what]) <= _SMALL:
            continue
        wanted = large[what] / small[what]
        whose = "the reference's"
        if what == _BYTES and fewest_bytes is not None and fewest_bytes[0]:
            fewest = fewest_bytes[1] / fewest_bytes[0]
            wanted, whose = min((wanted, whose), (fewest, "those of inputs, weights and outputs"))
        from_here = min(ours[what], small[what]) if what == _PRODUCTS else ours[what]
        if theirs[what] / from_here < _GROWTH * wanted:
            return (
                f"its {what} grow by {theirs[what] / from_here:.3g} from the executed to the user's "
                f"sizes, and {whose} by {wanted:.3g}{_padded(what, ours[what], fewest_bytes)}"
            )
    needed = large[_PRODUCTS] if at_least else 0.0
    if theirs[_PRODUCTS] < _GROWTH * needed:
        return f"it does {theirs[_PRODUCTS]:.3g} {_PRODUCTS} at the user's sizes, of {needed:.3g}"
    return None


def _padded(what: str, executed: float, fewest_bytes: tuple[int, int] | None) -> str:
    """What may hide the growth of an honest kernel, and how much of it there is; empty where nothing shows it."""
    if what != _BYTES or fewest_bytes is None or executed <= _MANY * fewest_bytes[0]:
        return ""
    return (
        f" (less than half as much); where it is executed it moves {executed / fewest_bytes[0]:.2g} times the latter: scratch "
        f"that is padded to whole blocks hides there how its work grows"
    )


def computes_fewer(
    executed: CountedCall,
    full: CountedCall,
    reference: tuple[Sequence[EagerRow], Sequence[EagerRow]],
) -> str | None:
    """How far exponentials, roots and their like at the user's sizes fall short of those at the executed ones.

    No algebra that is known leaves any of them out. None where they do not fall short, where they are few, and where it
    takes another way: fewer than half of the reference's at the executed sizes, where it was seen to be right.
    """
    small, large = (_work(rows)[_FUNCTIONS] for rows in reference)
    ours, theirs = (_all_work(call)[_FUNCTIONS] for call in (executed, full))
    if small <= _SMALL or ours < _GROWTH * small:
        return None
    # Lanes beyond the end compute as well, more of them where sizes are small.
    from_here = min(ours, small)
    if theirs / from_here >= _GROWTH * large / small:
        return None
    return (
        f"its {_FUNCTIONS} grow by {theirs / from_here:.3g} from the executed to the user's sizes, and the reference's "
        f"by {large / small:.3g}"
    )


def _observe_traffic(process: CandidateProcess, *, watched: bool) -> None:
    command = {"kind": "observe", "bounds": False, "races": False, "traffic": watched}
    process.command_executor(command)


def real_step(context: JudgeContext, arguments: Arguments) -> TrainingStep | None:
    """The training step that is counted on these inputs; None where a forward alone is."""
    if not context.trains:
        return None
    generator = torch.Generator().manual_seed(fresh_seed())
    return single_step(context.oracle, arguments, generator)


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    constants = sorted((name, repr(value)) for name, value in row["constexprs"].items())
    return row["kernel"], row["line"], tuple(row["grid"]), constants, sorted(row["options"].items())


def _names(launches: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(row["kernel"]) for row in launches]


def _in_words(launches: Sequence[Mapping[str, Any]]) -> str:
    rows = [f"{row['kernel']}[{', '.join(map(str, row['grid']))}]" for row in launches]
    shown = ", ".join(rows[:3]) or "nothing"
    return shown if len(rows) <= 3 else f"{shown} and {len(rows) - 3} more"


def _counts(row: Mapping[str, Any]) -> dict[str, float]:
    traffic = from_data(row["traffic"], TrafficFacts)
    counts = {name.replace("_", " "): float(getattr(traffic, name)) for name in _COUNTS}
    return counts | {_PRODUCTS: float(sum(traffic.dot_flops.values()))}


def _work(rows: Iterable[EagerRow]) -> dict[str, float]:
    rows = tuple(rows)
    return {
        _BYTES: float(sum(row.loaded_bytes + row.stored_bytes for row in rows)),
        _PRODUCTS: float(sum(row.dot_flops for row in rows)),
        _FUNCTIONS: float(sum(r.special_operations for r in rows if r.name not in _PRODUCTS_TOO)),
    }


def _all_work(call: CountedCall) -> dict[str, float]:
    """Of kernels and torch together."""
    work = _work(call.torch_rows)
    for row in call.launches:
        traffic = from_data(row["traffic"], TrafficFacts)
        work[_BYTES] += traffic.distinct_load_bytes + traffic.distinct_store_bytes
        work[_PRODUCTS] += sum(traffic.dot_flops.values()) + traffic.fp_operations
        work[_FUNCTIONS] += traffic.special_operations
    return work


def _differs(left: Mapping[str, float], right: Mapping[str, float]) -> str | None:
    for name in dict.fromkeys((*left, *right)):
        first, other = left.get(name, 0.0), right.get(name, 0.0)
        if abs(first - other) > max(_SMALL, _ALIKE * max(first, other)):
            return name
    return None
