"""What the lanes share: how many examples Hypothesis tries, and which worker runs which tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

USUAL_EXAMPLES = 100
TOGETHER = (
    ("tests/tools/sandbox/",),
    (
        "tests/tools/judge/test_verdicts.py",
        "tests/tools/judge/test_training.py",
        "tests/tools/judge/test_widening.py",
        "tests/tools/judge/test_canary.py",
        "tests/tools/judge/timing/",
        "tests/tools/cuda/profile/test_observed_process.py",
        "tests/models/compiler/test_policy.py",
    ),
    (
        "tests/models/test_litellm_model.py",
        "tests/models/test_faults.py",
        "tests/models/test_keys.py",
    ),
)
"""Files and folders whose tests go to one worker: they share a fork server or an import of seconds."""
FIRST = (
    "tests/tools/corpus/test_corpora.py",
    "tests/docs/test_commands.py",
    "tests/dropin/test_examples_emitted.py",
    "tests/test_cassettes.py",
    "tests/first_hour/test_model_blocks.py",
    "tests/tools/judge/test_verdicts.py",
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


def rank(item: pytest.Item) -> int:
    """Where its file or folder stands in `FIRST`; behind all of them when it is not there."""
    place = item.nodeid
    return next((at for at, prefix in enumerate(FIRST) if place.startswith(prefix)), len(FIRST))


class Units(LoadFileScheduling):
    """The tests of a file, or of an entry of `TOGETHER`, go to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        for prefixes in TOGETHER:
            if nodeid.startswith(prefixes):
                return prefixes[0]
        return nodeid.split("::", 1)[0]
