from __future__ import annotations

import json

import pytest
import torch

from kernelagent.tools.judge.verify.compare.compare import Expected, compare, scales_of
from kernelagent.tools.judge.verify.diagnosis.diagnosis import diagnose

X = torch.randn(64, 640, generator=torch.Generator().manual_seed(0))
Y = torch.softmax(X.double(), -1)
RIGHT = torch.softmax(X, -1)


def failure_of(candidate, eager=RIGHT, oracle=Y):
    wanted = Expected(eager, oracle, scales_of(oracle))
    result = compare(candidate, wanted, input_set="default", probe="natural")
    assert result.failure is not None, "the comparison must refuse it first"
    return result.failure


def spoiled(rows=slice(None), columns=slice(None), factor=1.5):
    wrong = RIGHT.clone()
    wrong[rows, columns] = factor * wrong[rows, columns] if factor else 0
    return wrong


NOISE = torch.randn(64, 640, generator=torch.Generator().manual_seed(1))
PATTERNS = {
    "tail of the columns": (spoiled(columns=slice(576, None)), "tail", "columns 576 to 639 of 640"),
    "last rows": (spoiled(rows=slice(60, None)), "tail", "rows 60 to 63 of 64"),
    "first columns": (spoiled(columns=slice(0, 8)), "head", "columns 0 to 7 of 640"),
    "every fourth row": (spoiled(rows=slice(0, None, 4)), "every_kth", "every 4th of the rows"),
    "odd columns": (spoiled(columns=slice(1, None, 2)), "every_kth", "every 2nd of the columns"),
    "one tile": (spoiled(slice(16, 32), slice(128, 256)), "tile", "rows 16 to 31 of 64"),
    "some rows": (spoiled(rows=[3, 17, 40, 41]), "some_rows", "4 of the 64 rows"),
    "one row": (spoiled(rows=[5]), "range", "row 5 of 64"),
    "one element": (spoiled([5], [7]), "one_element", "column 7 of 640"),
    "unwritten tail": (spoiled(columns=slice(576, None), factor=0), "unwritten", "zero in columns"),
    "constant factor": (RIGHT * 1.1, "constant_factor", "1.1 times right"),
    "offset": (RIGHT + 0.1, "offset", "off by 0.1"),
    "sign": (-RIGHT, "sign_flipped", "sign"),
    "all zero": (torch.zeros_like(RIGHT), "all_zero", "zero"),
    "constant": (torch.full_like(RIGHT, 1 / 640), "constant", "the whole output is 0.0015625"),
    "shifted down": (RIGHT.roll(1, 0), "shifted", "+1 along dimension 0"),
    "shifted left": (RIGHT.roll(-1, 1), "shifted", "-1 along dimension 1"),
    "bf16 inside": (RIGHT.bfloat16().float(), "low_precision", "bfloat16"),
    "tf32 inside": (RIGHT * (1 + NOISE * 2.0**-12), "low_precision", "TF32"),
}  # fmt: skip


@pytest.mark.parametrize("case", PATTERNS)
def test_a_pattern_is_recognised_and_named(case):
    candidate, pattern, words = PATTERNS[case]
    result = diagnose(failure_of(candidate))
    assert result.pattern == pattern
    assert words in result.sentence


def test_products_of_positive_operands_in_tf32_are_no_offset():
    """Cut off at 10 bits they err to one side by nearly the same: it is the precision that is named."""
    generator = torch.Generator().manual_seed(2)
    left, right = (torch.rand(shape, generator=generator) for shape in ((64, 4096), (4096, 96)))
    cut = [(x.view(torch.int32) & ~0x1FFF).view(torch.float32) for x in (left, right)]
    failure = failure_of(cut[0] @ cut[1], left @ right, left.double() @ right.double())
    result = diagnose(failure)
    assert result.pattern == "low_precision"
    assert "as from TF32 or float16 inside" in result.sentence


def test_the_first_mismatch_and_the_share_are_told():
    result = diagnose(failure_of(spoiled(columns=slice(576, None))))
    assert result.detail["index"] == [0, 576]
    assert result.detail["share_wrong"] == pytest.approx(0.1)
    assert result.detail["got"] == pytest.approx(1.5 * result.detail["expected"], rel=1e-4)
    assert result.sentence.startswith("output is wrong in 10.0% of 40960 elements; ")


def test_nothing_is_claimed_of_an_answer_without_a_pattern():
    other = torch.softmax(0.5 * X, -1)
    result = diagnose(failure_of(other))
    assert result.pattern is None
    assert "first at [0, 0]" in result.sentence


def test_an_unwritten_region_is_recognised_by_its_poison():
    wrong = RIGHT.clone()
    wrong[:, 600:] = 1e30
    result = diagnose(failure_of(wrong), poison=(1e30,))
    assert result.pattern == "unwritten"
    assert "never written: columns 600 to 639 of 640" in result.sentence


