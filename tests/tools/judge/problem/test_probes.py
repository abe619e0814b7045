from __future__ import annotations

import pytest
import torch

from kernelagent.domain.tables.probes import PROBE
from kernelagent.tools.judge.problem.trials.masked_answers import shares_nonfinite
from kernelagent.tools.judge.problem.trials.perturbed_state import perturbed_state
from kernelagent.tools.judge.problem.trials.probes import (
    Dropped,
    Probe,
    fresh_inputs,
    make_probe,
    named_tensors,
    probe_inputs,
    share_nonfinite,
    with_tensors,
)
from kernelagent.tools.judge.problem.trials.sequels import rearranged


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def probed(name, tensor, seed=1, **more):
    return probe_inputs(name, {"x": tensor}, seeded(seed), **more)["x"]


MADE_HERE = [name for name, kind in PROBE.items() if not kind.planted]
UNIFORM = torch.rand(64, 256, generator=seeded())


def test_rows_of_rowaffine_differ_in_location_and_scale():
    rows = probed("rowaffine", UNIFORM)
    assert float(rows.mean(-1).std()) > 1
    deviations = rows.std(-1)
    assert float(deviations.max() / deviations.min()) > 30
    assert bool((rows < 0).any())


def test_onehot_rows_have_one_large_element_and_reach_the_last_column():
    rows = probed("onehot", UNIFORM).abs()
    largest, place = rows.max(-1)
    assert bool((largest > 20 * rows.median(-1).values).all())
    assert place[:2].tolist() == [255, 255]
    assert len(set(place.tolist())) > 20


@pytest.mark.parametrize(("name", "factor"), [("times30", 30), ("times1e-3", 1e-3)])
def test_scaled_probes_are_the_natural_draw_times_a_factor(name, factor):
    assert torch.allclose(probed(name, UNIFORM), UNIFORM * factor)


def test_mean100_gives_rows_of_either_sign_a_mean_far_above_their_spread():
    rows = probed("mean100", UNIFORM)
    means = rows.mean(-1)
    spreads = (means / rows.std(-1)).reshape(-1)
    assert float(spreads[spreads > 0].mean()) == pytest.approx(100, rel=0.1)
    assert float(spreads[spreads < 0].mean()) == pytest.approx(-130, rel=0.1)
    assert bool((means[::2] * means[1::2][: len(means[::2])] < 0).all())


def test_large_logits_would_overflow_an_exponential():
    assert not torch.isfinite(probed("large_logits", UNIFORM).exp()).all()


@pytest.mark.parametrize("name", MADE_HERE)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e4m3fn, torch.complex64], ids=str)
def test_probes_stay_finite_in_narrow_types(name, dtype):
    tensor = torch.randn(8, 64, generator=seeded()).to(dtype)
    result = probed(name, tensor)
    assert result.dtype == dtype
    assert bool(result.to(torch.complex64 if dtype.is_complex else torch.float32).isfinite().all())


@pytest.mark.parametrize("name", MADE_HERE)
def test_what_is_no_free_number_keeps_its_kind(name):
    natural = {
        "labels": torch.randint(0, 9, (50,), generator=seeded()),
        "causal": torch.ones(8, 8).tril().bool(),
        "target": torch.randn(8, 16, generator=seeded()).softmax(-1),
        "sign": torch.randint(0, 2, (64,), generator=seeded()) * 2.0 - 1,
        "bias": torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf),
    }
    result = probe_inputs(name, natural, seeded(1))
    assert int(result["labels"].min()) >= 0
    assert int(result["labels"].max()) < 9
    assert torch.equal(result["causal"], natural["causal"])
    assert torch.allclose(result["target"].sum(-1), torch.ones(8), atol=1e-5)
    assert set(result["sign"].tolist()) <= {-1.0, 1.0}
    assert torch.equal(result["bias"], natural["bias"])


def test_a_constant_mask_is_varied_where_that_is_allowed():
    mask = torch.ones(64, 64, dtype=torch.bool)
    assert not bool(probed("rowaffine", mask).all())
    assert bool(probed("rowaffine", mask, freedom="signs").all())


