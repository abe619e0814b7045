"""Which tensors a call writes to, whatever they hold afterwards."""

from __future__ import annotations

import torch

from kernelagent.tools.calls.writes import Writes, exchanged, held_by


def test_what_is_written_and_put_back_was_written():
    module = torch.nn.BatchNorm1d(3)
    writes = Writes(held_by(module))
    assert writes.since() == []
    with torch.no_grad():
        module.weight.neg_().neg_()
    assert writes.since() == ["weight"]


def test_what_kernels_store_to_is_known_by_the_storage():
    module = torch.nn.Linear(3, 3)
    writes = Writes(held_by(module))
    stored = {module.bias.untyped_storage()._cdata}  # noqa: SLF001
    assert writes.since(stored) == ["bias"]


def test_a_tensor_of_inference_mode_has_no_version_to_ask_for():
    with torch.inference_mode():
        made = torch.ones(3)
    assert Writes({"made": made}).since() == []


def test_what_is_bound_anew_is_another_tensor():
    module = torch.nn.Linear(3, 3)
    before = held_by(module)
    module.bias = torch.nn.Parameter(torch.zeros(3))
    assert exchanged(before, held_by(module)) == {"bias"}
