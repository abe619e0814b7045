"""Compiles the fake libraries with gcc."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
_HOOK = {
    "hook.py": "__init__.py",
    "clock.py": "clock.py",
    "operators.py": "operators.py",
    "executing.py": "executing.py",
    "libdevice.py": "libdevice.py",
    "reducing.py": "reducing.py",
    "bfloat.py": "bfloat.py",
}
DRIVER, RUNTIME = "libcuda.so.1", "libcudart.so.13"
BEGINNING_S = 1000.0
"""What a clock shows at first; no time of the machine is 0."""


def build(folder: Path, includes: Sequence[Path], machine: str = "") -> None:
    """Put both libraries and the description of the machine into `folder`.

    `includes`: where `cuda.h`, `cuda_runtime_api.h` and `crt/host_defines.h` of CUDA 13 lie. `machine`:
    lines of "key value", see README.md.
    """
    folder.mkdir(parents=True, exist_ok=True)
    common = ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    common += [f"-I{place}" for place in includes]
    driver = ["-DFAKE_DRIVER", "device.c", "driver.c", "unsupported.c", f"-Wl,-soname,{DRIVER}"]
    runtime = ["runtime.c", "unsupported.c", f"-Wl,-soname,{RUNTIME}"]
    runtime += [f"-Wl,--version-script={SOURCES / 'runtime.map'}"]
    for name, words in ((DRIVER, driver), (RUNTIME, runtime)):
        command = [*common, "-o", str(folder / name), *words, "-lpthread", "-ldl"]
        subprocess.run(command, cwd=SOURCES, check=True)
    describe(folder, machine)


def describe(folder: Path, machine: str) -> None:
    """Say what machine the libraries in `folder` imagine from the next process on."""
    (folder / "machine").write_text(machine, encoding="utf-8")


def start_clock(folder: Path) -> None:
    """Give the machine of the libraries in `folder` a clock of its own, which only its device moves on."""
    (folder / "clock").write_bytes(struct.pack("d", BEGINNING_S))


def install_hook(folder: Path) -> None:
    """Make `fake_cuda_hook` importable from `folder`."""
    package = folder / "fake_cuda_hook"
    package.mkdir(parents=True, exist_ok=True)
    for name, called in _HOOK.items():
        shutil.copy(SOURCES / name, package / called)
