"""A request to the executor is checked before anything is touched; folders of any depth go; atomics that order."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.tools.calls.tensors import Malformed, open_parcel
from kernelagent.tools.sandbox.sweeping import sweep
from kernelagent.tools.virtual.compiled.synchronising import non_synchronizing_atomics
from kernelagent.tools.virtual.device.storages.arena import GAP
from kernelagent.tools.virtual.executor.requests import Forged, launch_request
from kernelagent.tools.wire import ChannelClosed, pair


def tensor(**changed):
    return {"storage": 0, "offset": 0, "dtype": "float32", "shape": [4], "strides": [1]} | changed


def request(argument=None, **changed):
    return {
        "handle": 0,
        "grid": [1, 1, 1],
        "args": [{"tensor": argument or tensor()}],
        "storages": [{"at": GAP, "bytes": 16, "empty": False, "identity": 1}],
        "arena_bytes": GAP + 16,
        "pointees": [],
    } | changed


def test_a_plain_launch_is_taken():
    assert launch_request(request(), 1, [1]).arena_bytes == GAP + 16


@pytest.mark.parametrize(
    "forged",
    [
        request(handle=1),
        request(handle=-1),
        request(grid=[1, 1]),
        request(tensor(storage=1)),
        request(tensor(storage=-1)),
        request(tensor(offset=4)),
        request(tensor(shape=[5])),
        request(tensor(strides=[-1])),
        request(tensor(shape=[2, 3])),
        request(tensor(dtype="load")),
        request(storages=[{"at": 0, "bytes": 16, "empty": False, "identity": 1}]),
        request(storages=[{"at": GAP, "bytes": 1 << 50, "empty": False, "identity": 1}]),
        request(arena_bytes=1 << 40),
        request(args=[]),
        request(storages="all"),
        request(pointees=None),
        request(pointees=[{"address": 4096, "tensor": tensor(storage=1)}]),
        request(pointees=[{"address": 4096, "tensor": tensor(shape=[5])}]),
        request(pointees=[{"address": -1, "tensor": tensor()}]),
        request(pointees=[{"address": low, "tensor": tensor()} for low in (4096, 4100)]),
    ],
)
def test_a_launch_that_reaches_beyond_its_storages_is_forged(forged):
    with pytest.raises(Forged):
        launch_request(forged, 1, [1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.long
@given(st.sampled_from(sorted(request())), JSON)
def test_no_request_raises_anything_else(key, value):
    with contextlib.suppress(Forged):
        launch_request(request() | {key: value}, 1, [1])


@given(
    st.lists(st.integers(-5, 1 << 40), max_size=4), st.lists(st.integers(-5, 1 << 40), max_size=4)
)
def test_a_tensor_that_cannot_be_laid_out_is_malformed(shape, strides):
    spec = {
        "dtype": "float32", "shape": shape, "strides": strides,
        "requires_grad": False, "parameter": False, "device": "cpu",
    }  # fmt: skip
    header = {"value": {"tensor": 0}, "places": [0], "tensors": [spec]}
    try:
        result = open_parcel(header, memoryview(bytes(16)))
    except Malformed:
        return
    assert result.untyped_storage().nbytes() <= 1 << 31


def test_a_claimed_size_is_not_made_room_for():
    left, right = pair()
    left.socket.send(b"KAF1" + (2).to_bytes(4, "little") + (1 << 33).to_bytes(8, "little") + b"{}")
    left.close()
    with pytest.raises(ChannelClosed):
        right.receive(timeout=5.0, max_payload=1 << 34)


IN_LITTLE_ROOM = """
import resource
from threading import Thread
from kernelagent.tools.wire import ChannelClosed, pair

left, right = pair()
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

def send():
    left.socket.setblocking(True)
    claimed = (1 << 33).to_bytes(8, "little")
    left.socket.sendall(b"KAF1" + (2).to_bytes(4, "little") + claimed + b"{}" + bytes(40 << 20))
    left.close()

Thread(target=send).start()
try:
    right.receive(timeout=20.0, max_payload=1 << 34)
except ChannelClosed:
    print("closed")
"""


def test_a_claimed_size_needs_no_addresses_either():
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_ROOM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "closed\n"


@pytest.mark.long
def test_folders_nested_beyond_any_recursion_are_swept(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    start = os.open(".", os.O_RDONLY)
    os.chdir(top)
    try:
        for _ in range(1500):
            os.mkdir("d")  # noqa: PTH102 - no path is short enough
            os.chdir("d")
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY))
        os.mkdir("closed", 0o000)  # noqa: PTH102 - likewise
    finally:
        os.fchdir(start)
        os.close(start)
    sweep(top)
    assert not top.exists()


KERNEL = """
@triton.jit
def k(p, flag):
    tl.store(p, 1)
    tl.atomic_add(flag, 1)
    ticket = tl.atomic_add(flag, 1)
    last = ticket == 3
    if last:
        tl.store(p, 2)
    while tl.atomic_cas(flag, 0, 1) != 0:
        pass
    old = tl.atomic_add(p, 1)
    tl.store(p, old)
"""


def test_only_an_atomic_that_decides_something_puts_programs_in_order():
    assert non_synchronizing_atomics(KERNEL) == {5, 12}
