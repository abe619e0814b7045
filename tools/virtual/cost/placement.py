"""How the blocks of a launch find room on a device, and what that leaves of its rates: a grid seldom fills its last round."""

from __future__ import annotations

from dataclasses import dataclass

from kernelagent.tools.virtual.compiled.sass import MachineFacts
from kernelagent.tools.virtual.cost.ceilings import DeviceCeilings
from kernelagent.tools.virtual.cost.traffic_facts import TrafficFacts

_SCHEDULERS = 4
"""Of one multiprocessor, each of which issues for one warp at a time (data sheet, all targets)."""
_UNKNOWN_RESIDENT = 8
"""Programs per multiprocessor when no machine code is at hand (assumption)."""


@dataclass(frozen=True)
class Placement:
    """The blocks of one launch on the multiprocessors of one device."""

    blocks: int
    blocks_each: int
    """Of a program: how many multiprocessors it takes at once, those of its cluster."""
    resident: int
    """Blocks that a multiprocessor holds at a time."""
    sms: int
    num_warps: int | None
    """Of a block; None where nothing was compiled."""

    @property
    def at_once(self) -> int:
        """Blocks that the whole device holds at a time."""
        return self.sms * self.resident

    @property
    def rounds(self) -> int:
        """In how many goes all blocks find room."""
        return -(-self.blocks // self.at_once)

    @property
    def balance(self) -> float:
        """Share of the multiprocessors that are busy on average until the last block ends."""
        return self.blocks / (self.sms * -(-self.blocks // self.sms))

    @property
    def issuing(self) -> float:
        """Share of a multiprocessor's schedulers that have a warp at all."""
        if self.num_warps is None:
            return 1.0
        beside = min(self.resident, -(-self.blocks // self.sms))
        return min(1.0, beside * self.num_warps / _SCHEDULERS)

    @property
    def schedulers(self) -> int:
        """Those of one multiprocessor that the warps of one block keep busy."""
        return _SCHEDULERS if self.num_warps is None else min(_SCHEDULERS, self.num_warps)

    def bytes_per_s(self, most: float, of_one: float) -> float:
        """What moves in a second on average, where the device moves `most` and one multiprocessor `of_one` at most.

        Rounds that fill the device move at its rate; what is left for the last one, at that of the few multiprocessors that
        have a block of it.
        """
        last = self.blocks % self.at_once
        full = self.blocks - last
        seconds = full / min(most, self.sms * of_one)
        if last:
            seconds += last / min(most, min(self.sms, last) * of_one)
        return self.blocks / seconds


def placed(
    traffic: TrafficFacts, machine: MachineFacts | None, ceilings: DeviceCeilings
) -> Placement:
    """Of a launch whose programs were counted; without `machine`, of one that compiled well."""
    each = 1 if machine is None else machine.num_ctas
    return Placement(
        blocks=max(1, traffic.programs) * each,
        blocks_each=each,
        resident=_UNKNOWN_RESIDENT if machine is None else max(1, machine.resident_programs),
        sms=ceilings.sms,
        num_warps=None if machine is None else machine.num_warps,
    )
