"""Which files a confined process may read, run or write: its scratch, the interpreter, the libraries.

An allow-list, because the interpreter may itself live in the user's home folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import kernelagent
from kernelagent.tools import sandbox as processes
from kernelagent.tools.sandbox.confinement import Confinement
from kernelagent.tools.sandbox.landlock import DEVICE, READ, RUN, WRITE, Grant, Right

_LIBRARIES = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store")
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/alternatives",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/urandom",
    "/dev/random",
)
_PUBLIC_PROC = (
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/filesystems",
    "/proc/devices",
    "/proc/version",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/driver/nvidia",
)
_THREAD_NAMES = "/proc/self/task"
"""The driver names its threads there (from 570 on) inside `cuInit`, which fails where it cannot."""
_DRIVER_FILES = ("/sys", "/proc/driver", "/etc/nvidia", "/etc/OpenCL", "/run/nvidia-topologyd")
_PACKAGES = ("torch", "triton", "numpy", "msgspec")
"""What a candidate's process imports besides the standard library and us."""
_SITE_FOLDERS = ("site-packages", "dist-packages")


def gpu_nodes() -> tuple[Path, ...]:
    """NVIDIA's device nodes on this machine."""
    return tuple(sorted(Path("/dev").glob("nvidia*")))


def grants(confinement: Confinement, *, own_proc: bool) -> Iterator[Grant]:
    """Everything a confined process may touch; `own_proc`: /proc shows only its own namespace.

    Call it in the process that will be confined: without `own_proc` the only /proc entry of a process that is
    granted is the caller's own.
    """
    yield Grant(confinement.scratch, WRITE)
    for device in ("/dev/null", "/dev/zero", "/dev/full"):
        yield Grant(Path(device), DEVICE)
    for folder in _code():
        yield Grant(folder, RUN)
    for name in _SYSTEM_FILES:
        yield Grant(Path(name), READ)
    for name in ("/proc",) if own_proc else _PUBLIC_PROC:
        yield Grant(Path(name), READ)
    for path in confinement.readable:
        yield Grant(path, READ)
    for path in confinement.runnable:
        yield Grant(path, RUN)
    yield from _gpu(gpu_nodes() if confinement.devices is None else confinement.devices)


def _gpu(nodes: tuple[Path, ...]) -> Iterator[Grant]:
    if not nodes:
        return
    for node in nodes:
        yield Grant(node, DEVICE)
    for name in _DRIVER_FILES:
        yield Grant(Path(name), READ)
    yield Grant(Path(_THREAD_NAMES), READ | Right.WRITE_FILE)


def package_folders(names: Sequence[str] = _PACKAGES) -> list[str]:
    """Where these packages lie: site-packages, or a folder that only PYTHONPATH knows."""
    result = []
    for name in names:
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        result += [str(Path(place).parent) for place in places]
    return list(dict.fromkeys(result))


def first_lines(first: int) -> str:
    """Python for `-c` of a fresh interpreter whose arguments from `first` on are `package_folders()`.

    They go before the interpreter's own site-packages, or another Triton there would be imported than here.
    """
    return (
        "import sys; "
        "own = [at for at, entry in enumerate(sys.path) if entry.endswith('-packages')]; "
        f"given = [entry for entry in sys.argv[{first}:] if entry not in sys.path]; "
        "at = min(own, default=len(sys.path)); sys.path[at:at] = given; "
    )


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        # A user without an entry in the password file has none.
        return Path("/")


def _code() -> set[Path]:
    """Folders of code: the system's, the interpreter's, its packages, this package, CUDA."""
    folders = {Path(name) for name in _LIBRARIES}
    folders |= {Path(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    folders |= {Path(entry) for entry in sys.path if Path(entry).name in _SITE_FOLDERS}
    folders |= {Path(entry) for entry in sys.path if Path(entry).name == "lib-dynload"}
    folders |= {Path(folder) for folder in package_folders()}
    folders.add(Path(kernelagent.__file__).parent)
    folders.add(Path(processes.__file__).resolve().parent.parent)
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders |= {Path(entry) for entry in libraries if entry.startswith("/")}
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if name in os.environ:
            folders.add(Path(os.environ[name]))
    if os.environ.get("CC", "").startswith("/"):
        # The C compiler that Triton was told to use, and what it is a link to.
        folders |= {Path(os.environ["CC"]).parent, Path(os.environ["CC"]).resolve().parent}
    return folders - {Path("/"), _home()}
