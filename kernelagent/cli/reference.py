"""The reference of commands and flags, made from the command itself: `python -m kernelagent.cli.reference`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import typer
from typer.cli import get_docs_for_click
from typer.models import Context

from kernelagent.cli.main import app

PAGE = Path("docs/reference.md")


def reference() -> str:
    """The page as Markdown."""
    command = typer.main.get_command(app)
    # Typer's two names for one class.
    context = cast("Context", command.make_context("kernelagent", [], resilient_parsing=True))
    text = get_docs_for_click(obj=command, ctx=context, name="kernelagent")
    # Usage lines are no commands to type: the pages' tests run what stands in a `console` block.
    text = text.replace("```console\n$ ", "```text\n")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
