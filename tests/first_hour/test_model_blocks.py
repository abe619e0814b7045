"""Blocks of installed packages through every door; the whole table is `benchmarks/model_blocks`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.model_blocks import PAGE, answer
from benchmarks.model_blocks_list import BLOCKS, Block

NAMED = {block.name: block for block in BLOCKS}
SAMPLE = [
    ("LlamaMLP", "optimize"),
    ("LastTokenHead", "optimize"),
    ("LlamaDecoderLayer", "scan"),
    ("SmallGPTBlock", "scan"),
    ("LlamaRMSNorm", "submodule"),
    ("Qwen2MLP", "library"),
]
pytestmark = pytest.mark.long


def installed(block: Block) -> Block:
    """The block, where its package is there: each is in the dev extra."""
    if block.package and importlib.util.find_spec(block.package) is None:
        pytest.skip(f"{block.package} is not installed; it is in the dev extra")
    return block


def test_there_are_forty_blocks_and_more() -> None:
    assert len(NAMED) == len(BLOCKS) >= 40


@pytest.mark.parametrize("name", NAMED)
def test_a_block_is_built_and_answers(name: str) -> None:
    block = installed(NAMED[name])
    made: dict[str, Any] = {}
    exec(compile(block.source, name, "exec"), made)
    given = made["get_inputs"]()
    args, kwargs = (given["args"], given["kwargs"]) if isinstance(given, dict) else (given, {})
    with torch.no_grad():
        assert made["Around"]().eval()(*args, **kwargs) is not None


@pytest.mark.parametrize(("name", "way"), SAMPLE)
def test_a_block_works(name: str, way: str, tmp_path: Path) -> None:
    got = answer(installed(NAMED[name]), way)
    assert got.outcome == "works", got.text


def test_the_page_names_every_block() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in NAMED)