def test_a_reference_that_needs_positive_values_gets_them():
    result = make_probe("rowaffine", {"x": UNIFORM}, seeded(), lambda t: t["x"].double().log())
    assert isinstance(result, Probe)
    assert result.freedom == "signs"
    assert bool((result.tensors["x"] > 0).all())


def test_a_reference_that_needs_the_unit_interval_gets_it():
    def loss(tensors):
        x = tensors["x"].double()
        return torch.nn.functional.binary_cross_entropy(x, torch.ones_like(x))

    result = make_probe("rowaffine", {"x": UNIFORM}, seeded(), loss)
    assert isinstance(result, Probe)
    assert result.freedom == "range"


def test_a_probe_without_a_finite_answer_is_dropped_with_the_reason():
    result = make_probe("mean100", {"x": UNIFORM}, seeded(), lambda t: (-1 - t["x"].abs()).log())
    assert result == Dropped("mean100", "100.0% of the reference's answer is not finite")


def test_a_probe_the_reference_raises_on_is_dropped_with_its_message():
    def refuses(tensors):
        raise ValueError("only for x below 1")

    result = make_probe("times30", {"x": UNIFORM}, seeded(), refuses)
    assert isinstance(result, Dropped)
    assert "only for x below 1" in result.reason


def test_infinities_that_natural_inputs_give_too_do_not_drop_a_probe():
    mask = torch.ones(8, 8).triu(1).bool()

    def masked(tensors):
        return tensors["x"].double().masked_fill(mask, -torch.inf)

    natural = {"x": torch.randn(8, 8, generator=seeded())}
    usual = shares_nonfinite(masked(natural))
    result = make_probe("rowaffine", natural, seeded(), masked, usual=usual)
    assert isinstance(result, Probe)
    assert isinstance(make_probe("rowaffine", natural, seeded(), masked), Dropped)


def masked_by_input(tensors):
    return torch.log_softmax(tensors["x"].double().masked_fill(tensors["mask"], -torch.inf), -1)


def test_infinities_of_masks_that_are_drawn_anew_do_not_drop_a_probe():
    natural = {
        "x": torch.randn(64, 64, generator=seeded()),
        "mask": torch.rand(64, 64, generator=seeded()) < 0.3,
    }
    usual = shares_nonfinite(masked_by_input(natural))
    for name in ("rowaffine", "onehot", "times30", "spikes"):
        # Less than any draw has: it is the probe's own masks that count.
        made = make_probe(name, natural, seeded(), masked_by_input, usual=(usual[0] / 2,))
        assert isinstance(made, Probe), name
        assert isinstance(make_probe(name, natural, seeded(), masked_by_input), Dropped), name


@pytest.mark.parametrize("name", MADE_HERE)
def test_a_probe_depends_on_its_generator_alone(name):
    torch.manual_seed(1)
    first = probed(name, UNIFORM)
    torch.manual_seed(2)
    assert torch.equal(first, probed(name, UNIFORM))


def test_fresh_inputs_stand_in_for_a_generator():
    example = {"x": UNIFORM.T, "labels": torch.arange(5)}
    fresh = fresh_inputs(example, seeded())
    assert fresh["x"].stride() == UNIFORM.T.stride()
    assert not torch.equal(fresh["x"], example["x"])


def test_tensors_are_taken_out_of_a_nest_and_put_back():
    nest = (([torch.zeros(2), 3], {"mask": torch.ones(2)}), {"scale": 0.5})
    result = named_tensors(nest)
    assert list(result) == ["arguments[0][0][0]", "arguments[0][1]['mask']"]
    changed = with_tensors(nest, {name: tensor + 1 for name, tensor in result.items()})
    assert changed[0][0][0].tolist() == [1, 1]
    assert changed[0][1]["mask"].tolist() == [2, 2]
    assert changed[1] == {"scale": 0.5}
    assert isinstance(changed[0][0], list)


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.temperature = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("table", torch.arange(16.0))
        self.tied = torch.nn.Linear(16, 16, bias=False)
        self.tied.weight = self.linear.weight


def perturbed(seed=0, **more):
    module = Normed()
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    return module.state_dict(), perturbed_state(module.state_dict(), names, seeded(seed), **more)


