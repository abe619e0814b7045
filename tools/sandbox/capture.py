"""What a process prints, kept in shared memory: the beginning and the end, however much there is.

One process appends; another may read at any moment, also after the first has died.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

HEAD_BYTES = 32 << 10
TAIL_BYTES = 32 << 10
_COUNT = struct.Struct("=Q")
_HEAD_AT = _COUNT.size
_TAIL_AT = _HEAD_AT + HEAD_BYTES


@dataclass(frozen=True)
class Capture:
    """The memory behind `fd`: a count of all bytes, the first ones, and a ring of the last ones."""

    fd: int

    @classmethod
    def create(cls) -> Capture:
        fd = os.memfd_create("kernelagent-output", os.MFD_CLOEXEC)
        os.ftruncate(fd, _TAIL_AT + TAIL_BYTES)
        return cls(fd)

    @property
    def total(self) -> int:
        """How many bytes were printed in all."""
        return int(_COUNT.unpack(os.pread(self.fd, _COUNT.size, 0))[0])

    @property
    def flooded(self) -> bool:
        """Whether some of it is lost."""
        return self.total > HEAD_BYTES + TAIL_BYTES

    def append(self, text: bytes) -> int:
        """Take `text` in; returns the new total."""
        total = self.total
        for_head = text[: max(0, HEAD_BYTES - total)]
        os.pwrite(self.fd, for_head, _HEAD_AT + total)
        rest = text[len(for_head) :]
        self._into_ring(rest[-TAIL_BYTES:], max(0, total + len(text) - HEAD_BYTES))
        total += len(text)
        os.pwrite(self.fd, _COUNT.pack(total), 0)
        return total

    def _into_ring(self, text: bytes, end: int) -> None:
        """Write `text` so that it ends at byte `end` of what follows the head."""
        at = (end - len(text)) % TAIL_BYTES
        before_wrap = text[: TAIL_BYTES - at]
        os.pwrite(self.fd, before_wrap, _TAIL_AT + at)
        os.pwrite(self.fd, text[len(before_wrap) :], _TAIL_AT)

    def text(self) -> str:
        """The head and the tail, with a line between them that says how much is left out."""
        total = self.total
        head = os.pread(self.fd, min(total, HEAD_BYTES), _HEAD_AT)
        after_head = total - len(head)
        ring = os.pread(self.fd, min(after_head, TAIL_BYTES), _TAIL_AT)
        if after_head <= TAIL_BYTES:
            return (head + ring).decode(errors="replace")
        at = after_head % TAIL_BYTES
        tail = ring[at:] + ring[:at]
        gap = f"\n[... {after_head - TAIL_BYTES} bytes left out ...]\n"
        return head.decode(errors="replace") + gap + tail.decode(errors="replace")

    def close(self) -> None:
        os.close(self.fd)
