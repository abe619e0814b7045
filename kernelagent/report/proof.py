"""What was verified and how: shapes, probes, budgets, proofs of work, confinement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelagent.domain.evaluation import Case, Evaluation
from kernelagent.domain.tables.probes import LIKE_EXAMPLES, NATURAL, PROBES
from kernelagent.report.document import Block, Bullets, Mono, Paragraph, Table, Words, present
from kernelagent.storage.run_state import RunState

_KNOCKED_OUT = (
    "run once more with all that its kernels store replaced by poison: it had to go wrong"
)
_STAGES = {
    "parse": ("the candidate is Python with a ModelNew", None),
    "start": ("a process of its own, confined", None),
    "load": ("imported there", "exits-in-the-import"),
    "construct": ("built, with the reference's weights", "weights-from-a-seed"),
    "verify": ("its outputs compared, call by call", "all-rows-but-the-last"),
    "audit": ("run once more in a process of its own", "result-of-the-kernel-unused"),
    "reverse knock-out": (
        "run with torch's computing operations forbidden: it had to stay right",
        "operator-under-pure",
    ),
    "account": ("launches counted: bytes, operations, instructions", None),
    "measure": ("timed on the judge's clock", None),
}
"""What each stage asks, and the candidate of the shipped corpora that it refuses."""
SHOWN_BY = {
    name: candidate
    for name, candidate in (
        *((stage, candidate) for stage, (_, candidate) in _STAGES.items()),
        *((kind.name, kind.refuses) for kind in PROBES),
    )
    if candidate is not None
}
"""The candidate of the shipped corpora that a stage or a kind of input refuses."""


def verification(state: RunState, winner: Evaluation) -> tuple[Block, ...]:
    """The second evaluation of the winner, which this report's numbers are from."""
    result = winner.correctness
    how = (
        "The candidate was judged twice: in its turn, and once more before it was emitted, with inputs "
        "drawn anew from seeds that no candidate could know. Everything here is of that second time."
    )
    return present(
        Paragraph(how),
        None if result is None else Paragraph(_worst(result.trials, result.error, result.budget)),
        None if result is None else _probes(result.cases, generated=_generated(winner)),
        _sets(winner),
        _stages(winner),
        Bullets(tuple(_facts(state, winner))),
    )


def _worst(trials: int, error: float, budget: float) -> str:
    return (
        f"{trials} calls were compared with a float64 reference, output by output. Nearest to its "
        f"budget came an RMS error of {error / budget if budget else 0.0:.0%} of what is allowed (in the output's own "
        f"unit {error:.3g} of {budget:.3g}); allowed is a small multiple of the error that the eager module itself makes."
    )


def _generated(winner: Evaluation) -> bool:
    """False: there are only example tensors, and the judge draws others like them."""
    return all(item.code != "no_input_generator" for item in winner.disclosures)


def _probes(cases: Sequence[Case], *, generated: bool) -> Table:
    meaning = {kind.name: kind.description for kind in PROBES}
    if not generated:
        meaning[NATURAL.name] = LIKE_EXAMPLES
    by_name: dict[str, list[Case]] = {}
    for case in cases:
        by_name.setdefault(case.probe, []).append(case)
    rows = tuple(
        (
            Mono(name),
            _shown(name.split(" ")[0], meaning.get(name.split(" ")[0], "made by the judge")),
            str(len(result)),
            _share((case.rms_error, case.rms_budget) for case in result),
            _share((case.max_error, case.max_budget) for case in result),
        )
        for name, result in by_name.items()
    )
    heads = (
        "inputs",
        "which are",
        "comparisons",
        "worst RMS error, of its budget",
        "worst single error, of its budget",
    )
    return Table(heads, rows, frozenset({2, 3, 4}))


def _share(pairs: Iterable[tuple[float, float]]) -> str:
    """The largest error as a share of its budget."""
    shares = [
        error / budget if budget else (0.0 if not error else float("inf"))
        for error, budget in pairs
    ]
    return f"{max(shares):.0%}" if max(shares) < float("inf") else "over a budget of 0"


def _sets(winner: Evaluation) -> Table | None:
    rows = tuple(
        (
            Mono(item.name),
            Mono(f"forward{item.arguments}"),
            "as given" if item.executed is None else Mono(item.executed),
            "passed" if item.passed else "not passed",
        )
        for item in winner.input_sets
    )
    return Table(("input set", "call", "executed at", "verdict"), rows) if rows else None


def _stages(winner: Evaluation) -> Table | None:
    rows = tuple(
        (Mono(s.name), _asked(s.name, winner), s.status, f"{s.seconds:.2f} s")
        for s in winner.stages
    )
    return (
        Table(("stage", "what it asks", "outcome", "took"), rows, frozenset({3})) if rows else None
    )


def work_is_proved(winner: Evaluation) -> bool:
    """Whether the output became wrong when the kernels' stored values were replaced."""
    passed = {stage.name for stage in winner.stages if stage.status == "passed"}
    return winner.policy != "any" and "audit" in passed


def _work(winner: Evaluation) -> str:
    return "Work proved" if work_is_proved(winner) else "Seen, not proved to do the work"


def _asked(stage: str, winner: Evaluation) -> str:
    knocked_out = stage == "audit" and winner.policy != "any"
    return _shown(stage, _KNOCKED_OUT if knocked_out else _STAGES.get(stage, ("", None))[0])


def _shown(name: str, words: str) -> str:
    """With the candidate that shows it."""
    return f"{words} (corpus: {SHOWN_BY[name]})" if words and name in SHOWN_BY else words


def _pass(winner: Evaluation) -> str:
    return "forward" if winner.mode == "eval" else "forward and its backward"


def _gradients(winner: Evaluation) -> list[Words]:
    result = winner.correctness
    if result is None or not result.gradients:
        return []
    return [
        f"Gradients verified like outputs, of {', '.join(result.gradients)}: three backwards a step with "
        "upstream gradients nobody could know, accumulation, and a call between forward and backward."
    ]


def _facts(state: RunState, winner: Evaluation) -> list[Words]:
    launches = sum(kernel.launches for kernel in winner.kernels)
    kernels = len(winner.kernels)
    items: list[Words] = [
        (
            "Policy ",
            Mono(winner.policy),
            f", mode {winner.mode}, {winner.precision or 'precision unknown'}.",
        ),
        *_gradients(winner),
        ("Confinement of the candidate: ", Mono(winner.sandbox), "."),
        f"{_work(winner)}: {launches} launch{'' if launches == 1 else 'es'} of {kernels} Triton "
        f"kernel{'' if kernels == 1 else 's'} in one {_pass(winner)}.",
        f"Turns judged on the way: {sum(t.evaluation is not None for t in state.history.turns)}; the "
        "best was chosen among them, and its number was taken again after that choice.",
    ]
    if winner.timing is not None:
        t = winner.timing
        clock = f"Attempts at a measurement: {t.attempts}."
        if t.noise_floor is not None:
            n = t.noise_floor
            clock += (
                f" The eager module against itself, measured the same way: {n.value:.3f} "
                f"[{n.low:.3f}, {n.high:.3f}]."
            )
        items.append(clock)
    if winner.hashes is not None:
        h = winner.hashes
        items.append(
            ("SHA-256 of the problem ", Mono(h.problem), ", the candidate ", Mono(h.candidate))
        )
        items.append(("SHA-256 of the judge's own code ", Mono(h.harness)))
    return items
