"""A sweep's axes in the line of a block: as words, or as the JSON that the tool's description shows."""

from __future__ import annotations

import pytest

from kernelagent.domain.replies.tool_blocks import calls_in
from kernelagent.domain.replies.tool_calls import ToolCall

CODE = "BLOCK = 64\n"
AXES = {"BLOCK": [64, 128], "num_warps": [4, 8]}


def called(line: str) -> ToolCall:
    (call,) = calls_in(f"Which?\n\n```sweep {line}\n{CODE}```\n")
    return call


@pytest.mark.parametrize(
    "line",
    [
        "BLOCK=64,128 num_warps=4,8",
        'axes={"BLOCK": [64, 128], "num_warps": [4, 8]}',
        'axes={"BLOCK":[64,128]} num_warps=4,8',
    ],
)
def test_axes_are_words_or_json(line: str) -> None:
    assert called(line) == ToolCall.of("sweep", axes=AXES, code=CODE)


@pytest.mark.parametrize("line", ['axes={"BLOCK": [64, 128}', "axes={BLOCK: 64}", "64,128"])
def test_what_is_neither_is_refused_in_words(line: str) -> None:
    assert called(line).unread
