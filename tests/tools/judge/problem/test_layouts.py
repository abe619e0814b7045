"""Whatever is made of an input lies in memory as the user's own draw does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelagent.tools.judge.envelope.neighbours import neighbours
from kernelagent.tools.judge.problem.bundle import load_bundle, save_bundle
from kernelagent.tools.judge.problem.dynamic import resizing
from kernelagent.tools.judge.problem.load import LoadedProblem
from kernelagent.tools.judge.problem.reference.copies import cloned
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.smaller_sizes import on_meta
from kernelagent.tools.judge.problem.steps.training import training_rounds
from kernelagent.tools.judge.problem.trials.corners import corner_rounds
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.layouts import strides_at
from kernelagent.tools.judge.problem.trials.planting.literals import NONE
from kernelagent.tools.judge.problem.trials.probes import named_tensors, with_tensors
from kernelagent.tools.judge.problem.trials.rounds import Trial
from kernelagent.tools.judge.problem.trials.trials import PLAN_AT_THE_END, rounds

X = "arguments[0][0]"
Draw = Callable[[], torch.Tensor]
LAYOUTS: dict[str, Draw] = {
    "channels_last": lambda: torch.randn(2, 6, 4, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(12, 20).t(),
    "expanded": lambda: torch.randn(1, 12).expand(8, 12),
    "with gaps": lambda: torch.randn(8, 20)[:, ::2],
    "half, channels_last": lambda: torch.randn(2, 6, 4, 5).half().to(
        memory_format=torch.channels_last
    ),
}  # fmt: skip


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x) * self.gain.to(x.dtype)


def _source(draw: Draw) -> InputSource:
    def drawn(seed: int) -> tuple[tuple[torch.Tensor], dict[str, object]]:
        torch.manual_seed(seed)
        return (draw(),), {}

    return InputSource("default", ((draw().to("meta"),), {}), drawn)


def _oracle(source: InputSource) -> Oracle:
    problem = LoadedProblem(
        name="scaled",
        source="",
        entry_point="Scaled",
        constructor="init",
        build=Scaled,
        init_args=lambda: ((), {}),
        input_sets=lambda: {"default": source.draw(0)},
    )
    return Oracle(problem, "cpu", nullcontext)


def _calls(trial: Trial) -> list[tuple[str, torch.Tensor]]:
    result = [(trial.probe, named_tensors(trial.arguments)[X])]
    if trial.step is not None and trial.step.beside is not None:
        result.append(("beside", named_tensors(trial.step.beside)[X]))
    return result if trial.then is None else [*result, *_calls(trial.then)]


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_judged_call_has_the_strides_of_the_draw(layout: str) -> None:
    source = _source(LAYOUTS[layout])
    oracle = _oracle(source)
    wanted = LAYOUTS[layout]().stride()
    made = [
        call
        for this in (
            rounds(oracle, (source,), {}, plan=PLAN_AT_THE_END),
            rounds(oracle, (replace(source, constant=True),), {}),
            training_rounds(oracle, (source,), {}),
            corner_rounds(oracle, (source,), literals=NONE, steps=True),
        )
        for one in this
        for trial in one.trials
        for call in _calls(trial)
    ]
    assert {probe for probe, _ in made} > {"natural", "edges", "structures", "row_patterns"}
    assert {(p, t.stride()) for p, t in made} == {(p, wanted) for p, _ in made}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_put_in_the_place_of_a_tensor_takes_its_strides_and_keeps_its_type(
    layout: str,
) -> None:
    given = (LAYOUTS[layout](),), {}
    other = torch.randn(given[0][0].shape, dtype=torch.float64)
    (put,), _ = with_tensors(given, {X: other})
    assert put.stride() == given[0][0].stride()
    assert put.dtype == torch.float64
    if layout != "expanded":
        assert torch.equal(put, other)
    (copy,), _ = cloned(given)
    assert copy.stride() == given[0][0].stride()
    assert torch.equal(copy, given[0][0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_input_set_is_described_with_the_strides_of_its_tensors(layout: str) -> None:
    given = LAYOUTS[layout]()
    (hollow,) = on_meta((given,))
    assert hollow.stride() == given.stride()
    ((run_at,), _) = _source(LAYOUTS[layout]).draw(0)
    assert run_at.stride() == hollow.stride()


@pytest.mark.parametrize(
    ("layout", "axis", "strides"),
    [
        ("channels_last", 1, (140, 1, 35, 7)),
        ("channels_last", 0, (120, 1, 30, 6)),
        ("transposed", 1, (1, 20)),
        ("transposed", 0, (1, 7)),
        ("expanded", 1, (0, 1)),
        ("with gaps", 0, (20, 2)),
        ("with gaps", 1, (14, 2)),
    ],
)
def test_at_other_sizes_the_dimensions_lie_in_the_same_order(
    layout: str, axis: int, strides: tuple[int, ...]
) -> None:
    source = _source(LAYOUTS[layout])
    (made,), _ = resizing(source.draw, ((X, axis),), 7)(0)
    assert made.shape[axis] == 7
    assert made.stride() == strides


def test_a_channel_alone_becomes_several_in_the_order_of_its_tensor() -> None:
    one = torch.empty(2, 1, 4, 5).to(memory_format=torch.channels_last)
    assert one.is_contiguous()
    assert strides_at((2, 3, 4, 5), one) == (60, 20, 5, 1)
    first = torch.empty(1, 3, 4, 5).to(memory_format=torch.channels_last)
    assert strides_at((4, 3, 4, 5), first) == (60, 1, 15, 3)


def test_neighbours_of_an_input_in_channels_last_are_in_channels_last() -> None:
    source = _source(LAYOUTS["channels_last"])
    near = [
        n.source.draw(1)[0][0] for n in neighbours(source, (), _oracle(source), interpreted=True)
    ]
    assert len(near) > 4
    same_rank = [t for t in near if t.dim() == 4]
    assert all(t.is_contiguous(memory_format=torch.channels_last) for t in same_rank)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_live_module_and_its_inputs_are_kept_with_their_strides(
    layout: str, tmp_path: Path
) -> None:
    module = torch.nn.Conv2d(3, 6, 3).to(memory_format=torch.channels_last)
    given = LAYOUTS[layout]()
    save_bundle(tmp_path, module, (given,))
    problem = load_bundle(tmp_path)
    ((kept,), _) = problem.input_sets()["default"]
    assert kept.stride() == given.stride()
    assert torch.equal(kept, given)
    assert problem.build().weight.stride() == module.weight.stride()