def test_other_tensors_are_recognised():
    stale = torch.softmax(X.flip(0), -1)
    assert diagnose(failure_of(stale), previous=stale).pattern == "stale"
    assert diagnose(failure_of(X.clone()), inputs={"x": X}).detail["input"] == "x"
    halved = torch.softmax(X * 0.5, -1)
    result = diagnose(failure_of(halved), without={"scale": torch.softmax(X.double() * 0.5, -1)})
    assert "if scale is ignored" in result.sentence


def test_an_ignored_operand_is_recognised_in_rows_that_round_badly():
    rows, weight = 1 + 2.0**-9 * X, NOISE[0]
    scaled, plain = (torch.layer_norm(rows, (640,), w) for w in (weight, None))
    exact = [torch.layer_norm(rows.double(), (640,), w) for w in (weight.double(), None)]
    failure = failure_of(plain, scaled, exact[0])
    assert diagnose(failure, without={"weight": exact[1]}).detail["ignored"] == "weight"
    halves = torch.cat([plain[:, :320], scaled[:, 320:] * 1.5], 1)
    mixed = failure_of(halves, scaled, exact[0])
    assert diagnose(mixed, without={"weight": exact[1]}).pattern != "operand_ignored"


def test_a_result_that_is_far_too_small_is_not_that_of_an_operand_left_out():
    right = torch.linspace(1e4, 1e6, 40)
    failure = failure_of(100 * NOISE[0, :40], right, right.double())
    found = diagnose(failure, without={"argument": torch.zeros(40)})
    assert found.pattern != "operand_ignored"


def test_a_transposed_square_is_recognised():
    square = X[:64, :64].contiguous()
    result = diagnose(failure_of(square.T.contiguous(), square, square.double()))
    assert result.pattern == "transposed"


def test_integers_are_diagnosed_without_a_budget():
    answer = torch.arange(20).reshape(4, 5) % 7
    result = diagnose(failure_of(answer + 1, answer, answer))
    assert result.pattern == "offset"


def test_the_only_failing_probe_is_named():
    result = diagnose(failure_of(RIGHT * 1.1), only_on="rowaffine")
    assert "on rowaffine only" in result.sentence
    assert result.detail["only_on"] == "rowaffine"


def test_a_lone_number_and_a_nan_are_described():
    scalar = torch.tensor(2.0)
    result = diagnose(failure_of(torch.tensor(3.0), scalar, scalar.double()))
    assert result.detail["index"] == []
    wrong = RIGHT.clone()
    wrong[3, 4] = float("nan")
    result = diagnose(failure_of(wrong))
    assert result.detail["index"] == [3, 4]
    assert result.detail["got"] == "nan"


@pytest.mark.parametrize("case", PATTERNS)
def test_a_diagnosis_is_short_and_can_be_written_as_json(case):
    result = diagnose(failure_of(PATTERNS[case][0]))
    assert len(result.sentence) < 300
    assert len(json.dumps(result.detail, allow_nan=False)) < 1000


IMAGES = torch.randn(4, 6, 8, 8, generator=torch.Generator().manual_seed(3))
CHANNELS = torch.randn(6, generator=torch.Generator().manual_seed(4))
BY_CHANNEL = CHANNELS.reshape(6, 1, 1)
BY_INDEX = {
    "a bias left out": (IMAGES - BY_CHANNEL, "offset_by_index", "state.bias left out"),
    "a bias added twice": (IMAGES + BY_CHANNEL, "offset_by_index", "state.bias used twice"),
    "a scale left out": (IMAGES / BY_CHANNEL, "factor_by_index", "state.bias left out"),
    "a scale applied twice": (IMAGES * BY_CHANNEL, "factor_by_index", "state.bias used twice"),
}


@pytest.mark.parametrize("case", BY_INDEX)
def test_an_error_that_is_the_same_along_a_channel_is_named_with_the_tensor_it_comes_from(case):
    candidate, pattern, tensor = BY_INDEX[case]
    failure = failure_of(candidate, IMAGES, IMAGES.double())
    result = diagnose(failure, vectors={"state.other": CHANNELS.flip(0), "state.bias": CHANNELS})
    assert result.pattern == pattern
    assert result.detail["dim"] == 1
    assert "each index of dimension 1 is " in result.sentence
    assert f"as with {tensor}; " in result.sentence


def test_rows_that_are_scaled_each_by_its_own_factor_are_told_without_a_tensor_that_is_not_known():
    scale = torch.linspace(0.5, 0.9, 64)[:, None]
    result = diagnose(failure_of(scale * RIGHT), vectors={"argument": torch.ones(64)})
    assert (
        "each index of dimension 0 (row) is right times a factor of its own (0.5 to 0.9); first"
        in result.sentence
    )


def test_an_error_that_depends_on_the_lane_of_a_block_is_named_with_its_width():
    lanes = torch.randn(16, generator=torch.Generator().manual_seed(5)).repeat(32)
    flat = NOISE.reshape(-1)[:512]
    result = diagnose(failure_of(flat + lanes, flat, flat.double()))
    assert result.pattern == "offset_by_lane"
    assert (
        "each lane of blocks of 16 along dimension 0 is off by a value of its own"
        in result.sentence
    )


