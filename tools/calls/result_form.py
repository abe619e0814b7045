"""What a result is besides its values: which containers hold which tensors, what kind of tensors, classes of numbers.

Asked of the candidate in its own process and of the reference in the judge's, because on the way between
them a namedtuple is a tuple, and a Parameter a tensor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

_PLAIN = (list, tuple, dict)
_VALUES = (bool, int, float, complex, str)
_OF_NUMPY = "a numpy."
_VECTOR_BYTES = 16
"""What a thread of a GPU loads at most at once, from addresses that are multiples of it (PTX ISA, vectors)."""


def foreign_container(result: Any) -> str | None:
    """The class of the first container in it, by its full name, that is neither Python's nor torch's."""
    if not isinstance(result, Mapping | list | tuple):
        return None
    kind = type(result)
    own = kind in (list, tuple, dict, OrderedDict) or kind.__module__.startswith("torch.")
    if not own:
        return f"{kind.__module__}.{kind.__qualname__}"
    inside = result.values() if isinstance(result, Mapping) else result
    return next((name for item in inside if (name := foreign_container(item))), None)


@dataclass(frozen=True)
class Part:
    """A container, a tensor, a number or a text of a result."""

    name: str
    kind: str
    """As a sentence names it."""
    plain: bool
    """Whether anybody can make one: a list, a tuple, a dict, a tensor; no class of the user's."""
    learns: bool = False
    """A tensor that requires a gradient."""
    inference: bool = False
    """A tensor made in inference mode, which autograd refuses for ever."""
    unaligned: bool = False
    """A tensor that begins in its memory at no multiple of 16 bytes, as no memory of torch's own does."""
    lazy: str = ""
    """`negated` or `conjugated`: a view whose memory holds other numbers than torch reads from it."""
    is_value: bool = False
    """A number or a text, which has no tensor or container for its like."""
    odd_booleans: bool = False
    """Booleans of which some byte is neither 0 nor 1: torch takes it for True, numpy's sums and kernels do not."""


def form_of(result: Any, name: str = "output") -> tuple[Part, ...]:
    """Of a result and all that is inside, each before what it holds."""
    return (
        *(part_of(thing, place) for place, thing in things(result, name)),
        *(_value_of(value, place) for place, value in _values(result, name)),
    )


def _values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The numbers and texts of a nest, and the keys of its dictionaries."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"the key {key!r} of {name}", key
            yield from _values(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _values(item, f"{name}[{at}]")
    elif isinstance(value, _VALUES):
        yield name, value


def _value_of(value: Any, name: str) -> Part:
    kind = type(value)
    if kind in _VALUES:
        return Part(name, "a plain number or text", True, is_value=True)
    if kind.__module__ == "numpy":
        return Part(name, f"{_OF_NUMPY}{kind.__name__}", False, is_value=True)
    return Part(name, f"{_called(value)}, derived from a number or text", False, is_value=True)


def things(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors and containers of a nest by name, each container before what it holds."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        yield name, value
        for key, item in value.items():
            yield from things(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        yield name, value
        for at, item in enumerate(value):
            yield from things(item, f"{name}[{at}]")


def part_of(thing: Any, name: str) -> Part:
    """Of one tensor or container, without what is inside."""
    if isinstance(thing, torch.Tensor):
        parameter = isinstance(thing, torch.nn.Parameter)
        return Part(
            name,
            "an nn.Parameter" if parameter else "a tensor",
            True,
            thing.requires_grad,
            thing.is_inference(),
            _begins_at(thing) % _VECTOR_BYTES != 0,
            _lazy(thing),
            odd_booleans=_has_odd_booleans(thing),
        )
    if isinstance(thing, Mapping):
        keys = ", ".join(repr(key) for key in thing)
        return Part(name, f"{_called(thing)} with the keys {keys}", type(thing) is dict)
    return Part(name, _called(thing), type(thing) in _PLAIN)


def _begins_at(tensor: torch.Tensor) -> int:
    """In bytes; of a tensor without elements or strides the beginning of its memory."""
    if tensor.layout != torch.strided or not tensor.numel():
        return 0
    return int(tensor.storage_offset()) * tensor.element_size()


def _lazy(tensor: torch.Tensor) -> str:
    if tensor.is_neg():
        return "negated"
    return "conjugated" if tensor.is_conj() else ""


def _has_odd_booleans(tensor: torch.Tensor) -> bool:
    if tensor.dtype != torch.bool or tensor.layout != torch.strided or tensor.is_meta:
        return False
    return bool((tensor.detach().view(torch.uint8) > 1).any())


def _called(value: Any) -> str:
    fields = getattr(value, "_fields", None)
    if isinstance(fields, tuple):
        return f"a namedtuple of {', '.join(map(str, fields))}"
    name = type(value).__name__
    return f"a {name}" if type(value) in _PLAIN else f"a {name} (a class of its own)"


@dataclass(frozen=True)
class Differs:
    """How a candidate's form is not the reference's."""

    sentence: str
    refused: bool
    disclosure: str = "container_differs"
    """What tells of it where it is not refused: the reference's is a class that a candidate cannot know."""


def difference(
    got: tuple[Part, ...], wanted: tuple[Part, ...], *, inference: bool
) -> Differs | None:
    """The first, or None; `inference`: the call was made in inference mode.

    Containers are compared elsewhere: both results have the same structure.
    """
    by_name = {part.name: part for part in got}
    pairs = [(by_name[part.name], part) for part in wanted if part.name in by_name]
    pairs = [(ours, theirs) for ours, theirs in pairs if ours.is_value == theirs.is_value]
    for ours, theirs in sorted(pairs, key=lambda pair: not pair[1].plain):
        # A Parameter that the reference returns is its own weight: another object is told of as such.
        if ours.kind != theirs.kind and theirs.kind != "an nn.Parameter":
            sentence = f"{ours.name} is {ours.kind}; the reference's is {theirs.kind}"
            # Numbers of numpy are Python's but for what they print: honest wrappers return them from its functions.
            return Differs(sentence, theirs.plain and not ours.kind.startswith(_OF_NUMPY))
        if ours.learns and not theirs.learns:
            return Differs(f"{ours.name} requires a gradient, which the reference's does not", True)
        if ours.lazy and ours.lazy != theirs.lazy:
            sentence = (
                f"{ours.name} is a view that is {ours.lazy} lazily: its memory holds other numbers than the reference's, "
                f"and what reads the memory itself, as `.numpy()` and kernels do, fails or gets those"
            )
            return Differs(sentence, True)
        if ours.odd_booleans and not theirs.odd_booleans:
            sentence = (
                f"{ours.name} holds booleans whose bytes are neither 0 nor 1: torch takes them for True, but sums in numpy, "
                f"views as integers and kernels that compare with 1 do not"
            )
            return Differs(sentence, True)
        if ours.inference and not (inference or theirs.inference):
            # Honest candidates are written with it, and most programs never notice.
            sentence = (
                f"{ours.name} is an inference tensor, made under torch.inference_mode(): autograd raises an error where it "
                f"is used in training; the reference's is not"
            )
            return Differs(sentence, False, "inference_result")
        if ours.unaligned and not theirs.unaligned:
            sentence = (
                f"{ours.name} begins within its memory at no multiple of {_VECTOR_BYTES} bytes, where the reference's does: "
                f"kernels that read it cannot load {_VECTOR_BYTES} bytes at once, and some refuse it"
            )
            return Differs(sentence, False, "result_unaligned")
    return None
