from __future__ import annotations

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.tools.virtual.compiled.compiling import SHARED_BYTES, gpu_target
from kernelagent.tools.virtual.cost.ceilings import ceilings_for


@pytest.mark.parametrize("arch", SHARED_BYTES)
def test_every_target_that_compiles_has_ceilings(arch: int):
    target = f"sm_{arch}"
    assert gpu_target(target).arch == arch
    assert ceilings_for(target).target == target


@pytest.mark.parametrize("arch", SHARED_BYTES)
def test_one_block_may_use_all_shared_memory_but_the_reserved_part(arch: int):
    row = ceilings_for(f"sm_{arch}")
    assert row.shared_bytes_per_sm - row.shared_reserved_bytes == SHARED_BYTES[arch]


def test_an_unknown_target_is_a_usage_error_that_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"sm_70.*sm_90, h100.*a100.*rtx-4090.*b200.*t4, sm_75"):
        ceilings_for("sm_70")


def test_special_functions_per_second_follow_from_clock_and_multiprocessors():
    assert ceilings_for("sm_90").special_per_s == pytest.approx(132 * 16 * 1.98e9)
