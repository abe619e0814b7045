"""All that was written by somebody who had read the judge: cheats and their honest twins, by threat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelagent.tools.corpus.fixture import Fixture
from kernelagent.tools.corpus.whitebox import (
    binding as whitebox_binding,
)
from kernelagent.tools.corpus.whitebox import (
    first as whitebox,
)
from kernelagent.tools.corpus.whitebox import (
    hidden as whitebox_hidden,
)
from kernelagent.tools.corpus.whitebox import (
    identity as whitebox_identity,
)
from kernelagent.tools.corpus.whitebox import (
    inputs as whitebox_inputs,
)
from kernelagent.tools.corpus.whitebox import (
    integers as whitebox_integers,
)
from kernelagent.tools.corpus.whitebox import (
    kept as whitebox_kept,
)
from kernelagent.tools.corpus.whitebox import (
    left as whitebox_left,
)
from kernelagent.tools.corpus.whitebox import (
    memory as whitebox_memory,
)
from kernelagent.tools.corpus.whitebox import (
    places as whitebox_places,
)
from kernelagent.tools.corpus.whitebox import (
    second as whitebox_second,
)
from kernelagent.tools.corpus.whitebox import (
    small_errors as whitebox_small_errors,
)
from kernelagent.tools.corpus.whitebox import (
    states as whitebox_states,
)
from kernelagent.tools.corpus.whitebox import (
    surroundings as whitebox_surroundings,
)
from kernelagent.tools.corpus.whitebox import (
    text as whitebox_text,
)
from kernelagent.tools.corpus.whitebox import (
    third as whitebox_third,
)
from kernelagent.tools.corpus.whitebox import (
    values as whitebox_values,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    costs as whitebox_fifth_costs,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    host as whitebox_fifth_host,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    inputs as whitebox_fifth_inputs,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    last_places as whitebox_fifth_last_places,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    machine as whitebox_fifth_machine,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    reading as whitebox_fifth_reading,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    states as whitebox_fifth_states,
)
from kernelagent.tools.corpus.whitebox.fifth import (
    values as whitebox_fifth_values,
)
from kernelagent.tools.corpus.whitebox.machine import (
    copies as whitebox_copies,
)
from kernelagent.tools.corpus.whitebox.machine import (
    costs as whitebox_costs,
)
from kernelagent.tools.corpus.whitebox.machine import (
    joined as whitebox_joined,
)
from kernelagent.tools.corpus.whitebox.machine import (
    lanes as whitebox_lanes,
)
from kernelagent.tools.corpus.whitebox.machine import (
    machine as whitebox_machine,
)
from kernelagent.tools.corpus.whitebox.machine import (
    merges as whitebox_merges,
)
from kernelagent.tools.corpus.whitebox.machine import (
    numbers as whitebox_numbers,
)
from kernelagent.tools.corpus.whitebox.machine import (
    threads as whitebox_threads,
)

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
    whitebox_identity,
    whitebox_inputs,
    whitebox_integers,
    whitebox_kept,
    whitebox_lanes,
    whitebox_left,
    whitebox_machine,
    whitebox_memory,
    whitebox_joined,
    whitebox_merges,
    whitebox_numbers,
    whitebox_places,
    whitebox_second,
    whitebox_small_errors,
    whitebox_states,
    whitebox_surroundings,
    whitebox_text,
    whitebox_third,
    whitebox_threads,
    whitebox_values,
)
ATTACKS: ByThreat = _together(part.CHEATS for part in _PARTS)
LIKENESSES: ByThreat = _together(part.TWINS for part in _PARTS)
