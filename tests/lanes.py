"""What the lanes share: how many examples Hypothesis tries, which cases are drawn, and which worker runs which tests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

USUAL_EXAMPLES = 100
TOGETHER = (
    ("tests/tools/sandbox/",),
    (
        "tests/tools/judge/test_verdicts.py",
        "tests/tools/judge/test_canary.py",
        "tests/tools/judge/timing/",
        "tests/tools/cuda/profile/test_observed_process.py",
    ),
    ("tests/tools/judge/problem/test_training.py", "tests/tools/judge/envelope/test_widening.py"),
    ("tests/models/compiler/",),
    (
        "tests/models/test_litellm_model.py",
        "tests/models/test_faults.py",
        "tests/models/test_keys.py",
        "tests/models/test_replies_in_the_log.py",
    ),
)
"""Files and folders whose tests go to one worker: they share a fork server or an import of seconds.

None is longer than a third of the lane, or the other workers would wait for its end."""
FIRST = (
    "tests/tools/corpus/test_corpora.py",
    "tests/docs/test_commands.py",
    "tests/dropin/test_examples_emitted.py",
    "tests/test_cassettes.py",
    "tests/first_hour/test_model_blocks.py",
    "tests/tools/judge/test_verdicts.py",
    "tests/models/compiler/",
    "tests/tools/judge/problem/test_training.py",
    "tests/tools/sandbox/",
    "tests/end_to_end/",
    "tests/tools/virtual/cost/test_ordering.py",
    "tests/tools/judge/",
    "tests/models/",
    "tests/loop/resume/",
    "tests/suite/",
    "tests/tools/virtual/",
)
"""Files and folders whose tests begin, or no worker would be left to share them with at the end."""


def register_profiles() -> None:
    """`short` unless pytest is given `--hypothesis-profile long`; neither minds a busy machine."""
    shared = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", shared, max_examples=30)
    settings.register_profile("long", shared, max_examples=2 * USUAL_EXAMPLES)
    settings.load_profile("short")


def examples(usual: int) -> int:
    """As many as the profile has them for a test that usually tries `usual`."""
    return max(1, usual * settings().max_examples // USUAL_EXAMPLES)


def often(cases: Mapping[str, Any], kept: Collection[str]) -> list[Any]:
    """Parameters of which those named in `kept` are tried on every commit and the others in the long lane."""
    unknown = set(kept) - cases.keys()
    if unknown:
        raise ValueError(f"no such cases: {', '.join(sorted(unknown))}")
    return [
        pytest.param(case, id=name, marks=[] if name in kept else [pytest.mark.long])
        for name, case in cases.items()
    ]


def crossed(*axes: Mapping[str, Any]) -> list[Any]:
    """All combinations of named values: each value is tried on every commit, all with all in the long lane."""
    names = [list(axis) for axis in axes]
    longest = max(map(len, names))
    kept = {tuple(axis[at % len(axis)] for axis in names) for at in range(longest)}
    return [
        pytest.param(
            *(axis[name] for axis, name in zip(axes, chosen, strict=True)),
            id="-".join(chosen),
            marks=[] if chosen in kept else [pytest.mark.long],
        )
        for chosen in product(*names)
    ]


class Case(Protocol):
    """What a draw needs of `pytest.Item`."""

    @property
    def nodeid(self) -> str: ...

    def get_closest_marker(self, name: str) -> object: ...


C = TypeVar("C", bound=Case)


def not_drawn(items: Iterable[C], seed: str) -> set[C]:
    """Two thirds of the cases of every test that has several in the long lane: those that this draw leaves to the next.

    Of one file the same cases, so that what is made for a case is made once. A case marked `always` is never among them.
    """
    tests: dict[str, list[C]] = {}
    for item in items:
        if item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    left: set[C] = set()
    for cases in tests.values():
        by_draw = sorted(cases, key=lambda case: _place(case, seed))
        rest = by_draw[(len(cases) + 2) // 3 :]
        left |= {case for case in rest if not case.get_closest_marker("always")}
    return left


def _place(case: Case, seed: str) -> bytes:
    file, _, name = case.nodeid.partition("::")
    named = name.partition("[")[2]
    return hashlib.sha256(f"{seed} {file} {named}".encode()).digest()


_LONG_AS_A_WHOLE = re.compile(r"^pytestmark = pytest\.mark\.long$", re.MULTILINE)


def is_long_as_a_whole(file: Path) -> bool:
    """Whether no test of it is in the short lane, so that it need not be imported for it."""
    return _LONG_AS_A_WHOLE.search(file.read_text(encoding="utf-8")) is not None


def rank(item: pytest.Item) -> int:
    """Where its file or folder stands in `FIRST`; behind all of them when it is not there."""
    place = item.nodeid
    return next((at for at, prefix in enumerate(FIRST) if place.startswith(prefix)), len(FIRST))


class Units(LoadFileScheduling):
    """The tests of a file, or of an entry of `TOGETHER`, go to one worker.

    When a worker dies, the one that takes its place gets what was left of its units, without the test that it died of.
    xdist 3.8 sends it all that the dead one ever had; at the end of a lane nobody then ends (its issues 1323, 1327 and 1378).
    """

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test that the worker died of; None where it had none to do."""
        units = self.assigned_work.pop(node)
        left = {
            scope: [test for test, done in tests.items() if not done]
            for scope, tests in units.items()
        }
        died_of = next((test for tests in left.values() for test in tests), None)
        if died_of is None:
            return None
        for scope, tests in left.items():
            waiting = {test: False for test in tests if test != died_of}
            if waiting:
                self.workqueue[scope] = waiting
        for other in self.nodes:
            self._reschedule(other)
        return died_of

    def schedule(self) -> None:
        """A worker begins with two units at least: of a single test it would wait for the next before it starts."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        for prefixes in TOGETHER:
            if nodeid.startswith(prefixes):
                return prefixes[0]
        return nodeid.split("::", 1)[0]
