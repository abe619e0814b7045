from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.cuda.certificate import (
    Rules,
    certificate_of,
    certify,
    measure_block,
    shuffled,
    turn_interval,
)
from kernelagent.tools.cuda.statistics import (
    geometric_mean,
    interval_of,
    is_faster,
    mean_ratio,
    narrow_enough,
)

RATIOS = st.lists(st.floats(0.01, 100), min_size=6, max_size=40)


def launch_of(ratio: float, sets=("base",)):
    return {name: [{"eager": (ratio, ratio), "candidate": (1.0, 1.0)}] for name in sets}


def near(interval, value, low, high):
    assert interval.value == pytest.approx(value, rel=1e-9)
    assert interval.low == pytest.approx(low, rel=1e-9)
    assert interval.high == pytest.approx(high, rel=1e-9)


@given(RATIOS, st.floats(0.001, 1000))
def test_a_scale_of_all_ratios_scales_the_interval(ratios, scale):
    plain = interval_of(ratios)
    scaled = interval_of([ratio * scale for ratio in ratios])
    near(scaled, plain.value * scale, plain.low * scale, plain.high * scale)


@given(RATIOS)
def test_swapping_the_sides_inverts_the_interval(ratios):
    plain = interval_of(ratios)
    near(
        interval_of([1 / ratio for ratio in ratios]), 1 / plain.value, 1 / plain.high, 1 / plain.low
    )


@given(RATIOS, st.randoms(use_true_random=False))
def test_the_interval_encloses_its_value_and_ignores_the_order_of_the_launches(ratios, chance):
    plain = interval_of(ratios)
    assert plain.low <= plain.value <= plain.high
    assert interval_of(chance.sample(ratios, len(ratios))) == plain


@given(st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_input_sets_does_not_matter(count, chance):
    names = [f"set {i}" for i in range(count)]
    launches = [
        {name: launch_of(chance.uniform(0.5, 2))["base"] for name in names} for _ in range(8)
    ]
    turned = [{name: launch[name] for name in reversed(names)} for launch in launches]
    assert certificate_of(turned, Rules()) == certificate_of(launches, Rules())


@given(RATIOS, st.sampled_from([0.0, -1.0, math.inf, -math.inf, math.nan]), st.data())
def test_a_ratio_that_is_not_finite_and_positive_is_refused(ratios, wrong, data):
    place = data.draw(st.integers(0, len(ratios)))
    with pytest.raises(ValueError, match="finite and positive"):
        interval_of([*ratios[:place], wrong, *ratios[place:]])


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_time_that_is_not_finite_and_positive_is_refused(wrong):
    blocks = [{"eager": (1.0, wrong), "candidate": (1.0, 1.0)}]
    with pytest.raises(ValueError, match="finite and positive"):
        certificate_of([{"base": blocks}] * 6, Rules())


def test_steady_warming_cancels_within_a_block():
    clock = iter(1.1**n for n in range(100))
    sides = {"eager": lambda: 3 * next(clock), "candidate": lambda: next(clock)}
    chance = Random(1)
    blocks = [measure_block(sides, shuffled(list(sides), chance)) for _ in range(6)]
    near(turn_interval(blocks, Rules()), 3.0, 3.0, 3.0)


def test_a_block_reads_every_side_there_and_back():
    read: list[str] = []
    sides = {name: lambda name=name: float(read.append(name) is None) for name in "abc"}
    measure_block(sides, ["b", "a", "c"])
    assert "".join(read) == "baccab"


def test_measuring_stops_at_the_first_interval_that_is_narrow_enough():
    launched: list[int] = []

    def launch(number):
        launched.append(number)
        return launch_of(2.0 if number else 3.0)

    result = certify(launch, Rules(), expired=lambda: False)
    assert launched == list(range(10)), "the outlier is outside the ranks only from ten launches on"
    assert result.launches == 10
    assert result.narrow
    assert result.faster
    near(result.speedup, 2.0, 2.0, 2.0)


def test_a_spent_time_limit_ends_the_measurement_and_leaves_the_wide_interval_as_it_is():
    ratios = iter([0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4])
    result = certify(lambda _: launch_of(next(ratios)), Rules(), expired=lambda: True)
    assert result.launches == 6
    assert not result.narrow
    assert not result.faster
    near(result.speedup, math.sqrt(1.0 * 1.1), 0.8, 1.3)


def test_the_most_launches_end_the_measurement():
    chance = Random(0)
    result = certify(
        lambda _: launch_of(chance.uniform(0.5, 2)), Rules(most_launches=7), expired=lambda: False
    )
    assert result.launches == 7
    assert not result.narrow


def test_faster_needs_the_lower_end_above_one():
    at_one = interval_of([1.0, 1.2, 1.3, 1.4, 1.5, 1.6])
    assert not is_faster(at_one)
    assert is_faster(interval_of([1.01, 1.2, 1.3, 1.4, 1.5, 1.6]))


def test_sets_measured_together_are_averaged_within_each_launch():
    opposite = [1.1, 0.9, 1.2, 0.8, 1.05, 0.95]
    launches = [{**launch_of(r, ["a"]), **launch_of(4 / r, ["b"])} for r in opposite]
    result = certificate_of(launches, Rules())
    near(result.speedup, 2.0, 2.0, 2.0)
    near(result.by_set["a"], math.sqrt(0.95 * 1.05), 0.8, 1.2)
    apart = geometric_mean(list(result.by_set.values()))
    assert apart.low < 0.9 * result.speedup.low
    assert apart.high > 1.1 * result.speedup.high


def test_a_launch_that_measured_other_input_sets_is_refused():
    launches = [launch_of(1.0, ["a", "b"])] * 6 + [launch_of(1.0, ["a"])]
    with pytest.raises(ValueError, match="same input sets"):
        certificate_of(launches, Rules())
    with pytest.raises(ValueError, match="no block"):
        certificate_of([{"base": []}] * 6, Rules())


def test_narrow_enough_looks_at_the_longer_side():
    lopsided = interval_of([0.9, 1.0, 1.0, 1.0, 1.0, 1.01])
    assert narrow_enough(lopsided, 0.11)
    assert not narrow_enough(lopsided, 0.09)


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one():
    assert mean_ratio([4.0, 0.25]) == 1.0
