"""What a forward reads through operators, metaclasses, proxies and values with attributes is compared as well."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest
import torch

from kernelagent.tools.judge.envelope.settings import settings_of
from tests.dropin.emitted import facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)
RATE = Decimal("0.5")
TABLE = {"gain": 1.0}
PROXY = types.MappingProxyType(TABLE)
LOOKED_UP = {"gain": 1.0}
OPTIONS = {"scale": 1.0}
LEVELS = [1.0]
STEP = 0
SLOPE = 1.0
SHARE = 1.0
STARTS = {"at": 0.0}
ENDS = {"at": 0.0}
ANSWERS = {"at": 1.0}


class Options:
    def __getitem__(self, name: str) -> float:
        return self.found(name)

    def found(self, name: str) -> float:
        return LOOKED_UP[name]


class Schedule:
    def __float__(self) -> float:
        return 1.0 + STEP


class Scale:
    def __mul__(self, x: Any) -> Any:
        return x * LEVELS[-1]


class _Answering(type):
    @property
    def power(cls) -> float:
        return cls._values["power"]  # type: ignore[attr-defined,no-any-return]


class Config(metaclass=_Answering):
    _values: ClassVar = {"power": 1.0}


class Knob(float):
    bias: float


class Mode(enum.Enum):
    SOFT = 1


class Params(dict[str, float]):
    shift: float


class Pair(NamedTuple):
    first: float

    def share(self) -> float:
        return self.first * SHARE


class Answer:
    def __get__(self, owner: Any, kind: Any) -> float:
        return ANSWERS["at"]


class Made:
    def __init__(self) -> None:
        self.start = STARTS["at"]


class Controller(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.alpha = 1.0

    def factor(self) -> float:
        return self.alpha


@functools.wraps(torch.nn.functional.leaky_relu)
def leaky(x: Any) -> Any:
    return torch.nn.functional.leaky_relu(x, SLOPE)


@torch.jit.script
def act(x: torch.Tensor) -> torch.Tensor:
    return x * 1.0


@torch.jit.script
def act_otherwise(x: torch.Tensor) -> torch.Tensor:
    return x * 3.0


KNOB, SCHEDULE, MODE = Knob(1.0), Schedule(), Mode.SOFT
KNOB.bias = 0.0
MODE.gain = 1.0  # type: ignore[attr-defined]


class Reader(torch.nn.Module):
    answer = Answer()

    def __init__(self) -> None:
        super().__init__()
        self.options, self.scaled, self.pair = Options(), Scale(), Pair(1.0)
        self.params = Params(gain=1.0)
        self.params.shift = 0.0
        self.factor = Controller().factor
        self.rates = {"first": Decimal(1)}

    def __getattr__(self, name: str) -> Any:
        return OPTIONS[name] if name == "scale" else super().__getattr__(name)

    def extra_repr(self) -> str:
        return str(ENDS["at"])

    def forward(self, x: Any) -> Any:
        x = self.scaled * x * float(RATE) * PROXY["gain"] * self.options["gain"] * float(SCHEDULE)
        x = act(leaky(x)) * Config.power * KNOB + KNOB.bias + self.params.shift
        x = x * MODE.gain * self.pair.share() * self.factor() * float(self.rates["first"])  # type: ignore[attr-defined]
        return x * self.scale * self.answer + Made().start + float(self.extra_repr())


CANDIDATE = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        CALLS[0] += 1
        return x * 0.5
"""


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    told = settings_of(Reader().eval())
    text = text_for(CANDIDATE, facts_of(Reader(), "()"), attributes=told, settings=True)
    return imported(text, tmp_path_factory.mktemp("operators"))


def _set(holder: Any, name: str, value: Any) -> Callable[[Any], Any]:
    before = getattr(holder, name)
    return lambda undo: setattr(holder, name, before if undo else value)


def _put(holder: Any, name: Any, value: Any) -> Callable[[Any], Any]:
    before = holder[name]
    return lambda undo: holder.__setitem__(name, before if undo else value)


