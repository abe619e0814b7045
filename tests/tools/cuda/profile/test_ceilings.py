"""Ceilings of the card that is there: by its name, measured on a device, kept, and used."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernelagent.domain.errors import UsageError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.tools.cuda.ceilings import (
    MeasuredCeilings,
    Sizes,
    fastest,
    keep_ceilings,
    known_ceilings,
    measure_ceilings,
    with_measured,
)
from kernelagent.tools.judge.bounds.headroom import facts_of, headroom_of
from kernelagent.tools.judge.problem.devices import measured_device
from kernelagent.tools.virtual.cost.ceilings import ceilings_for
from kernelagent.tools.virtual.cost.data_sheets import ceilings_of, row_near

FACTS = DeviceFacts("cuda", "NVIDIA H200", "sm_90", "2.11.0+cu130", "3.6.0", "580.159.03")
FOUND = MeasuredCeilings("NVIDIA H200", "580.159.03", "2.11.0+cu130", 4.3e12, {"bf16": 788e12})
SMALL = Sizes(copied_bytes=1 << 20, side=128, fp32_side=128)


@pytest.mark.parametrize(
    ("name", "target", "bytes_per_s"),
    [
        ("NVIDIA A100-SXM4-80GB", "sm_80", 2.039e12),
        ("NVIDIA A100 80GB PCIe", "sm_80", 1.935e12),
        ("NVIDIA A100-PCIE-40GB", "sm_80", 1.555e12),
        ("NVIDIA A100-SXM4-40GB", "sm_80", 1.555e12),
        ("NVIDIA H200", "sm_90", 4.8e12),
        ("NVIDIA H100 80GB HBM3", "sm_90", 3.352e12),
        ("NVIDIA H100 PCIe", "sm_90", 2.039e12),
        ("NVIDIA H20", "sm_90", 4.0e12),
        ("NVIDIA GeForce RTX 4090", "sm_89", 1.008e12),
        ("NVIDIA L4", "sm_89", 0.3e12),
        ("NVIDIA L40S", "sm_89", 0.864e12),
        ("NVIDIA GeForce RTX 3090", "sm_86", 0.936e12),
        ("NVIDIA A10G", "sm_86", 0.6e12),
        ("NVIDIA B200", "sm_100", 8.0e12),
    ],
)
def test_a_card_is_known_by_the_name_torch_gives_it(
    name: str, target: str, bytes_per_s: float
) -> None:
    row, listed = ceilings_of(name, target)
    assert listed
    assert row.dram_bytes_per_s == bytes_per_s
    assert row.name == name


def test_a_card_nobody_listed_gets_its_architectures_row_and_is_not_called_known() -> None:
    row, listed = ceilings_of("NVIDIA Something 9000", "sm_90")
    assert not listed
    assert row.dram_bytes_per_s == ceilings_for("sm_90").dram_bytes_per_s


@pytest.mark.parametrize(
    ("asked", "row"), [("sm_87", "sm_86"), ("sm_103", "sm_100"), ("sm_121", "sm_120")]
)
def test_an_architecture_without_a_row_runs_as_the_one_before_it(asked: str, row: str) -> None:
    assert row_near(asked).target == row


def test_an_architecture_older_than_every_row_is_refused() -> None:
    with pytest.raises(UsageError, match="sm_70"):
        row_near("sm_70")


@pytest.mark.long
def test_measuring_runs_on_any_device_and_leaves_the_precision_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    result = measure_ceilings(FACTS, "cpu", SMALL)
    assert result.copy_bytes_per_s > 1e8
    assert {"fp32", "bf16"} <= set(result.flops_per_s)
    assert all(rate > 1e6 for rate in result.flops_per_s.values())
    assert torch.get_float32_matmul_precision() == before


def test_what_was_measured_is_found_again_for_the_same_device_driver_and_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known_ceilings(FACTS) is None
    keep_ceilings(FACTS, FOUND)
    assert known_ceilings(FACTS) == FOUND
    assert known_ceilings(replace(FACTS, driver="590.1")) is None
    next(tmp_path.rglob("*.json")).write_text("{", encoding="utf-8")
    assert known_ceilings(FACTS) is None


def test_headroom_uses_what_was_measured_and_says_so_and_the_hard_floor_does_not() -> None:
    promised = ceilings_for("sm_90")
    measured = with_measured(promised, FOUND)
    x = torch.empty(64 << 20, dtype=torch.bfloat16, device="meta")
    sheet = headroom_of(torch.nn.ReLU(), [x], {}, promised)
    seen = headroom_of(torch.nn.ReLU(), [x], {}, measured, promised)
    assert seen.bound_us == pytest.approx(sheet.bound_us * 4.8 / 4.3)
    assert seen.floor_us == sheet.floor_us
    facts = facts_of("default", seen, 100.0, measured, estimated=False, source="measured")
    assert facts.ceilings == "measured"
    assert measured.dot_flops_per_s["bf16"] == 788e12
    assert measured.dot_flops_per_s["fp8"] == promised.dot_flops_per_s["fp8"]


def test_the_first_call_which_loads_libraries_does_not_shorten_the_rounds() -> None:
    calls: list[float] = []

    def call() -> None:
        # Loading takes longer than a round; every other call far less.
        time.sleep(0.0002 if calls else 0.03)
        calls.append(time.perf_counter())

    seconds = fastest(call, lambda: None)
    assert seconds < 0.02
    assert len(calls) > 12


def test_a_full_gpu_is_judged_by_its_data_sheet_and_that_is_said() -> None:
    def full(facts: DeviceFacts, device: str) -> MeasuredCeilings:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1024.00 MiB.")

    promised = ceilings_for("sm_90")
    device = measured_device(FACTS, "cuda:0", promised, full)
    assert device.ceilings == promised
    assert device.ceilings_from == "data sheet"
    assert device.unmeasured is not None
    assert "nvidia-smi" in device.unmeasured
    well = measured_device(FACTS, "cuda:0", promised, lambda facts, device: FOUND)
    assert (well.ceilings_from, well.unmeasured) == ("measured", None)


def test_a_product_that_finds_no_memory_is_no_type_that_the_device_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "mm", full)
    with pytest.raises(torch.OutOfMemoryError):
        measure_ceilings(FACTS, "cpu", SMALL)
