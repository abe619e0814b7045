"""The disassemblers in Triton's wheel: what they print of a cubin is kept beside the kernel and may be asked for ahead.

Either takes half a second of processor time however small the kernel is.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import tempfile
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread

from kernelagent.domain.errors import EnvironmentFault

_TOOL_SECONDS = 60
_FOLDER = "disassembled"
"""In Triton's cache, which is handed on to the next process of the same candidate."""


@dataclass(frozen=True)
class Printed:
    """What is printed of one cubin."""

    resources: str
    listing: str
    """The instructions, with the lines they come from."""


_asked: dict[str, Future[Printed]] = {}
"""By content, for the life of the process."""


def printed_of(cubin: bytes) -> Printed:
    """Asked once per process and content; raises `EnvironmentFault`."""
    key = _key(cubin)
    if key not in _asked:
        _asked[key] = Future()
        _answer(key, cubin)
    return _asked[key].result()


def read_ahead(cubin: bytes) -> None:
    """Begin now what `printed_of` will be asked for, here or in a process that is given this one's cache."""
    key = _key(cubin)
    if key not in _asked:
        _asked[key] = Future()
        Thread(target=_answer, args=(key, cubin), daemon=True).start()


def disassembled(path: str, *options: str) -> str:
    """The instructions of a cubin; raises `EnvironmentFault`."""
    # Without the dataflow analysis, which only prettifies branches, a fifth less time.
    return _run("nvdisasm", "--print-code", "--no-dataflow", *options, path)


def _answer(key: str, cubin: bytes) -> None:
    try:
        printed = _kept(key) or _print(cubin)
        _keep(key, printed)
        _asked[key].set_result(printed)
    except Exception as error:  # noqa: BLE001 - raised again where it is asked for
        _asked[key].set_exception(error)


def _print(cubin: bytes) -> Printed:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        resources = _run("cuobjdump", "--dump-resource-usage", file.name)
        return Printed(resources, disassembled(file.name, "--print-line-info"))


def _key(cubin: bytes) -> str:
    return hashlib.sha256(cubin).hexdigest()


def _place(key: str) -> Path | None:
    cache = os.environ.get("TRITON_CACHE_DIR")
    return None if cache is None else Path(cache, _FOLDER, f"{key}.json")


def _kept(key: str) -> Printed | None:
    place = _place(key)
    if place is None or not place.is_file():
        return None
    return Printed(**json.loads(place.read_text(encoding="utf-8")))


def _keep(key: str, printed: Printed) -> None:
    place = _place(key)
    # Where the disk is full, it is printed again.
    with suppress(OSError):
        if place is not None and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            unfinished = place.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(asdict(printed)), encoding="utf-8")
            unfinished.replace(place)


def _run(tool: str, *arguments: str) -> str:
    path = _binaries() / tool
    if not path.is_file():
        raise EnvironmentFault(
            f"{tool} is missing from triton's wheel (looked for {path}); reinstall triton, or judge "
            f"on a GPU with --device cuda"
        )
    done = subprocess.run(
        [str(path), *arguments], capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise EnvironmentFault(f"{tool} cannot read a compiled kernel: {done.stderr.strip()[:300]}")
    return done.stdout


@functools.cache
def _binaries() -> Path:
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
