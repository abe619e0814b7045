from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.candidate_runner.repeat import Repeated
from kernelagent.tools.cuda.chain import digest, pair_at, picked


def state(value: int) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int64)


def draws(seed: int = 0, rows: int = 64) -> list:
    generator = torch.Generator().manual_seed(seed)
    return [((torch.randn(rows, 8, generator=generator),), {"n": 3}) for _ in range(4)]


@given(st.integers(0, 2**62 - 1))
def test_every_row_comes_whole_from_one_of_the_two_draws(secret: int) -> None:
    item, other = draws()[:2]
    (result,), kwargs = picked(item, other, state(secret))
    from_one = (result == item[0][0]).all(-1)
    from_other = (result == other[0][0]).all(-1)
    assert bool((from_one ^ from_other).all())
    assert kwargs == {"n": 3}


def test_either_draw_gives_about_half_of_the_rows() -> None:
    item, other = draws(rows=4096)[:2]
    shares = [
        float((picked(item, other, state(s))[0][0] == item[0][0]).all(-1).float().mean())
        for s in range(20)
    ]
    assert all(0.45 < share < 0.55 for share in shares)


def test_another_state_picks_other_rows() -> None:
    item, other = draws()[:2]
    result = {picked(item, other, state(s))[0][0].sum().item() for s in range(50)}
    assert len(result) == 50


def test_what_is_no_float_is_taken_from_one_draw_together() -> None:
    item = ((torch.arange(9), torch.zeros(9, dtype=torch.bool)), {})
    other = ((torch.arange(9) + 100, torch.ones(9, dtype=torch.bool)), {})
    seen = set()
    for secret in range(40):
        (numbers, flags), _ = picked(item, other, state(secret))
        assert bool(flags[0]) == bool(flags.all()) == bool(numbers[0] == 100)
        seen.add(bool(flags[0]))
    assert seen == {True, False}


def test_tensors_that_differ_in_form_are_the_first_draws() -> None:
    item, other = ((torch.ones(3, 2),), {}), ((torch.zeros(5, 2),), {})
    assert torch.equal(picked(item, other, state(1))[0][0], torch.ones(3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_a_digest_depends_on_every_element(dtype: torch.dtype) -> None:
    tensor = torch.zeros(3, 7, dtype=dtype)
    result = {int(digest(tensor))}
    for at in range(21):
        changed = tensor.clone()
        changed.reshape(-1)[at] = 1
        assert int(digest(changed)) not in {int(digest(tensor))}
        result.add(int(digest((tensor, changed))))
    assert len(result) >= 2


def test_an_output_without_a_tensor_has_no_digest() -> None:
    with pytest.raises(ValueError, match="no tensor"):
        digest({"n": 3})


def test_the_judge_picks_again_what_the_chain_picked() -> None:
    sets = draws()
    given_to = []

    def call(x: torch.Tensor, n: int) -> torch.Tensor:
        given_to.append(x)
        return x * n

    repeated = Repeated(call, "cpu")
    repeated.prepare(sets)
    given_to.clear()
    digests = repeated.chain(7, 12345, empty=False)
    for at in range(7):
        before = 12345 if at == 0 else int(digests[at - 1])
        (x,), _ = picked(*pair_at(sets, at), state(before))
        assert torch.equal(x, given_to[at])
        assert int(digest(x * 3)) == int(digests[at])


@pytest.mark.parametrize(("sets", "calls"), [(1, 3), (2, 3), (7, 7)])
def test_a_side_is_warmed_up_on_every_set_and_never_called_more_often_than_that_needs(
    sets: int, calls: int
) -> None:
    given_to: list[float] = []
    repeated = Repeated(lambda x: given_to.append(float(x)), "cpu")
    repeated.prepare([((torch.tensor(float(at)),), {}) for at in range(sets)])
    assert set(given_to) == set(range(sets))
    assert len(given_to) == calls


def test_an_empty_chain_calls_nothing_but_once() -> None:
    calls = []
    repeated = Repeated(lambda x, n: calls.append(1) or x, "cpu")
    repeated.prepare(draws())
    calls.clear()
    assert repeated.chain(9, 1, empty=True).shape == (9,)
    assert len(calls) == 1
