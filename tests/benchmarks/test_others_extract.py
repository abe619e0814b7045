"""Kernels of other projects become candidates of one file (`benchmarks.others_kernels`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.others_extract import Extraction, NotExtractedError

FILES = {
    "package/__init__.py": "",
    "package/sizes.py": "import math\n\n\ndef block(n):\n    return math.ceil(n / SIZE)\n\n\nSIZE = 4\n",
    "package/device.py": "import absent\n\nCARDS = absent.count()\n",
    "package/ops/__init__.py": "",
    "package/ops/sums.py": (
        "from typing import Optional, Tuple\n\nimport absent_too\nfrom ..device import CARDS\n"
        "from ..sizes import block as blocks_of\n\n\ndef total(n: Optional[int]):\n    return n\n\n\n"
        "total = staticmethod(total).__func__\n\n\ndef summed(n):\n    return total(blocks_of(n)) * CARDS\n\n\n"
        "def unused():\n    return absent_too\n"
    ),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_file_holds_what_a_name_needs_and_nothing_else(package: Path) -> None:
    text = Extraction(package, {"CARDS": "CARDS = 2"}).text("package.ops.sums", ["summed"])
    assert "unused" not in text
    assert "absent" not in text
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    summed = names["summed"]
    assert callable(summed)
    assert summed(9) == 6


def test_what_is_bound_twice_is_taken_over_in_its_order(package: Path) -> None:
    text = Extraction(package, {"CARDS": "CARDS = 2"}).text("package.ops.sums", ["total"])
    assert text.index("def total") < text.index("total = staticmethod")


def test_two_functions_of_one_name_are_no_single_file(package: Path) -> None:
    (package / "package" / "both.py").write_text(
        "from .sizes import block\nfrom .ops.sums import summed\n\n\ndef both():\n    return block, summed\n"
    )
    (package / "package" / "ops" / "sums.py").write_text(
        "def block():\n    return 1\n\n\ndef summed():\n    return block()\n"
    )
    with pytest.raises(NotExtractedError, match="both define block"):
        Extraction(package).text("package.both", ["both"])
