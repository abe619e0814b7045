"""Numbers read from sources, and the values, rows, masks and sizes that are made of them."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch

from kernelagent.tools.calls.complex_numbers import parts_first
from kernelagent.tools.judge.problem.dynamic import Dynamic, hidden
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lasting_answers import Lasting, lasting
from kernelagent.tools.judge.problem.trials.planting.literals import NONE, Literals, literals_of
from kernelagent.tools.judge.problem.trials.planting.planted import (
    Planted,
    can_plant,
    is_elementwise,
    patterned_weights,
    planted,
    planted_weights,
)
from kernelagent.tools.judge.problem.trials.planting.relations import related
from kernelagent.tools.judge.problem.trials.probes import Dropped
from kernelagent.tools.judge.verify.compare.single_elements import far_off, first_off
from tests.tools.judge.counting import operations_of

_AS_THEY_ARE = nullcontext()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def made(kind, tensor, literals=NONE, seed=1, of=lambda x: x * 2):
    def exact(tensors, steps=_AS_THEY_ARE):
        with steps:
            return of(tensors["x"].double() if tensors["x"].is_floating_point() else tensors["x"])

    given = {"x": tensor}
    return planted(
        kind,
        given,
        literals,
        seeded(seed),
        lambda t: of(t["x"]),
        exact,
        scales={"output": 1.0},
        elementwise=is_elementwise(given, exact),
    )


def values_of(*arguments, **more):
    result = made(*arguments, **more)
    assert isinstance(result, Planted)
    return result.tensors["x"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1234.5", 1234.5),
        ("-7", 7.0),
        ("2.0 ** -20", 2.0**-20),
        ("1 << 12", 4096.0),
        ("float('1e-7')", 1e-7),
        ("float.fromhex('0x1.8p3')", 12.0),
        ("int('ff', 16)", 255.0),
        ("math.sqrt(2.0)", 2.0**0.5),
        ("0x3F9E0652", 1.2345678806304932),
    ],
)
def test_a_number_is_read_however_it_is_written(written, value):
    source = f"@triton.jit\ndef k(x):\n    y = tl.where(x > {written}, 0, x)\n"
    assert value in literals_of(source).values


def test_numbers_of_the_candidate_alone_come_first_and_all_are_finite():
    literals = literals_of("a = 5 + x\nb = 77.5\nc = 1e999\nd = 9 ** 5000", "e = 5")
    assert literals.values[0] == 77.5
    assert set(literals.values) == {77.5, 9.0, 5000.0, 5.0}


def test_a_source_that_does_not_parse_has_no_numbers():
    assert literals_of("def (", "") == Literals()


def test_a_remainder_is_read_from_either_side_of_the_comparison():
    assert literals_of("if n % 97 == 13 or 4 == n % 7: pass").remainders == ((97, 13), (7, 4))


def test_each_number_is_planted_exactly_and_in_the_first_column_of_some_row():
    literals = Literals(values=(1234.5, 0.12345678, 40.0))
    x = values_of("literals", torch.randn(64, 32, generator=seeded()), literals)
    for number in torch.tensor(literals.values):
        assert (x.abs() == number).any()
    ahead = {round(v, 4) for v in x[:, 0].abs().tolist()}
    assert len(ahead & {1234.5, 0.1235, 40.0}) > 1


def test_there_are_values_in_a_band_whose_ends_are_far_apart():
    x = values_of("literals", torch.randn(64, 32, generator=seeded()), Literals((2e4, 1e30)))
    assert ((x.abs() > 2e4) & (x.abs() < 1e30)).any()


def test_most_of_a_probe_stays_natural_and_its_rows_ascend_in_size():
    natural = torch.randn(64, 32, generator=seeded())
    x = values_of("literals", natural, Literals((3.5, 100.0, 1e6, 1e9)))
    assert (x == natural).float().mean() > 0.8
    assert x[:16].abs().max() < 1e3
    assert x[48:].abs().max() > 1e8


def test_values_that_the_reference_has_no_answer_for_are_tried_nearer_to_the_natural_ones():
    x = values_of(
        "literals", torch.rand(32, 32, generator=seeded()), Literals((4.5,)), of=torch.log
    )
    assert (x > 0).all()
    assert (x == 4.5).any()


def test_a_probe_whose_answer_is_all_rounding_is_dropped():
    result = made(
        "literals", torch.randn(8, 8, generator=seeded()), of=lambda x: (x * 2.0**40).sin()
    )
    assert result == Dropped("literals", "the reference's answer does not outlast its own rounding")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_ascend_descend_are_shifted_and_lie_beside_the_numbers(dtype):
    natural = torch.randn(12, 40, generator=seeded()).to(dtype)
    x = values_of("rows", natural, Literals((2e-3, 50.0))).float()
    steps = x[:, 1:] - x[:, :-1]
    assert (steps > 0).all(1).any()
    assert (steps < 0).all(1).any()
    sizes = x.square().mean(1).sqrt()
    assert sizes.max() > 3 * natural.float().square().mean(1).sqrt().max()


def test_one_row_alone_is_put_in_order():
    x = values_of("rows", torch.randn(1, 40, generator=seeded()))
    steps = x[:, 1:] - x[:, :-1]
    assert (steps > 0).all() or (steps < 0).all()


def test_integers_are_the_same_or_sorted_in_some_rows_and_stay_in_range():
    x = values_of("rows", torch.randint(0, 50, (8, 30), generator=seeded()))
    assert (x == x[:, :1]).all(1).any()
    assert 0 <= int(x.min()) <= int(x.max()) < 50


def test_masks_have_one_place_one_missing_beginnings_ends_and_bands():
    mask = torch.rand(20, 30, generator=seeded()) < 0.5
    x = values_of("mask_shapes", mask)
    counts = x.sum(1)
    assert (counts == 1).any()
    assert (counts == 29).any()
    assert (counts > 0).all()
    falls = (x[:, :-1] & ~x[:, 1:]).sum(1) + (~x[:, :-1] & x[:, 1:]).sum(1)
    assert (falls == 1).any()


@pytest.mark.parametrize("seed", range(6))
def test_a_narrow_range_that_holds_no_number_of_the_sources_keeps_its_values(seed):
    period = 1 + torch.rand(16, 32, generator=seeded())
    kept = values_of(
        "literals",
        period,
        Literals((1024.0, 0.0625)),
        seed=seed,
        of=lambda x: torch.where((x >= 1) & (x < 2), x, torch.nan),
    )
    assert (kept == period).float().mean() > 0.9


@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
def test_one_number_alone_takes_one_of_the_sources(shape):
    drawn = {
        abs(float(values_of("literals", torch.randn(shape), Literals((3.5, 40.0)), seed=seed)))
        for seed in range(20)
    }
    assert drawn & {3.5, 40.0}


def test_what_is_no_free_number_is_not_planted():
    assert not can_plant("literals", {"x": torch.randn(6, 8).softmax(-1), "t": torch.tensor(2)})
    assert not can_plant("mask_shapes", {"x": torch.randn(3)})


def test_planted_weights_hold_zero_and_the_numbers_and_tied_ones_stay_tied():
    matrix = torch.randn(16, 16, generator=seeded())
    state = {"a": matrix, "b": matrix.clone(), "w": torch.ones(64), "table": torch.ones(64)}
    bold, *_ = planted_weights(state, ["a", "b", "w"], Literals((50.0,)), seeded(1))
    assert torch.equal(bold["a"], bold["b"])
    assert (bold["w"] == 0).any()
    assert (bold["w"].abs() == 50).any()
    assert torch.equal(bold["table"], state["table"])


def test_sizes_are_tried_that_a_branch_of_the_candidate_asks_for():
    source = InputSource("default", ((), {}), lambda seed: ((torch.ones(100, 4),), {}))
    item = Dynamic("0", (("arguments[0][0]", 0),), 100, ("x.shape[0]",), farthest=801)
    for seed in range(5):
        chance = random.Random(seed)
        literals = Literals(integers=(96,), remainders=((97, 13),))
        sizes = [s.draw(0)[0][0].shape[0] for s in hidden(source, (item,), chance, literals)]
        assert 801 in sizes
        assert any(size % 97 == 13 for size in sizes)
        assert any(size % 96 in (0, 1, 95) for size in sizes)


def test_an_element_far_off_by_itself_is_seen_beside_one_a_billion_times_as_large():
    right = torch.tensor([1e12, 1.0, 2.0, 3.0], dtype=torch.float64)
    eager, wrong = right.float(), torch.tensor([1e12, 1.0, 0.0, 3.0])
    moved = right * (1 + 2.0**-24)
    assert far_off(eager, eager, right, moved, 1.0) is None
    found = far_off(wrong, eager, right, moved, 1.0)
    assert found is not None
    assert found.place == 2
    assert found.elements.tolist() == [False, False, True, False]


@pytest.mark.parametrize("factor", [1.08, 1.01, 1.002, 0.99])
def test_an_element_that_is_known_well_and_off_by_a_part_of_its_own_size_is_told(factor):
    right = torch.tensor([1e12, 1.0, 2.0, 3.0], dtype=torch.float64)
    wrong = right.float()
    wrong[3] *= factor
    moved = right * (1 + 2.0**-24)
    assert far_off(wrong, right.float(), right, moved, 1e-3) is None
    assert first_off(wrong, right.float(), right, moved, 1e-3) == 3
    assert first_off(right.float(), right.float(), right, moved, 1e-3) is None


def test_an_element_that_cancels_is_not_held_to_its_own_size():
    right = torch.tensor([1e4, 1e-3], dtype=torch.float64)
    moved = right + torch.tensor([0.0, 1e-4], dtype=torch.float64)
    ours = torch.tensor([1e4, 5e-2])
    assert far_off(ours, right.float(), right, moved, 1e-3) is None


def test_an_element_that_rounded_steps_move_is_not_held_to_its_own_size():
    right = torch.tensor([1e4, 1e-30, 2e-30], dtype=torch.float64)
    steps = torch.tensor([1e-3, 1e-6, 0.0])
    ours = torch.tensor([1e4, 5e-6, 2e-30])
    assert far_off(ours, right.float(), right, right, 0.0) is not None
    assert far_off(ours, right.float(), right, right, 0.0, steps) is None
    for wrong in ([1e4, 1e-4, 2e-30], [1e4, 5e-6, 5e-6]):
        assert far_off(torch.tensor(wrong), right.float(), right, right, 0.0, steps) is not None


def test_a_column_of_a_small_weight_is_held_to_its_own_size_beside_a_large_one():
    weight = torch.ones(64, dtype=torch.float64)
    weight[3], weight[5], weight[7] = 900.0, 0.02, 0.0
    natural = torch.randn(96, 64, generator=seeded(1), dtype=torch.float64) * weight
    right = torch.randn(96, 64, generator=seeded(2), dtype=torch.float64) * weight
    eager, rms = right.float(), float(natural.square().mean().sqrt())
    for column, added in ((5, 0.2 * right[:, 5]), (7, 0.01)):
        wrong = eager.clone()
        wrong[:, column] += added
        assert far_off(wrong, eager, right, right, rms) is None
        assert first_off(wrong, eager, right, right, rms) is None
        place = first_off(wrong, eager, right, right, rms, natural)
        assert place is not None
        assert place % 64 == column
    assert first_off(eager, eager, right, right, rms, natural) is None


def test_a_float32_result_of_16_bit_inputs_is_known_to_a_few_of_their_roundings():
    x = torch.randn(96, 64, generator=seeded()).bfloat16()
    result = made("row_patterns", x, of=lambda t: t.float() if t.dtype == torch.bfloat16 else t)
    assert isinstance(result, Planted)
    right = result.tensors["x"].double()
    for factor in (-1.0, 0.5):
        wrong = (right * factor).float()
        assert far_off(wrong, right.float(), right, result.moved, 1.0) is not None
    off = (right * 1.03).float()
    assert far_off(off, right.float(), right, result.moved, 1.0) is None
    assert first_off(off, right.float(), right, result.near, 1.0) is not None


def test_one_place_in_bfloat16_that_is_a_few_hundredths_off_is_told():
    x = torch.randn(96, 64, generator=seeded()).bfloat16()
    result = made("row_patterns", x)
    assert isinstance(result, Planted)
    right = 2 * result.tensors["x"].double()
    eager, off = right.bfloat16(), (right * 0.92).bfloat16()
    assert first_off(off, eager, right, result.near, 1.0) is not None
    rounded = (right * (1 + 2.0**-8)).bfloat16()
    assert first_off(rounded, eager, right, result.near, 1.0) is None


@pytest.mark.parametrize("shape", [(24, 24), (2, 3, 16, 16)])
def test_rows_in_order_come_with_a_causal_mask(shape):
    mask = torch.rand(shape, generator=seeded()) < 0.5
    assert torch.equal(values_of("rows", mask), torch.ones(shape, dtype=torch.bool).tril())


def test_a_mask_whose_true_hides_is_causal_the_other_way():
    mask = torch.rand(24, 24, generator=seeded()) < 0.5
    hides = values_of("rows", mask, of=lambda m: torch.where(m.all(-1), torch.nan, 1.0))
    assert torch.equal(hides, torch.ones(24, 24, dtype=torch.bool).triu(1))


def test_in_some_turns_rows_beside_each_other_have_one_id_and_begin_alike():
    logits, ids = torch.randn(4, 6, 40), torch.randint(0, 40, (4, 6))
    made_of = {"x": logits, "ids": ids}

    def answer(tensors):
        chosen = tensors["ids"][..., None]
        return torch.log_softmax(tensors["x"], -1).gather(-1, chosen).squeeze(-1)

    def exact(tensors, steps=_AS_THEY_ARE):
        with steps:
            return answer({"x": tensors["x"].double(), "ids": tensors["ids"]})

    found = []
    for turn in range(4):
        result = planted(
            "structures", made_of, NONE, seeded(turn), answer, exact,
            scales={"output": 1.0}, elementwise=False, turn=turn,
        )  # fmt: skip
        if isinstance(result, Planted):
            rows, one = result.tensors["x"].reshape(-1, 40), result.tensors["ids"].reshape(-1)
            alike = (rows[1:, :8] == rows[:-1, :8]).all(1) & (one[1:] == one[:-1])
            found.append(bool((alike & (rows[1:, 8:] != rows[:-1, 8:]).all(1)).any()))
    assert any(found), "a few turns are enough"


def test_rows_of_eight_bits_begin_alike_too():
    x = torch.randn(24, 40, generator=seeded()).to(torch.float8_e4m3fn)
    made = related(
        {}, {"x": x, "ids": torch.randint(0, 40, (24,), generator=seeded())}, 1, seeded()
    )
    assert made["x"].dtype == x.dtype
    rows = made["x"].float()
    assert bool((rows[1:, :4] == rows[:-1, :4]).all(1).any())
    assert not torch.equal(rows, x.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2], ids=str)
def test_in_some_turns_one_input_is_another_with_the_other_sign(dtype):
    made_of = {name: torch.randn(8, 40, generator=seeded()).to(dtype) for name in ("x", "y")}

    def answer(tensors):
        return tensors["x"].float() - tensors["y"].float()

    def exact(tensors, steps=_AS_THEY_ARE):
        with steps:
            return tensors["x"].double() - tensors["y"].double()

    result = planted(
        "structures", made_of, NONE, seeded(), answer, exact,
        scales={"output": 1.0}, elementwise=True, turn=0,
    )  # fmt: skip
    assert isinstance(result, Planted)
    assert result.tensors["y"].dtype == dtype
    assert torch.equal(result.tensors["y"].float(), -result.tensors["x"].float())


@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        ("rows", lambda count: torch.randn(count, 16, generator=seeded())),
        ("rows", lambda count: torch.randint(0, 99, (count, 16), generator=seeded())),
        ("mask_shapes", lambda count: torch.rand(count, 16, generator=seeded()) < 0.5),
        ("row_patterns", lambda count: torch.randn(count, 16, generator=seeded())),
    ],
)
def test_many_rows_take_as_many_operations_as_some(kind, tensor):
    # One by one, a hundred thousand rows would take a GPU a million launches.
    some, many = (operations_of(lambda n=n: made(kind, tensor(n))) for n in (256, 4096))
    assert many == some


@pytest.mark.parametrize("seed", range(8))
def test_rows_ascend_descend_are_shifts_of_others_or_of_another_size(seed):
    tensor = torch.randn(24, 64, generator=seeded(seed))
    rows = made("rows", tensor, Literals((0.5, 100.0)), seed=seed).tensors["x"]
    steps = rows.diff(dim=1)
    rising, falling = (steps > 0).all(1), (steps < 0).all(1)
    assert int(rising.sum()) == 4
    assert int(falling.sum()) == 4
    sizes = rows.square().mean(1).sqrt()
    assert bool((sizes > 5).any())
    assert bool((sizes < 0.3).any())


def test_rows_have_means_sums_and_elements_between_two_numbers():
    x = torch.randn(96, 64, generator=seeded())
    made = values_of("beside_numbers", x, Literals(values=(20.0, 80.0)), of=_normalized)
    inside = {
        "mean": made.mean(-1).abs(),
        "sum": made.sum(-1).abs(),
        "an element": made.abs().amax(-1),
    }
    for values in inside.values():
        assert int(((values > 20) & (values < 80)).sum()) > 3
    assert bool((made == x).all(-1).any())


@pytest.mark.long
@pytest.mark.parametrize("sign", [1, -1])
def test_every_draw_has_a_row_whose_mean_lies_in_a_band_of_one_sign(sign):
    for seed in range(40):
        x = torch.randn(96, 64, generator=seeded(seed))
        made = values_of("beside_numbers", x, Literals((20.0, 80.0)), seed=seed, of=_normalized)
        means = sign * made.mean(-1)
        assert bool(((means > 20) & (means < 80)).any()), seed


def _normalized(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def _added_up(x):
    return x.abs().cumsum(-1)


def test_a_row_a_thousand_times_smaller_than_another_is_held_to_its_own_size():
    x = torch.randn(96, 64, generator=seeded())
    result = made("beside_numbers", x, Literals(values=(1500.0, 3500.0)), of=_added_up)
    assert isinstance(result, Planted)
    given = result.tensors["x"]
    right = _added_up(given.double())
    smallest = int(right.abs().amax(-1).argmin())
    wrong = right.clone()
    wrong[smallest] *= 0.5
    assert far_off(wrong.float(), right.float(), right, result.moved, 0.0) is not None
    assert far_off(right.float(), right.float(), right, result.moved, 0.0) is None


@pytest.mark.parametrize("together", [torch.mul, torch.add, torch.sub, torch.div])
def test_two_inputs_make_together_what_lies_in_a_narrow_band(together):
    tensors = {name: torch.randn(64, 64, generator=seeded(at)) for at, name in enumerate("xg")}

    def exact(given, steps=_AS_THEY_ARE):
        with steps:
            return torch.relu(given["x"].double()) * torch.sigmoid(given["g"].double())

    result = planted(
        "beside_numbers",
        tensors,
        Literals(values=(7.0, 7.0001)),
        seeded(2),
        lambda t: torch.relu(t["x"]) * torch.sigmoid(t["g"]),
        exact,
        scales={"output": 1.0},
        elementwise=True,
    )
    assert isinstance(result, Planted)
    made = together(result.tensors["x"], result.tensors["g"]).abs()
    assert int(((made > 7.0) & (made < 7.0001)).sum()) > 3


def _in_tf32(values, *, nearest):
    bits = values.view(torch.int32)
    return ((bits + 0x1000 if nearest else bits) & ~0x1FFF).view(torch.float32)


@pytest.mark.long
def test_products_in_tf32_are_as_near_as_another_s_products_in_tf32():
    weights = torch.randn(6, 16, 16, generator=seeded()) / 4

    def product(x, *, nearest=False):
        for weight in weights:
            if x.dtype == torch.float64:
                x = (x @ weight.double()).relu() - 0.2
            else:
                x = (_in_tf32(x, nearest=nearest) @ _in_tf32(weight, nearest=nearest)).relu() - 0.2
        return x

    for seed in range(12):
        x = torch.randn(8192, 16, generator=seeded(seed))
        result = made("beside_numbers", x, Literals((7.0, 0.001)), seed=seed, of=product)
        if not isinstance(result, Planted):
            continue
        x = result.tensors["x"]
        right, eager, other = product(x.double()), product(x), product(x, nearest=True)
        assert far_off(other, eager, right, result.moved, 1.0) is None
        wrong = other.clone()
        wrong[int(right.norm(dim=1).argmax())] *= 100
        assert far_off(wrong, eager, right, result.moved, 1.0) is not None


def test_numbers_of_the_source_are_planted_as_moduli_and_as_parts_of_complex_inputs():
    z = torch.randn(64, 96, dtype=torch.complex64, generator=seeded())
    planted_in = values_of("literals", z, Literals(values=(1e-9,)), of=torch.sgn)
    sizes = planted_in.abs()
    assert bool(((sizes / 1e-9 - 1).abs() < 1e-3).any())
    assert bool(((planted_in.real.abs() / 1e-9 - 1).abs() < 1e-3).any())


def test_a_phasor_with_a_constant_below_the_root_is_far_off_where_its_number_is_planted():
    z = torch.randn(64, 96, dtype=torch.complex64, generator=seeded())
    result = made("literals", z, Literals(values=(1e-18,)), of=torch.sgn)
    given = result.tensors["x"]
    right = torch.sgn(given.to(torch.complex128))
    off = given / (given.abs().square() + 1e-18).sqrt()
    expected, precise = parts_first(torch.sgn(given)), parts_first(right)
    assert far_off(parts_first(off), expected, precise, result.moved, 0.7) is not None
    honest = given / given.abs().clamp_min(1e-30)
    assert far_off(parts_first(honest), expected, precise, result.moved, 0.7) is None


def test_a_transform_of_complex_rows_is_not_by_elements():
    z = torch.randn(4, 16, dtype=torch.complex64)
    assert not is_elementwise({"x": z}, lambda t: torch.fft.fft(t["x"]))
    assert is_elementwise({"x": z}, lambda t: t["x"] * 2j)


def test_planted_complex_weights_have_parts_that_are_zero_alone():
    weights = {"w": torch.randn(256, dtype=torch.complex64, generator=seeded())}
    (first, *_) = planted_weights(weights, ("w",), Literals(values=(3.0,)), seeded(2))
    assert bool(((first["w"].imag == 0) & (first["w"].real != 0)).any())


def test_weights_that_may_be_decays_are_neither_zero_nor_negative():
    weights = {"w": 0.1 + 0.8 * torch.rand(5), "v": torch.randn(5)}
    for seed in range(6):
        bold, *_ = planted_weights(weights, ["w", "v"], Literals((3.0,)), seeded(seed))
        assert bool((bold["w"] > 0).all())
        every, alone = patterned_weights(weights, ["w", "v"], seeded(seed), seed)
        assert bool((every["w"] > 0).all())
        assert bool((alone["w"] > 0).all())


def _reach_back(x):
    """Differences of a running sum, as decays have them: all of its tail are the sum of the same numbers."""
    total = torch.cumsum(-torch.exp(x), -1)
    return torch.exp(total[..., -1:] - total) * x.relu()


@pytest.mark.parametrize(("size", "lasts"), [(1.0, True), (60.0, False)])
def test_inputs_whose_answer_one_rounding_makes_no_number_are_no_probe(size, lasts):
    x = torch.cat([torch.randn(8, 8, generator=seeded()), torch.full((8, 56), -200.0)], -1)
    x[0, 0] = size

    def exact(tensors, steps=_AS_THEY_ARE):
        with steps:
            return _reach_back(tensors["x"].double())

    outcome = lasting(
        {"x": x}, seeded(), lambda t: _reach_back(t["x"]), exact, scales={"output": 1.0}
    )
    assert isinstance(outcome, Lasting) is lasts, outcome


@pytest.mark.parametrize("values", [[1.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
def test_distinct_values_that_rounding_makes_more_of_are_no_answer_that_lasts(values):
    outcome = lasting(
        {"x": torch.tensor(values)},
        seeded(),
        lambda tensors: tensors["x"].unique(),
        lambda tensors, steps=_AS_THEY_ARE: tensors["x"].double().unique(),
        scales={"output": 1.0},
    )
    assert outcome == "the size of the reference's answer does not outlast its own rounding"
