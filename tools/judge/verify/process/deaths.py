"""How a candidate's process ended, as a rejection in words."""

from __future__ import annotations

from kernelagent.tools.judge.verify.rejection import Rejected
from kernelagent.tools.sandbox.spawn import Exit

DOING = {
    "load": "while importing the file",
    "construct": "while constructing ModelNew",
    "weights": "while loading the weights",
    "beside": "in the forward of a second ModelNew",
    "call": "in the forward",
    "replay": "in the forward on hidden values",
    "held": "after the forward",
    "forget": "while earlier results were freed",
    "left": "after all calls",
    "state": "after the forward",
    "attributes": "after the forward",
    "account": "in a forward whose torch operations are counted",
    "suppress": "before the knock-out",
    "trace": "in the traced forward",
    "graph": "while a graph of the forward was made",
    "facts": "after the forward",
    "prepare": "in the warm-up",
    "time": "in the timed calls",
    "chain": "in the chained calls",
}
"""What it was doing, by the judge's request."""


def death_of(ended: Exit, doing: str, printed: str) -> Rejected:
    """The rejection for a runner that is gone, by how it went."""
    code = {
        "memory": "out_of_memory",
        "flood": "output_flood",
        "cpu": "timeout",
        "processes": "forbidden_access",
        "disk": "forbidden_access",
    }.get(ended.why or "", "crash")
    detail = {"exit": ended.describe(), "printed": printed[-800:]}
    return Rejected(code, f"the candidate's process {ended.describe()} {doing}", detail)


def out_of_time(doing: str, limit_s: float) -> Rejected:
    """The verdict on a candidate that may be right, and took longer to judge than this machine may spend on it."""
    return Rejected(
        "unverifiable",
        f"time limit reached: judging this candidate took longer than the {limit_s:g} s allowed on this device "
        f"({doing}); a run with a larger --judging-seconds, smaller inputs (--inputs FUNCTION) or a GPU "
        f"(--device cuda) has more",
        {"means": "time", "limit_s": limit_s},
    )
