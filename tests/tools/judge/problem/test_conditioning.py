from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import layer_norm

from kernelagent.tools.judge.problem.reference.conditioning import (
    long_sum_noise,
    longest_sum,
    measure_noise,
    noise_on_demand,
    steps_on_demand,
    uneven_accuracy,
)
from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.compare.gate import gate
from kernelagent.tools.judge.verify.compare.regions import Noise, NoiseSources


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def noise_of(reference, tensors):
    return measure_noise(reference, tensors, reference(tensors), seeded())


def test_noise_of_a_product_is_the_rounding_of_its_factors():
    tensors = {"x": torch.randn(64, 64, generator=seeded()).bfloat16()}
    noise = noise_of(lambda t: 3 * t["x"].double(), tensors)["output"].inputs
    size = float((3 * tensors["x"].double()).square().mean().sqrt())
    assert float(noise.rms[0]) == pytest.approx(2.0**-8 * size, rel=1e-6)


def test_cancellation_shows_as_noise():
    tensors = {"x": 100 + torch.randn(64, 512, generator=seeded())}

    def centred(t):
        x = t["x"].double()
        return x - x.mean(-1, keepdim=True)

    noise = noise_of(centred, tensors)["output"].inputs
    assert float(noise.rms[0]) == pytest.approx(100 * 2.0**-24, rel=0.1)


def test_sums_that_cancel_exactly_leave_the_rounding_of_their_steps():
    """As in a backward of softmax that picked one element: (dp - delta) is zero whatever the inputs."""
    tensors = {"v": torch.randn(64, 32, generator=seeded()), "g": torch.randn(64, 32)}

    def difference(t):
        v, g = t["v"].double(), t["g"].double()
        return (v * g).sum(-1) - (g * v).sum(-1)

    noise = noise_of(difference, tensors)["output"].steps
    size = float((tensors["v"] * tensors["g"]).sum(-1).square().mean().sqrt())
    assert 0.5 * 2.0**-24 * size < float(noise.rms[0]) < 8 * 2.0**-24 * size


def test_a_module_that_has_no_rounding_gets_no_noise_from_its_steps():
    tensors = {"x": torch.randn(64, 32, generator=seeded())}
    noise = noise_of(lambda t: t["x"].double().t().reshape(-1), tensors)["output"].steps
    assert not noise.max.any()


def test_steps_in_float32_excuse_no_result_in_float64():
    right = torch.zeros(600, dtype=torch.float64)
    steps = Noise(torch.full((3,), 1e-3), torch.full((3,), 1e-3))
    noise = NoiseSources(Noise(torch.zeros(3), torch.zeros(3)), steps)
    off = torch.full_like(right, 1e-3)
    assert gate(off.float(), right.float(), right, 1.0, noise=noise).passed
    assert not gate(off, right, right, 1.0, noise=noise).passed


def test_integers_and_masks_are_not_moved():
    tensors = {
        "i": torch.arange(6),
        "mask": torch.tensor([0.0, -torch.inf, 0.0]),
    }
    moved = []

    def reference(t):
        moved.append(t)
        return t["mask"].double().exp()

    measure_noise(reference, tensors, reference(tensors), seeded())
    for seen in moved:
        assert torch.equal(seen["i"], tensors["i"])
        assert torch.equal(seen["mask"].float(), tensors["mask"])


def test_noise_is_measured_once_and_only_when_asked():
    calls = []

    def reference(t):
        calls.append(1)
        return t["x"].double().sum(-1)

    tensors = {"x": torch.ones(4, 8)}
    measure = noise_on_demand(reference, tensors, reference(tensors), seeded())
    assert len(calls) == 1
    first = measure("output").inputs
    asked = len(calls)
    again = measure("output").inputs
    assert len(calls) == asked > 1
    assert torch.equal(first.rms, again.rms)


def test_an_empty_output_beside_another_has_no_noise():
    tensors = {"x": torch.ones(4)}
    noise = noise_of(lambda t: (t["x"].double(), t["x"].double()[:0]), tensors)
    assert list(noise) == ["output[0]"]


def test_long_sums_are_read_from_the_shapes():
    square = torch.zeros(64, 64)
    assert longest_sum({"x": torch.zeros(8, 65536)}, torch.zeros(8)) == 65536
    assert (
        longest_sum({"x": torch.zeros(32, 512), "w": torch.zeros(512, 96)}, torch.zeros(32, 96))
        == 512
    )
    assert longest_sum({"x": square}, square) == 1


def test_only_long_sums_get_an_allowance_and_it_is_small():
    oracle = torch.full((8,), 30000.0, dtype=torch.float64)
    tensors = {"x": torch.rand(8, 65536, generator=seeded())}
    noise = noise_of(lambda t: t["x"].double().sum(-1), tensors)["output"].inputs
    allowed = long_sum_noise(oracle, noise, tensors, 65536)
    assert allowed is not None
    assert float(allowed.rms[0]) < 1e-4 * 30000
    assert long_sum_noise(oracle, noise, tensors, 16) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_softmax_that_adds_up_its_rows_number_by_number_is_within_the_bound(seed):
    x = torch.randn(32, 512, generator=seeded(seed))
    right = torch.softmax(x.double(), -1)
    terms = torch.exp(x - x.amax(-1, keepdim=True))
    below = torch.zeros(32)
    for column in terms.T:
        below += column
    noise = noise_on_demand(
        lambda t: torch.softmax(t["x"].double(), -1), {"x": x}, right, seeded(seed)
    )
    wanted = Expected(torch.softmax(x, -1), right, scales_of(right), measure_noise=noise)
    for made, passes in ((terms, True), (terms * (1 + 1e-5), False)):
        result = compare(made / below[:, None], wanted, input_set="default", probe="natural")
        assert result.passed is passes


