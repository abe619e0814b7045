"""The prompts: templates beside this file, rendered from the run's facts; a missing value is an error."""

from __future__ import annotations

from kernelagent.domain.errors import PromptTooLong
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.history import History, Message, TurnRequest
from kernelagent.domain.problem import ProblemFacts
from kernelagent.prompts.conversation import as_markdown, first_difference, prompt_hash
from kernelagent.prompts.draft import (
    draft_of,
    prompts_version,
    tells_of_tools,
    tells_of_tools_in,
    tools_text,
)
from kernelagent.prompts.fitting import FittedPrompt, fit
from kernelagent.prompts.tokens import Count, estimate_tokens, prompt_tokens

__all__ = [
    "FittedPrompt",
    "PromptTooLong",
    "as_markdown",
    "estimate_tokens",
    "first_difference",
    "fit_prompt",
    "prompt_hash",
    "prompt_tokens",
    "prompts_version",
    "render_prompt",
    "tells_of_tools",
    "tells_of_tools_in",
    "tools_text",
]


def fit_prompt(
    facts: ProblemFacts,
    device: DeviceFacts,
    history: History,
    request: TurnRequest,
    *,
    max_tokens: int | None = None,
    count: Count = estimate_tokens,
    style: str = "strong",
    tools: str = "",
    candidates: int = 1,
) -> FittedPrompt:
    """The prompt for `request`, its length in tokens, and what was left out to stay in `max_tokens`.

    `count` is the model's tokenizer where there is one, `tools` what `tools_text` says,
    `candidates` how many files a reply may hold; raises `PromptTooLong`.
    """
    draft = draft_of(facts, device, history, request, style, tools, candidates)
    return fit(draft, max_tokens, count)


def render_prompt(
    facts: ProblemFacts,
    device: DeviceFacts,
    history: History,
    request: TurnRequest,
    *,
    max_tokens: int | None = None,
    count: Count = estimate_tokens,
    style: str = "strong",
) -> tuple[Message, ...]:
    """The messages of `fit_prompt`."""
    return fit_prompt(
        facts, device, history, request, max_tokens=max_tokens, count=count, style=style
    ).messages
