"""One lesson and its evidence: what a file of the library holds, and when a lesson still stands."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Literal

from kernelagent.domain.evaluation import DeviceFacts

SCHEMA = "kernelagent.lesson/1"
Kind = Literal["avoid", "remedy", "helps", "worked"]
KINDS: dict[Kind, str] = {
    "avoid": "a rejection whose message holds for the next candidate too",
    "remedy": "the change that turned a rejected version into an accepted one",
    "helps": "a change of an accepted version that made it faster",
    "worked": "how the best version of a run was built",
}
_SLUG = 48


@dataclass(frozen=True)
class Evidence:
    """One turn that speaks for a lesson or against it."""

    run: str
    turn: int
    supports: bool
    verdict: str
    """`accepted`, or the code of the rejection."""
    judged_by: str = ""
    """First digits of the harness's hash; empty where the log has none."""
    versions: str = ""
    ratio: float | None = None
    """Of speeds: against the version before for `helps`, against eager for `worked`."""
    low: float | None = None
    high: float | None = None
    """Its 95 % interval; None: nothing was timed."""
    estimated: bool = False
    """True: `ratio` is of estimates, never of measured times."""
    program: str = ""
    """Hash of the program without names and layout."""
    said: str = ""
    """The writer's own words about the change."""

    @property
    def key(self) -> tuple[str, int, bool]:
        return self.run, self.turn, self.supports


@dataclass(frozen=True)
class Lesson:
    """What one file of the library holds."""

    kind: Kind
    device: str
    """`device_key` of where it was learnt."""
    pattern: str
    """`Pattern.name`, or `any`."""
    words: str
    operations: tuple[str, ...] = ()
    code: str = ""
    """Of `avoid` and `remedy`: the rejection."""
    bound: str = ""
    """Of `helps`: what limited the version before."""
    off: bool = False
    """Set by the user: never put this lesson into a prompt."""
    evidence: tuple[Evidence, ...] = ()
    id: str = ""

    @property
    def pros(self) -> int:
        return sum(item.supports for item in self.evidence)

    @property
    def cons(self) -> int:
        return len(self.evidence) - self.pros

    @property
    def trust(self) -> float:
        """Share of the evidence that supports it, with one of each kind added: 0 to 1."""
        return (self.pros + 1) / (len(self.evidence) + 2)

    @property
    def stands(self) -> bool:
        """More turns speak for it than against it, and it is not switched off."""
        return self.pros > self.cons and not self.off

    @property
    def runs(self) -> int:
        return len({item.run for item in self.evidence})

    def with_evidence(self, more: tuple[Evidence, ...]) -> Lesson:
        return replace(self, evidence=self.evidence + more)


def device_key(device: DeviceFacts) -> str:
    """`virtual-sm_90`, or `cuda-sm_90`: a speed of one says nothing about the other."""
    return f"{device.kind}-{device.target}"


def identified(lesson: Lesson, key: str) -> Lesson:
    """The lesson with its id; `key`: what makes two lessons of its kind and place the same one."""
    whole = "|".join((lesson.kind, lesson.device, lesson.pattern, lesson.code, lesson.bound, key))
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{lesson.code} {key}".lower()).strip("-")[:_SLUG].strip("-")
    return replace(lesson, id=f"{lesson.kind}-{slug}-{digest}")
