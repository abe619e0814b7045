from __future__ import annotations

import pytest
import torch

from kernelagent.tools.judge.problem.trials.masked_answers import (
    is_as_finite,
    is_finite_everywhere,
    is_hidden_alone,
    shares_nonfinite,
)

INF = torch.inf
MASKED = [torch.tensor([1.0, -INF, 2.0, -INF]), torch.tensor([1.0, 2.0, 3.0, 4.0])]
USUAL = shares_nonfinite(MASKED)


def never():
    raise AssertionError("it was asked for")


def test_each_tensor_of_a_result_has_its_own_share():
    assert USUAL == (0.5, 0.0)
    assert shares_nonfinite([*MASKED, torch.tensor([1, 2])]) == USUAL
    assert is_finite_everywhere([torch.ones(3), torch.zeros(0), 5])
    assert not is_finite_everywhere(torch.complex(torch.ones(2), torch.tensor([0.0, INF])))


def test_what_overflows_is_not_excused_by_a_mask_in_another_output():
    overflows = [MASKED[0], torch.tensor([1.0, INF, 3.0, 4.0])]
    assert not is_as_finite(overflows, USUAL, lambda: MASKED)
    assert is_as_finite([MASKED[0] * 3, MASKED[1]], USUAL, never)


def test_infinities_of_other_masks_are_known_by_where_they_are():
    more = [torch.tensor([-INF, -INF, 2.0, -INF]), MASKED[1]]
    assert is_as_finite(more, USUAL, lambda: more)
    assert not is_as_finite(more, USUAL, lambda: MASKED)
    elsewhere = [torch.tensor([-INF, 3.0, -INF, 2.0]), MASKED[1]]
    assert is_as_finite(elsewhere, USUAL, never)
    assert not is_hidden_alone(elsewhere, lambda: MASKED)
    assert is_hidden_alone([torch.ones(4)] * 2, never)


def test_nan_is_no_answer_of_a_mask():
    hidden = [torch.full((4,), torch.nan), MASKED[1]]
    assert not is_as_finite(hidden, USUAL, lambda: hidden)


def test_a_reference_that_refuses_the_masks_has_no_answer():
    def refuses():
        raise ValueError("an empty row")

    more = [torch.full((4,), -INF), MASKED[1]]
    assert not is_as_finite(more, USUAL, refuses)


@pytest.mark.parametrize("usual", [(), (0.5,)])
def test_an_answer_of_another_form_is_only_finite_or_not(usual):
    assert is_as_finite([torch.ones(4)] * 3, usual, never)
    assert not is_as_finite([torch.full((4,), INF)] * 3, usual, lambda: MASKED)