def test_an_error_in_the_tail_alone_is_disclosed():
    x = torch.linspace(-6, 6, 20000)
    oracle = torch.nn.functional.gelu(x.double())
    eager = oracle.float()
    tail = torch.where(x < -4, eager * 1.001, eager)
    result = uneven_accuracy("output", tail, eager, oracle)
    assert result is not None
    assert result.code == "uneven_accuracy"
    assert uneven_accuracy("output", eager, eager, oracle) is None


def normalized_and_summed(t):
    """Rows around 100, normalized, then summed under weights of one sign."""
    t = {name: tensor.double() for name, tensor in t.items()}
    return layer_norm(t["x"], (64,), t["weight"], None, 1e-6) @ t["summed"]


def rows_around_100():
    return {
        "x": 100 + torch.randn(8, 64, generator=seeded()),
        "weight": torch.rand(64, generator=seeded(1)),
        "summed": torch.rand(64, 64, generator=seeded(2)),
    }


def test_a_mean_rounded_for_a_whole_row_counts_with_all_it_moves():
    tensors = rows_around_100()
    noise = noise_of(normalized_and_summed, tensors)["output"].steps
    by_the_mean = 100 * 2.0**-24 * (tensors["weight"] @ tensors["summed"]).mean()
    assert 0.7 * by_the_mean < float(noise.rms[0]) < 4 * by_the_mean


def test_a_variance_that_cancels_is_no_rounding_of_the_references():
    tensors = rows_around_100()
    exact = normalized_and_summed(tensors)
    x, weight, summed = tensors.values()
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    got = (x - mean) * torch.rsqrt(variance + 1e-6) * weight @ summed
    eager = layer_norm(x, (64,), weight, None, 1e-6) @ summed
    measured = noise_on_demand(normalized_and_summed, tensors, exact, seeded())
    expected = Expected(eager, exact, {}, measure_noise=measured)
    assert not compare(got, expected, input_set="default", probe="mean100").passed


@pytest.mark.parametrize("softmax", [torch.softmax, torch.log_softmax])
def test_a_softmax_by_one_number_for_each_row_loses_that_numbers_rounding(softmax):
    """Fused kernels keep `lse` and compute `exp(x - lse)`, which rounds by a unit of `lse` where a maximum does not."""
    x = torch.randn(64, 32, generator=seeded()) * 30
    exact = softmax(x.double(), -1)
    by_lse = x - x.double().logsumexp(-1, keepdim=True).float()
    by_lse = by_lse.exp() if softmax is torch.softmax else by_lse
    noise = noise_of(lambda t: softmax(t["x"].double(), -1), {"x": x})["output"].steps
    error = (by_lse.double() - exact).abs().max()
    assert 2.0**-20 < float(error) < 4 * float(noise.max[0])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_left_tail_of_a_gelu_is_as_sure_as_one_and_nearly_minus_one_add_up(approximate):
    tensors = {"x": torch.full((64, 32), -4.4) - torch.rand(64, 32, generator=seeded())}

    def blown_up(t):
        return 1e3 * torch.nn.functional.gelu(t["x"].double(), approximate=approximate)

    noise = noise_of(blown_up, tensors)["output"]
    assert float(noise.steps.max[0]) > 1e3 * 2 * 2.0**-25
    assert float(noise.steps.max[0]) < 1e3 * 8 * 2.0**-24
    assert float(noise.inputs.max[0]) < float(noise.steps.max[0]) / 4


def steps_of(forward, *tensors, lowered=None):
    """RMS over the output of how far its steps move it, beside the output's own."""
    named = {str(at): tensor for at, tensor in enumerate(tensors)}

    def reference(given):
        wide = [given[str(at)].double().requires_grad_() for at in range(len(tensors))]
        return forward(*wide).detach()

    right = reference(named)
    noise = measure_noise(reference, named, right, seeded(), lowered)["output"]
    return float(noise.steps.rms[0]), float(right.square().mean().sqrt())


@pytest.mark.parametrize(
    "norm",
    [torch.nn.BatchNorm2d(6), torch.nn.GroupNorm(2, 6), torch.nn.LayerNorm([6, 40, 40])],
    ids=lambda norm: type(norm).__name__,
)
def test_in_a_backward_of_a_norm_its_sums_err_by_the_sizes_of_their_terms(norm):
    """Where the upstream gradient is zero the input's is nothing but those sums, of terms that cancel elsewhere."""
    norm = norm.double()
    upstream = torch.zeros(4, 6, 40, 40, dtype=torch.float64)
    upstream[..., :20:2], upstream[..., 1:20:2] = 1, -1

    def gradient(x):
        return torch.autograd.grad(norm(x), x, upstream)[0][..., 20:]

    moved, _ = steps_of(gradient, torch.randn(4, 6, 40, 40, generator=seeded()))
    assert moved > 0.1 * 2.0**-24


