"""What a configuration says about models: the built-in policy's name, the style of prompts, a vLLM server's options."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelagent.domain.errors import UsageError

COMPILER = "compiler"
"""The built-in policy."""
STYLES = ("strong", "small")
"""How prompts are worded: `small` has shorter sentences and a worked example. Any other value of
`--prompts` is a folder with templates of the user's own."""
PYTHON = "KERNELAGENT_VLLM_PYTHON"
ARGUMENTS = "KERNELAGENT_VLLM_ARGS"


@dataclass(frozen=True)
class VllmOptions:
    """The table `[vllm]` of the configuration; the environment's two variables win over it."""

    python: str | None = None
    """The interpreter that has vLLM; None: this one."""
    args: tuple[str, ...] = ()
    """More arguments for vLLM's server, for example `--max-model-len 16384`."""
    gpu_memory_utilization: float | None = None
    """The model's share of the GPU; None: computed, where module and model share one."""
    start_minutes: float = 20.0
    """Start timeout: vLLM loads a large checkpoint, compiles and captures CUDA graphs."""

    def __post_init__(self) -> None:
        share = self.gpu_memory_utilization
        if share is not None and not 0.0 < share <= 1.0:
            raise UsageError(f"[vllm] gpu_memory_utilization is a share up to 1, not {share:g}")
        if not self.start_minutes > 0:
            raise UsageError(f"[vllm] start_minutes wants more than 0, not {self.start_minutes:g}")

    def with_environment(self, environment: Mapping[str, str]) -> VllmOptions:
        """These options with `KERNELAGENT_VLLM_PYTHON` and `KERNELAGENT_VLLM_ARGS` on top."""
        try:
            more = tuple(shlex.split(environment.get(ARGUMENTS, "")))
        except ValueError as error:
            raise UsageError(f"{ARGUMENTS} cannot be read as arguments: {error}") from error
        python = environment.get(PYTHON) or self.python
        return replace(self, python=python, args=self.args + more)

    def with_share(self, share: float) -> VllmOptions:
        """These options with the model's share of the GPU's memory."""
        return replace(self, gpu_memory_utilization=share)

    @property
    def interpreter(self) -> str:
        return self.python or sys.executable
