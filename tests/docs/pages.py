"""The pages for users: their fenced blocks, the commands in them, and which of those are not run here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md", "AGENTS.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md"))]
SHELL = "console"
"""The one language of shell blocks: lines that begin with `$ `, as they are typed."""

_NOT_RUN = (
    (r"make\b", "installs an environment, or runs the tests of which this is one"),
    (r"(source|export|pip|python3 -m venv)\b", "changes the environment it is typed into"),
    (r"(~/vllm|KERNELAGENT_TEST_)", "needs vLLM or llama.cpp, and runs the soak lane"),
    (r".*--model (openai|hosted_vllm)/", "asks an LLM: needs a key, or a server that runs"),
    (r".*--model vllm:", "needs vLLM and a checkpoint"),
    (r".*--model files:", "waits for whoever writes; tests/cli/test_agent_commands.py plays it"),
    (r".*--device cuda\b", "needs a GPU"),
    (r"python3? -m benchmarks\.gpu_first\b", "needs a GPU; tests/gpu_first runs its machinery"),
    (r".*\brestart\b", "needs a package to be installed; test_extending.py loads it"),
    (r"kernelagent mcp\b", "speaks MCP to an agent; tests/cli/test_mcp.py plays it"),
    (r"kernelagent bench\b", "a run for each of many problems; tests/suite runs smaller ones"),
    (r"kernelagent optimize my_decoder", "takes minutes; test_whole_model.py optimizes a part"),
    *([] if find_spec("transformers") else [(r"kernelagent .*my_decoder", "needs transformers")]),
    (r"kernelagent (tui\b|.*--tui\b)", "takes the whole terminal; its own tests drive it"),
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name that the page tells the reader to save it under."""
        result = re.match(r"# file: (\S+)\n", self.text)
        return result[1] if result else None


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    result = re.findall(
        r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [Block(language, text) for language, text in result]


def files(page: Path) -> dict[str, str]:
    """The files a page has its reader write: name to text."""
    return {block.file: block.text for block in blocks(page) if block.file}


def commands(page: Path) -> list[str]:
    """What a page has its reader type, in order."""
    return [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == SHELL
        for line in block.text.splitlines()
    ]


def why_not_run(line: str) -> str | None:
    """Why a command is only parsed; None: it is run."""
    return next((why for pattern, why in _NOT_RUN if re.match(pattern, line)), None)
