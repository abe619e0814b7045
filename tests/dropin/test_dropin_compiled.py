"""`torch.compile` around a drop-in: one graph with the kernels' module in it, and right answers always.

Dynamo traces without a GPU; what Inductor then makes of the kernels is not tried here.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.tools.corpus.fixture import honest_kernel
from tests.dropin.emitted import CANDIDATE, Block, facts_of, imported, text_for, warnings_as_errors

pytestmark = pytest.mark.long

TELLING = CANDIDATE.replace("        CALLS[0] += 1\n", "").replace("hidden * norm", "norm * hidden")
"""Its graph can be told from the original's, and none of its lines is a side effect."""
X = torch.randn(4, 8)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(5)


@pytest.fixture
def file(tmp_path: Path) -> ModuleType:
    return imported(text_for(TELLING), tmp_path)


class Graphs:
    """A backend that keeps what it was given and runs it as it is."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.seen.append(graph.code)
        return graph.forward

    @property
    def last_is_fast(self) -> bool:
        return "norm * hidden" in self.seen[-1]


def in_a_model(dropin: torch.nn.Module) -> tuple[torch.nn.Module, torch.nn.Module]:
    """A model around the drop-in, and the same around the original."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), dropin, torch.nn.ReLU()).eval()
    return model, torch.nn.Sequential(model[0], dropin.original, model[2])


def agrees(compiled: Any, model: torch.nn.Module, x: torch.Tensor = X) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
def test_a_model_around_it_is_one_graph(file: ModuleType, backend: str) -> None:
    model, plain = in_a_model(file.optimized(Block().eval()))
    with warnings_as_errors():
        agrees(torch.compile(model, backend=backend, fullgraph=True), plain)


def test_the_graph_holds_what_the_kernels_module_does(file: ModuleType) -> None:
    graphs = Graphs()
    model, plain = in_a_model(file.optimized(Block().eval()))
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    for _ in range(3):
        agrees(compiled, plain)
    assert len(graphs.seen) == 1
    assert graphs.last_is_fast


def test_a_call_outside_compiles_the_original_into_the_graph_and_says_so(file: ModuleType) -> None:
    graphs = Graphs()
    model, plain = in_a_model(file.optimized(Block().eval()))
    compiled = torch.compile(model, backend=graphs, fullgraph=True, dynamic=False)
    agrees(compiled, plain)
    with pytest.warns(file.OutsideEnvelopeWarning, match="shape"):
        agrees(compiled, plain, torch.randn(5, 8))
    assert not graphs.last_is_fast
    agrees(compiled, plain)
    assert len(graphs.seen) == 2


def change_attribute(block: Any) -> None:
    block.eps = 0.5


def change_type(block: Any) -> None:
    block.half().float()
    block.fc.weight.data = block.fc.weight.data.double().float() + 1


def change_parameter(block: Any) -> None:
    block.gain = torch.nn.Parameter(torch.randn(8))


def change_buffer(block: Any) -> None:
    block.shift = torch.randn(8)


def change_submodule(block: Any) -> None:
    block.fc = torch.nn.Linear(8, 8)


def change_in_place(block: Any) -> None:
    with torch.no_grad():
        block.gain.mul_(3.0)


def change_flag(block: Any) -> None:
    block.train()
    block.drop.p = 1.0


CHANGES = [
    change_attribute,
    change_type,
    change_parameter,
    change_buffer,
    change_submodule,
    change_in_place,
    change_flag,
]


_FIRST = {change_attribute, change_parameter}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(c, id=c.__name__, marks=() if c in _FIRST else pytest.mark.long)
        for c in CHANGES
    ],
)
def test_a_change_of_the_original_is_seen_by_a_graph_that_exists(
    file: ModuleType, change: Any
) -> None:
    graphs = Graphs()
    block = Block().eval()
    model, plain = in_a_model(file.optimized(block))
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    agrees(compiled, plain)
    before = compiled(X).detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", file.OutsideEnvelopeWarning)
        change(block)
        agrees(compiled, plain)
    assert not torch.allclose(compiled(X), before)


def test_another_type_runs_the_original_in_the_graph(file: ModuleType) -> None:
    model, plain = in_a_model(file.optimized(Block().eval()))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    agrees(compiled, plain)
    model.double()
    with pytest.warns(file.OutsideEnvelopeWarning, match="dtype"):
        agrees(compiled, plain, X.double())


def test_a_needed_gradient_runs_the_original_in_the_graph(file: ModuleType) -> None:
    graphs = Graphs()
    model, plain = in_a_model(file.optimized(Block().eval()))
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    agrees(compiled, plain)
    assert graphs.last_is_fast
    with torch.enable_grad(), pytest.warns(file.OutsideEnvelopeWarning, match="gradient"):
        compiled(X).sum().backward()
    assert not graphs.last_is_fast
    assert model[1].gain.grad is not None


WITH_BACKWARD = """
import torch
from torch import nn
from torch.autograd.function import once_differentiable


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        x, gain = ctx.saved_tensors
        return upstream * gain, (upstream * x).sum(0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return Scaled.apply(x, self.gain)
"""


class Gain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain


def test_a_backward_that_was_verified_is_compiled_with_its_forward(tmp_path: Path) -> None:
    module = Gain()
    text = text_for(WITH_BACKWARD, facts_of(module, "()"), modes=["eval", "train"])
    dropin = imported(text, tmp_path).optimized(module)
    compiled = torch.compile(dropin, backend="aot_eager", fullgraph=True)
    given = [torch.randn(4, 8).requires_grad_() for _ in range(2)]
    given[1].data.copy_(given[0].data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        (compiled(given[0]) * 2).sum().backward()
    kept, module.gain.grad = module.gain.grad, None
    (module(given[1]) * 2).sum().backward()
    torch.testing.assert_close(kept, module.gain.grad)
    torch.testing.assert_close(given[0].grad, given[1].grad)


class ReluAffine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(torch.randn(8)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.weight + self.bias


class Traced(Exception):
    """The graph is in hand; without a GPU it cannot be run."""


@pytest.mark.parametrize("trained", [pytest.param(False, marks=pytest.mark.long), True])
def test_triton_kernels_stand_in_the_graph_themselves(
    tmp_path: Path, trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dynamo looks for kernels only where Triton has a device, as on a machine with a GPU.
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)
    source = honest_kernel("relu_affine_trained" if trained else "relu_affine")
    module = ReluAffine().eval()
    modes = ["eval", "train"] if trained else ["eval"]
    text = text_for(source, facts_of(module, "(8,)"), modes=modes)
    dropin = imported(text, tmp_path).optimized(module)
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        parts = [part for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
        seen.extend(part.code for part in parts)
        raise Traced

    compiled = torch.compile(dropin, backend=backend, fullgraph=True)
    with torch.set_grad_enabled(trained), pytest.raises(Exception, match="Traced"):
        compiled(X)
    assert "triton_kernel_wrapper_mutation" in "".join(seen)


def test_an_export_without_dynamo_holds_the_original(file: ModuleType) -> None:
    dropin = file.optimized(Block().eval())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(dropin, (X,), strict=False)
        torch.testing.assert_close(exported.module()(X), dropin.original(X))


def test_a_call_in_another_form_than_the_verified_one_breaks_the_graph_and_is_right(
    file: ModuleType,
) -> None:
    dropin = file.optimized(Block().eval())
    compiled = torch.compile(dropin, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x=X), dropin.original(X))
