"""A module that is not, or no longer, the one that was verified is not answered by the kernels."""

from __future__ import annotations

import copy
import pickle
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from kernelagent.tools.judge.envelope.settings import settings_of, tied_in
from tests.dropin.emitted import Block, facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)
TEMPERATURE = 1.0


class Slotted:
    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 2.0


class Private:
    def __init__(self) -> None:
        self._gain = 2.0


@dataclass
class Inner:
    eps: float = 1e-5


@dataclass
class Settings:
    norm: Inner = field(default_factory=Inner)


class Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Scaled(torch.nn.Module):
    cap = 5.0

    def __init__(self, scale: float = 3, number: int = 0) -> None:
        super().__init__()
        self.scale = scale
        self.number = number
        self.norm = Norm()
        self.settings = Settings()
        self.slotted, self.private = Slotted(), Private()
        self.bounds = np.array([1.0, 2.0])
        self.first = torch.nn.Parameter(torch.ones(8))
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gain = self.slotted.gain * self.private._gain * float(self.bounds[1])
        x = self.norm(x) * self.scale * gain + self.settings.norm.eps
        return x * self.cap / TEMPERATURE * getattr(self, "boost", 1.0) * self.first * self.second


CANDIDATE = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.ones(8))
        self.second = self.first

    def forward(self, x):
        CALLS[0] += 1
        return ((x * 2) * 3 * 8.0 + 1e-5) * 5.0 * self.first * self.first
