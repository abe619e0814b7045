"""Within one program: one of which a single thread does all that counts.

A single number is stored, or changed by an atomic, by one thread of the program, always the same, and loaded by all
(seen in the PTX of Triton 3.9: the predicate of such a store is that the thread is the first). What that thread stored
it may load. What the others load in the meantime is nobody's business as long as they do nothing with it: no block of
lanes is loaded or stored, and the compiled code has no place where threads wait for each other or hand values over.
"""

from __future__ import annotations

from kernelagent.tools.virtual.compiled.barriers import Barriers
from kernelagent.tools.virtual.executor.launch import MemoryFault


class OneThread:
    """Of the program that runs; a fault between its threads is one once other threads do something, too."""

    def __init__(self) -> None:
        self._alone = False
        self._fault: MemoryFault | None = None

    def begins(self, barriers: Barriers) -> None:
        """The next program, of a kernel with these places where threads meet."""
        self._alone, self._fault = not barriers.threads_meet, None

    def accesses(self, lanes: int) -> None:
        """Before an access of so many lanes; raises what was found while one thread was alone."""
        if lanes == 1:
            return
        self._alone = False
        if self._fault is not None:
            raise self._fault

    def found(self, fault: MemoryFault) -> None:
        """Between two threads; raises unless one of them has done all so far."""
        if not self._alone:
            raise fault
        self._fault = self._fault or fault

    @property
    def alone(self) -> bool:
        """Whether one thread has done all so far."""
        return self._alone
