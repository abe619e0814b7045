"""A remark quotes what stands in the text."""

from __future__ import annotations

import ast

from kernelagent.tools.judge.source_reading.remarks import Remarks

TEXT = (
    "import numpy as np\r\n"
    "def held(größe, other: int = 3):\r"
    "\tkept = {'ä': größe, **dict(other=other)}  # ü\n"
    "\tif not kept: raise ValueError(\n"
    "\t\t'none',\x0c größe\n"
    "\t)\n"
    "\treturn [(at, kept[at]) for at in kept]\n"
)


def test_it_is_what_python_itself_takes_for_the_nodes_text() -> None:
    seen = 0
    for node in ast.walk(ast.parse(TEXT)):
        wanted = ast.get_source_segment(TEXT, node)
        if wanted is None or isinstance(node, ast.FunctionDef):
            continue
        remarks = Remarks(TEXT)
        remarks.add(node, "keeps_state")
        (remark,) = remarks
        wanted = " ".join(wanted.split())
        assert remark.text == (wanted if len(wanted) <= 70 else f"{wanted[:67]}...")
        seen += 1
    assert seen > 25
