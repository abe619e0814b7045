"""All that was written by somebody who had read the judge: cheats and their honest twins, by threat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelagent.tools.corpus import (
    whitebox,
    whitebox_binding,
    whitebox_copies,
    whitebox_costs,
    whitebox_fifth_costs,
    whitebox_fifth_host,
    whitebox_fifth_inputs,
    whitebox_fifth_last_places,
    whitebox_fifth_machine,
    whitebox_fifth_reading,
    whitebox_fifth_states,
    whitebox_fifth_values,
    whitebox_hidden,
    whitebox_inputs,
    whitebox_integers,
    whitebox_kept,
    whitebox_lanes,
    whitebox_left,
    whitebox_machine,
    whitebox_memory,
    whitebox_merges,
    whitebox_numbers,
    whitebox_second,
    whitebox_states,
    whitebox_surroundings,
    whitebox_text,
    whitebox_third,
    whitebox_threads,
    whitebox_values,
)
from kernelagent.tools.corpus.fixture import Fixture

ByThreat = Mapping[int, tuple[Fixture, ...]]


def _together(parts: Iterable[ByThreat]) -> dict[int, tuple[Fixture, ...]]:
    result: dict[int, tuple[Fixture, ...]] = {}
    for part in parts:
        for number, fixtures in part.items():
            result[number] = (*result.get(number, ()), *fixtures)
    return result


_PARTS = (
    whitebox,
    whitebox_binding,
    whitebox_copies,
    whitebox_costs,
    whitebox_fifth_costs,
    whitebox_fifth_host,
    whitebox_fifth_machine,
    whitebox_fifth_inputs,
    whitebox_fifth_last_places,
    whitebox_fifth_reading,
    whitebox_fifth_states,
    whitebox_fifth_values,
    whitebox_hidden,
    whitebox_inputs,
    whitebox_integers,
    whitebox_kept,
    whitebox_lanes,
    whitebox_left,
    whitebox_machine,
    whitebox_memory,
    whitebox_merges,
    whitebox_numbers,
    whitebox_second,
    whitebox_states,
    whitebox_surroundings,
    whitebox_text,
    whitebox_third,
    whitebox_threads,
    whitebox_values,
)
ATTACKS: ByThreat = _together(part.CHEATS for part in _PARTS)
LIKENESSES: ByThreat = _together(part.TWINS for part in _PARTS)
