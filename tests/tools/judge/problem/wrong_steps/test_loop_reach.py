"""How many rounds later it shows what a round of a loop has changed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch

from kernelagent.tools.judge.problem.wrong_steps.loop_reach import LoopReach
from tests.tools.judge.problem.wrong_steps.references import file_of, reference

LEVEL = (
    "on = torch.zeros_like(x[:, 0], dtype=torch.bool)",
    "every = []",
    "for at in range(x.shape[1]):",
    "    on = (x[:, at] > 2) | (on & (x[:, at] > 1))",
    "    every.append(on)",
    "return torch.stack(every, 1)",
)
ALONE = ("return torch.stack([torch.relu(x[:, at]) for at in range(x.shape[1])], 1)",)
FORGOTTEN = [
    1.2 + torch.randn(4, 12, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(20)
]
FILTER = ("return torch.stack([x[:, at] + 0.5 * x[:, at - 1] for at in range(x.shape[1])], 1)",)
CELL = (
    "torch.manual_seed(0)",
    "cell, state, every = torch.nn.GRUCell(6, 6), x[:, 0], []",
    "for at in range(x.shape[1]):",
    "    state, _ = torch.sort(cell(x[:, at], state))",
    "    every.append(state)",
    "return torch.stack(every, 1)",
)
VMAPPED = (
    "def one(row):",
    "    state, every = row[0], []",
    "    for at in range(12):",
    "        state = torch.maximum(0.5 * state, row[at])",
    "        every.append(state)",
    "    return torch.stack(every)",
    "return torch.vmap(one)(x)",
)
REMEMBERED = torch.cat([torch.tensor([3.0, 0.0]).repeat(3).expand(4, 1, 6), torch.full((4, 11, 6), 1.5)], 1)  # fmt: skip


def reach_of(folder: Path, text: tuple[str, ...], inputs: list[torch.Tensor]) -> LoopReach:
    oracle = reference(folder, *text)
    reach = LoopReach(file_of(oracle), 60.0, below=Random(0).randrange)
    for x in inputs:
        reach.note(oracle, ((x,), {}))
    return reach


def looked_at_once(folder: Path) -> LoopReach:
    """A loop of 12 rounds, of which no call has been noted."""
    oracle = reference(folder, *LEVEL)
    reach = LoopReach(file_of(oracle), 60.0, below=Random(0).randrange)
    assert set(reach.of_call(oracle, ((REMEMBERED,), {}))) == {12}
    return reach


def test_what_is_soon_forgotten_is_told(tmp_path: Path) -> None:
    reach = looked_at_once(tmp_path)
    for rounds in (1, 0, 3, 2):
        reach.take({12: rounds})
    told = reach.sentence()
    assert told is not None
    assert "line 9 (of 12 rounds): 3 rounds later" in told
    reach.take({12: 8})
    assert reach.sentence() is None


def test_a_call_that_reaches_further_is_worth_making(tmp_path: Path) -> None:
    reach = looked_at_once(tmp_path)
    reach.take({12: 1})
    reach.take({12: 2})
    assert not reach.is_further({12: 3})
    assert reach.is_further({12: 4})
    assert not reach.is_further({})


def test_of_what_is_remembered_to_the_end_nothing_is_told(tmp_path: Path) -> None:
    reach = reach_of(tmp_path, LEVEL, 20 * [REMEMBERED])
    assert reach.sentence() is None
    assert reach.is_known


def test_rounds_that_hand_nothing_on_are_not_told(tmp_path: Path) -> None:
    reach = reach_of(tmp_path, ALONE, FORGOTTEN)
    assert reach.sentence() is None
    assert reach.is_known


def test_a_filter_that_always_reaches_as_far_is_not_told(tmp_path: Path) -> None:
    assert reach_of(tmp_path, FILTER, FORGOTTEN).sentence() is None


def test_steps_that_answer_several_tensors_hand_on_as_well(tmp_path: Path) -> None:
    reach = reach_of(tmp_path, CELL, FORGOTTEN)
    oracle = reference(tmp_path, *CELL)
    assert max(reach.of_call(oracle, ((FORGOTTEN[0],), {})).values()) > 0


def test_what_a_transform_of_functions_holds_is_not_kept(tmp_path: Path) -> None:
    assert reach_of(tmp_path, VMAPPED, FORGOTTEN).sentence() is None
