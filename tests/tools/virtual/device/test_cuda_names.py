"""Code that says `cuda` on a machine without one, and the machine as it was afterwards."""

from __future__ import annotations

import warnings

import pytest
import torch

from kernelagent.tools.virtual.device.fake_cuda import WithoutContents, pretending_cuda


@pytest.fixture
def pretended():
    with pretending_cuda("sm_90"):
        yield


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, device="cuda"),
        lambda: torch.zeros(3, device=torch.device("cuda", 0)),
        lambda: torch.ones(3).cuda(),
        lambda: torch.ones(3).to("cuda:0"),
        lambda: torch.ones(3).to(device="cuda", dtype=torch.float16),
        lambda: torch.empty_like(torch.ones(3).cuda()),
        lambda: torch.ones(3, device="cuda").new_empty(3),
        lambda: torch.randn(3, generator=torch.Generator(device="cuda"), device="cuda"),
        lambda: torch.nn.Linear(2, 2).cuda().weight,
        lambda: torch.nn.Linear(2, 2).to("cuda").weight,
    ],
    ids=range(10),
)
def test_tensors_made_for_cuda_say_that_they_are_there(make):
    tensor = make()
    assert tensor.is_cuda
    assert tensor.device == torch.device("cuda", 0)
    assert tensor.device.type == "cuda"


@pytest.mark.usefixtures("pretended")
def test_the_device_s_properties_are_the_target_s():
    assert torch.cuda.is_available()
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132


@pytest.mark.usefixtures("pretended")
def test_streams_events_and_synchronisation_do_nothing():
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        began.record()
        ended.record()
    torch.cuda.synchronize()
    assert began.elapsed_time(ended) >= 0


@pytest.mark.usefixtures("pretended")
def test_autocast_for_cuda_is_entered():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        product = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
    assert product.dtype == torch.bfloat16


def test_afterwards_everything_is_as_it_was():
    before = torch.cuda.is_available, torch.nn.Module.to, torch.Generator, torch.Tensor.cuda
    with pretending_cuda("sm_90"):
        made = torch.ones(3, device="cuda")
    after = torch.cuda.is_available, torch.nn.Module.to, torch.Generator, torch.Tensor.cuda
    assert before == after
    assert made.device.type == "cpu"


@pytest.mark.usefixtures("pretended")
def test_without_contents_cuda_tensors_hold_nothing_and_still_claim_the_device():
    with WithoutContents():
        huge = torch.empty(1 << 40, device="cuda")
        like = torch.zeros(huge.shape, dtype=torch.int8, device=huge.device)
        assert huge.is_cuda
        assert huge.device.type == "cuda"
        assert like.device == huge.device
        assert huge.to("cuda:0").is_cuda
    assert huge.device.type == "meta"
    assert like.device.type == "meta"


class _OnTheGpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.full((), 2.0, device="cuda")

    @staticmethod
    def backward(ctx, upstream):
        assert upstream.is_cuda
        assert ctx.saved_tensors[0].device.type == "cuda"
        return upstream * torch.full((), 2.0, device="cuda")


@pytest.mark.parametrize("asked", ["grad", "backward"])
def test_a_backward_of_ones_own_names_the_gpu_however_it_is_asked_for(asked):
    with pretending_cuda("sm_90"):
        x = torch.ones(4, requires_grad=True)
        y = _OnTheGpu.apply(x)
        if asked == "grad":
            (found,) = torch.autograd.grad(y.sum(), x)
        else:
            y.sum().backward()
            found = x.grad
    assert found.tolist() == [2.0] * 4


def test_a_recurrent_layer_is_called_without_a_word_about_this_builds_lack_of_cudnn():
    with warnings.catch_warnings(), pretending_cuda("sm_90"):
        warnings.simplefilter("error")
        made = torch.nn.LSTM(4, 8).to("cuda")
        assert made(torch.randn(3, 2, 4, device="cuda"))[0].shape == (3, 2, 8)
