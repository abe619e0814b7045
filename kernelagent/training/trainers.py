"""Adapters: our environment as a reward for TRL's GRPOTrainer, and as rows and a score for verl.

Neither library is imported here; what is made are plain functions and rows of the form they read.
A completion is judged as the first turn of an episode, by the loop's own rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.errors import UsageError
from kernelagent.domain.problem import ProblemSpec
from kernelagent.domain.serialization import from_data
from kernelagent.training.environment import DEFAULTS, Judges, KernelEnv

DATA_SOURCE = "kernelagent"


class TrlReward(Protocol):
    """What `GRPOTrainer(reward_funcs=...)` calls."""

    __name__: str

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]: ...


@dataclass
class KernelReward:
    """A `TrlReward`: the reward of each completion; the column `problem` says for which problem.

    None where the machine, not the completion, is at fault: TRL leaves such rewards out.
    """

    judges: Judges
    config: RunConfig = DEFAULTS
    __name__: str = "kernel_reward"

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        problems = columns.get("problem")
        if problems is None:
            raise UsageError("the data set needs a column `problem`; make it with trl_rows(...)")
        pairs = zip(completions, problems, strict=True)
        return [self._reward(text_of(completion), problem) for completion, problem in pairs]

    def _reward(self, reply: str, problem: str) -> float | None:
        env = KernelEnv(self.config, turns=1, judges=self.judges)
        env.reset(_spec(problem))
        step = env.step(reply)
        return None if step.info.verdict == "error" else step.reward


def text_of(completion: str | Sequence[Mapping[str, Any]]) -> str:
    """A completion as TRL passes it: text, or a conversation whose last message counts."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"])


def trl_rows(
    problems: Sequence[str | ProblemSpec], judges: Judges, config: RunConfig = DEFAULTS
) -> list[dict[str, Any]]:
    """A row for each problem: `prompt` (a conversation) and `problem` (for the reward)."""
    return [
        {"prompt": _prompt(spec, judges, config), "problem": _written(spec)}
        for spec in map(_as_spec, problems)
    ]


def verl_rows(
    problems: Sequence[str | ProblemSpec],
    judges: Judges,
    config: RunConfig = DEFAULTS,
    *,
    split: str = "train",
) -> list[dict[str, Any]]:
    """Rows as verl's RLHFDataset reads them; the ground truth names the problem."""
    return [
        {
            "data_source": DATA_SOURCE,
            "prompt": _prompt(spec, judges, config),
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": _written(spec)},
            "extra_info": {"split": split, "index": index},
        }
        for index, spec in enumerate(map(_as_spec, problems))
    ]


def verl_score(
    judges: Judges, config: RunConfig = DEFAULTS
) -> Callable[..., dict[str, float | str]]:
    """verl's `compute_score`: `score`, and what it is made of, for one solution."""

    def compute_score(
        data_source: str,
        solution_str: str,
        ground_truth: str,
        extra_info: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> dict[str, float | str]:
        env = KernelEnv(config, turns=1, judges=judges)
        env.reset(_spec(ground_truth))
        step = env.step(solution_str)
        return {
            "score": step.reward,
            "verdict": step.info.verdict,
            "coverage": step.info.coverage,
            "keep_probability": step.info.keep_probability,
        }

    return compute_score


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Rows as a parquet file; needs the extra `train` (pyarrow), and says so when it is missing."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            f"parquet needs pyarrow ({error}); install the extra: pip install -e .[train]"
        ) from error
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)


def _prompt(spec: ProblemSpec, judges: Judges, config: RunConfig) -> list[dict[str, str]]:
    first = KernelEnv(config, turns=1, judges=judges).reset(spec)
    return [{"role": message.role, "content": message.content} for message in first]


def _as_spec(problem: str | ProblemSpec) -> ProblemSpec:
    return problem if isinstance(problem, ProblemSpec) else ProblemSpec(path=problem)


def _written(spec: ProblemSpec) -> str:
    return json.dumps({key: value for key, value in asdict(spec).items() if value is not None})


def _spec(written: str) -> ProblemSpec:
    return from_data(json.loads(written), ProblemSpec)
