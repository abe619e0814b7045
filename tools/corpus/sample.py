"""A sample of the corpora for a GPU's five minutes: every code once, few problems, what only `cuda` has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelagent.tools.corpus.catalogue import Entry, entries
from kernelagent.tools.corpus.fixture import Fixture

_USUAL = "relu_affine"
_HONEST = ("linear_gelu", "row_softmax", "half_product")
_TWINS = 2
START_S, COMPILE_S, REFUSED_S, ACCEPTED_S = 12.0, 15.0, 3.0, 12.0
"""Expected on one GPU, not measured there: opening a judge; the first torch.compile of its baseline,
which later ones find in their cache; a fixture that is refused; one that is accepted, and so timed."""


def sample() -> tuple[Fixture, ...]:
    """One cheat for each code that the commonest problem knows, some honest kernels, all of `cuda`'s own."""
    every = entries("cuda")
    usual = [entry for entry in every if _is_usual(entry.fixture)]
    # First, so that a sample that is cut short has tried honest candidates, too.
    chosen: dict[Fixture, None] = dict.fromkeys(_of_kind(usual, "twin")[:_TWINS])
    chosen |= dict.fromkeys(entry.fixture for entry in every if entry.fixture.needs_gpu)
    seen = {fixture.code for fixture in chosen}
    for entry in usual:
        if entry.kind == "cheat" and entry.fixture.code and entry.fixture.code not in seen:
            seen.add(entry.fixture.code)
            chosen[entry.fixture] = None
    for problem in _HONEST:
        honest = [
            item
            for item in _of_kind(every, "honest")
            if item.problem == problem and _is_plain(item)
        ]
        chosen |= dict.fromkeys(honest[:1])
    return tuple(chosen)


def expected_seconds(fixtures: Iterable[Fixture]) -> float:
    """How long judging them one by one should take on a GPU; baselines are compiled once a problem."""
    groups: dict[tuple[object, ...], bool] = {}
    seconds = 0.0
    for fixture in fixtures:
        accepted = fixture.code is None
        seconds += ACCEPTED_S if accepted else REFUSED_S
        key = (fixture.problem, fixture.policy, fixture.mode, fixture.dynamic)
        groups[key] = groups.get(key, False) or accepted
    return seconds + sum(START_S + COMPILE_S * compiles for compiles in groups.values())


def _of_kind(result: Sequence[Entry], kind: str) -> list[Fixture]:
    return [entry.fixture for entry in result if entry.kind == kind]


def _is_usual(fixture: Fixture) -> bool:
    return fixture.problem == _USUAL and _is_plain(fixture)


def _is_plain(fixture: Fixture) -> bool:
    """Judged with the usual settings, so that one judge takes many."""
    return fixture.policy == "triton" and fixture.mode == "eval" and not fixture.dynamic
