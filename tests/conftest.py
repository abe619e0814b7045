"""What all tests share."""

from __future__ import annotations

import atexit
import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import lanes

if TYPE_CHECKING:
    from kernelagent.tools.sandbox.spawn import ForkServer
    from tests.judges import JudgesHere

lanes.register_profiles()
# Until all tests are imported: what is made until then stays.
gc.disable()
# Libraries that count their objects expect that the interpreter's last collection sees all of them.
atexit.register(gc.unfreeze)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--drawn",
        metavar="SEED",
        help="of each test with several cases in the long lane run a third of them, drawn by this seed",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The short lane does not import what it leaves to the long one."""
    if "not long" not in config.option.markexpr or not collection_path.match("test_*.py"):
        return None
    return lanes.is_long_as_a_whole(collection_path) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("drawn")
    left = set() if seed is None else lanes.not_drawn(items, seed)
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lanes.rank)


def pytest_collection_finish() -> None:
    """No collection of garbage need look again at what was imported."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> lanes.Units | None:
    """Only for `--dist loadfile`, as the lanes have it."""
    return lanes.Units(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    """What a test that tries a sample draws it by: the lane's seed, or another each time where a test is run by hand."""
    seed = request.config.getoption("drawn") or str(random.SystemRandom().randrange(1_000_000))
    request.node.add_report_section("setup", "draw", f"--drawn {seed} draws the same again")
    return random.Random(seed)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Shared by all judges on the virtual device: starting it takes three seconds of processor time."""
    from kernelagent.tools.judge.fork_server import open_fork_server

    with open_fork_server("virtual") as server:
        yield server


@pytest.fixture(scope="session")
def judges(fork_server: ForkServer) -> JudgesHere:
    """For runs of which it is not the judge's process that is tested."""
    from tests.judges import JudgesHere

    return JudgesHere(fork_server)
