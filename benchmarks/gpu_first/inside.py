"""The process of one stage: `python -m benchmarks.gpu_first.inside OUT STEM MODULE:FUNCTION gpu|any OPTIONS`."""

from __future__ import annotations

import ctypes
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu_first.options import Options
from benchmarks.gpu_first.record import NotPossible, Record, load
from kernelagent.domain.errors import KernelAgentError

_DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""


def main(arguments: list[str]) -> int:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    out, stem, work, needs, given = arguments
    record = load(Path(out), stem)
    if record is None:
        raise SystemExit(
            f"there is no record {stem} under {out}; call python -m benchmarks.gpu_first"
        )
    began = time.monotonic()
    try:
        options = Options(**json.loads(given))
        if needs == "gpu" and options.device == "cuda":
            _require_gpu(record.title)
        module, _, function = work.partition(":")
        do: Callable[[Record, Options], str] = getattr(importlib.import_module(module), function)
        sentence = do(record, options)
    except NotPossible as why:
        record.end("not possible", str(why), time.monotonic() - began)
        return 1
    except KernelAgentError as error:
        record.end("failed", f"{type(error).__name__}: {error}", time.monotonic() - began)
        return 1
    record.end("finished", sentence, time.monotonic() - began)
    return 0


def _require_gpu(title: str) -> None:
    """Raises `NotPossible` where torch sees no GPU."""
    try:
        import torch
    except ImportError as error:
        raise NotPossible(
            f"not done: torch cannot be imported here ({error}), and without it no GPU can be used"
        ) from error
    if not torch.cuda.is_available():
        kind = "has no CUDA in it" if torch.version.cuda is None else "finds none"
        raise NotPossible(
            f"not done: there is no GPU here (torch {torch.__version__} {kind}), and this stage "
            f"needs one"
        )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