def test_no_index_is_blamed_for_what_differs_within_it():
    wrong = IMAGES + 0.3 * BY_CHANNEL * IMAGES.square()
    assert diagnose(failure_of(wrong, IMAGES, IMAGES.double())).pattern is None
    few = NOISE[:4, :4].contiguous()
    assert diagnose(failure_of(few + few.flip(0), few, few.double())).pattern is None


def test_a_region_never_written_is_named_beside_other_errors():
    wrong = spoiled(columns=slice(0, 320), factor=2)
    wrong[:, 320:] = torch.nan
    result = diagnose(failure_of(wrong))
    assert result.pattern == "unwritten"
    assert (
        "never written: columns 320 to 639 of 640; the others are wrong as well" in result.sentence
    )


def test_an_output_of_nothing_but_nan_is_not_said_to_be_never_written():
    result = diagnose(failure_of(torch.full_like(RIGHT, torch.nan)))
    assert result.pattern == "all_nan"
    assert "made by arithmetic (as inf - inf), or never written" in result.sentence


@pytest.mark.parametrize(
    ("bits", "dtype", "pattern"),
    [
        (0x7FC00000, torch.float32, "unwritten"),
        (0x7FFF7FFF, torch.float32, "unwritten"),
        (0x7FFFFFFF, torch.float32, "computed_nan"),
        (-0x400000, torch.float32, "computed_nan"),
        (0x7E00, torch.float16, "unwritten"),
        (0x7FC0, torch.bfloat16, "unwritten"),
        (0x7FFF, torch.bfloat16, "nan_of_either"),
        (-0x40, torch.bfloat16, "computed_nan"),
    ],
)
def test_the_bits_of_a_nan_say_whether_it_was_computed(bits, dtype, pattern):
    kind = torch.int32 if dtype == torch.float32 else torch.int16
    right = RIGHT.to(dtype)
    wrong = right.clone()
    wrong.view(kind)[:, 600:] = bits
    result = diagnose(failure_of(wrong, right))
    assert result.pattern == pattern
    assert "columns 600 to 639 of 640" in result.sentence


def test_the_error_of_a_few_elements_is_not_blamed_on_a_rounding():
    sums = X[:16].double().square().sum(1)
    left_out = sums - X[:16, -1].double().square() - 0.2
    assert diagnose(failure_of(left_out.float(), sums.float(), sums)).pattern is None


def test_tiles_on_the_diagonal_alone_are_told_apart_from_a_region():
    tiles = (torch.arange(64) // 32)[:, None] == (torch.arange(640) // 64)[None, :]
    written = torch.where(tiles, RIGHT, torch.nan)
    result = diagnose(failure_of(written))
    assert "all but the tiles of 32 rows by 64 columns on the diagonal" in result.sentence
    assert result.pattern == "unwritten"
    wrong = torch.where(tiles, RIGHT, RIGHT.flip(1).square())
    assert diagnose(failure_of(wrong)).pattern == "off_diagonal"


def test_a_part_left_out_is_looked_for_only_where_nothing_else_explains_the_error():
    asked = []

    def shorter():
        asked.append(1)
        yield "places 0 to 15 are left out", torch.softmax(0.5 * X, -1)

    found = diagnose(failure_of(torch.softmax(0.5 * X, -1)), shortened=shorter())
    assert "it is the right answer if places 0 to 15 are left out" in found.sentence
    assert len(asked) == 1
    diagnose(failure_of(RIGHT * 1.1), shortened=shorter())
    assert len(asked) == 1


@pytest.mark.parametrize(("value", "wrong"), [(torch.inf, 1), (-torch.inf, 2)])
def test_what_is_too_large_for_the_type_is_not_told_to_be_wrong_where_it_is_infinite(value, wrong):
    oracle = torch.ones(64, 640, dtype=torch.float64)
    oracle[2, 3] = 70000.0
    candidate = oracle.half()
    candidate[2, 3], candidate[5, 7] = value, torch.inf
    result = diagnose(failure_of(candidate, oracle.half(), oracle))
    assert f"wrong in {wrong} of" in result.sentence


def test_a_wrong_complex_result_is_described() -> None:
    right = torch.complex(Y, Y.flip(1))
    eager = right.to(torch.complex64)
    wrong = eager.clone()
    wrong[5] = 2 * wrong[5]
    wrong[6, 7] = complex("inf")
    wrong[9] = 3 * wrong[9]
    result = diagnose(failure_of(wrong, eager, right))
    assert "of 40960 elements" in result.sentence
    finite = wrong.clone()
    finite[6, 7] = eager[6, 7]
    assert "wrong in 3.1% of 40960 elements" in diagnose(failure_of(finite, eager, right)).sentence
