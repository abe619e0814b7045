"""What rounding decides in one row excuses nothing in the next."""

from __future__ import annotations

import torch

from kernelagent.tools.judge.problem.reference.conditioning import measure_noise
from kernelagent.tools.judge.verify.compare.compare import Expected, compare
from kernelagent.tools.judge.verify.compare.regions import Enough, NoiseSources

SCORES = torch.randn(16, 12, generator=torch.Generator().manual_seed(0))
HIDDEN = torch.zeros(16, 12, dtype=torch.bool)
HIDDEN[3], HIDDEN[11], HIDDEN[:, 9:] = True, True, True


def weights(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(tensors["scores"].masked_fill(HIDDEN, -1e9), -1)


EAGER, EXACT = (weights({"scores": scores}) for scores in (SCORES, SCORES.double()))


def noise(name: str, enough: Enough | None = None) -> NoiseSources:
    generator = torch.Generator().manual_seed(1)
    return measure_noise(weights, {"scores": SCORES}, EXACT, generator)[name]


def passes(answer: torch.Tensor) -> bool:
    expected = Expected(EAGER, EXACT, {}, measure_noise=noise)
    return compare(answer, expected, input_set="default", probe="natural").passed


def test_rounding_decides_the_rows_that_are_hidden_whole_and_no_others() -> None:
    spread = noise("output").spread
    assert spread is not None
    assert bool((spread[[3, 11]] > 0.1).any())
    assert float(spread[[row for row in range(16) if row not in (3, 11)]].max()) < 1e-5


def test_a_row_that_is_known_is_held_to_what_rounding_does_to_it() -> None:
    wrong = EAGER.clone()
    wrong[5, :2] = wrong[5, :2].flip(0)
    assert not passes(wrong)
    assert passes(EAGER.clone())


def test_complex_results_are_judged_in_the_same_regions() -> None:
    right = torch.complex(EXACT, EXACT)
    own, wrong = (torch.complex(part, EAGER) for part in (EAGER, EAGER.flip(0)))

    def moved(_: str, enough: Enough | None = None) -> NoiseSources:
        complex_noise = measure_noise(
            lambda tensors: torch.complex(weights(tensors), weights(tensors)),
            {"scores": SCORES},
            right,
            torch.Generator().manual_seed(1),
        )
        return complex_noise["output"]

    expected = Expected(own, right, {}, measure_noise=moved)
    assert not compare(wrong, expected, input_set="default", probe="natural").passed
    assert compare(own.clone(), expected, input_set="default", probe="natural").passed


def test_a_row_that_rounding_decides_may_be_another() -> None:
    other = EAGER.clone()
    other[3] = 0.0
    other[3, 0] = 1.0
    assert passes(other)


def added(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores + HIDDEN.to(scores.dtype) * -1e9, -1)


def test_rows_of_which_eager_has_another_answer_excuse_no_others() -> None:
    own, right = added(SCORES), added(SCORES.double())
    assert float((own - right)[[3, 11]].abs().max()) > 0.1, "what is added is lost in float32 there"
    wrong = own.clone()
    wrong[::2] *= 1.01
    expected = Expected(own, right, {})
    assert compare(own.clone(), expected, input_set="default", probe="natural").passed
    assert not compare(wrong, expected, input_set="default", probe="natural").passed
