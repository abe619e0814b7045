"""One candidate's steady forward in an interpreter of its own, for a profiler that starts programs.

What to run lies in a folder: the candidate's text and, as a parcel, its constructor's values,
weights and arguments. Only the last forward stands between the profiler's start and stop.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from kernelagent.tools.calls.tensors import open_parcel, parcel
from kernelagent.tools.candidate_runner.candidate import LoadedCandidate

_STEADY = 3
_HEADER, _PAYLOAD = "forward.json", "forward.bin"


def write_forward(
    folder: Path, *, source: str, how: str, value: Any, weights: Any, arguments: Any
) -> None:
    """Put down what `main` runs."""
    packed = parcel({"value": value, "weights": dict(weights), "arguments": arguments})
    header = {"source": source, "how": how, "parcel": packed.header}
    (folder / _HEADER).write_text(json.dumps(header), encoding="utf-8")
    with (folder / _PAYLOAD).open("wb") as file:
        for part in packed.payload:
            file.write(part)


def main(folder: str, device: str) -> None:
    """Program main; raises what the candidate raises."""
    header = json.loads(Path(folder, _HEADER).read_text(encoding="utf-8"))
    payload = memoryview(Path(folder, _PAYLOAD).read_bytes())
    given = open_parcel(header["parcel"], payload, device=device)
    # The candidate's file is written there, as in a runner.
    tempfile.tempdir = folder
    candidate = LoadedCandidate.from_source(header["source"])
    candidate.construct(header["how"], given["value"], device, training=False)
    candidate.load_weights(given["weights"])
    args, kwargs = given["arguments"]
    for _ in range(_STEADY):
        candidate.forward(args, kwargs)
    with _profiled(device):
        candidate.forward(args, kwargs)


class _profiled:
    """Between the profiler's start and stop; on the CPU there is none."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device != "cpu"

    def __enter__(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()
            torch.cuda.profiler.start()  # type: ignore[no-untyped-call]

    def __exit__(self, *_: object) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
