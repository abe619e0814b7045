from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.storage.lessons.patterns import parsed, pattern_of

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def of_example(name: str):
    return pattern_of((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("example", "families"),
    [
        ("rms_norm_residual", "normalisation"),
        ("layer_norm_gelu", "normalisation"),
        ("softmax_scale_mask", "softmax"),
        ("cross_entropy", "softmax"),
        ("matmul_bias_gelu", "matmul"),
        ("swiglu", "matmul"),
        ("rotary_embedding", "elementwise"),
    ],
)
def test_each_example_has_the_pattern_a_person_would_give_it(example, families):
    assert of_example(example).name == families


def test_a_pattern_survives_its_name():
    pattern = pattern_of("y = torch.softmax(a @ b, -1)")
    assert pattern.name == "matmul+softmax"
    assert parsed(pattern.name, pattern.operations) == pattern


def test_likeness_falls_from_same_to_shared_to_alike_to_nothing():
    norm, other_norm = of_example("rms_norm_residual"), of_example("layer_norm_gelu")
    softmax, matmul = of_example("softmax_scale_mask"), of_example("swiglu")
    both = pattern_of("torch.softmax(F.linear(x, w), -1)")
    result = [norm.likeness(x) for x in (norm, other_norm)]
    assert result == sorted(result, reverse=True)
    assert min(result) >= 1 > both.likeness(matmul) > norm.likeness(softmax) > 0
    assert norm.likeness(matmul) == 0


def test_source_that_does_not_parse_still_has_a_pattern():
    assert pattern_of("class Model(:\n  torch.softmax(x) [... 40 lines left out ...]").name == (
        "softmax"
    )
