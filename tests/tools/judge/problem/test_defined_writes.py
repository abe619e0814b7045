"""What a module stores to by index is given each place once, wherever the module has no answer otherwise."""

from __future__ import annotations

import pytest
import torch

from kernelagent.domain.problem import ProblemSpec
from kernelagent.tools.judge.problem.load import load_problem
from kernelagent.tools.judge.problem.reference.oracle import Oracle
from kernelagent.tools.judge.problem.trials.defined_writes import with_defined_writes
from kernelagent.tools.judge.problem.trials.distinct_numbers import (
    ANYWHERE,
    DefinedWrites,
    made_distinct,
    repeats,
)
from kernelagent.tools.judge.problem.trials.inputs import input_sources
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(40, 4))
        self.register_buffer("blocks", torch.zeros(5, 8, 4))

    def forward(self, values, *at):
        {write}
        return self.rows * 2, self.blocks * 2

def get_inputs():
    at = torch.randperm(40)[:9]
    return [torch.randn(9, 4), {at}]
"""


def scope():
    return pretending_cuda("sm_90")


@pytest.fixture
def opened(tmp_path):
    def open_(write, at):
        path = tmp_path / "problem.py"
        path.write_text(PROBLEM.format(write=write, at=at))
        with scope():
            problem = load_problem(ProblemSpec(path=str(path)))
            oracle = Oracle(problem, "cpu", scope=scope)
        (source,) = input_sources(problem, oracle.module, "cpu", scope, may_shrink=False)
        return oracle, with_defined_writes(oracle, source)

    return open_


WRITES = {
    "index_copy_": "self.rows.index_copy_(0, at[0], values)",
    "index_put_": "self.rows.index_put_((at[0],), values)",
    "setitem": "self.rows[at[0]] = values",
    "scatter_": "self.rows.scatter_(0, at[0][:, None].expand(-1, 4), values)",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_slots_that_are_stored_to_hold_no_number_twice(opened, write):
    _, source = opened(write, "at")
    assert dict(source.writes.along) == {"arguments[0][1]": "all"}
    assert "more than once in arguments[0][1]" in source.writes.said()
    assert "more than once in at" in source.writes.said({"arguments[0][1]": "at"}.__getitem__)


def test_draws_of_the_users_that_collide_where_the_module_stores_are_made_distinct(opened):
    oracle, source = opened(WRITES["index_copy_"], "torch.randint(0, 40, (9,))")
    for seed in range(20):
        assert not oracle.order_of_writes_shows(source.draw(seed))
        assert not repeats(source.draw(seed)[0][1], "all")


def test_sums_by_index_are_defined_where_numbers_repeat_so_random_ones_stay_free(opened):
    _, source = opened("self.rows.index_add_(0, at[0], values)", "torch.randint(0, 40, (9,))")
    assert source.writes is ANYWHERE


def test_few_random_numbers_of_a_large_range_are_distinct_by_chance_and_stay_free(opened):
    many = "torch.randint(0, 4000, (9,))"
    _, source = opened("self.rows.index_add_(0, at[0] % 40, values)", many)
    assert source.writes is ANYWHERE


def test_numbers_that_no_draw_repeats_where_chance_would_have_are_kept_distinct(opened):
    _, source = opened("self.rows.index_add_(0, at[0], values)", "at")
    assert dict(source.writes.along) == {"arguments[0][1]": "all"}


def test_blocks_with_the_places_in_them_stay_together_as_they_were_drawn(opened):
    oracle, source = opened("self.blocks[at[0], at[1]] = values", "at // 8, at % 8")
    assert set(source.writes.along.values()) == {"as drawn"}
    args, kwargs = source.draw(3)
    natural = {"arguments[0][1]": args[1], "arguments[0][2]": args[2]}
    other = {name: torch.zeros_like(tensor) for name, tensor in natural.items()}
    kept = source.writes.legal(other, natural)
    given = (args[0], *kept.values()), kwargs
    assert not oracle.order_of_writes_shows(given)


def test_equal_values_to_one_place_leave_nothing_open(opened):
    oracle, source = opened(WRITES["index_copy_"], "at")
    args, kwargs = source.draw(1)
    same = torch.ones(9, 4), torch.zeros(9, dtype=torch.int64)
    assert not oracle.order_of_writes_shows((same, kwargs))
    assert oracle.order_of_writes_shows(((args[0], same[1]), kwargs))


def test_of_equal_numbers_the_first_stays_and_negative_ones_may_repeat():
    natural = torch.arange(20)
    made = made_distinct(torch.tensor([5, 5, -1, 5, -1, 7]), natural, "all")
    assert made[[0, 2, 4, 5]].tolist() == [5, -1, -1, 7]
    assert not repeats(made, "all")
    assert int(made.max()) < 20


def test_unsigned_integers_keep_their_type():
    places = torch.tensor([4, 4, 9]).to(torch.uint16)
    made = made_distinct(places, torch.tensor([0, 4, 9]).to(torch.uint16), "all")
    assert made.dtype == torch.uint16
    assert not repeats(made, "all")


def test_rows_are_made_distinct_each_by_itself_and_stay_in_order():
    natural = torch.arange(8).expand(2, 8)
    made = made_distinct(torch.tensor([[1, 1, 2, 2], [3, 4, 5, 6]]), natural, "rows")
    assert not repeats(made, "rows")
    assert bool((made.diff() > 0).all())
    assert made[1].tolist() == [3, 4, 5, 6]


def test_a_range_with_too_few_numbers_changes_nothing():
    crowded = torch.tensor([0, 1, 0, 1])
    assert made_distinct(crowded, crowded, "all").tolist() == crowded.tolist()


def test_inputs_of_another_shape_than_the_natural_ones_are_left_alone():
    kept = DefinedWrites({"at": "all"})
    given = {"at": torch.zeros(3, dtype=torch.int64)}
    assert kept.legal(given, {"at": torch.arange(4)})["at"] is given["at"]
