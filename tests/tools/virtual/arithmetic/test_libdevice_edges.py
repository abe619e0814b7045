"""Functions of libdevice are those of the device where a shortcut would be another number."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.virtual.arithmetic.libdevice import function_for

BELOW_HALF = 0.49999997


@pytest.mark.parametrize(
    ("symbol", "given", "wanted"),
    [
        ("__nv_roundf", [BELOW_HALF, -BELOW_HALF, 0.5, -0.5, 2.5], [0.0, -0.0, 1.0, -1.0, 3.0]),
        ("__nv_roundf", [8388609.0, float("inf")], [8388609.0, float("inf")]),
        ("__nv_logbf", [1.9999999, 2.0, 0.0, 1e-40], [0.0, 1.0, float("-inf"), -133.0]),
        ("__nv_logbf", [float("-inf"), -8.0], [float("inf"), 3.0]),
        ("__nv_cbrtf", [27.0, -8.0, 1e-30, 0.0], [3.0, -2.0, 1e-10, 0.0]),
    ],
)
def test_numbers_beside_a_boundary_are_as_on_the_device(
    symbol: str, given: list[float], wanted: list[float]
) -> None:
    made = function_for(symbol)(torch.tensor(given))
    assert torch.equal(made, torch.tensor(wanted))
    assert torch.equal(torch.signbit(made), torch.signbit(torch.tensor(wanted)))


def test_nan_stays_nan() -> None:
    for symbol in ("__nv_roundf", "__nv_logbf", "__nv_cbrtf"):
        assert function_for(symbol)(torch.tensor([float("nan")])).isnan().all()
