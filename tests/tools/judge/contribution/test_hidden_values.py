"""A forward that the executor does again on values which the candidate's process never holds."""

from __future__ import annotations

import mmap

import pytest
import torch

from kernelagent.tools.virtual.device.storages.arena import place
from kernelagent.tools.virtual.executor.requests import Forged
from kernelagent.tools.virtual.provenance.replay import MOST_TOLD, Replay


class Memory:
    """The arena as the executor sees it."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 1 << 24)

    def ensure(self, size: int) -> None:
        assert size <= len(self.memory)


def described(tensor: torch.Tensor) -> dict[str, object]:
    return {
        "offset": tensor.storage_offset() * tensor.element_size(),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
    }


class Told:
    """What a runner tells of a few tensors, each in a storage of its own."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.rows: list[dict[str, object]] = []
        self.size = 0

    def tensor(self, tensor: torch.Tensor, identity: int) -> dict[str, object]:
        storage = tensor.untyped_storage()
        at = place(self.size, 0)
        self.size = at + storage.nbytes()
        self.memory.memory[at : self.size] = bytes(storage.tolist())
        row = {"at": at, "bytes": storage.nbytes(), "empty": False, "identity": identity}
        self.rows.append(row)
        return {"tensor": {"storage": len(self.rows) - 1, **described(tensor)}}

    def request(self, what: dict[str, object]) -> dict[str, object]:
        return {"what": what, "storages": self.rows, "arena_bytes": self.size}


def step(replay: Replay, memory: Memory, kind: str, **tensors: object):
    told = Told(memory)
    given = [told.tensor(tensor, identity) for tensor, identity in tensors.pop("tensors", [])]
    what = {"kind": kind, "tensors": given, "args": given, "kwargs": {}, **tensors}
    return replay.step(told.request(what), memory)


def result(tensor: torch.Tensor, identity: int) -> dict[str, object]:
    return {
        "identity": identity,
        "bytes": tensor.untyped_storage().nbytes(),
        **described(tensor),
    }


def test_an_operation_is_done_on_the_hidden_values():
    memory, held, hidden = Memory(), torch.ones(4), torch.tensor([1.0, 2.0, 3.0, 4.0])
    replay = Replay([hidden])
    out = held * held
    step(replay, memory, "inputs", tensors=[(held, 1)])
    step(
        replay,
        memory,
        "operation",
        tensors=[(held, 1), (held, 1)],
        name="aten::mul.Tensor",
        results=[result(out, 2)],
    )
    step(replay, memory, "outputs", tensors=[(out, 2)])
    assert replay.failure is None
    assert torch.equal(replay.outputs[0], hidden * hidden)
    assert [row.name for row in replay.rows] == ["mul"]


def test_a_factor_that_is_rounded_is_rounded_from_its_hidden_value():
    memory, held = Memory(), torch.ones(2)
    hidden = torch.tensor([1.0 + 2**-9, 1.0 + 2**-20])
    replay = Replay([hidden])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    told = Told(memory)
    what = {"kind": "rounded", "factor": told.tensor(held, 1), "result": result(held.clone(), 2)}
    replay.step(told.request(what), memory)
    step(replay, memory, "outputs", tensors=[(held, 2)])
    assert replay.failure is None
    assert replay.outputs[0].tolist() == [1.0 + 2**-9, 1.0]


def test_what_nothing_visible_computed_stays_as_the_runner_has_it():
    memory, held, hidden = Memory(), torch.ones(4), torch.tensor([1.0, 2.0, 3.0, 4.0])
    replay = Replay([hidden])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    by_other_means = held * 2
    step(replay, memory, "outputs", tensors=[(by_other_means, 7)])
    assert torch.equal(replay.outputs[0], by_other_means)


def test_a_plain_value_is_the_hidden_one_and_there_are_not_many():
    memory, held, hidden = Memory(), torch.ones(1), torch.tensor([5.0])
    replay = Replay([hidden])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    ask = {"tensors": [(held, 1)], "name": "aten::_local_scalar_dense", "results": [None]}
    answers = [step(replay, memory, "operation", **ask) for _ in range(MOST_TOLD + 1)]
    assert answers[0] == {"value": 5.0}
    assert answers[-1] == {}
    assert replay.told == MOST_TOLD + 1


def test_sizes_that_depend_on_hidden_values_are_no_rejection():
    memory, held, hidden = Memory(), torch.ones(4), torch.tensor([1.0, 0.0, 0.0, 4.0])
    replay = Replay([hidden])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    places = held.nonzero()
    step(
        replay,
        memory,
        "operation",
        tensors=[(held, 1)],
        name="aten::nonzero",
        results=[result(places, 2)],
    )
    assert replay.failure is not None
    assert "other values" in replay.failure


@pytest.mark.parametrize("name", ["os::system", "aten::from_file", "whitebox::silu"])
def test_only_torchs_own_operations_are_done(name):
    memory, held = Memory(), torch.ones(4)
    replay = Replay([torch.zeros(4)])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    with pytest.raises(Forged):
        step(replay, memory, "operation", tensors=[(held, 1)], name=name, results=[])


def test_a_result_beyond_its_storage_is_no_result():
    memory, held = Memory(), torch.ones(4)
    replay = Replay([torch.zeros(4)])
    step(replay, memory, "inputs", tensors=[(held, 1)])
    beyond = {**result(held, 2), "offset": 1 << 20}
    step(
        replay,
        memory,
        "operation",
        tensors=[(held, 1)],
        name="aten::neg",
        results=[beyond],
    )
    assert replay.failure is not None
