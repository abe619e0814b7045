"""A tiny transformer, made on the spot, that writes sentences of the kernel language.

What it reads is an episode: the task's word, then for each turn its four words and one word for what
the judge said. Only words the grammar has at a place can be written there, as in constrained decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kernelagent.training.small.language import SLOTS, TASKS, Sentence

OUTCOMES = ("own", "part", "lazy", "unbuilt", "outside", "wrong", "repeated", "other")
"""What the judge said, in a word: three kinds of accepted, by coverage, and the reasons why not."""
WORDS = (*TASKS, *(word for slot in SLOTS for word in slot), *OUTCOMES)
IDS = {word: number for number, word in enumerate(WORDS)}
TURN = len(SLOTS) + 1
"""Words a turn takes: a sentence and its outcome."""


@dataclass(frozen=True)
class Shape:
    """How large the network is."""

    width: int = 32
    layers: int = 2
    heads: int = 2
    longest: int = 1 + 4 * TURN


class Policy(nn.Module):
    """Words in, logits of the next word out; (episodes, words) to (episodes, words, vocabulary)."""

    def __init__(self, seed: int, shape: Shape = Shape()) -> None:
        """Random weights, the same for the same seed; the global generator is left as it was."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.words = nn.Embedding(len(WORDS), shape.width)
            self.places = nn.Embedding(shape.longest, shape.width)
            self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.width)
            self.head = nn.Linear(shape.width, len(WORDS), bias=False)
            # Small, so that untrained it is close to a uniform choice and hides no option.
            nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            hidden = layer(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits

    @torch.no_grad()
    def write(
        self, episodes: Sequence[Sequence[int]], dice: torch.Generator
    ) -> tuple[list[list[int]], list[list[float]]]:
        """One sentence to each episode, of one length all: its words, their log-probabilities."""
        ids = torch.tensor(episodes)
        begun = ids.shape[1]
        chances: list[Tensor] = []
        for slot in range(len(SLOTS)):
            logs = allowed_logs(self(ids)[:, -1], slot)
            word = torch.multinomial(logs.exp(), 1, generator=dice)
            chances.append(logs.gather(1, word))
            ids = torch.cat([ids, word], dim=1)
        return ids[:, begun:].tolist(), torch.cat(chances, dim=1).tolist()

    def log_probabilities(self, ids: Tensor, turns: int) -> Tensor:
        """Of the words it wrote: (episodes, turns, words of a sentence), from whole episodes."""
        logits = self(ids[:, :-1])
        result = []
        for turn in range(turns):
            for slot in range(len(SLOTS)):
                place = 1 + turn * TURN + slot
                logs = allowed_logs(logits[:, place - 1], slot)
                result.append(logs.gather(1, ids[:, place : place + 1]))
        return torch.cat(result, dim=1).view(len(ids), turns, len(SLOTS))


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before, self.after = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.mixed = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.wide = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, hidden: Tensor) -> Tensor:
        episodes, length, width = hidden.shape
        parts = self.mixed(self.before(hidden)).view(episodes, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(episodes, length, width))
        grown: Tensor = self.narrow(nn.functional.gelu(self.wide(self.after(hidden))))
        return hidden + grown


def allowed_logs(logits: Tensor, slot: int) -> Tensor:
    """Natural-log probabilities among the slot's words; -inf for all others."""
    allowed = torch.full((len(WORDS),), float("-inf"))
    allowed[[IDS[word] for word in SLOTS[slot]]] = 0.0
    return torch.log_softmax(logits + allowed, dim=-1)


def sentence_of(task: str, ids: Sequence[int]) -> Sentence:
    """The sentence that was written."""
    return Sentence(task, tuple(WORDS[number] for number in ids))
