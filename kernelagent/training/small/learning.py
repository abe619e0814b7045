"""The loop: groups of episodes through `KernelEnv`, advantages by turn, the dual-clip loss, a step.

The same functions a large trainer would use decide what is learnt (`training.advantages`, PRS from
`Info.keep_probability`); only the model is small. MRS has no part here: the network that writes is the
network that is trained, so their ratio is 1 by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kernelagent.domain.tables.rejection_codes import OF_VALUES
from kernelagent.training.advantages import ESTIMATORS, Estimator
from kernelagent.training.policy_loss import Clip
from kernelagent.training.small.language import TASKS, problem_file
from kernelagent.training.small.policy import IDS, OUTCOMES, Policy, sentence_of

if TYPE_CHECKING:
    from kernelagent.training.environment import Info, KernelEnv

LAZY = 0.3
"""Coverage below which a correct program is lazy: PRS's threshold."""
_WORDS = {
    "compile_error": "unbuilt",
    "out_of_bounds": "outside",
    **dict.fromkeys(OF_VALUES, "wrong"),
}


@dataclass(frozen=True)
class Recipe:
    """What a training run is made of."""

    name: str
    estimator: Estimator = "trloo"
    prs: bool = True
    steps: int = 40
    group: int = 8
    """Episodes of one task that share a baseline."""
    turns: int = 2
    learn_from_repeats: bool = True
    """A sentence written twice in an episode is void. Void turns are masked as a rule, because nothing
    was judged; but no sentence of this language is void for another reason, and it is the policy's doing.
    """
    gamma: float = 1.0
    passes: int = 2
    """Gradient steps on one batch; clipping has an effect only from the second step on."""
    rate: float = 3e-3
    clip: Clip = field(default_factory=Clip)

    @property
    def evaluations(self) -> int:
        """Turns a whole run asks the environment for."""
        return self.steps * len(TASKS) * self.group * self.turns


@dataclass(frozen=True)
class Written:
    """One turn of an episode."""

    reward: float
    coverage: float
    accepted: bool
    kept: bool
    """Learnt from: not void, and not dropped by PRS."""
    old: tuple[float, ...]
    """Log-probability of each word when it was written."""


@dataclass(frozen=True)
class Episode:
    """One task, all turns."""

    task: str
    ids: tuple[int, ...]
    turns: tuple[Written, ...] = ()


def play(
    policy: Policy,
    envs: Sequence[KernelEnv],
    tasks: Sequence[str],
    recipe: Recipe,
    dice: torch.Generator,
) -> list[Episode]:
    """One episode of each task named, one environment each; as many environments as tasks."""
    for env, task in zip(envs, tasks, strict=True):
        env.reset(str(problem_file(task)))
    episodes = [Episode(task, (IDS[task],)) for task in tasks]
    for _ in range(recipe.turns):
        sentences, chances = policy.write([episode.ids for episode in episodes], dice)
        episodes = [
            _with_turn(episode, env, words, old, recipe, dice)
            for episode, env, words, old in zip(episodes, envs, sentences, chances, strict=True)
        ]
    return episodes


def learn(
    policy: Policy, optimizer: torch.optim.Optimizer, episodes: Sequence[Episode], recipe: Recipe
) -> None:
    """`recipe.passes` gradient steps on the episodes of all tasks."""
    advantages = torch.tensor(advantages_of(episodes, recipe))
    kept = torch.tensor([[turn.kept for turn in episode.turns] for episode in episodes])
    if not kept.any():
        return
    old = torch.tensor([[turn.old for turn in episode.turns] for episode in episodes])
    ids = torch.tensor([episode.ids for episode in episodes])
    for _ in range(recipe.passes):
        new = policy.log_probabilities(ids, recipe.turns)
        loss = dual_clip_loss(new, old, advantages, kept, recipe.clip)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()


def advantages_of(episodes: Sequence[Episode], recipe: Recipe) -> list[list[float]]:
    """By episode, by turn; each task is a group of its own."""
    result: dict[int, list[float]] = {}
    for task in TASKS:
        of_task = [number for number, episode in enumerate(episodes) if episode.task == task]
        rewards = [[turn.reward for turn in episodes[i].turns] for i in of_task]
        mask = [[turn.kept for turn in episodes[i].turns] for i in of_task]
        rows = ESTIMATORS[recipe.estimator](rewards, gamma=recipe.gamma, mask=mask)
        result |= dict(zip(of_task, rows, strict=True))
    return [result[number] for number in range(len(episodes))]


def dual_clip_loss(
    new: Tensor, old: Tensor, advantages: Tensor, kept: Tensor, clip: Clip
) -> Tensor:
    """`policy_loss.policy_loss` as tensors, token-mean.

    `new`, `old`: (episodes, turns, words); `advantages`, `kept`: (episodes, turns).
    """
    gain = advantages[..., None]
    ratio = (new - old).clamp(-20.0, 20.0).exp()
    trusted = ratio.clamp(1.0 - clip.low, 1.0 + clip.high)
    loss = torch.maximum(-gain * ratio, -gain * trusted)
    loss = torch.where(gain < 0, torch.minimum(loss, -gain * clip.c), loss)
    counted = kept[..., None].expand_as(loss)
    return loss[counted].mean()


def outcome_of(info: Info) -> str:
    """What the policy reads of a turn: one word, where a large model reads the feedback."""
    if info.verdict == "void":
        return "repeated"
    if info.verdict == "accepted":
        if info.coverage >= 0.9:
            return "own"
        return "part" if info.coverage >= LAZY else "lazy"
    return _WORDS.get(info.code or "", OUTCOMES[-1])


def _with_turn(
    episode: Episode,
    env: KernelEnv,
    words: Sequence[int],
    old: Sequence[float],
    recipe: Recipe,
    dice: torch.Generator,
) -> Episode:
    step = env.step(sentence_of(episode.task, words).reply)
    drawn = float(torch.rand((), generator=dice))
    learnt = step.info.learn or (recipe.learn_from_repeats and step.info.verdict == "void")
    kept = learnt and (not recipe.prs or drawn < step.info.keep_probability)
    accepted = step.info.verdict == "accepted"
    turn = Written(step.reward, step.info.coverage, accepted, kept, tuple(old))
    ids = (*episode.ids, *words, IDS[outcome_of(step.info)])
    return replace(episode, ids=ids, turns=(*episode.turns, turn))
