"""The file put on another layer of the verified one's class: what that holds otherwise, and a verified call read, is refused."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kernelagent.tools.judge.envelope.reads import reads_of
from kernelagent.tools.judge.envelope.settings import (
    holds_settings,
    settings_of,
    surroundings_of,
)
from tests.dropin.emitted import facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)
OFFSET = {"by": [1.0, 2.0]}


class Slope(Enum):
    FLAT = 1.0
    STEEP = 2.0


class Kept:
    def of(self, x: Any) -> Any:
        return x


class Turned(Kept):
    def of(self, x: Any) -> Any:
        return -x


def scaled(x: Any, *, by: float) -> Any:
    return x * by


def _raising(power: int) -> Callable[[Any], Any]:
    def raised(x: Any) -> Any:
        return x**power

    return raised


class Layer(torch.nn.Module):
    """Reads a thing of each kind, and none of those after the blank line of its constructor."""

    floor = -50.0

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))
        self.scaling: dict[str, Any] = {"factor": 2.0, "names": {"b", "a", "c"}}
        self.slope = Slope.FLAT
        self.act = _raising(2)
        self.after: Any = lambda x: x + 1.0
        self.scaled = partial(scaled, by=2.0)
        self.steps: list[Any] = [torch.relu, {"a"}]
        self.sign, self.signs = Kept(), [Kept()]
        self.bounds = np.array([[1.0, 2.0]])
        self.offset = torch.arange(8.0)
        self.tables = {"cos": torch.ones(8)}
        self.register_buffer("frequencies", torch.arange(8.0), persistent=False)
        self.config = SimpleNamespace(eps=1e-5, rope={"theta": 1e4}, _name_or_path="a", labels=[])

        self.layer_idx = number
        self.label = f"layer {number}"
        self.cache: dict[int, Any] = {}
        self.calls = number
        self.where = torch.device("cpu")
        self.register_buffer("original_frequencies", torch.full((8,), float(number)), False)
        self.parent = [SimpleNamespace(number=number)]

    def forward(self, x: Any, past: Any = None) -> Any:
        self.calls += 1
        if past is not None:
            x = past.update(x, self.layer_idx)
        self.cache[x.shape[0]] = x.shape
        x = self.after(self.act(x * self.weight)) * self.scaling["factor"] * self.slope.value
        x = self.steps[0](self.scaled(x)) * float(self.bounds[0, 1]) + self.offset.to(self.where)
        x = x * self.tables["cos"] + self.frequencies + self.config.eps + OFFSET["by"][0]
        x = x * getattr(self, "boost", 1.0) + self.config.rope["theta"]
        return self.sign.of(self.signs[0].of(x)).clamp(self.floor)


def verified_of(module: torch.nn.Module, *calls: Any) -> dict[str, Any]:
    """What the judge writes of it."""
    module = copy.deepcopy(module)

    def run(call: Any) -> Any:
        return module(*call[0], **call[1])

    reads = reads_of(module, run, calls or [((X,), {})], both_modes=True)
    assert reads is not None
    return {
        "attributes": settings_of(module, reads),
        "reads": surroundings_of(module, reads),
        "settings": holds_settings(module),
    }


CANDIDATE = """\
import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * 0.0
"""


def by_kernel(dropin: Any) -> bool:
    return bool((dropin(X) == 0.0).all())


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    with torch.no_grad():
        layer = Layer().eval()
        text = text_for(CANDIDATE, facts_of(layer, "()"), **verified_of(layer))
    return imported(text, tmp_path_factory.mktemp("layers"))


DIFFERENCES: dict[str, tuple[Callable[[Any], None], str]] = {
    "a dict": (lambda m: m.scaling.update(factor=4.0), "attribute scaling is .*'4.0'.*'2.0'"),
    "an enum": (lambda m: setattr(m, "slope", Slope.STEEP), "attribute slope is <Slope.STEEP"),
    "a closure's cell": (lambda m: setattr(m, "act", _raising(3)), "power in .act is 3"),
    "a lambda": (lambda m: setattr(m, "after", lambda x: x + 2.0), "attribute after is"),
    "a lambda's operator": (lambda m: setattr(m, "after", lambda x: x * 1.0), "attribute after"),
    "a lambda's question": (
        lambda m: setattr(m, "after", lambda x: x + 1.0 if x is not None else x),
        "attribute after",
    ),
    "a partial": (lambda m: setattr(m, "scaled", partial(scaled, by=3.0)), "attribute scaled"),
    "a function in a list": (lambda m: m.steps.__setitem__(0, torch.tanh), "attribute steps"),
    "an object's class": (lambda m: setattr(m, "sign", Turned()), "sign is .*Turned, .*Kept"),
    "one's in a list": (lambda m: setattr(m, "signs", [Turned()]), "attribute signs is"),
    "a numpy array": (lambda m: m.bounds.__setitem__((0, 1), 5.0), "attribute bounds"),
    "an array's shape": (lambda m: setattr(m, "bounds", m.bounds.reshape(2, 1)), "bounds"),
    "an unsaved buffer": (lambda m: m.frequencies.mul_(2), "the tensor frequencies is"),
    "a tensor": (lambda m: setattr(m, "offset", torch.ones(8)), "the tensor offset is"),
    "a tensor in a dict": (lambda m: m.tables["cos"].mul_(2), "the tensor tables"),
    "a field of a config": (lambda m: setattr(m.config, "eps", 1e-3), r"config\.eps is 0\.001"),
    "a dict in a config": (lambda m: m.config.rope.update(theta=5e5), r"config\.rope is .*500000"),
    "one that was looked for": (lambda m: setattr(m, "boost", 2.0), "boost is 2.0, verified: gone"),
    "its own, not its class's": (lambda m: setattr(m, "floor", 0.0), "floor is 0.0, verified: -50"),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_a_layer_that_differs_in_what_a_call_reads_is_refused_by_its_path(
    emitted: ModuleType, what: str
) -> None:
    change, said = DIFFERENCES[what]
    other = Layer().eval()
    change(other)
    with pytest.raises(TypeError, match=said):
        emitted.optimized(other)


def test_a_global_of_another_value_is_refused(
    emitted: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "OFFSET", {"by": [3.0]})
    with pytest.raises(TypeError, match=rf"OFFSET of {__name__} is .*3\.0.* verified: .*1\.0"):
        emitted.optimized(Layer().eval())


def test_a_layer_of_other_weights_and_another_number_takes_the_file(emitted: ModuleType) -> None:
    assert by_kernel(emitted.optimized(Layer(number=5).eval()))


HONEST: dict[str, Callable[[Any], Any]] = {
    "the path it was loaded from": lambda m: setattr(m.config, "_name_or_path", "elsewhere"),
    "a field that no code names": lambda m: m.config.labels.append("a"),
    "a field that was added": lambda m: setattr(m.config, "torch_dtype", "bfloat16"),
    "its cache": lambda m: m.cache.update({1: 2}),
    "calls it has had": lambda m: m(X),
    "train mode and back": lambda m: m.train().eval(),
    "its device": lambda m: setattr(m, "where", torch.device("cpu", 0)),
    "a buffer that no call reads": lambda m: m.original_frequencies.mul_(3),
    "an object it leads back to": lambda m: setattr(m, "parent", [SimpleNamespace(number=7)]),
    "an attribute of a library": lambda m: setattr(m, "_hf_hook", object()),
}


@pytest.mark.parametrize("what", HONEST)
def test_what_no_call_reads_may_differ(emitted: ModuleType, what: str) -> None:
    other = Layer().eval()
    HONEST[what](other)
    assert by_kernel(emitted.optimized(other))


def test_a_layer_that_is_cast_after_it_was_put_on_is_asked_again(tmp_path: Path) -> None:
    verified, other = Layer().to(torch.float64).eval(), Layer().eval()
    # The guard asks for all that no state shows to stay as it was put on, also where no call reads it.
    verified.original_frequencies = other.original_frequencies = None
    told = verified_of(verified, ((X.double(),), {}))
    x = {"dtype": "float64", "shape": [4, 8], "strides": [8, 1]}
    text = text_for(
        CANDIDATE, facts_of(verified, "()"), input_sets=[{"name": "x", "args": [x]}], **told
    )
    emitted = imported(text, tmp_path)
    dropin = emitted.optimized(other)
    assert dropin._dropin.refusal((X,), {}) is not None
    assert (dropin.double()(X.double()) == 0.0).all()


@pytest.mark.long
def test_what_is_told_is_the_same_in_every_process() -> None:
    code = (
        "import json, torch\n"
        "from tests.dropin.test_dropin_other_layers import Layer, verified_of\n"
        "with torch.no_grad(): print(json.dumps(verified_of(Layer().eval())))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
