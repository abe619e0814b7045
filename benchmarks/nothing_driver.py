"""Triton's own driver and launcher over a `libcuda.so.1` in which every call succeeds and does nothing.

The library is compiled here from the names that Triton's driver calls, and loaded before Triton asks
for it. What is left of a launch is what Triton and Python do. No GPU is needed, and none is used.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import triton.backends.nvidia.driver as nvidia
from triton.runtime import driver

_CALL = re.compile(r"\bcu[A-Z][A-Za-z0-9]*\b")
_TELLS_A_NUMBER = {"cuDeviceGetAttribute": 227 << 10, "cuFuncGetAttribute": 1 << 10}
"""Calls whose first argument takes a number: so much shared memory, so many threads."""
_CAPABILITY = (9, 0)


def build_libcuda(folder: Path) -> Path:
    """Compile the library into `folder`; raises `CalledProcessError`, or `OSError` without gcc."""
    text = Path(nvidia.dirname, "driver.c").read_text(encoding="utf-8")
    names = {name for name in _CALL.findall(text) if not name.endswith("Handle")}
    lines = [f"int {name}(void) {{ return 0; }}" for name in sorted(names - _TELLS_A_NUMBER.keys())]
    lines += [
        f"int {name}(int *told) {{ *told = {number}; return 0; }}"
        for name, number in _TELLS_A_NUMBER.items()
    ]
    source, library = folder / "libcuda.c", folder / "libcuda.so.1"
    source.write_text("\n".join(lines), encoding="utf-8")
    options = ["-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["gcc", *options, "-o", str(library), str(source)], check=True)
    return library


def install(folder: Path) -> None:
    """Make it this process's driver, for good; `folder`: where the library is compiled."""
    library = build_libcuda(folder)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    # Found by `ldconfig -p` on a GPU machine.
    nvidia.libcuda_dirs = lambda: [str(folder)]
    driver.set_active(_driver())


def _driver() -> Any:
    made = nvidia.CudaDriver()
    # These ask torch for a device, which is not there.
    made.get_current_device = lambda: 0
    made.get_current_stream = lambda device: 0
    made.get_device_capability = lambda device: _CAPABILITY
    return made
