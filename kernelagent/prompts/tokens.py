"""How many tokens a prompt may be, where no tokenizer is at hand: an estimate on the careful side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kernelagent.domain.history import Message

Count = Callable[[str], int]
PER_MESSAGE = 4
"""What a chat template adds to a message: role and separators."""
_BYTES_PER_TOKEN = 3.0
"""Python under common BPE tokenizers is 3.2 to 4 bytes a token; fewer bytes count as more tokens."""


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, rather too many than too few."""
    return math.ceil(len(text.encode()) / _BYTES_PER_TOKEN)


def prompt_tokens(messages: Sequence[Message], count: Count = estimate_tokens) -> int:
    """Tokens of a whole prompt under `count`, a model's own tokenizer or the estimate."""
    return sum(count(message.content) + PER_MESSAGE for message in messages)
