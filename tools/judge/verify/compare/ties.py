"""Choices that the reference leaves open: among equal values, topk and sort may return any index.

An index that is named may be another one of an equal value (`index_rule`); what is computed from it, such as
how often an expert is named, is that of the same choice (`other_choices`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.verify.compare.compare import OtherAnswers, leaves
from kernelagent.tools.judge.verify.compare.exact import IndexRule, same_gathered_values

_OPEN = frozenset("topk sort argsort kthvalue median".split())
"""Functions whose choice among equal values torch does not promise."""
_WHOLE = frozenset("topk sort argsort".split())
"""Those of them that go through all of a dimension in order."""


@dataclass(frozen=True)
class _Choice:
    """One call of such a function: what it chose from, along which dimension, and what it named."""

    source: torch.Tensor
    dim: int
    indices: torch.Tensor
    descending: bool | None
    """None: it names one place, not an order."""


_Decide = Callable[[int, _Choice], torch.Tensor | None]
"""`(number of the call, what it is) -> other indices`, or None for its own."""


@dataclass
class _Recording(TorchFunctionMode):
    """While active, records every call whose index among equal values is unspecified, and may decide it."""

    decide: _Decide = lambda number, choice: None
    choices: list[_Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        result = func(*args, **named)
        name = getattr(func, "__name__", "")
        if name not in _OPEN or not args or not isinstance(args[0], torch.Tensor):
            return result
        indices = result if name == "argsort" else getattr(result, "indices", None)
        if named.get("stable") or not args[0].dim() or not isinstance(indices, torch.Tensor):
            return result
        choice = _Choice(
            args[0].detach().clone(),
            _dimension(name, args, named),
            indices.clone(),
            _descending(name, args, named) if name in _WHOLE else None,
        )
        other = self.decide(len(self.choices), choice)
        self.choices.append(choice if other is None else _with_indices(choice, other))
        if other is None:
            return result
        if name == "argsort":
            return other
        # Gradients go where the index says.
        along = _beside(args[0], other, choice.dim)
        values = args[0].gather(choice.dim, along).reshape(other.shape)
        return type(result)((values, other))


def _with_indices(choice: _Choice, indices: torch.Tensor) -> _Choice:
    return _Choice(choice.source, choice.dim, indices, choice.descending)


def _beside(source: torch.Tensor, indices: torch.Tensor, dim: int) -> torch.Tensor:
    """With the dimension that a choice of one place has left out."""
    return indices if indices.dim() == source.dim() else indices.unsqueeze(dim)


def _dimension(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> int:
    if "dim" in named:
        return int(named["dim"])
    place = 2 if name in ("topk", "kthvalue") else 1
    given = args[place] if len(args) > place else -1
    return int(given) if isinstance(given, int) and not isinstance(given, bool) else -1


def _descending(name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    word, place, usual = ("largest", 3, True) if name == "topk" else ("descending", 2, False)
    return bool(named.get(word, args[place] if len(args) > place else usual))


def index_rule(oracle: Oracle, arguments: Arguments) -> IndexRule:
    """Which other indices are right too; the reference runs once more, where an index differs at all."""
    in_use = oracle.weights

    def rule(name: str, candidate: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        recording = _Recording()
        output = dict(leaves(_eager(oracle, in_use, arguments, recording))).get(name)
        for choice in recording.choices:
            if isinstance(output, torch.Tensor) and torch.equal(output, choice.indices):
                valid = same_gathered_values({name: choice.source}, choice.dim)
                return valid(name, candidate, expected) & _each_once(candidate, choice)
        return torch.zeros_like(candidate, dtype=torch.bool)

    return rule


def other_choices(oracle: Oracle, arguments: Arguments) -> OtherAnswers:
    """The reference's answers where it chooses otherwise among equal values: as the candidate did where its
    indices are returned, else the first of them everywhere, or the last.

    The reference runs several times more; asked only where an answer was refused.
    """
    in_use = oracle.weights

    def answers(candidate: Any) -> Iterator[tuple[Any, Any]]:
        usual, exact = _Recording(), _Recording()
        returned = _eager(oracle, in_use, arguments, usual)
        if not usual.choices:
            return
        _in_float64(oracle, in_use, arguments, exact)
        own = _own_choices(candidate, returned, usual.choices)
        rules: Sequence[_Decide] = (
            *([lambda number, choice: None] if own else []),
            lambda number, choice: _by_place(choice, last=False),
            lambda number, choice: _by_place(choice, last=True),
        )
        for rule in rules:

            def decide(number: int, choice: _Choice, rule: _Decide = rule) -> torch.Tensor | None:
                named = own.get(number)
                known = [choice.indices]
                known += [c.indices for c in exact.choices[number : number + 1]]
                if named is not None and _is_open(named, choice, known):
                    return named
                return rule(number, choice)

            chosen = _Recording(decide)
            eager = _eager(oracle, in_use, arguments, chosen)
            yield eager, _in_float64(oracle, in_use, arguments, _Recording(_as_chosen(chosen)))

    return answers


def _as_chosen(chosen: _Recording) -> _Decide:
    """The indices of an earlier run, call by call."""
    made = [choice.indices for choice in chosen.choices]

    def decide(number: int, choice: _Choice) -> torch.Tensor | None:
        fits = number < len(made) and made[number].shape == choice.indices.shape
        return made[number] if fits else None

    return decide


def _eager(
    oracle: Oracle, weights: Mapping[str, torch.Tensor], arguments: Arguments, mode: _Recording
) -> Any:
    kept = oracle.weights
    oracle.use_weights(weights)
    try:
        with mode:
            return oracle.eager(arguments)
    finally:
        oracle.use_weights(kept)


def _in_float64(
    oracle: Oracle, weights: Mapping[str, torch.Tensor], arguments: Arguments, mode: _Recording
) -> Any:
    with mode:
        return oracle.with_weights(weights, arguments)


def _own_choices(
    candidate: Any, returned: Any, choices: Sequence[_Choice]
) -> dict[int, torch.Tensor]:
    """The candidate's indices by the number of the call whose indices the reference returns in that place."""
    theirs = {
        name: leaf
        for name, leaf in leaves(returned)
        if isinstance(leaf, torch.Tensor) and not leaf.is_floating_point() and leaf.numel()
    }
    ours = dict(leaves(candidate))
    result: dict[int, torch.Tensor] = {}
    for number, choice in enumerate(choices):
        for name, leaf in theirs.items():
            got = ours.get(name)
            if not isinstance(got, torch.Tensor) or got.shape != leaf.shape:
                continue
            if leaf.numel() == choice.indices.numel() and bool(
                (leaf.reshape(-1) == choice.indices.reshape(-1)).all()
            ):
                result[number] = got.reshape(choice.indices.shape).to(choice.indices)
                break
    return result


