"""kill -9 in a suite on Ray; `python -m benchmarks.ray_faults` does it twenty times each."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="the extra [ray] is not installed")
from tests.suite.ray.faults import Yard, killed, table, whole, yard

pytestmark = pytest.mark.long
PROBLEMS = 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "")
        with yard(tmp_path_factory.mktemp("yard") / "of", pause_s=0.05) as made:
            yield made


@pytest.fixture(scope="module")
def undisturbed(place: Yard) -> tuple[object, ...]:
    return table(whole(place, PROBLEMS, on_ray=False))


def test_a_suite_on_ray_has_the_table_of_one_without(place, undisturbed):
    assert table(whole(place, PROBLEMS, on_ray=True)) == undisturbed
    assert len(set(undisturbed)) == PROBLEMS + 1, "a table of equal rows would prove nothing"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["driver", "worker", "raylet"])
def test_whatever_is_killed_the_table_is_the_undisturbed_one(victim, place, undisturbed):
    before = place.done.get(victim, 0)
    suite = killed(place, victim, 2, PROBLEMS, random.Random(7))
    assert place.done[victim] > before
    assert table(suite) == undisturbed
