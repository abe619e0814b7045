"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kernelagent.tools.sandbox.spawn import ForkServer

settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Shared by all judges on the virtual device: starting it takes three seconds of processor time."""
    from kernelagent.tools.judge.problem.context import open_fork_server
    from kernelagent.tools.judge.problem.devices import open_device

    with open_fork_server(open_device("virtual", "sm_90")) as server:
        yield server
