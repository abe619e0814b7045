"""Which command `scan` ends with."""

from __future__ import annotations

from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.whole_model import Scan, ScanRow
from kernelagent.loop.choosing_parts import following, proposed

DEVICE = DeviceFacts("virtual", "GPU", "sm_90", "2", "3")


def row(path: str, us: float, *, own_us: float | None = None, lstm: bool = False) -> ScanRow:
    gain = 1000 / (1000 - 0.9 * us)
    alone = "it is torch's LSTM, which the built-in policy leaves alone" if lstm else None
    return ScanRow(path, "Part", 1, us, us / 1000, 0.1 * us, gain, own_us=own_us, left_alone=alone)


def seen(*rows: ScanRow, own_us: float = 0.0, lstm: bool = False) -> Scan:
    ranked = tuple(sorted(rows, key=lambda one: -(one.gain_at_most or 0.0)))
    alone = "lstm in it is torch's LSTM" if lstm else None
    return Scan(
        "m", DEVICE, "estimate", 1000, ranked, (), own_us=own_us, once_us=5, left_alone=alone
    )


def test_a_model_whose_own_forward_takes_the_time_is_taken_whole_and_the_reason_is_said() -> None:
    step = proposed(seen(row("in_proj", 10), row("out_proj", 10), own_us=975), built_in=True)
    assert step is not None
    assert step.part is None
    assert "the forward's own operations take more than any part" in str(step.why)


def test_the_model_in_a_wrapper_leaves_its_place_to_a_part_in_it() -> None:
    inside = (row("net.block", 600), row("net.head", 300))
    step = proposed(seen(row("net", 994, own_us=94), *inside), built_in=True)
    assert step is not None
    assert (step.part, step.why) == ("net.block", None)


def test_the_model_in_a_wrapper_is_taken_where_its_own_forward_takes_the_time() -> None:
    step = proposed(seen(row("net", 994, own_us=974), row("net.proj", 20)), built_in=True)
    assert step is not None
    assert step.part == "net"


def test_what_the_built_in_policy_leaves_alone_is_proposed_to_an_llm_only() -> None:
    scan = seen(row("lstm", 900, lstm=True), row("head", 60), own_us=35, lstm=True)
    ours, theirs = (proposed(scan, built_in=built_in) for built_in in (True, False))
    assert ours is not None
    assert theirs is not None
    assert (ours.part, theirs.part) == ("head", "lstm")
    assert following(scan, (), built_in=True) == scan.rows[1]


def test_with_nothing_else_to_take_an_llm_is_said_to_be_needed() -> None:
    step = proposed(seen(row("lstm", 990, lstm=True), own_us=5, lstm=True), built_in=True)
    assert step is not None
    assert step.part == "lstm"
    assert step.needs_model
    assert "lstm" in str(step.why)


def test_a_model_without_parts_is_taken_whole() -> None:
    step = proposed(seen(own_us=995), built_in=True)
    assert step is not None
    assert step.part is None