def test_terms_that_cancel_in_a_gradient_of_a_convolution_err_by_their_sizes():
    x, weight = torch.randn(1, 1, 40, 40, generator=seeded()), torch.ones(1, 1, 3, 3)
    upstream = torch.ones(1, 1, 38, 38, dtype=torch.float64)
    upstream[..., ::2] = -1

    def gradient(x, weight):
        made = torch.nn.functional.conv2d(x, weight)
        return torch.autograd.grad(made, weight, upstream)[0]

    moved, _ = steps_of(gradient, x + 100, weight)
    assert moved > 0.2 * 2.0**-24 * 100 * 38 * 38


def test_factors_of_a_convolution_move_by_what_eager_rounds_them_to():
    """That eager cut the one large factor off where it is nearly short enough is luck."""
    x, weight = torch.randn(2, 3, 12, 12, generator=seeded()), torch.randn(5, 3, 3, 3)
    lowered = {"convolution": 2.0**-11}
    near, size = steps_of(torch.nn.functional.conv2d, x, weight)
    far, _ = steps_of(torch.nn.functional.conv2d, x, weight, lowered=lowered)
    assert near < 2.0**-21 * size
    assert 2.0**-12 * size < far < 2.0**-9 * size


def test_factors_that_stay_in_float32_do_not_move_further():
    """Each channel by itself, and products beside a convolution."""
    lowered = {"convolution": 2.0**-11}
    x, weight = torch.randn(2, 4, 12, 12, generator=seeded()), torch.randn(4, 1, 3, 3)
    apart, size = steps_of(
        lambda x, w: torch.nn.functional.conv2d(x, w, groups=4), x, weight, lowered=lowered
    )
    assert apart < 2.0**-20 * size
    product, size = steps_of(torch.matmul, x[0, 0], x[0, 1], lowered=lowered)
    assert product < 2.0**-20 * size


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (torch.nn.functional.softplus, lambda x: torch.log(1 + torch.exp(x))),
        (torch.tanh, lambda x: 1 - 2 / (1 + torch.exp(2 * x))),
        (torch.expm1, lambda x: torch.exp(x) - 1),
    ],
)
def test_what_a_usual_formula_loses_beside_one_is_told_and_refuses_no_single_element(
    function, formula
):
    tensors = {"x": torch.tensor([-1e-9, -20.0]), "y": torch.tensor([1e17, 1e17])}

    def reference(named):
        return function(named["x"]) * named["y"]

    in_float64 = {name: tensor.double() for name, tensor in tensors.items()}
    exact = reference(in_float64)
    wanted = Expected(
        reference(tensors),
        exact,
        {},
        measure_noise=noise_on_demand(reference, in_float64, exact, seeded()),
        moved=exact,
    )
    allowed = replace(wanted, measure_steps=steps_on_demand(reference, in_float64, exact, seeded()))
    usual = formula(tensors["x"]) * tensors["y"]
    assert not compare(usual, wanted, input_set="", probe="").passed
    result = compare(usual, allowed, input_set="", probe="")
    assert result.passed
    assert [item.code for item in result.disclosures] == ["off_on_special_values"]
    assert not compare(usual + 1e12, allowed, input_set="", probe="").passed


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (lambda y: torch.where(y > 2, y, -y), lambda y: torch.where(y >= 2, y, -y)),
        (
            lambda y: torch.nn.functional.threshold(y, 2.0, 20.0),
            lambda y: torch.where(y >= 2, y, 20.0),
        ),
        (lambda y: torch.where(y > 2, torch.inf, y), lambda y: torch.where(y > 2, torch.inf, -y)),
        (
            lambda y: torch.where(torch.tanh(y - 2) > 0, y, -y),
            lambda y: torch.where(torch.tanh(y - 2) >= 0, y, -y),
        ),
    ],
    ids=["a choice", "a threshold", "an infinity beside", "behind a tangent"],
)
def test_exactly_on_a_threshold_rounding_excuses_nothing(answer, wrong):
    tensors = {"x": torch.tensor([1.0, 0.5, 3.0, 1e6]), "w": torch.tensor([2.0, 2.0, 2.0, 2.0])}
    in_float64 = {name: tensor.double() for name, tensor in tensors.items()}

    def reference(named):
        return answer(named["x"] * named["w"])

    exact = reference(in_float64)
    wanted = Expected(
        reference(tensors),
        exact,
        {},
        measure_noise=noise_on_demand(reference, in_float64, exact, seeded()),
        measure_steps=steps_on_demand(reference, in_float64, exact, seeded()),
        moved=exact,
    )
    assert compare(reference(tensors), wanted, input_set="", probe="").passed
    assert not compare(wrong(tensors["x"] * tensors["w"]), wanted, input_set="", probe="").passed
