from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.placement import Placement

H200 = ceilings_for("sm_90")
MOST, OF_ONE = H200.dram_bytes_per_s, H200.sm_dram_bytes_per_s


def placement(blocks: int, resident: int = 1) -> Placement:
    return Placement(blocks, 1, resident, H200.sms, 4)


def seconds(places: Placement) -> float:
    """Of a launch whose blocks move a byte each."""
    return places.blocks / places.bytes_per_s(MOST, OF_ONE)


def test_a_grid_that_fills_the_device_moves_at_its_rate():
    assert placement(H200.sms).bytes_per_s(MOST, OF_ONE) == pytest.approx(MOST)
    assert placement(7 * H200.sms).bytes_per_s(MOST, OF_ONE) == pytest.approx(MOST)


def test_few_blocks_move_at_the_rate_of_their_multiprocessors():
    assert placement(3).bytes_per_s(MOST, OF_ONE) == pytest.approx(3 * OF_ONE)
    assert placement(3, resident=8).bytes_per_s(MOST, OF_ONE) == pytest.approx(3 * OF_ONE)


def test_a_block_that_is_left_for_a_last_round_is_waited_for():
    alone = seconds(placement(1))
    assert seconds(placement(H200.sms + 1)) == pytest.approx(seconds(placement(H200.sms)) + alone)
    # Where all of them find room at once, nothing is.
    beside = seconds(placement(H200.sms + 1, resident=2))
    assert beside == pytest.approx((H200.sms + 1) / MOST)


@given(st.integers(1, 20_000), st.integers(1, 32))
def test_more_blocks_take_no_less_and_never_move_faster_than_the_device(blocks, resident):
    fewer, more = placement(blocks, resident), placement(blocks + 1, resident)
    assert more.bytes_per_s(MOST, OF_ONE) <= MOST * (1 + 1e-9)
    assert seconds(more) >= seconds(fewer) * (1 - 1e-9)