"""


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


@pytest.fixture
def emitted(tmp_path: Path) -> ModuleType:
    verified = Scaled().eval()
    told = {"attributes": settings_of(verified), "tied": tied_in(verified)}
    return imported(text_for(CANDIDATE, facts_of(verified, "()"), **told), tmp_path)


def by_kernel(emitted: ModuleType, dropin: torch.nn.Module) -> None:
    before = emitted.CALLS[0]
    torch.testing.assert_close(dropin(X), dropin.original(X), rtol=1e-4, atol=1e-4)
    assert emitted.CALLS[0] == before + 1


class Other(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.ones(8))
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - 100


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Scaled(7), "attribute scale is 7, verified: 3"),
        (Scaled(3.0), r"attribute scale is 3\.0, verified: 3"),
        (Other(), "class of the module is .*Other, verified: Scaled"),
    ],
)
def test_a_module_built_otherwise_than_the_verified_one_is_refused(
    emitted: ModuleType, module: torch.nn.Module, said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        emitted.optimized(module.eval())


def test_a_module_whose_tied_parameters_are_two_is_refused(emitted: ModuleType) -> None:
    untied = Scaled()
    untied.second = torch.nn.Parameter(torch.ones(8))
    with pytest.raises(TypeError, match="were one tensor"):
        emitted.optimized(untied.eval())


def test_what_no_forward_reads_may_differ_from_the_verified_module(emitted: ModuleType) -> None:
    by_kernel(emitted, emitted.optimized(Scaled(number=5).eval()))


def _another_forward(module: Any) -> None:
    module.norm.forward = lambda x: x * 5


def _another_norm(module: Any) -> None:
    kind = type("Norm", (torch.nn.Module,), {"forward": lambda self, x: x * 7})
    kind.__qualname__ = Norm.__qualname__
    module.norm = kind()


CHANGES: dict[str, Callable[[Any], None]] = {
    "settings in settings": lambda m: setattr(m.settings.norm, "eps", 1.0),
    "settings in slots": lambda m: setattr(m.slotted, "gain", 5.0),
    "private settings": lambda m: setattr(m.private, "_gain", 5.0),
    "a numpy array written to": lambda m: m.bounds.__setitem__(1, 0.5),
    "a float for an integer": lambda m: setattr(m, "scale", 3.0),
    "an attribute that was added": lambda m: setattr(m, "boost", 5.0),
    "a forward on a part": _another_forward,
    "another class of the same name": _another_norm,
    "parameters no longer tied": lambda m: setattr(m, "second", torch.nn.Parameter(torch.zeros(8))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_the_forward_reads_runs_the_original(emitted: ModuleType, change: str) -> None:
    dropin = emitted.optimized(Scaled().eval())
    by_kernel(emitted, dropin)
    by_kernel(emitted, dropin)
    CHANGES[change](dropin)
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="what was verified"):
        assert torch.equal(dropin(X), dropin.original(X))


@pytest.mark.parametrize(
    ("holder", "name", "value"),
    [
        (Norm, "forward", lambda self, x: x * 9),
        (Scaled, "cap", 1.0),
        (globals(), "TEMPERATURE", 3.0),
    ],
    ids=["a forward patched on its class", "a class attribute", "a global"],
)
def test_what_a_class_or_a_file_holds_for_the_forward_is_compared(
    emitted: ModuleType, monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, value: Any
) -> None:
    dropin = emitted.optimized(Scaled().eval())
    by_kernel(emitted, dropin)
    with monkeypatch.context() as patched:
        if isinstance(holder, dict):
            patched.setitem(holder, name, value)
        else:
            patched.setattr(holder, name, value)
        with pytest.warns(emitted.OutsideEnvelopeWarning, match=name):
            assert torch.equal(dropin(X), dropin.original(X))
    by_kernel(emitted, dropin)


def test_an_object_the_forward_reads_and_nothing_shows_runs_the_original(
    emitted: ModuleType,
) -> None:
    import itertools
    import re

    module = Scaled().eval()
    module.pattern = re.compile("a")  # not read by the forward
    by_kernel(emitted, emitted.optimized(module))
    module.boost = itertools.count()  # read by it
    assert "nothing that can be compared" in str(
        emitted.optimized(module)._dropin.refusal((X,), {})
    )


def test_what_an_ordinary_program_does_keeps_the_kernels(tmp_path: Path) -> None:
    import logging

    module = Block().eval()
    emitted = imported(text_for(attributes=settings_of(module)), tmp_path)
    module.log = logging.getLogger("kernels")
    dropin = emitted.optimized(module)
    by_kernel(emitted, dropin)
    dropin.label = "third"  # no forward reads it
    dropin.fc.tag = types.SimpleNamespace(of="a library")
    module.log.debug("said")
    by_kernel(emitted, dropin)
    dropin.train().eval()
    dropin.to("cpu")
    dropin.load_state_dict(dropin.state_dict())
    by_kernel(emitted, dropin)
    for other in (copy.deepcopy(dropin), pickle.loads(pickle.dumps(dropin))):
        by_kernel(emitted, other)
    watch = dropin._dropin._watch
    by_kernel(emitted, dropin)
    assert dropin._dropin._watch is watch


def test_a_stricter_matmul_precision_than_the_verified_one_runs_the_original(
    tmp_path: Path,
) -> None:
    facts = facts_of(Scaled(), "()")
    emitted = imported(text_for(CANDIDATE, facts, float32_matmul_precision="high"), tmp_path)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        dropin = emitted.optimized(Scaled().eval())
        by_kernel(emitted, dropin)
        torch.set_float32_matmul_precision("highest")
        with pytest.warns(emitted.OutsideEnvelopeWarning, match="torch's settings of float32"):
            dropin(X)
        torch.set_float32_matmul_precision("medium")
        by_kernel(emitted, dropin)
    finally:
        torch.set_float32_matmul_precision(before)


def test_convolutions_that_may_no_longer_be_rounded_run_the_original(tmp_path: Path) -> None:
    facts = facts_of(Scaled(), "()")
    emitted = imported(text_for(CANDIDATE, facts, float32_convolutions="tf32"), tmp_path)
    dropin = emitted.optimized(Scaled().eval())
    by_kernel(emitted, dropin)
    seen: list[str] = []
    try:
        for off, on in (
            ("torch.backends.cudnn.allow_tf32 = False", "torch.backends.cudnn.allow_tf32 = True"),
            (
                "torch.backends.cudnn.conv.fp32_precision = 'ieee'",
                "torch.backends.cudnn.conv.fp32_precision = 'tf32'",
            ),
        ):
            exec(off)
            before = emitted.CALLS[0]
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                dropin(X)
            assert emitted.CALLS[0] == before
            seen += [str(item.message) for item in said]
            exec(on)
            by_kernel(emitted, dropin)
    finally:
        torch.backends.cudnn.allow_tf32 = True
    (message,) = seen
    assert "torch's settings of float32 ask for more than was verified" in message


@pytest.mark.long
@pytest.mark.parametrize(
    "envelope", [{"float32_convolutions": "tf32"}, {"float32_matmul_precision": "high"}]
)
def test_what_may_be_rounded_is_compared_in_a_compiled_graph_too(
    tmp_path: Path, envelope: dict[str, str]
) -> None:
    emitted = imported(text_for(CANDIDATE, facts_of(Scaled(), "()"), **envelope), tmp_path)
    dropin = emitted.optimized(Scaled().eval())
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        compiled = torch.compile(dropin, backend="eager", fullgraph=True)
        compiled(X)
        by_kernel_so_far = emitted.CALLS[0]
        assert by_kernel_so_far > 0
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", emitted.OutsideEnvelopeWarning)
            compiled(X)
        assert emitted.CALLS[0] == by_kernel_so_far
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = True
