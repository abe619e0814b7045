"""Which of several writes to one place stays is the last on a CPU, and any of them on a GPU."""

from __future__ import annotations

import pytest
import torch

from kernelagent.tools.calls.surroundings import Surroundings, settings_of
from kernelagent.tools.virtual.device.fake_cuda import pretending_cuda
from kernelagent.tools.virtual.device.repeated_indices import WRITES

IDS = torch.tensor([3, 1, 3, 0])
AT = torch.tensor([10.0, 11.0, 12.0, 13.0])


def by_setitem(out, ids):
    out[ids] = AT


def by_two_indices(out, ids):
    out.view(5, 1)[ids, torch.zeros_like(ids)] = AT


WAYS = {
    "scatter_": lambda out, ids: out.scatter_(0, ids, AT),
    "scatter_ by names": lambda out, ids: out.scatter_(dim=0, index=ids, src=AT),
    "index_copy_": lambda out, ids: out.index_copy_(0, ids, AT),
    "index_put_": lambda out, ids: out.index_put_((ids,), AT),
    "setitem": by_setitem,
    "two indices": by_two_indices,
}


def written(way, ids):
    out = torch.zeros(5)
    with pretending_cuda("sm_90"), WRITES.turned():
        WAYS[way](out, ids)
    return out.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_of_several_writes_to_one_place_the_first_stays_where_they_are_turned(way):
    usual = torch.zeros(5)
    WAYS[way](usual, IDS)
    assert float(usual[3]) == 12.0
    assert written(way, IDS) == [13.0, 11.0, 0.0, 10.0, 0.0]


@pytest.mark.parametrize("way", WAYS)
def test_where_each_index_comes_once_the_order_changes_nothing(way):
    usual, ids = torch.zeros(5), torch.tensor([3, 1, 4, 0])
    WAYS[way](usual, ids)
    assert written(way, ids) == usual.tolist()


def test_sums_masks_and_single_values_are_as_they_were():
    with pretending_cuda("sm_90"), WRITES.turned():
        out = torch.zeros(5)
        out.scatter_add_(0, IDS, AT)
        out[out == 0] = -1.0
        out[IDS] += 0.0
        out[1] = 5.0
        out[:1] = torch.tensor([7.0])
    assert out.tolist() == [7.0, 5.0, -1.0, 22.0, -1.0]


def test_it_is_so_in_calls_without_deterministic_algorithms_alone():
    with pretending_cuda("sm_90"):
        out = torch.zeros(5)
        with settings_of(Surroundings(deterministic=False)):
            out[IDS] = AT
        assert float(out[3]) == 10.0
        out[IDS] = AT
    assert float(out[3]) == 12.0


@pytest.mark.parametrize(
    ("key", "dim"),
    [((slice(None), IDS), 1), ((IDS, slice(0, 2)), 0), ((IDS, slice(None), IDS), 0)],
    ids=["after a slice", "before a slice", "around a slice"],
)
def test_writes_beside_slices_are_turned_as_well(key, dim):
    usual = torch.zeros(5, 5, 5)
    values = torch.rand(usual[key].shape)
    turned = usual.clone()
    usual[key] = values
    with pretending_cuda("sm_90"), WRITES.turned():
        turned[key] = values
    expected = torch.zeros(5, 5, 5)
    flipped = tuple(k.flip(0) if isinstance(k, torch.Tensor) else k for k in key)
    expected[flipped] = values.flip(dim)
    assert torch.equal(turned, expected)
    assert not torch.equal(turned, usual)
