"""The reference's float32 products are as exact as a GPU's under torch's settings, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kernelagent.tools.calls.float32_precision import convolutions_round, matmul_precision
from kernelagent.tools.judge.problem.reference.lowered_precision import as_allowed

TF32 = 2.0**-10
"""What cutting off the last 13 of 24 bits may lose."""


@pytest.fixture(autouse=True)
def as_torch_has_it() -> Iterator[None]:
    yield
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    torch.backends.cudnn.rnn.fp32_precision = "tf32"
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")


def lost(forward, *tensors: torch.Tensor) -> float:
    """How far it is from float64, in units of the result's size."""
    right = forward(*(t.double() for t in tensors))
    with as_allowed({}), torch.no_grad():
        made = forward(*tensors)
    return float((made - right).norm() / right.norm())


def convolved(**options):
    return lambda x, w: torch.nn.functional.conv2d(x, w, **options)


X, W = torch.randn(2, 16, 12, 12), torch.randn(8, 16, 3, 3)


@pytest.mark.parametrize(("asked", "least", "most"), [("highest", 0, 1e-6), ("high", 1e-5, TF32)])
def test_products_round_as_the_file_allows(asked: str, least: float, most: float) -> None:
    torch.set_float32_matmul_precision(asked)
    assert least <= lost(torch.matmul, torch.randn(64, 96), torch.randn(96, 32)) < most


def test_convolutions_round_to_tf32_unless_the_file_forbids_it() -> None:
    assert 1e-5 < lost(convolved(), X, W) < TF32
    torch.backends.cudnn.allow_tf32 = False
    assert lost(convolved(), X, W) < 1e-6


def test_depthwise_convolutions_and_matrix_products_stay_in_float32() -> None:
    assert lost(convolved(groups=16), X, torch.randn(16, 1, 3, 3)) < 1e-6
    assert lost(torch.matmul, torch.randn(64, 96), torch.randn(96, 32)) < 1e-6


def test_what_was_rounded_is_told_with_what_its_factors_lose() -> None:
    def told() -> dict[str, float]:
        lowered: dict[str, float] = {}
        with as_allowed(lowered), torch.no_grad():
            convolved()(X, W)
            convolved(groups=16)(X, torch.randn(16, 1, 3, 3))
            convolved()(X.double(), W.double())
            torch.matmul(X, torch.randn(12, 4))
        return lowered

    assert told() == {"convolution": 2.0**-11}
    torch.set_float32_matmul_precision("medium")
    assert told() == {"convolution": 2.0**-11, "mm": 2.0**-8}
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    assert told() == {}


def test_groups_and_transposed_convolutions_round() -> None:
    assert lost(convolved(groups=4), X, torch.randn(8, 4, 3, 3)) > 1e-5
    transposed = torch.nn.functional.conv_transpose2d
    assert lost(lambda x, w: transposed(x, w, groups=16), X, torch.randn(16, 1, 3, 3)) > 1e-5


def test_what_lies_channels_last_stays_so() -> None:
    x = X.to(memory_format=torch.channels_last)
    with as_allowed({}):
        assert (
            convolved()(x, W).stride()
            == convolved()(x, W).contiguous(memory_format=torch.channels_last).stride()
        )


def test_gradients_of_a_convolution_round_too() -> None:
    def gradient(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            return torch.autograd.grad(convolved()(x, w).sum(), x)[0]

    assert lost(gradient, X, W) > 1e-5


@pytest.mark.parametrize(
    ("written", "matmul", "convolutions"),
    [
        ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", "high", True),
        ("torch.backends.cuda.matmul.fp32_precision = 'ieee'", "highest", True),
        ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", "highest", False),
        ("torch.backends.cudnn.allow_tf32 = False", "highest", False),
        ("torch.set_float32_matmul_precision('medium')", "medium", True),
    ],
)
def test_both_ways_of_setting_it_are_understood(
    written: str, matmul: str, convolutions: bool
) -> None:
    exec(written)
    assert (matmul_precision(), convolutions_round()) == (matmul, convolutions)
