"""Lines of the candidate as the emitted file's header names them."""

from __future__ import annotations

import re
from dataclasses import replace

from kernelagent.domain.candidate import Candidate
from kernelagent.domain.evaluation import Disclosure
from kernelagent.dropin.emit import emit_module
from kernelagent.dropin.lines import moved
from tests.dropin.emitted import CERTIFICATE, Block, estimated, facts_of


def told(message: str, by: int = 40, most: int = 100) -> str:
    (item,) = moved([Disclosure("untried", message)], by, most)
    return item.message


def test_each_line_of_the_candidate_is_moved_and_nothing_else() -> None:
    assert (
        told("line 60 `x < 0` is false, line 69 `y < 0`")
        == "line 100 `x < 0` is false, line 109 `y < 0`"
    )
    assert told("line 3 `x` (called at 5, 7) is true") == "line 43 `x` (called at 45, 47) is true"
    quoted = "it is `line 3`, in model.py, line 3, and line 300"
    assert told(quoted) == quoted


def test_the_header_names_the_lines_of_the_emitted_file() -> None:
    source = (
        "from __future__ import annotations\n\nimport torch\n\n\n"
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x  # here\n"
    )
    judged = replace(estimated(), disclosures=(Disclosure("untried", "line 8 `x` is never seen"),))
    text = emit_module(Candidate(source), facts_of(Block()), judged, CERTIFICATE)
    named = re.search(r"line (\d+) `x` is never seen", text)
    assert named is not None
    assert text.splitlines()[int(named[1]) - 1].endswith("# here")
