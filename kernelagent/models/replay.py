"""A recorded conversation as the model: its replies in order, or each where its prompt comes up again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from kernelagent.domain.errors import ModelError, UsageError
from kernelagent.domain.history import Message
from kernelagent.models import Calling, Exhausted, Model, ModelQuery, ModelSettings, Reply
from kernelagent.prompts import first_difference, prompt_hash, tells_of_tools_in
from kernelagent.storage.cassette import Recorded, recording

Match = Literal["order", "hash"]
_OPTION = ",match="


@dataclass(frozen=True)
class ReplayModel:
    """Answers with the recorded replies; candidates are evaluated again."""

    name: str
    replies: tuple[Recorded, ...]
    match: Match = "order"
    """`hash`: only the reply to this very prompt; `order`: the next one, and a difference is said."""

    @classmethod
    def from_path(cls, spec: str) -> ReplayModel:
        """PATH or PATH,match=order|hash; raises `ModelError`, or `UsageError` on another option."""
        path, option, match = spec.partition(_OPTION)
        if option and match not in {"order", "hash"}:
            raise UsageError(f"replay:{spec}: write replay:PATH or replay:PATH,match=order|hash")
        return cls(f"replay:{spec}", recording(path), cast("Match", match or "order"))

    def reply(self, ask: ModelQuery, on_text: Callable[[str], None]) -> Reply | Exhausted:
        used = [turn.reply for turn in ask.history.turns if turn.request.model == self.name]
        if self.match == "hash":
            return self._by_hash(ask, Counter(used), on_text)
        if len(used) >= len(self.replies):
            return Exhausted(f"the recording ends after {len(self.replies)} replies")
        recorded = self.replies[len(used)]
        return _played(recorded, ask, on_text, _difference(recorded, ask))

    @property
    def calling(self) -> Calling | None:
        """`blocks` if a recorded prompt described tools in its text, so that the same prompts are made again."""
        reported = (m.content for reply in self.replies for m in reply.prompt or ())
        return "blocks" if any(tells_of_tools_in(text) for text in reported) else None

    def close(self) -> None:
        """Nothing to release."""

    def _by_hash(
        self, ask: ModelQuery, used: Counter[str | None], on_text: Callable[[str], None]
    ) -> Reply | Exhausted:
        """The reply to this very prompt that was not given yet; raises `ModelError` on a new prompt."""
        wanted = prompt_hash(ask.messages)
        same = [reply for reply in self.replies if reply.prompt_sha256 == wanted]
        if not same:
            raise ModelError(
                f"the recording has no reply to the prompt of turn {ask.turn}{self._nearest(ask)}; "
                f"use {self.name.partition(_OPTION)[0]} to take its replies in order"
            )
        for reply in same:
            if not used[reply.text]:
                return _played(reply, ask, on_text)
            used[reply.text] -= 1
        return Exhausted(f"the recording has {len(same)} replies to this prompt, all of them used")

    def _nearest(self, ask: ModelQuery) -> str:
        """Where the recorded prompt that agrees longest differs from this one."""
        known = [reply.prompt for reply in self.replies if reply.prompt is not None]
        if not known:
            return ""
        nearest = max(known, key=lambda prompt: _agreeing(prompt, ask.messages))
        return f"; the nearest one differs: {first_difference(nearest, ask.messages)}"


def _played(
    recorded: Recorded, ask: ModelQuery, on_text: Callable[[str], None], remark: str | None = None
) -> Reply:
    """The next recorded call of a tool, or the reply once all are made."""
    if ask.tools is not None and len(ask.rounds) < len(recorded.calls):
        item = recorded.calls[len(ask.rounds)]
        return Reply(item.said, calls=(item.call,))
    on_text(recorded.text)
    return Reply(recorded.text, remark=remark)


def _difference(recorded: Recorded, ask: ModelQuery) -> str | None:
    if recorded.prompt_sha256 in (None, prompt_hash(ask.messages)):
        return None
    message = f"the prompt of turn {ask.turn} differs from the recording"
    if recorded.prompt is None:
        return message
    return f"{message}: {first_difference(recorded.prompt, ask.messages)}"


def _agreeing(first: Sequence[Message], other: Sequence[Message]) -> tuple[int, int]:
    """How many messages two conversations share from the start, and how alike in length they are."""
    same = 0
    for before, after in zip(first, other, strict=False):
        if before != after:
            break
        same += 1
    return same, -abs(len(first) - len(other))


def make(path: str, _: ModelSettings) -> Model:
    """`replay:PATH`."""
    return ReplayModel.from_path(path)
