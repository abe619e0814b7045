"""Kernels that differ in names alone are one in the file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from kernelagent.models.compiler.choices import Choice
from kernelagent.models.compiler.module.shared_kernels import shared
from kernelagent.models.compiler.policy import Policy

FIRST = '''@triton.jit
def linear(
    x_ptr, weight_ptr, BLOCK: tl.constexpr,
):
    """In PyTorch: x @ weight"""
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols)
    tl.store(weight_ptr + cols, x * 2.0)
'''
SECOND = '''@triton.jit
def linear_2(scratch_ptr, out_ptr, BLOCK: tl.constexpr):
    """In PyTorch: scratch @ other"""
    cols = tl.arange(0, BLOCK)
    scratch = tl.load(scratch_ptr + cols)
    tl.store(out_ptr + cols, scratch * 2.0)
'''
LAUNCHES = """class ModelNew:
    def forward(self, x):
        linear[(1,)](x, y, BLOCK=16)
        linear_2[(1,)](y, z, BLOCK=32)
"""


def file_of(*parts: str) -> str:
    return "import triton\n\n\n" + "\n\n".join(f"{part}" for part in parts)


def test_a_kernel_that_differs_in_names_alone_is_written_once_and_launched_by_both() -> None:
    text, instead = shared(file_of(FIRST, SECOND, LAUNCHES))
    assert text == file_of(FIRST, LAUNCHES.replace("linear_2[", "linear["))
    assert instead == {"linear_2": "linear"}


def test_kernels_that_differ_in_a_number_an_order_or_a_constant_s_name_are_two() -> None:
    for other in (
        SECOND.replace("2.0", "2.5"),
        SECOND.replace("scratch_ptr, out_ptr", "out_ptr, scratch_ptr"),
        SECOND.replace("BLOCK", "WIDTH"),
        SECOND.replace("tl.load", "tl.max"),
    ):
        source = file_of(FIRST, other, LAUNCHES)
        assert shared(source) == (source, {})


def test_what_is_no_kernel_stays_as_it_is() -> None:
    source = file_of("def a(x):\n    return x\n", "def b(y):\n    return y\n")
    assert shared(source) == (source, {})


@pytest.mark.long
def test_layers_that_are_alike_launch_one_kernel_in_one_configuration() -> None:
    layers = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]
    args = (torch.randn(256, 64),)
    policy = Policy(nn.Sequential(*layers), "from_reference", {"default": (args, {})})
    first = policy.first()
    (name,) = first.configs
    assert first.source.count("@triton.jit") == 1
    assert first.source.count(f"{name}[") == 3
    wider = replace(first.configs[name], num_warps=8)
    other = policy._write(Choice(configs={name: wider}))  # noqa: SLF001 - a turn with another choice
    assert other.source.count("num_warps=8") == 3
    assert other.source.count("@triton.jit") == 1
    exact = replace(first.configs[name], precision="ieee")
    other = policy._write(Choice(configs={name: exact}))  # noqa: SLF001 - the same
    assert other.source.count("@triton.jit") == 1
    assert 'input_precision="ieee"' in other.source
