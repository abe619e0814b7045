"""What a forward reads around its module, at any distance, is compared: a later change runs the original."""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import pickle
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.tools.judge.envelope.settings import settings_of
from tests.dropin.emitted import facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)


@dataclass
class Settings:
    shift: float = 1.0


class Inherited:
    bound = 100.0


class Constants(Inherited):
    eps = 1e-5

    def floor(self) -> float:
        return FLOOR["value"]


NAMESPACE = types.SimpleNamespace(gain=2.0, inner=argparse.Namespace(power=1.0))
DATACLASS = Settings()
TABLE = torch.ones(8)
STEPS = collections.deque([1.0])
FLOOR = {"value": -50.0}
UNSET = None
ACTIVATION = torch.nn.Hardtanh(-90.0, 90.0)
FILE = ModuleType("settings_file")
FILE.factor = 1.0  # type: ignore[attr-defined]


def scaled_by(number: float) -> tuple[Callable[[Any], Any], Callable[[float], None]]:
    def scaled(x: Any) -> Any:
        return x * number

    def change(to: float) -> None:
        nonlocal number
        number = to

    return scaled, change


def doubled(x: Any, times: float = 2.0) -> Any:
    return x * times * doubled.share  # type: ignore[attr-defined]


doubled.share = 1.0  # type: ignore[attr-defined]


def doubled_otherwise(x: Any, times: float = 2.0) -> Any:
    return x * times * doubled.share + 3.0  # type: ignore[attr-defined]


def tripled(x: Any) -> Any:
    return x * 3.0


def quadrupled(x: Any) -> Any:
    return x * 4.0


IN_A_CELL, CHANGE_THE_CELL = scaled_by(1.0)
ON_THE_MODULE, CHANGE_ON_THE_MODULE = scaled_by(1.0)


def counted(forward: Any, by: types.SimpleNamespace) -> Any:
    @functools.wraps(forward)
    def wrapper(self: Any, x: Any) -> Any:
        return forward(self, x) * by.number

    return wrapper


WRAPPED_BY = types.SimpleNamespace(number=1.0)


