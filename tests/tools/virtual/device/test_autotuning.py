"""Each autotuned kernel goes through its configurations in an order of its own."""

from __future__ import annotations

from kernelagent.tools.virtual.device.autotuning import ConfigurationChoice


class Tuner:
    """What a choice is asked for: any object."""


def places(choice, tuners, count, calls):
    result = []
    for number in range(calls):
        choice.take(number)
        result.append(tuple(choice.place(tuner, count) for tuner in tuners))
    return result


def test_the_first_call_has_the_first_of_each_and_each_round_has_all():
    tuners = Tuner(), Tuner()
    made = places(ConfigurationChoice(), tuners, 5, 20)
    assert made[0] == (0, 0)
    for first in range(0, 20, 5):
        for which in (0, 1):
            assert sorted(item[which] for item in made[first : first + 5]) == list(range(5))


def test_two_kernels_do_not_go_in_step():
    tuners = Tuner(), Tuner()
    made = places(ConfigurationChoice(), tuners, 2, 64)
    assert {(0, 0), (0, 1), (1, 0), (1, 1)} == set(made)


def test_a_call_that_is_made_again_has_the_same():
    tuner, choice = Tuner(), ConfigurationChoice()
    first = places(choice, (tuner,), 4, 8)
    assert places(choice, (tuner,), 4, 8) == first


class Asked:
    """What of an autotuner is looked at when it is asked to tune."""

    keys = ("n",)

    def __init__(self) -> None:
        self.nargs = {"n": 64}

    def base_fn(self) -> None:
        """The kernel."""


def made_anew(tuners):
    choice = ConfigurationChoice()
    for tuner in tuners:
        with choice.tuning():
            choice.asked(tuner, {})
    (row,) = choice.tunings()
    return row["made_anew"]


def test_a_tuner_that_each_call_makes_anew_is_seen_and_one_for_each_copy_is_not():
    assert made_anew([Asked() for _ in range(12)])
    assert not made_anew([Asked()] * 12)
    assert not made_anew([*[Asked()] * 12, Asked(), Asked(), Asked()])
