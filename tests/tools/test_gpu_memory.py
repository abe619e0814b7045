"""How a GPU's memory is divided between model and module, and what is said when they do not fit."""

from __future__ import annotations

import pytest

from kernelagent.domain.problem import InputSet, ProblemFacts, TensorFacts
from kernelagent.tools.gpu_memory import GIB, MemorySplit, checkpoint_bytes, module_bytes


def facts(rows: int, dtype: str = "bfloat16", state: int = 0) -> ProblemFacts:
    tensor = TensorFacts("x", (rows, 1 << 20), dtype)
    weights = (TensorFacts("w", (state, 1 << 20), dtype, kind="parameter"),) if state else ()
    return ProblemFacts(
        name="p",
        source="",
        entry_point="Model",
        constructor="init",
        init_arguments="()",
        input_sets=(InputSet("default", (tensor,), "(x)"),),
        outputs=(tensor,),
        state=weights,
        mode="eval",
        sha256="0",
        precision="",
    )


def test_module_needs_at_least_its_processes_and_grows_with_its_tensors():
    small, large = module_bytes(facts(1)), module_bytes(facts(1024))
    assert 1 * GIB < small < 4 * GIB
    # 2 GiB in, 2 GiB out, nine times, and twice 2·2³⁰ numbers in float64.
    assert large - small == pytest.approx((9 * 4 + 2 * 2 * 8) * GIB, rel=0.01)


def test_weights_count_for_every_process_that_holds_them():
    assert module_bytes(facts(1, state=512)) - module_bytes(facts(1)) == pytest.approx(
        4 * GIB + 2 * 8 * GIB / 2, rel=0.01
    )


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("float32", 4), ("bfloat16", 2), ("bool", 1), ("int64", 8), ("float8_e4m3fn", 1)],
)
def test_numbers_are_as_wide_as_their_type_says(dtype, width):
    more = module_bytes(facts(1025, dtype)) - module_bytes(facts(1, dtype))
    assert more == 2 * (1 << 30) * (9 * width + 2 * 8)


def test_what_is_left_is_the_models_share():
    split = MemorySplit(total=80 * GIB, module=20 * GIB, weights=16 * GIB)
    assert split.share == pytest.approx(0.72)
    assert split.warning(split.share) is None
    assert split.shown(split.share) == (
        "GPU memory 80.0 GiB: about 20.0 GiB for module and judge, 57.6 GiB for the model "
        "(weights 16.0 GiB), --gpu-memory-utilization 0.720"
    )


def test_small_module_leaves_the_model_no_more_than_vllm_takes_by_itself():
    assert MemorySplit(140 * GIB, GIB, None).share == 0.9


def test_share_that_leaves_the_module_too_little_is_warned_of_with_the_share_that_fits():
    split = MemorySplit(total=80 * GIB, module=20 * GIB, weights=16 * GIB)
    assert "gpu_memory_utilization = 0.720" in split.warning(0.9)


def test_model_that_does_not_fit_beside_the_module_is_warned_of_with_a_way_out():
    split = MemorySplit(total=80 * GIB, module=60 * GIB, weights=30 * GIB)
    warning = split.warning(split.share)
    assert "the model needs at least 31.0 GiB" in warning
    assert "hosted_vllm/NAME --api-base URL" in warning


def test_module_that_fits_beside_no_model_is_warned_of():
    split = MemorySplit(total=24 * GIB, module=30 * GIB, weights=1 * GIB)
    assert split.share == 0.0
    assert "another GPU" in split.warning(split.share)
    assert "another GPU" in split.warning(0.9)


def test_checkpoint_is_as_large_as_its_weight_files(tmp_path):
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 50)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x" * 150)
    assert checkpoint_bytes(str(tmp_path)) == 150
    assert checkpoint_bytes("org/name-on-a-hub") is None
