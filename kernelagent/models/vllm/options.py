"""How a vLLM server is started: interpreter, command line, environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kernelagent.domain.configuration.model_options import PYTHON, VllmOptions
from kernelagent.domain.errors import ModelError

_FIND_VLLM = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
_FIND_S = 60.0
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Keeps the working directory out of `sys.path`; older interpreters do not know the flag `-P`."""
_SECRETS = ("_API_KEY", "_API_TOKEN")


def require_vllm(options: VllmOptions, environment: Mapping[str, str]) -> None:
    """Raises `ModelError` with the line that installs it when the interpreter has no vLLM."""
    python = options.interpreter
    try:
        done = subprocess.run(
            [python, "-c", _FIND_VLLM],
            env={**environment, **_SAFE_PATH},
            capture_output=True,
            timeout=_FIND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(
            f"the interpreter for vLLM, {python}, cannot be run: {error}. Name one that has vLLM "
            f"with {PYTHON}"
        ) from error
    if done.returncode != 0:
        raise ModelError(
            f"{python} has no vLLM. Install it there: {python} -m pip install vllm (or, in this "
            f"checkout, pip install -e '.[vllm]'); or name another interpreter that has it with "
            f"{PYTHON}"
        )


def command_for(
    checkpoint: str, served: str, port: int, options: VllmOptions, *, sleeps: bool = False
) -> list[str]:
    """The server's command line; it holds no key. `sleeps`: it can give its memory back."""
    share = options.gpu_memory_utilization
    # The module, not the script `vllm`: some builds of vLLM install no working script.
    return [
        *(options.interpreter, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", checkpoint, "--served-model-name", served),
        *("--host", "127.0.0.1", "--port", str(port)),
        *(["--enable-sleep-mode"] if sleeps else []),
        *([] if share is None else ["--gpu-memory-utilization", f"{share:.3f}"]),
        *options.args,
    ]


def environment_for(
    checkpoint: str, key: str, environment: Mapping[str, str], *, sleeps: bool
) -> dict[str, str]:
    """The server's environment: its own key, no provider's keys, no telemetry, offline for a folder."""
    kept = {name: value for name, value in environment.items() if not name.endswith(_SECRETS)}
    kept.setdefault("VLLM_NO_USAGE_STATS", "1")
    if Path(checkpoint).is_dir():
        kept.setdefault("HF_HUB_OFFLINE", "1")
    if sleeps:
        kept["VLLM_SERVER_DEV_MODE"] = "1"
    # In the environment, not on the command line, which every user of the machine can read.
    return kept | _SAFE_PATH | {"VLLM_API_KEY": key}


def served_name(checkpoint: str) -> str:
    """What the checkpoint is called in requests: its last part."""
    return Path(checkpoint).name or Path(os.path.abspath(checkpoint)).name  # noqa: PTH100
