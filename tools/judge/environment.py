"""The judge's environment: what its process starts with where candidates are forked from it, and the user's afterwards."""

from __future__ import annotations

import os
import site
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernelagent.tools.judge.fork_server import ONE_THREAD
from kernelagent.tools.sandbox.environment import allowed

_PASSED_ON = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"})
"""What of Python's own says neither a place nor a word of the user's."""
_READ_AT_START = ("PYTHON", "TORCH", "PYTORCH_", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES")
"""Names begin so of what the interpreter, the C library or torch reads once, before the user's environment is there."""
_READ_LATER = frozenset(
    """PYTHONPATH PYTHONUNBUFFERED PYTHONIOENCODING PYTHONFAULTHANDLER PYTHONSTARTUP PYTHONUSERBASE
    PYTHON_VERSION PYTHON_SHA256 PYTHON_PIP_VERSION PYTHON_SETUPTOOLS_VERSION PYTHON_GET_PIP_URL PYTHON_GET_PIP_SHA256
    TORCH_HOME TORCH_EXTENSIONS_DIR TORCHINDUCTOR_CACHE_DIR""".split()
)
"""Of these: what `adopt` takes up, what is read when it is needed, and what changes nothing in a judge (as a container has it)."""
_IMPORTED_BY_TORCH = tuple(
    """torch triton numpy sympy mpmath networkx jinja2 markupsafe typing_extensions filelock fsspec setuptools yaml
    packaging sitecustomize usercustomize""".split()
)


def can_come_later(environment: Mapping[str, str]) -> bool:
    """Whether a process that has imported torch without this environment goes on as if it had been started with it."""
    passed = allowed(environment).keys() | _PASSED_ON | _READ_LATER
    early = [n for n in environment if n.startswith(_READ_AT_START) and n not in passed]
    return not early and not any(map(_overlays, _entries(environment)))


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What a candidate may see of `environment`, and whether Python writes bytecode and has a user's packages."""
    kept = {name: environment[name] for name in _PASSED_ON & environment.keys()}
    return allowed(environment) | kept | ONE_THREAD


def adopt(environment: Mapping[str, str]) -> None:
    """Go on with the user's own: the problem may read any variable, and import what `PYTHONPATH` and `HOME` lead to."""
    os.environ.clear()
    os.environ.update(environment)
    # An import may have asked where temporary files go, before it could be known.
    tempfile.tempdir = None
    sys.path[:] = dict.fromkeys([*_entries(environment), *sys.path])
    if site.ENABLE_USER_SITE:
        site.USER_BASE = site.USER_SITE = None
        folder = site.getusersitepackages()
        if folder not in sys.path and Path(folder).is_dir():
            site.addsitedir(folder)


def _entries(environment: Mapping[str, str]) -> list[str]:
    given = environment.get("PYTHONPATH")
    return [str(Path(entry).absolute()) for entry in given.split(os.pathsep)] if given else []


def _overlays(entry: str) -> bool:
    """Whether a folder has what torch imports, perhaps in another version than stands beside it."""
    return any(
        Path(entry, name).exists() or Path(entry, f"{name}.py").exists()
        for name in _IMPORTED_BY_TORCH
    )
