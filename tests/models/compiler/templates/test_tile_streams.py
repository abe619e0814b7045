"""Programs that share out the turns of all tiles equally: every cut is added up, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelagent.models.compiler.choices import PRECEDES, Choice, Config
from kernelagent.models.compiler.templates.matmul.tile_streams import PROGRAMS, whole_tiles
from kernelagent.tools.virtual.batched.interpreter import BatchedInterpreter
from tests.models.compiler.templates.interpreted import answer
from tests.models.compiler.templates.test_gemm import Of, sites, written

BLOCKS = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 2, "SPLIT_K": 1}

A, B = torch.randn(50, 100), torch.randn(100, 24)
CASES: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor, str]] = {
    "an elementwise end": (lambda a, b: torch.relu(a @ b), A, B, "matmul_relu"),
    "rows that are held": (lambda a, b: torch.softmax(a @ b, -1), A, B, "matmul_softmax"),
    "a batch": (
        lambda a, b: torch.relu(a @ b),
        torch.randn(3, 50, 100),
        torch.randn(3, 100, 24),
        "batched_matmul_relu",
    ),
    "a batch of rows that are held": (
        lambda a, b: torch.softmax(a @ b, -1),
        torch.randn(3, 50, 100),
        torch.randn(3, 100, 24),
        "batched_matmul_softmax",
    ),
    "an addend": (lambda a, b: torch.addmm(b[0], a, b), A, B, "matmul_bias"),
    "a factor that tiles compute": (lambda a, b: torch.sigmoid(a) @ b, A, B, "sigmoid_matmul"),
}


@pytest.mark.long
@pytest.mark.parametrize("programs", [1, 3, 7, 13, 200])
@pytest.mark.parametrize("name", CASES)
def test_every_part_is_added_up_once(name: str, programs: int, tmp_path: Path) -> None:
    function, a, b, kernel = CASES[name]
    blocks = {**BLOCKS, "BLOCK_N": 32, PROGRAMS: programs}
    choice = Choice(
        configs={kernel: Config(blocks, 4, 3, "ieee")},
        sites={"product 0": True, f"{PRECEDES}product 0": True},
    )
    source = written(Of(function), a, b, choice=choice).source
    assert f"PROGRAMS={programs}" in source, source
    got = answer(BatchedInterpreter(), source, tmp_path, Of(function), a, b)
    torch.testing.assert_close(got, function(a, b), rtol=1e-4, atol=1e-4)


def test_only_what_whole_rounds_leave_is_shared_out() -> None:
    assert [whole_tiles(tiles, 4) for tiles in (1, 4, 7, 8, 11, 12)] == [0, 0, 0, 4, 4, 8]


def test_tiles_that_leave_much_idle_are_shared_out_and_others_are_not() -> None:
    def first(rows: int) -> dict[str, int]:
        (site,) = sites(Of(lambda a, b: a @ b), torch.empty(rows, 1536), torch.empty(1536, 1536))
        return site.first.config.blocks  # type: ignore[attr-defined, no-any-return]

    assert first(1536)[PROGRAMS] == 132
    assert PROGRAMS not in first(1408)
