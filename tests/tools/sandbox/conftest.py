"""Fork servers, with every tier this machine has and with the tiers a plain container has."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelagent.tools.sandbox import limits
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.spawn import Child, Exit, ForkServer

HERE = Path(__file__).parent
NAMESPACES = ("pidns", "netns", "ipcns")


@dataclass
class Ground:
    """A fork server and a scratch folder to run hostile functions in."""

    warm: ForkServer
    scratch: Path

    def start(self, name: str, *fds: int, limits: Any = None, **settings: Any) -> Child:
        confinement = Confinement(self.scratch, **(limits or {}))
        return self.warm.fork(f"hostile:{name}", settings, fds, confinement)

    def run(self, name: str, *, limits: Any = None, **settings: Any) -> Exit:
        """Run to its end, or kill it after 30 s."""
        child = self.start(name, limits=limits, **settings)
        return child.wait(30) or child.kill()

    def ask(self, name: str, *, limits: Any = None, **settings: Any) -> Any:
        """What the function answers on its descriptor."""
        heard, tell = os.pipe()
        child = self.start(name, tell, limits=limits, **settings)
        os.close(tell)
        with os.fdopen(heard, "rb") as line:
            answer = line.read()
        ended = child.wait(30) or child.kill()
        assert answer, f"it {ended.describe()}: {child.output()}"
        return json.loads(answer)

    def leftovers(self) -> list[int]:
        """Processes under the fork server, after a moment for the supervisor to be reaped."""
        for _ in range(100):
            if not (left := limits.descendants(self.warm.pid)):
                return []
            time.sleep(0.02)
        return left

    def need(self, tier: str) -> None:
        if tier not in self.warm.sandbox.tiers:
            why = self.warm.sandbox.missing.get(tier, "not on this machine")
            pytest.skip(f"NO {tier.upper()} HERE: {why}")


def started(forgo: tuple[str, ...] = ()) -> ForkServer:
    return ForkServer.start(preload=["hostile"], environment={"PYTHONPATH": str(HERE)}, forgo=forgo)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without namespaces, on every commit what they are for; all else is tried so in the long lane."""
    if "warm" in metafunc.fixturenames:
        here = metafunc.definition.get_closest_marker("namespaces") is not None
        without = pytest.param(
            NAMESPACES, id="no-namespaces", marks=[] if here else [pytest.mark.long]
        )
        with_all = pytest.param((), id="all-tiers")
        metafunc.parametrize("warm", [with_all, without], indirect=True, scope="session")


@pytest.fixture(scope="session")
def warm(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    if not sys.platform.startswith("linux"):
        pytest.skip("NO LINUX: processes are confined on Linux only")
    with started(request.param) as parent:
        yield parent


@pytest.fixture
def ground(warm: ForkServer, tmp_path: Path) -> Iterator[Ground]:
    """Asserts afterwards that nothing of the test's processes is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    here = Ground(warm, scratch)
    yield here
    assert here.leftovers() == []
