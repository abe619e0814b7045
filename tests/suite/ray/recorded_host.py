"""What runs on a node in fault tests: `DeviceHost` as it is, with a recorded judge in it.

Each host leaves its process's number in the folder `RECORDED_HOSTS`, for whoever is to kill it.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import kernelagent
from kernelagent.domain.serialization import to_data
from kernelagent.suite.ray.host import DeviceHost, Message, Opened
from kernelagent.suite.ray.packaging import Parcel
from tests.evaluations import DEVICE
from tests.loop.resume.recorded_run import RecordedJudge

HOSTS = "RECORDED_HOSTS"
PAUSE = "RECORDED_PAUSE"


class RecordedHost(DeviceHost):
    """Every candidate gets the verdict that was recorded for it, after a while."""

    def describe(self) -> Message:
        (Path(os.environ[HOSTS]) / str(os.getpid())).touch()
        return {
            "kernelagent": kernelagent.__version__,
            "host": "recorded",
            "pid": os.getpid(),
            "device": to_data(DEVICE),
        }

    def _opened(self, key: str, settings: Message, parcel: Parcel | None) -> Opened:
        if key not in self._open:
            assert parcel is not None
            folder = Path(os.environ[HOSTS]).with_name("unpacked") / f"{os.getpid()}-{key[:8]}"
            parcel.unpack(folder)
            judge = RecordedJudge(Path(os.environ[HOSTS]).with_name("evaluated"), _pause)
            self._open[key] = Opened(_Closed(judge), folder, parcel)
        return self._open[key]


class _Closed:
    """A recorded judge that can be closed."""

    def __init__(self, judge: RecordedJudge) -> None:
        self._judge = judge
        self.facts, self.device, self.sandbox = judge.facts, judge.device, judge.sandbox
        self.evaluate, self.evaluate_final = judge.evaluate, judge.evaluate_final

    def close(self) -> None: ...

    def __enter__(self) -> _Closed:
        return self

    def __exit__(self, *_: object) -> None: ...


class RecordedHere:
    """The same verdicts without Ray."""

    here = True

    def open(self, settings: object, say: object) -> _Closed:
        return _Closed(RecordedJudge(Path(os.environ[HOSTS]).with_name("evaluated"), _pause))


def _pause() -> None:
    time.sleep(random.uniform(0, float(os.environ[PAUSE])))