class Reader(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cfg = Constants()
        self.act = ON_THE_MODULE
        self.pair = {"a": torch.ones(8), "b": torch.full((8,), 2.0)}

    @functools.partial(counted, by=WRAPPED_BY)
    def forward(self, x: Any) -> Any:
        x = (x * NAMESPACE.gain + DATACLASS.shift) ** NAMESPACE.inner.power * TABLE * STEPS[0]
        x = tripled(doubled(IN_A_CELL(self.act(x)))) + self.cfg.eps
        x = x.clamp(self.cfg.floor(), self.cfg.bound) * FILE.factor  # type: ignore[attr-defined]
        x = ACTIVATION(x) * (1.0 if UNSET is None else UNSET)
        return x * self.pair["a"] + self.pair["b"]


CANDIDATE = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        CALLS[0] += 1
        return ((x * 2.0 + 1.0) * 6.0 + 1e-5).clamp(-50.0, 90.0) + 2.0
"""


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    told = settings_of(Reader().eval())
    text = text_for(CANDIDATE, facts_of(Reader(), "()"), attributes=told)
    return imported(text, tmp_path_factory.mktemp("reached"))


def by_kernel(emitted: ModuleType, dropin: Any, x: Any = X) -> None:
    before = emitted.CALLS[0]
    torch.testing.assert_close(dropin(x), dropin.original(x))
    assert emitted.CALLS[0] == before + 1


def by_original(emitted: ModuleType, dropin: Any, x: Any = X) -> None:
    before = emitted.CALLS[0]
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="what was verified"):
        answer = dropin(x)
    assert emitted.CALLS[0] == before
    assert torch.equal(answer, dropin.original(x))


def _set(holder: Any, name: str, value: Any) -> tuple[Any, Any]:
    before = getattr(holder, name)
    return lambda _: setattr(holder, name, value), lambda _: setattr(holder, name, before)


def _put(holder: Any, name: Any, value: Any) -> tuple[Any, Any]:
    before = holder[name]
    return (
        lambda _: holder.__setitem__(name, value),
        lambda _: holder.__setitem__(name, before),
    )


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a global namespace": _set(NAMESPACE, "gain", 3.0),
    "a namespace in a namespace": _set(NAMESPACE.inner, "power", 2.0),
    "a global namespace exchanged": _put(
        globals(), "NAMESPACE", types.SimpleNamespace(gain=3.0, inner=NAMESPACE.inner)
    ),
    "a global dataclass": _set(DATACLASS, "shift", 5.0),
    "a global tensor": _put(globals(), "TABLE", torch.zeros(8)),
    "a global tensor written to": (lambda _: TABLE.mul_(3.0), lambda _: TABLE.div_(3.0)),
    "a global deque": _put(STEPS, 0, 2.0),
    "a global dict that a method reads": _put(FLOOR, "value", -0.5),
    "a global that was None": _put(globals(), "UNSET", 2.0),
    "a global module": _set(ACTIVATION, "max_val", 0.5),
    "another file": _set(FILE, "factor", 2.0),
    "a cell of a global function": (lambda _: CHANGE_THE_CELL(2.0), lambda _: CHANGE_THE_CELL(1.0)),
    "a cell of a function on the module": (
        lambda _: CHANGE_ON_THE_MODULE(2.0),
        lambda _: CHANGE_ON_THE_MODULE(1.0),
    ),
    "what a decorator's cell holds": _set(WRAPPED_BY, "number", 2.0),
    "an attribute of a settings class": _set(Constants, "eps", 1.0),
    "an attribute of the class above it": _set(Inherited, "bound", 0.5),
    "an attribute that hides the class's": (
        lambda m: setattr(m.cfg, "eps", 1.0),
        lambda m: delattr(m.cfg, "eps"),
    ),
    "a method of a settings class": _set(Constants, "floor", lambda self: 0.0),
    "a helper's code": _set(doubled, "__code__", doubled_otherwise.__code__),
    "a helper's code, where constants differ": _set(tripled, "__code__", quadrupled.__code__),
    "a helper exchanged": _put(globals(), "tripled", quadrupled),
    "a helper's default": _set(doubled, "__defaults__", (7.0,)),
    "a helper's attribute": _set(doubled, "share", 7.0),
    "the keys of a dict of tensors": (
        lambda m: setattr(m, "pair", dict(zip("ba", m.pair.values(), strict=True))),
        lambda m: setattr(m, "pair", dict(zip("ab", m.pair.values(), strict=True))),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_anywhere_the_forward_reads_runs_the_original(
    emitted: ModuleType, change: str
) -> None:
    dropin = emitted.optimized(Reader().eval())
    by_kernel(emitted, dropin)
    make, undo = CHANGES[change]
    make(dropin)
    try:
        by_original(emitted, dropin)
    finally:
        undo(dropin)


def test_what_is_reached_stays_the_same_in_copies_and_is_looked_at_once(
    emitted: ModuleType,
) -> None:
    dropin = emitted.optimized(Reader().eval())
    by_kernel(emitted, dropin)
    watch = dropin._dropin._watch
    by_kernel(emitted, dropin)
    assert dropin._dropin._watch is watch
    assert watch.is_quiet()
    by_kernel(emitted, copy.deepcopy(dropin))
    dropin.__dict__["act"] = torch.nn.functional.relu  # A function in a cell cannot be pickled.
    assert pickle.loads(pickle.dumps(dropin))._dropin.described == dropin._dropin.described


def test_what_no_code_of_the_forward_names_may_change(emitted: ModuleType) -> None:
    dropin = emitted.optimized(Reader().eval())
    by_kernel(emitted, dropin)
    FILE.other = 3  # type: ignore[attr-defined]
    dropin.tag = types.SimpleNamespace(floor=Constants())
    by_kernel(emitted, dropin)


class Stages(torch.nn.Module):
    def __init__(self, *names: str) -> None:
        super().__init__()
        self.stages = torch.nn.ModuleDict({n: torch.nn.Linear(8, 8, bias=False) for n in names})

    def forward(self, x: Any) -> Any:
        for stage in self.stages.values():
            x = stage(x).relu()
        return x


STAGES = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        make = lambda: torch.nn.Linear(8, 8, bias=False)
        self.stages = torch.nn.ModuleDict({"a": make(), "b": make()})

    def forward(self, x):
        CALLS[0] += 1
        return self.stages["b"](self.stages["a"](x).relu()).relu()
"""


@pytest.fixture
def stages(tmp_path: Path) -> ModuleType:
    return imported(text_for(STAGES, facts_of(Stages("a", "b"), "()")), tmp_path)


def _reversed(dropin: Any) -> None:
    stages = dropin.stages
    stages._modules = dict(reversed(stages._modules.items()))


def _renamed(dropin: Any) -> None:
    first, second = dropin.stages.pop("a"), dropin.stages.pop("b")
    dropin.stages["b"], dropin.stages["a"] = first, second


@pytest.mark.long
@pytest.mark.parametrize("change", [_reversed, _renamed])
def test_parts_in_another_order_run_the_original(stages: ModuleType, change: Any) -> None:
    dropin = stages.optimized(Stages("a", "b").eval())
    by_kernel(stages, dropin)
    change(dropin)
    by_original(stages, dropin)


def test_a_module_with_its_parts_in_another_order_is_refused(stages: ModuleType) -> None:
    with pytest.raises(TypeError, match="their order is"):
        stages.optimized(Stages("b", "a").eval())


class Folded(torch.nn.Module):
    def forward(self, maps: Any, **more: Any) -> Any:
        result = torch.zeros(4, 8)
        for one in (*maps.values(), *more.values()):
            result = result * 2 + one
        return result


FOLDED = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, maps, c, d):
        CALLS[0] += 1
        return maps["a"] * 8 + maps["b"] * 4 + c * 2 + d
"""


def test_arguments_whose_order_the_forward_can_see_must_be_in_the_verified_one(
    tmp_path: Path,
) -> None:
    row = {"dtype": "float32", "shape": [4, 8], "strides": [8, 1]}
    sets = [{"name": "d", "args": [{"dict": {"a": row, "b": row}}], "kwargs": {"c": row, "d": row}}]
    emitted = imported(text_for(FOLDED, facts_of(Folded(), "()"), input_sets=sets), tmp_path)
    dropin = emitted.optimized(Folded().eval())
    a, b, c, d = torch.randn(4, 4, 8)
    for maps, more, by in (
        ({"a": a, "b": b}, {"c": c, "d": d}, 1),
        ({"b": b, "a": a}, {"c": c, "d": d}, 0),
        ({"a": a, "b": b}, {"d": d, "c": c}, 0),
        ({"a": a, "b": b}, {"c": c, "d": d}, 1),
    ):
        before = emitted.CALLS[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", emitted.OutsideEnvelopeWarning)
            answer = dropin(maps, **more)
        torch.testing.assert_close(answer, dropin.original(maps, **more))
        assert emitted.CALLS[0] == before + by
