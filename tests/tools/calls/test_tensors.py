from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelagent.tools.calls.tensors import Malformed, NotPortable, open_parcel, parcel
from tests.lanes import examples

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8,
    torch.bool, torch.complex64, torch.float8_e4m3fn,
]  # fmt: skip


def through(value: object) -> object:
    sent = parcel(value)
    payload = memoryview(b"".join(bytes(view) for view in sent.payload))
    return open_parcel(sent.header, payload)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (4, 5)], ids=str)
def test_every_dtype_and_shape_crosses_bit_for_bit(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = (torch.randn(shape) * 3).to(dtype)
    got = through(tensor)
    assert isinstance(got, torch.Tensor)
    assert got.dtype == dtype
    assert got.shape == tensor.shape
    assert (
        got.contiguous()
        .reshape(-1)
        .view(torch.uint8)
        .equal(tensor.contiguous().reshape(-1).view(torch.uint8))
    )


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6).t(),
        torch.randn(4, 1).expand(4, 8),
        torch.randn(8, 8)[:, ::2],
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ],
    ids=["transposed", "expanded", "strided", "channels_last"],
)
def test_strides_survive(tensor: torch.Tensor) -> None:
    got = through(tensor)
    assert isinstance(got, torch.Tensor)
    assert got.stride() == tensor.stride()
    assert got.equal(tensor)


def test_a_nest_keeps_its_structure_and_its_exact_numbers() -> None:
    value = {
        "a": [1, 2.5, float("inf"), None, True, "text"],
        "b": (torch.float16, slice(1, None, 2), torch.Size([2, 3]), 1 + 2j),
        "c": torch.nn.functional.relu,
    }
    assert through(value) == value


def test_a_tensor_that_appears_twice_travels_once_and_stays_one() -> None:
    item = torch.randn(1000)
    sent = parcel([item, item])
    assert sent.bytes == 4000
    first, second = through([item, item])  # type: ignore[misc]
    assert first is second


def test_a_value_that_is_no_data_is_refused_by_name() -> None:
    with pytest.raises(NotPortable, match="lock"):
        parcel([threading.Lock()])


@pytest.mark.parametrize("name", ["os.system", "torch.os.system", "torch.sys", "builtins.exec"])
def test_only_torchs_own_names_are_resolved(name: str) -> None:
    header = {"value": {"torch": name}, "places": [], "tensors": []}
    with pytest.raises(Malformed):
        open_parcel(header, memoryview(b""))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.long
@settings(max_examples=examples(200))
@given(json_values, st.binary(max_size=64))
def test_a_hostile_description_is_malformed_and_nothing_else(header: object, body: bytes) -> None:
    wrapped = {"value": header, "places": [], "tensors": []}
    with contextlib.suppress(Malformed):
        open_parcel(wrapped, memoryview(body))


def test_what_was_sent_begins_at_a_sector_as_memory_of_torch_does() -> None:
    # Counted from another place, loads of whole sectors would touch one more each.
    got = through(tuple(torch.randn(n) for n in (1, 3, 1000, 70_001)))
    assert isinstance(got, tuple)
    assert [t.data_ptr() % 64 for t in got] == [0, 0, 0, 0]
