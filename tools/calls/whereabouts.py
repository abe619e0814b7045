"""What is where once a call has been made: which objects are those that were there before it, and whose memory is whose.

Asked of the candidate in its own process and of the reference in the judge's, in the same lines. Things are named by
their places: results as `output[1]`, what the caller gave as `argument 1['mean']`, parameters and buffers as `mean` in
backticks, and what the call put into a container of the caller's as `the new argument 1['mean']`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import torch

from kernelagent.tools.calls.memory_sharing import Gaps, overlap
from kernelagent.tools.calls.result_form import Part, part_of, things
from kernelagent.tools.calls.same_values import same_values
from kernelagent.tools.calls.writes import held_by

Pair = tuple[str, str]
Things = dict[str, Any]


@dataclass(frozen=True)
class Whereabouts:
    """Of one call; a pair names first what the call has made, and last what was there before."""

    together: tuple[Pair, ...] = ()
    """Tensors that have an element in common; not two that the caller gave, nor two of the module's."""
    one: tuple[Pair, ...] = ()
    """Lists, dictionaries and Parameters that are one object."""
    replaced: tuple[str, ...] = ()
    """Where the caller's containers and the module hold another tensor, list or dictionary than before."""
    written: tuple[str, ...] = ()
    """The caller's tensors that hold something else than before, those too that no container holds any more."""
    between: tuple[str, ...] = ()
    """Parameters and buffers between whose elements something was written."""
    memory: tuple[tuple[str, int, int], ...] = ()
    """Of each tensor that the call has made: what it shows, and what is not freed as long as it lives."""
    left: tuple[Part, ...] = ()
    """The form of the caller's containers after the call, of what was put into them, and of new buffers."""
    given: tuple[str, ...] = ()
    """Names of what the caller gave."""
    results_of_state: tuple[int, ...] = ()
    """Results, by their place among the tensors of all, that have an element in common with the module's state."""
    shares_state: bool = False
    """Whether what the caller gave, or what was put into his containers, has such an element."""

    def not_in(self, other: Whereabouts) -> tuple[list[Pair], list[Pair]]:
        """Of `together` and of `one`, the pairs that `other` does not have."""
        return (
            [pair for pair in self.together if pair not in other.together],
            [pair for pair in self.one if pair not in other.one],
        )


class Before:
    """What a call is given and what the module holds, kept until the call has been made."""

    def __init__(self, arguments: Any, module: torch.nn.Module) -> None:
        self._module = module
        self._given = given_things(arguments)
        self._state = _state_of(module)
        self._gaps = Gaps(self._state)

    def after(self, output: Any, arguments: Any, pristine: Any) -> Whereabouts:
        """`arguments`: the same as before the call, with what it did to them; `pristine`: as they were."""
        left, state = given_things(arguments), _state_of(self._module)
        put = {name: thing for name, thing in left.items() if thing is not self._given.get(name)}
        new = {f"the new {name}": thing for name, thing in put.items()}
        results = dict(things(output, "output"))
        together = list(_together(results, new, state, self._given))
        replaced = [name for name in put if _is_other(self._given.get(name), put[name])]
        bound = [name for name in state if _is_other(self._state.get(name), state[name])]
        were = given_things(pristine)
        made = {**results, **new, **{name: state[name] for name in bound}}
        tensors = [name for name, thing in results.items() if isinstance(thing, torch.Tensor)]
        of_state = {first for first, other in together if other in state}
        return Whereabouts(
            together=tuple(together),
            one=tuple(_one(results, new, state, self._given)),
            replaced=(*replaced, *bound),
            written=tuple(
                name
                for name, thing in self._given.items()
                if isinstance(thing, torch.Tensor)
                and name in were
                and not same_values(were[name], thing)
            ),
            between=self._gaps.written,
            memory=tuple(_memory(made)),
            left=tuple(_forms(left, put, state, bound)),
            given=tuple(self._given),
            shares_state=not of_state <= results.keys() or any(n in state for n, _ in together),
            results_of_state=tuple(at for at, name in enumerate(tensors) if name in of_state),
        )


def held_longer(own: Whereabouts, usual: Whereabouts) -> list[tuple[str, int, int]]:
    """Tensors that hold more memory than they show, and than the reference's do; an argument's is the caller's."""
    callers = {first for first, other in own.together if other in own.given}
    known = {name: held for name, _, held in usual.memory}
    return [
        (name, shown, held)
        for name, shown, held in own.memory
        if name not in callers and held > max(shown, known.get(name, shown))
    ]


def given_things(arguments: Any) -> dict[str, Any]:
    """Tensors and containers by name; not the tuple and the dictionary that a call itself makes of them."""
    args, kwargs = arguments
    named = [(f"argument {name}", value) for name, value in (*enumerate(args), *kwargs.items())]
    return {name: thing for top, value in named for name, thing in things(value, top)}


def _state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {f"`{name}`": tensor for name, tensor in held_by(module).items()}


def _is_other(before: Any, after: Any) -> bool:
    """Tuples are made anew by whoever writes them: which object one is tells nobody anything."""
    kinds = (torch.Tensor, list, Mapping)
    return isinstance(before, kinds) and isinstance(after, kinds) and before is not after


def _together(
    results: Things, new: Things, state: Things, given: Things
) -> Iterator[tuple[str, str]]:
    made, there = _by_memory(results | new), _by_memory(state | given)
    for at, own in made.items():
        pairs = [*combinations(own, 2), *product(own, there.get(at, ()))]
        yield from ((name, other) for (name, a), (other, b) in pairs if overlap(a, b))
    callers = _by_memory(given)
    for at, own in _by_memory(state).items():
        pairs = [*product(own, callers.get(at, ()))]
        yield from ((name, other) for (name, a), (other, b) in pairs if overlap(a, b))


def _by_memory(group: Things) -> dict[int, list[tuple[str, torch.Tensor]]]:
    result: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, thing in group.items():
        if isinstance(thing, torch.Tensor) and thing.layout == torch.strided and thing.numel():
            result.setdefault(thing.untyped_storage().data_ptr(), []).append((name, thing))
    return result


def _one(results: Things, new: Things, state: Things, given: Things) -> Iterator[Pair]:
    """Of two results, or two that were put somewhere, the later is named first."""
    known: dict[int, list[str]] = {}
    for group in (given, state, new, results):
        own: dict[int, list[str]] = {}
        for name, thing in group.items():
            if isinstance(thing, torch.nn.Parameter | list | Mapping):
                yield from ((name, other) for other in known.get(id(thing), ()))
                if group is not given and group is not state:
                    yield from ((name, other) for other in own.get(id(thing), ()))
                own.setdefault(id(thing), []).append(name)
        for at, names in own.items():
            known.setdefault(at, []).extend(names)


def _memory(made: Things) -> Iterator[tuple[str, int, int]]:
    for name, thing in made.items():
        if isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
            shown = thing.numel() * thing.element_size()
            yield name, shown, thing.untyped_storage().nbytes()


def _forms(left: Things, put: Things, state: Things, bound: Iterable[str]) -> Iterator[Part]:
    for name, thing in left.items():
        if name in put or not isinstance(thing, torch.Tensor):
            yield part_of(thing, name)
    for name, tensor in state.items():
        if name in bound or tensor.dtype == torch.bool:
            yield part_of(tensor, name)
