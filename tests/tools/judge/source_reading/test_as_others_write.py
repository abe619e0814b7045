"""What kernels of other projects have in their text, and what a text that looks like it may hide."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.source_reading.allowed import ATTRIBUTES
from kernelagent.tools.judge.source_reading.reading import read
from tests.tools.judge.source_reading.test_source_reading import codes, module


def test_a_row_that_is_made_from_itself_is_followed():
    plain = "rows = [x * 1]\nrows = rows + rows\nrows = rows * 2\nrows[0].mul_(2)"
    assert read(module(plain)) == ()
    kept = "rows = [self.kept]\nrows = rows + rows\nrows[0].append(x)"
    assert "keeps_state" in codes(module(kept, init="self.kept = []"))


def test_what_a_kernel_asks_of_a_type_is_no_question_about_the_machine():
    kernel = (
        "@triton.jit\ndef least(kind: tl.constexpr):\n    if kind.value.is_int_signed():\n"
        "        return -(2 ** (kind.value.int_bitwidth - 1))\n    return 0\n\n"
        "@triton.jit\ndef least_of(x_ptr):\n    tl.store(x_ptr, least(x_ptr.type.element_ty))\n"
    )
    assert read(module("least_of[(1,)](x)", top=kernel)) == ()
    asked = "if x.is_cuda and x.type() == 'torch.cuda.FloatTensor':\n    x = x * 2"
    assert "asks_where_it_runs" in codes(module(asked, top=kernel))


@pytest.mark.parametrize(
    "line", ["x, _ = x.sort()", "x = x.sort().values", "x = self.w.sort(0)[0]"]
)
def test_a_sort_whose_answer_has_parts_is_a_tensors(line):
    assert read(module(line, init="self.w = nn.Parameter(torch.ones(n))")) == ()


@pytest.mark.parametrize(
    "line", ["self.kept.sort()", "y = self.kept.sort()", "f = self.kept.sort\nf()"]
)
def test_a_sort_that_leaves_a_list_sorted_is_named(line):
    assert "keeps_state" in codes(module(line, init="self.kept = []"))


KEPT_DEVICE = """
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.device = DEVICE
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        return dy + torch.zeros(3, device=ctx.device)


"""


def test_a_device_that_is_kept_for_the_backward_is_no_number():
    body = "x = Op.apply(x)\ny = torch.empty(3, device=x.device)"
    assert read(module(body, top=KEPT_DEVICE.replace("DEVICE", "x.device"))) == ()
    for number in ("0", "f'cuda:{len(x.shape)}'", "x.device if x.shape[0] else 0"):
        assert "asks_where_it_runs" in codes(
            module(body, top=KEPT_DEVICE.replace("DEVICE", number))
        )


ASKED = """
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x * w

    @staticmethod
    def backward(ctx, dy):
        if ctx.needs_input_grad[0]:
            dx = dy * 2
        else:
            OTHERWISE
        return dx, None


"""


@pytest.mark.parametrize(
    ("otherwise", "told"), [("dx = None", set()), ("dx = dy * 0", {"asks_where_it_runs"})]
)
def test_a_gradient_that_is_not_asked_for_may_be_none_by_name(otherwise, told):
    assert codes(module("x = Op.apply(x, x)", top=ASKED.replace("OTHERWISE", otherwise))) == told


def test_what_torch_calls_constants_of_its_modules_is_nothing_to_remark() -> None:
    kinds = [kind for kind in vars(torch.nn).values() if isinstance(kind, type)]
    constants = {
        name
        for kind in kinds
        if issubclass(kind, torch.nn.Module)
        for name in getattr(kind, "__constants__", ())
    }
    assert {"num_channels", "in1_features"} <= constants
    assert constants <= ATTRIBUTES
