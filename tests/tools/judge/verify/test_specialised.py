"""Kernels that are compiled or tuned anew: told of where they are, and not of ordinary ones."""

from __future__ import annotations

from kernelagent.tools.judge.verify.specialised import Specialised, Tuning


def launched(**constants: int) -> list[dict]:
    return [{"kernel": "rms", "constexprs": constants, "options": {"num_warps": 4}}]


def told(seen: Specialised, *tunings: Tuning, configurations: int = 1) -> str:
    return " ".join(d.message for d in seen.disclosures(tunings, configurations))


def test_one_set_of_constants_is_not_told():
    seen = Specialised()
    for _ in range(40):
        seen.note("default", launched(BLOCK=128), hidden=False)
    assert told(seen) == ""


def test_another_constant_in_every_eighth_call_is_told():
    seen = Specialised()
    for call in range(40):
        seen.note("default", launched(BLOCK=128, SALT=call // 8), hidden=False)
    assert "`rms` was compiled with 5 sets of constants for calls of one size" in told(seen)


def test_the_configurations_of_an_autotuned_kernel_are_not_told():
    seen = Specialised()
    for call in range(40):
        seen.note("default", launched(BLOCK=64 << call % 5), hidden=False)
    assert told(seen, configurations=5) == ""


def test_a_size_as_a_constant_is_told_where_sizes_are_dynamic():
    seen = Specialised()
    for rows in (9, 37, 1000):
        seen.note(f"rows {rows}", launched(ROWS=rows), hidden=rows != 9)
    assert "compiled anew for each size (its constant ROWS was one of 3 numbers)" in told(seen)


def test_the_next_power_of_two_of_a_size_is_not_told():
    seen = Specialised()
    for rows, block in ((9, 16), (37, 64), (1000, 1024)):
        seen.note(f"rows {rows}", launched(BLOCK=block), hidden=rows != 9)
    assert told(seen) == ""


def test_tuning_by_a_tensor_and_tuning_for_hours_are_told():
    seen = Specialised()
    seen.note("default", launched(BLOCK=128), hidden=False)
    assert "tuned by a tensor" in told(seen, Tuning("rms", 0, by_tensor=True, ms=125.0))
    assert "20,000 s" in told(seen, Tuning("rms", 1, by_tensor=False, ms=2e7))


def test_tuning_once_for_each_input_set_is_not_told():
    seen = Specialised()
    seen.note("one", launched(BLOCK=128), hidden=False)
    assert told(seen, Tuning("rms", 2, by_tensor=False, ms=125.0)) == ""


def test_tuning_for_a_number_that_is_another_in_each_call_is_told():
    seen = Specialised()
    seen.note("one", launched(BLOCK=128), hidden=False)
    assert "in call after call (26 times" in told(seen, Tuning("rms", 26, False, 125.0))
    assert told(seen, Tuning("rms", 3, by_tensor=False, ms=125.0)) == ""


def test_tuning_for_each_hidden_size_is_told():
    seen = Specialised()
    for rows in (9, 37, 1000):
        seen.note(f"rows {rows}", launched(BLOCK=128), hidden=rows != 9)
    tuned = Tuning("rms", 3, by_tensor=False, ms=125.0)
    assert "tuned anew for each size (3 times" in told(seen, tuned)


def test_a_tuner_that_each_call_makes_is_told():
    seen = Specialised()
    seen.note("one", launched(BLOCK=128), hidden=False)
    assert "given to `triton.autotune` again" in told(
        seen, Tuning("rms", 1, by_tensor=False, ms=125.0, made_anew=True)
    )
