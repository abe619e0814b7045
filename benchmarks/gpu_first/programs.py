"""Starts other programs for a stage, each with a limit of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    """How a program ended; `status` is None when it was stopped at its limit or is not there."""

    status: int | None
    output: str
    errors: str
    seconds: float

    @property
    def data(self) -> dict[str, Any]:
        """Its standard output as JSON; empty where it is none."""
        try:
            result = json.loads(self.output)
        except ValueError:
            return {}
        return result if isinstance(result, dict) else {}

    @property
    def shown(self) -> str:
        """Status and last line of what it said, for a table."""
        status = "stopped at its limit" if self.status is None else f"exit {self.status}"
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return status if self.status == 0 or not lines else f"{status}: {lines[-1][:200]}"


def program(words: Sequence[str], *, seconds: float = 60.0, folder: Path | None = None) -> Ended:
    """Run it; what it has started is ended with it."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Ended(None, "", f"{words[0]}: {error.strerror}", 0.0)
    try:
        output, errors = process.communicate(timeout=seconds)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        status = None
    return Ended(status, output, errors, time.monotonic() - began)


def kernelagent(*words: str, seconds: float, folder: Path | None = None) -> Ended:
    """`kernelagent WORDS --json`, with this interpreter."""
    command = [sys.executable, "-m", "kernelagent", *words, "--json"]
    return program(command, seconds=seconds, folder=folder)
