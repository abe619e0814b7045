from __future__ import annotations

import resource
import socket
import struct
import threading

import pytest

from kernelagent.tools.wire import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    ChannelViolation,
    pair,
)


def test_a_frame_arrives_as_it_was_sent() -> None:
    left, right = pair()
    payload = bytes(range(256)) * 5000
    sender = threading.Thread(target=left.send, args=({"kind": "call", "n": 1}, [payload]))
    sender.start()
    frame = right.receive(max_payload=1 << 24, timeout=10)
    sender.join()
    assert frame.kind == "call"
    assert bytes(frame.payload) == payload


def test_a_larger_frame_than_allowed_is_refused_before_it_is_read() -> None:
    left, right = pair()
    left.send({"kind": "x"}, [b"12345"])
    with pytest.raises(ChannelViolation, match="at most"):
        right.receive(max_payload=4, timeout=5)


@pytest.mark.parametrize(
    "raw",
    [
        b"x" * 16,
        b"KAF1" + b"\x03\0\0\0" + b"\0" * 8 + b"{x}",
        b"KAF1" + b"\x02\0\0\0" + b"\0" * 8 + b"[]",
    ],
)
def test_what_is_no_frame_is_a_violation(raw: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(raw)
    with pytest.raises(ChannelViolation):
        Channel(ours).receive(timeout=5)


def test_silence_ends_at_the_deadline() -> None:
    _, right = pair()
    with pytest.raises(ChannelTimeout):
        right.receive(timeout=0.05)


def test_a_frame_that_stops_in_the_middle_ends_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"KAF1\x10")
    with pytest.raises(ChannelTimeout):
        Channel(ours).receive(timeout=0.05)


def test_a_closed_line_is_noticed_at_once() -> None:
    left, right = pair()
    left.close()
    with pytest.raises(ChannelClosed):
        right.receive(timeout=5)


def test_a_large_frame_arrives_as_it_was_sent() -> None:
    left, right = pair()
    payload = bytes(range(256)) * (70 << 10)
    sender = threading.Thread(target=left.send, args=({"kind": "prepare"}, [payload]))
    sender.start()
    frame = right.receive(max_payload=1 << 30, timeout=30)
    sender.join()
    assert frame.payload == payload


def test_what_is_claimed_and_not_sent_takes_no_memory() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"KAF1" + struct.pack("<IQ", 2, 1 << 30) + b"{}" + b"x" * (1 << 16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ChannelTimeout):
        Channel(ours).receive(max_payload=1 << 32, timeout=0.2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (256 << 10)
