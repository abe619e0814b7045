"""What passes between a writer and its tools within one turn: calls, answers, until it hands something in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kernelagent.domain.replies.tool_blocks import calls_in
from kernelagent.domain.replies.tool_calls import ToolCall, ToolRound
from kernelagent.models import ModelQuery, Reply


@dataclass
class ToolTalk:
    """The question as it stands, and what it has cost so far."""

    ask: ModelQuery
    reply: Reply = field(default_factory=lambda: Reply(""))
    """The newest reply; its tokens and dollars are those of the whole talk."""
    _refused: bool = False
    """Calls were refused: what comes now is the last word."""

    def answer_calls(self, reply: Reply) -> bool:
        """Take a reply and run the tools that it calls; True: it called some, and `ask` has their answers."""
        self.reply = _with_costs(self.reply, reply)
        calls = self._calls(reply)
        tools = self.ask.tools
        if tools is None or not calls or self._refused:
            return False
        if self._spent(reply):
            # What was not handed in by now is not asked for any more.
            self.reply = replace(self.reply, finish="budget", calls=())
            return False
        answers = [tools.call(call, reply.text if not at else "") for at, call in enumerate(calls)]
        self._refused = answers[-1].refused
        reported = tuple(
            f"{call.tool}: {answer.text}" if self.ask.calling == "blocks" else answer.text
            for call, answer in zip(calls, answers, strict=True)
        )
        rounds = (*self.ask.rounds, ToolRound(reply.text, calls, reported))
        self.ask = replace(self._paid(reply), rounds=rounds)
        return True

    def _calls(self, reply: Reply) -> tuple[ToolCall, ...]:
        if reply.calls or reply.finish != "stop" or self.ask.calling != "blocks":
            return reply.calls
        return calls_in(reply.text)

    def _paid(self, reply: Reply) -> ModelQuery:
        tokens, dollars = self.ask.tokens_left, self.ask.dollars_left
        used = reply.tokens_in + reply.tokens_out
        return replace(
            self.ask,
            tokens_left=None if tokens is None else tokens - used,
            dollars_left=None if dollars is None else dollars - (reply.dollars or 0.0),
        )

    def _spent(self, reply: Reply) -> bool:
        left = self._paid(reply)
        limits = (left.tokens_left, left.dollars_left)
        return any(limit is not None and limit <= 0 for limit in limits)


def _with_costs(before: Reply, reply: Reply) -> Reply:
    dollars = None
    if before.dollars is not None and reply.dollars is not None:
        dollars = before.dollars + reply.dollars
    remarks = [remark for remark in (before.remark, reply.remark) if remark is not None]
    thoughts = [thought for thought in (before.thinking, reply.thinking) if thought]
    return replace(
        reply,
        tokens_in=before.tokens_in + reply.tokens_in,
        tokens_out=before.tokens_out + reply.tokens_out,
        dollars=dollars,
        remark=". ".join(remarks) or None,
        thinking="\n\n".join(thoughts),
    )
