"""What keeps kernels from running on a GPU machine, and what to do, from what a process said as it failed."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Obstacle:
    """Two parts of a sentence, without their full stops."""

    what: str
    remedy: str


_KNOWN: tuple[tuple[str, Obstacle], ...] = (
    (
        r"Failed to find C compiler|No such file or directory: '[^']*\b(gcc|cc|clang)'",
        Obstacle(
            "Triton needs a C compiler on a GPU machine and there is none",
            "Install gcc (`apt install gcc`, `dnf install gcc`), or name a compiler with CC",
        ),
    ),
    (
        r"Python\.h",
        Obstacle(
            f"Triton compiles a small C module and the compiler finds no Python.h in "
            f"{sysconfig.get_paths()['include']}",
            "Install the headers of this Python (`apt install python3-dev`, `dnf install "
            "python3-devel`), or use a Python that brings them, such as uv's or conda's",
        ),
    ),
    (
        r"busy or unavailable|exclusive[- ](thread|process)|DEVICE_UNAVAILABLE|DEVICES_UNAVAILABLE",
        Obstacle(
            "the GPU takes no second process: its compute mode is exclusive, or another process "
            "holds it",
            "Judge and candidate are two processes: set the mode with `nvidia-smi -c DEFAULT`, or "
            "choose another GPU with --device cuda:N",
        ),
    ),
    (
        r"libcuda\.so[.\d]* ?(cannot found|: cannot open)",
        Obstacle(
            "Triton cannot find the driver's library libcuda.so.1",
            "Run `ldconfig`, or name its folder with TRITON_LIBCUDA_PATH",
        ),
    ),
    (
        r"No CUDA GPUs are available|no CUDA-capable device",
        Obstacle(
            "the process sees no GPU",
            "Look at CUDA_VISIBLE_DEVICES and at the rights of /dev/nvidia*",
        ),
    ),
    (
        r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        Obstacle(
            "the GPU's memory is full",
            "End what else runs on it (`nvidia-smi` lists it), or choose another with --device cuda:N",
        ),
    ),
    (
        r"no kernel image is available|not compatible with the current PyTorch",
        Obstacle(
            "this torch was not built for this GPU's architecture",
            "Install a torch whose CUDA version supports the GPU",
        ),
    ),
    (
        r"OS call failed|not supported on this OS|CUDA error: 304|OPERATING_SYSTEM",
        Obstacle(
            "the CUDA driver was refused a call or a file by the operating system (error 304)",
            "Run `nvidia-smi` outside: if that fails too, the driver is not installed as it should be",
        ),
    ),
    (
        r"ptxas[\w-]*'?:? ?(fatal|Permission denied|cannot)|PermissionError[^\n]*ptxas",
        Obstacle(
            "Triton's assembler ptxas cannot be started",
            "Reinstall triton, or name another with TRITON_PTXAS_PATH",
        ),
    ),
)
_REFUSED_PATH = re.compile(r"(?:Permission denied|PermissionError)[^\n]*?'(/[^']+)'")
_NEEDED = re.compile(r"nvidia(\d+|ctl|-uvm)$")
"""Of NVIDIA's device nodes those that computing needs."""
_C_ERROR = re.compile(r"^.*\berror: .+$", re.MULTILINE)
_UNKNOWN = (
    "Run a Triton kernel in a script of your own: if that works here, please report this sentence"
)


def obstacle_in(text: str) -> Obstacle:
    """What stood in the way, by what a failed process said; its last line where nothing is known."""
    for pattern, obstacle in _KNOWN:
        if re.search(pattern, text):
            return obstacle
    if refused := _REFUSED_PATH.search(text):
        return Obstacle(
            f"the process may not open {refused[1]}", f"Make {refused[1]} readable to this user"
        )
    if failed := _C_ERROR.search(text):
        return Obstacle(
            f"the C compiler fails: {failed[0].strip()[:200]}",
            "Triton must be able to compile a C module here",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # The first says what was being done, the last what a traceback ends with.
    message = ": ".join(line[:300].rstrip(".") for line in dict.fromkeys((*lines[:1], *lines[-1:])))
    return Obstacle(message or "it ended without a word", _UNKNOWN)


def closed_nodes(
    nodes: Iterable[Path], refusal: Callable[[Path], str | None] | None = None
) -> Obstacle | None:
    """That NVIDIA's device nodes are there and closed to this user; None when they are open or absent."""
    refusal = refusal or _refusal
    needed = [node for node in nodes if _NEEDED.match(node.name)]
    refused = [(node, why) for node in needed if (why := refusal(node)) is not None]
    if not refused:
        return None
    node, why = refused[0]
    return Obstacle(
        f"there is a GPU, but {node} is closed to this user ({why})",
        "Open it: become a member of the group that `ls -l /dev/nvidia*` shows, or give the container "
        "its GPU (`docker run --gpus all`)",
    )


def _refusal(node: Path) -> str | None:
    """Why the node cannot be opened: a container's rules refuse what its mode allows."""
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return None