def test_trivial_affine_parameters_become_random():
    _, result = perturbed()
    for name in ("norm.weight", "norm.bias", "norm.running_mean"):
        assert float(result.tensors[name].std()) > 0.1


def test_variances_and_temperatures_stay_positive():
    for seed in range(20):
        _, result = perturbed(seed)
        assert bool((result.tensors["norm.running_var"] > 0).all())
        assert float(result.tensors["temperature"]) > 0


def test_other_buffers_keep_their_values_and_are_named():
    given, result = perturbed()
    assert result.kept == ("table",)
    assert torch.equal(result.tensors["table"], given["table"])
    assert torch.equal(
        result.tensors["norm.num_batches_tracked"], given["norm.num_batches_tracked"]
    )


def test_tied_weights_stay_tied():
    given, result = perturbed()
    assert torch.equal(result.tensors["tied.weight"], result.tensors["linear.weight"])
    assert not torch.equal(result.tensors["linear.weight"], given["linear.weight"])


def test_careful_perturbation_keeps_the_sign_of_constants():
    _, result = perturbed(freedom="signs")
    assert bool((result.tensors["norm.weight"] > 0).all())


def test_whole_rows_of_a_mask_hold_one_value():
    natural = {"x": torch.randn(2, 6, 40), "mask": torch.rand(2, 6, 40) < 0.5}
    probe = make_probe("one_truth", natural, seeded(), lambda t: t["x"].masked_fill(t["mask"], 0))
    mask = probe.tensors["mask"].reshape(12, 40)
    assert int(mask.all(-1).sum()) == 3
    assert int((~mask).all(-1).sum()) == 3
    assert torch.equal(probe.tensors["x"], natural["x"])


def test_rows_that_leave_no_finite_answer_are_not_asked_about():
    natural = {"x": torch.randn(12, 40), "mask": torch.rand(12, 40) < 0.5}

    def reference(t):
        return t["x"].masked_fill(t["mask"], -torch.inf).softmax(-1)

    probe = make_probe("one_truth", natural, seeded(), reference)
    assert probe.freedom == "range"
    assert int((~probe.tensors["mask"]).all(-1).sum()) == 6


def test_rearranged_inputs_have_their_numbers_and_their_first_element_but_not_their_order():
    x = torch.rand(6, 200)
    mask = torch.rand(6, 200) < 0.5
    made = rearranged({"x": x, "mask": mask}, torch.Generator().manual_seed(3))
    assert not torch.equal(made["x"], x)
    assert made["x"][0, 0] == x[0, 0]
    assert torch.equal(made["x"].reshape(-1).sort().values, x.reshape(-1).sort().values)
    assert made["x"].double().sum() == x.double().sum()
    assert made["mask"] is mask


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_what_is_not_finite_is_counted_in_eight_bits_as_well(dtype):
    values = torch.tensor([1.0, float("nan"), 2.0, 3.0]).to(dtype)
    assert share_nonfinite(values) == 0.25


def test_edges_of_complex_numbers_are_on_either_axis_and_never_without_a_square():
    z = probed("edges", torch.randn(64, 128, dtype=torch.complex64, generator=seeded()))
    on_the_imaginary, on_the_real = (z.real == 0) & (z.imag != 0), (z.imag == 0) & (z.real != 0)
    assert int(on_the_imaginary.sum()) > 100
    assert int(on_the_real.sum()) > 100
    assert bool((z.real == 0).all(-1).any())
    assert bool((z.imag == 0).all(-1).any())
    assert bool(z.real[z.real == 0].signbit().any())
    sizes = z.abs()
    assert bool(((sizes == 0) | (sizes > 1e-30)).all())


def test_a_complex_weight_that_begins_real_gets_an_imaginary_part():
    real = torch.randn(64, generator=seeded())
    given = {"w": torch.complex(real, torch.zeros(64))}
    drawn = perturbed_state(given, ("w",), seeded(1))
    assert drawn.kept == ()
    assert float(drawn.tensors["w"].imag.square().mean()) > 0.5
    assert not torch.equal(drawn.tensors["w"].real, real)


def test_a_complex_answer_that_is_partly_infinite_counts_as_not_finite():
    z = torch.tensor([1 + 1j, complex(0.0, float("inf"))])
    assert share_nonfinite(z) == 0.5
