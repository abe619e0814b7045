"""What a module reads where the emitted module does not look is named, and nothing else is."""

from __future__ import annotations

import enum
import functools
import itertools
import logging
import os
import threading
import types
import weakref
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.as_built import AsBuilt
from kernelagent.tools.judge.problem.reference.guard_walk import walk
from kernelagent.tools.judge.problem.reference.read_from_outside import read_from_outside

GAIN = ContextVar("GAIN", default=2.0)
REGISTRY: weakref.WeakKeyDictionary[nn.Module, float] = weakref.WeakKeyDictionary()
SCALE = 2.0


def of_the_environment() -> float:
    return float(os.environ.get("SCALE_OF_ALL", "2.0"))


class OfTheEnvironment(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * of_the_environment()


class OfTheContext(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * GAIN.get()


class OfARegistry(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * REGISTRY.get(self, 2.0)


class OfItsParent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parent = [nn.Linear(2, 2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.parent[0].weight.sum()


class OfNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.from_numpy(np.ones(1, dtype=np.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table


class OfAnArrayOfObjects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rates = np.array([1.0, None], dtype=object)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.rates[0]


STATE = threading.local()
COUNTER = itertools.count()
LOGGER = logging.getLogger("rows")
LOCK = threading.Lock()
TABLE = {"gain": 2.0}
RATE = Decimal(2)
SETTINGS = types.MappingProxyType(TABLE)


class OfItsThread(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(getattr(STATE, "gain", 2.0))


class OfACounter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * next(COUNTER)


class OfALogger(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if LOGGER.isEnabledFor(logging.DEBUG) else -x


class OfADict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.get = TABLE.get

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.get("gain", 1.0)


class OfAnInferenceTensor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.inference_mode():
            self.gains = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gains


class OfOtherProcesses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.distributed.get_world_size()


class OfTheGradMode(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.is_grad_enabled() else -x


class OfAScriptedPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(nn.Linear(2, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.part(x))


class OfADistribution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.prior = torch.distributions.Normal(0.0, 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.prior.scale


class OfManyComputedNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for number in range(2100):
            setattr(self, f"gain_{number}", 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(2100):
            x = x * getattr(self, f"gain_{number}")
        return x


class Kind(enum.Enum):
    SOFT = 1


class Numbers(dict[str, float]):
    def __getitem__(self, name: str) -> float:
        return super().__getitem__(name) * SCALE


@dataclass
class Config:
    gain: float = 2.0
    kind: Kind = Kind.SOFT
    numbers: Numbers = field(default_factory=Numbers)


@functools.lru_cache
def doubled(number: float) -> float:
    return 2 * number


class OfAllThatIsCompared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config, self.act = Config(), nn.functional.gelu
        self.helper = self.scaled
        self.limit = torch.finfo(torch.float32)

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * doubled(self.config.gain)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with LOCK:
            LOGGER.warning("a call")
        if self.config.kind is Kind.SOFT:
            x = x * self.config.numbers["gain"] * float(RATE) * SETTINGS["gain"]
        return self.helper(self.act(x)).clamp(min=self.limit.min)


class OfAListOfItself(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings: list[Any] = []
        self.settings.append(self.settings)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(self.settings)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]
        self.registered = nn.ModuleList(self.layers)
        self.sizes = {"width": 2}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x) * SCALE


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (OfTheEnvironment(), "the environment of the process"),
        (OfTheContext(), "`test_read_from_outside.GAIN` (a context variable)"),
        (OfARegistry(), "`test_read_from_outside.REGISTRY` (a weak registry)"),
        (OfItsParent(), "the module in `parent`"),
        (OfNumpy(), "memory that another library writes to (`from_numpy`)"),
        (
            OfAnArrayOfObjects(),
            "`self.rates` (an object of `numpy.ndarray`, told otherwise in each process)",
        ),
        (OfItsThread(), "`test_read_from_outside.STATE` (another in each thread)"),
        (OfACounter(), "`test_read_from_outside.COUNTER` (an object of `itertools.count`)"),
        (OfALogger(), "`test_read_from_outside.LOGGER` (a logger, whose level may be set)"),
        (OfADict(), "`self.get` (a method of an object of `dict`)"),
        (OfAnInferenceTensor(), "`self.gains` (an inference tensor, which counts no changes)"),
        (OfOtherProcesses(), "what `torch.distributed.get_world_size` tells"),
        (OfTheGradMode(), "what `torch.is_grad_enabled` tells"),
        (OfAScriptedPart(), "`self.part` (a scripted module)"),
        (OfADistribution(), "`self.prior` (an object of `torch.distributions.normal.Normal`)"),
        (
            OfManyComputedNames(),
            "attributes by computed names, of which more than 2000 are there, such as `self.gain_2001`",
        ),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_what_the_emitted_module_does_not_see_is_named(
    module: nn.Module, what: str, inside: bool
) -> None:
    (remark,) = read_from_outside(nn.Sequential(module) if inside else module)
    assert remark.code == "read_from_outside"
    named = what.replace("`parent`", "`0.parent`").replace("`self.", "`self.0.") if inside else what
    assert f"your module reads {named}:" in remark.message


@pytest.mark.parametrize(
    "module",
    [
        Plain(),
        OfAllThatIsCompared(),
        nn.TransformerEncoderLayer(8, 2),
        nn.LSTM(4, 4),
        nn.BatchNorm1d(4),
        nn.MultiheadAttention(8, 2),
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
    ],
)
def test_of_a_module_that_reads_its_own_alone_nothing_is_said(module: nn.Module) -> None:
    assert read_from_outside(module) == ()


def test_what_cannot_be_walked_over_is_told_and_ends_nothing() -> None:
    (told,) = walk(OfAListOfItself()).left_out
    assert told.startswith("what could not be looked at (RecursionError")


def test_of_many_things_the_first_are_named_and_the_others_counted() -> None:
    module = nn.ModuleList(OfADict() for _ in range(20))
    (remark,) = read_from_outside(module)
    assert "`self.7.get` (a method of an object of `dict`) and 12 more:" in remark.message
    assert "self.8" not in remark.message


SEEN: dict[str, float] = {}


class OfItsFirstCall(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        SEEN.setdefault("factor", 2.0)
        return x * SEEN["factor"] * SCALE


def a_problem(build: Any) -> LoadedProblem:
    return LoadedProblem("toy", "", "Model", "init", build, lambda: ((), {}), dict)


def test_what_the_first_call_changes_is_known_from_before_it() -> None:
    built, name = AsBuilt(), f"SEEN of {__name__}"
    module = built.watching(a_problem(OfItsFirstCall)).build()
    assert built.made_since(module) == frozenset()
    module(torch.ones(2))
    assert built.made_since(module) == {name}
    assert built.changed(module) == (f"`{name}`, which a first call changes",)


def test_of_a_module_that_was_not_looked_at_nothing_is_known_to_have_changed() -> None:
    assert AsBuilt().made_since(OfItsFirstCall()) == frozenset()


class OfItsSize(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        scale = size**-0.5
        self.scaled = lambda x: x * scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x)


def test_what_follows_from_the_constructors_sizes_has_not_changed() -> None:
    built = AsBuilt()
    built.watching(a_problem(lambda: OfItsSize(64))).build()
    assert built.made_since(OfItsSize(16)) == frozenset()
