"""Frames between processes that do not trust each other: a small JSON header and raw bytes.

Nothing received is unpickled or evaluated. A receiver states how much it is willing to take and by
when; anything else on the line is a `ChannelViolation`. The fixed part is
`magic(4) | header bytes(u32) | payload bytes(u64)`, little endian.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kernelagent.tools.closing import Closing

_MAGIC = b"KAF1"
_FIXED = struct.Struct("<4sIQ")
_CHUNK = 1 << 20
_VIEWS_AT_ONCE = 64
_SEND_BUFFER = 4 << 20
_AT_FIRST = 16 << 20
"""What is made room for on somebody's word; of more, each page when its bytes arrive."""


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """Nothing complete arrived by the deadline."""


class ChannelViolation(Exception):
    """What arrived is not a frame, or is larger than was allowed."""


class FrameTooLarge(ChannelViolation):
    """A frame claims more bytes than the receiver is willing to take."""


@dataclass(frozen=True)
class Frame:
    """One message: `header["kind"]` says what it is."""

    header: dict[str, Any]
    payload: memoryview

    @property
    def kind(self) -> str:
        return str(self.header.get("kind", ""))


class Channel(Closing):
    """One end of a stream socket, spoken in frames."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        end.setblocking(False)

    def send(
        self,
        header: dict[str, Any],
        payload: Sequence[memoryview | bytes] = (),
        *,
        timeout: float | None = None,
    ) -> None:
        """Write one frame; raises `ChannelTimeout` or `ChannelClosed`. `timeout` in seconds, None: wait."""
        deadline = None if timeout is None else time.monotonic() + timeout
        views = [memoryview(part).cast("B") for part in payload]
        text = json.dumps(header, separators=(",", ":")).encode()
        total = sum(view.nbytes for view in views)
        self._write([memoryview(_FIXED.pack(_MAGIC, len(text), total) + text), *views], deadline)

    def receive(
        self,
        *,
        timeout: float | None = None,
        max_header: int = 1 << 20,
        max_payload: int = 0,
    ) -> Frame:
        """Read one frame; raises `ChannelTimeout`, `ChannelClosed` or `ChannelViolation`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        magic, header_bytes, payload_bytes = _FIXED.unpack(self._read(_FIXED.size, deadline))
        if magic != _MAGIC:
            raise ChannelViolation("what arrived does not begin like a frame")
        if header_bytes > max_header or payload_bytes > max_payload:
            raise FrameTooLarge(
                f"a frame of {header_bytes} + {payload_bytes} bytes arrived where at most "
                f"{max_header} + {max_payload} are allowed"
            )
        try:
            header = json.loads(bytes(self._read(header_bytes, deadline)))
        except (ValueError, RecursionError) as error:
            raise ChannelViolation(f"a frame's header is not JSON: {error}") from error
        if not isinstance(header, dict):
            raise ChannelViolation("a frame's header is not a JSON object")
        return Frame(header, self._read(payload_bytes, deadline))

    def readable(self, timeout: float) -> bool:
        """Whether something has arrived, or the other side is gone, within `timeout` seconds."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout) * 1000))

    def close(self) -> None:
        self.socket.close()

    def _write(self, views: Sequence[memoryview], deadline: float | None) -> None:
        # One system call for a small frame: each wakes the other side, which then waits for the rest.
        left = deque(view for view in views if view)
        while left:
            try:
                # Not `sendmsg`: that is an audit event, to which a candidate's process listens.
                sent = os.writev(self.socket.fileno(), list(islice(left, _VIEWS_AT_ONCE)))
            except BlockingIOError:
                _wait(self.socket, deadline, writing=True)
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            while left and sent >= left[0].nbytes:
                sent -= left.popleft().nbytes
            if sent:
                left[0] = left[0][sent:]

    def _read(self, size: int, deadline: float | None) -> memoryview:
        """`size` bytes; memory grows with what arrives, never with what was only claimed."""
        if size > _AT_FIRST:
            addresses = _untouched(size)
            if addresses is None:
                return self._grown(size, deadline)
            buffer = memoryview(addresses)
        else:
            buffer = memoryview(bytearray(size))
        self._fill(buffer[:], deadline)
        return buffer

    def _grown(self, size: int, deadline: float | None) -> memoryview:
        """The same where the machine has not so many addresses left: copied to a larger place now and then."""
        buffer = bytearray()
        while len(buffer) < size:
            filled = len(buffer)
            buffer.extend(bytes(min(_CHUNK, size - filled)))
            self._fill(memoryview(buffer)[filled:], deadline)
        return memoryview(buffer)

    def _fill(self, view: memoryview, deadline: float | None) -> None:
        with view:
            filled = 0
            while filled < len(view):
                try:
                    got = self.socket.recv_into(view[filled : filled + _CHUNK])
                except BlockingIOError:
                    _wait(self.socket, deadline, writing=False)
                    continue
                except OSError as error:
                    raise ChannelClosed(str(error)) from error
                if not got:
                    raise ChannelClosed("the other side closed the line")
                filled += got


_NORESERVE = 0x4000
"""Of mmap(2) on Linux, for which Python 3.11 has no name: what is only claimed needs no room on a full machine."""


def _untouched(size: int) -> mmap.mmap | None:
    """Addresses for `size` bytes, None where there are not so many; a page takes memory once it is written."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (OSError, OverflowError):
        return None


def _wait(end: socket.socket, deadline: float | None, *, writing: bool) -> None:
    poll = select.poll()
    poll.register(end, select.POLLOUT if writing else select.POLLIN)
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    if not poll.poll(None if left is None else left * 1000):
        raise ChannelTimeout("no answer in time")


def pair() -> tuple[Channel, Channel]:
    """Two connected ends."""
    left, right = socket.socketpair()
    for end in (left, right):
        # Inputs of some megabytes are on their way at once, without a word from the other side.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    return Channel(left), Channel(right)