def _is_open(named: torch.Tensor, choice: _Choice, known: Sequence[torch.Tensor]) -> bool:
    """Whether each index is one that was chosen already or one of an equal value, and none is named twice."""
    right = same_gathered_values({"": choice.source}, choice.dim)("", named, choice.indices)
    for other in known:
        right |= named == other if other.shape == named.shape else False
    return bool((right & _each_once(named, choice)).all())


def _by_place(choice: _Choice, *, last: bool) -> torch.Tensor | None:
    """The first, or the last, among equal values everywhere."""
    if choice.descending is None:
        return None
    dim, source = choice.dim, choice.source.flip(choice.dim) if last else choice.source
    order = torch.sort(source, dim=dim, descending=choice.descending, stable=True).indices
    order = source.shape[dim] - 1 - order if last else order
    return order.narrow(dim, 0, choice.indices.shape[dim])


def _each_once(candidate: torch.Tensor, choice: _Choice) -> torch.Tensor:
    """No element may be named twice along the dimension."""
    if choice.source.dim() != candidate.dim() or not candidate.dim():
        return torch.ones_like(candidate, dtype=torch.bool)
    ordered = candidate.sort(choice.dim).values
    twice = (ordered.diff(dim=choice.dim) == 0).any(choice.dim, keepdim=True)
    return (~twice).expand_as(candidate)
