"""The benchmark of the interpreter finds the kernels that it times, and launches them."""

from __future__ import annotations

import torch

from benchmarks import interpreter


def test_every_kernel_of_the_table_is_found_with_a_grid_of_a_thousand_programs_and_more() -> None:
    for kernel, grid, named in interpreter.cases().values():
        assert set(named) == {p.name for p in kernel.params}
        assert torch.tensor(grid).prod() >= 1000


def test_ours_runs_a_kernel_of_the_table_with_all_programs_together() -> None:
    kernel, _, named = interpreter.cases()["softmax"]
    row = interpreter.best_of("together", kernel, (64,), named)
    assert row["together"] == 64
    assert torch.allclose(named["y"][:64], named["x"][:64].softmax(-1), atol=1e-6)