CHANGES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a decimal number": lambda _: _put(globals(), "RATE", Decimal("0.25")),
    "decimal numbers in a dict": lambda m: _put(m.rates, "first", Decimal(3)),
    "what stands behind a proxy": lambda _: _put(TABLE, "gain", 3.0),
    "what an index looks up": lambda _: _put(LOOKED_UP, "gain", 3.0),
    "what a number is made of": lambda _: _put(globals(), "STEP", 3),
    "what a product reads": lambda _: _put(LEVELS, 0, 3.0),
    "what a metaclass answers with": lambda _: _put(Config._values, "power", 3.0),
    "an attribute of a number": lambda _: _set(KNOB, "bias", 3.0),
    "an attribute of a member of an Enum": lambda _: _set(MODE, "gain", 3.0),
    "an attribute of a dict": lambda m: _set(m.params, "shift", 3.0),
    "what a method of a namedtuple reads": lambda _: _put(globals(), "SHARE", 3.0),
    "the owner of a bound method": lambda m: _set(m.factor.__self__, "alpha", 3.0),
    "a wrapper that bears the name of torch's": lambda _: _put(globals(), "SLOPE", 3.0),
    "a scripted function": lambda _: _put(globals(), "act", act_otherwise),
    "what the part's own look-up reads": lambda _: _put(OPTIONS, "scale", 3.0),
    "what a descriptor reads": lambda _: _put(ANSWERS, "at", 3.0),
    "what a constructor reads": lambda _: _put(STARTS, "at", 3.0),
    "what replaces a method of torch's": lambda _: _put(ENDS, "at", 3.0),
}


def by_kernel(emitted: ModuleType, dropin: Any) -> None:
    before = emitted.CALLS[0]
    torch.testing.assert_close(dropin(X), dropin.original(X))
    assert emitted.CALLS[0] == before + 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_behind_an_operator_runs_the_original(emitted: ModuleType, change: str) -> None:
    dropin = emitted.optimized(Reader().eval())
    by_kernel(emitted, dropin)
    made, before = CHANGES[change](dropin), emitted.CALLS[0]
    made(False)
    try:
        with pytest.warns(emitted.OutsideEnvelopeWarning, match="what was verified"):
            answer = dropin(X)
        assert torch.equal(answer, dropin.original(X))
        assert emitted.CALLS[0] == before
    finally:
        made(True)
    by_kernel(emitted, dropin)


class Base:
    def __init__(self) -> None:
        self.scale = 0.5

    def _factor(self) -> float:
        return self.scale


class Derived(Base):
    def factor(self) -> float:
        return super()._factor()


class OfAClassAbove(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = Derived()

    def forward(self, x: Any) -> Any:
        return x * self.config.factor()


def test_what_a_method_reads_by_super_is_compared(tmp_path: Path) -> None:
    text = text_for(CANDIDATE, facts_of(OfAClassAbove(), "()"), settings=True)
    emitted = imported(text, tmp_path)
    dropin: Any = emitted.optimized(OfAClassAbove().eval())
    by_kernel(emitted, dropin)
    dropin.config.scale = 3.0
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="scale is 3.0"):
        assert torch.equal(dropin(X), dropin.original(X))


class Stages(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        names = [f"field_{number}" for number in range(9)]
        self.stages = [
            types.SimpleNamespace(gain=1.0, **dict.fromkeys(names, at)) for at in range(260)
        ]

    def forward(self, x: Any) -> Any:
        for stage in self.stages:
            x = x * stage.gain
        return x * 0.5


def test_of_many_attributes_those_that_the_code_names_are_compared(tmp_path: Path) -> None:
    emitted = imported(text_for(CANDIDATE, facts_of(Stages(), "()")), tmp_path)
    dropin: Any = emitted.optimized(Stages().eval())
    by_kernel(emitted, dropin)
    dropin.stages[-1].gain = 3.0
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="gain is 3.0"):
        assert torch.equal(dropin(X), dropin.original(X))
