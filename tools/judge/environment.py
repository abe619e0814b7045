"""The judge's environment: what its process starts with where candidates are forked from it, and the user's afterwards."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernelagent.tools.judge.fork_server import ONE_THREAD
from kernelagent.tools.sandbox.environment import allowed


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What a candidate may see of `environment`, and what steers the interpreter and is no place of the user's."""
    interpreter = {
        name: value
        for name, value in environment.items()
        if name.startswith("PYTHON") and name != "PYTHONPATH"
    }
    return allowed(environment) | interpreter | ONE_THREAD


def adopt(environment: Mapping[str, str]) -> None:
    """Go on with the user's own: the problem may read any variable, and import what `PYTHONPATH` knows."""
    os.environ.clear()
    os.environ.update(environment)
    # An import may have asked where temporary files go, before it could be known.
    tempfile.tempdir = None
    given = environment.get("PYTHONPATH")
    entries = [str(Path(entry).absolute()) for entry in given.split(os.pathsep)] if given else []
    sys.path[:] = dict.fromkeys([*entries, *sys.path])
