"""Kernels of other projects become candidates of one file (`benchmarks.others`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.others.extract import Extraction
from benchmarks.others.rewriting import NotExtractedError

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


ONE_NAME = {
    "package/both.py": "from .sizes import block\nfrom .ops.sums import summed\n\n\ndef both(n):\n    return block(n), summed(n)\n",
    "package/ops/sums.py": (
        "def block(n):\n    # \u00e4: columns are counted in bytes\n    return 'block', n\n\n\n"
        "def summed(n):\n    return block(n), [block for block in (n,)]\n"
    ),
}


def test_of_two_functions_of_one_name_the_second_gets_another(package: Path) -> None:
    for name, text in ONE_NAME.items():
        (package / name).write_text(text)
    names: dict[str, object] = {}
    exec(compile(Extraction(package).text("package.both", ["both"]), "candidate.py", "exec"), names)
    both = names["both"]
    assert callable(both)
    assert both(9) == (3, (("block", 9), [9]))


def test_what_is_renamed_and_a_parameter_too_is_no_single_file(package: Path) -> None:
    for name, text in ONE_NAME.items():
        (package / name).write_text(text.replace("def block(n)", "def block(n, block=1)"))
    with pytest.raises(NotExtractedError, match="block"):
        Extraction(package).text("package.both", ["both"])


def test_what_a_table_gets_later_is_taken_over_too(package: Path) -> None:
    (package / "package" / "both.py").write_text(
        "MORE = [3]\nTABLE = [1, 2]\nTABLE += MORE\n\n\ndef table():\n    return TABLE\n"
    )
    text = Extraction(package).text("package.both", ["table"])
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    assert names["TABLE"] == [1, 2, 3]


def test_what_an_alias_of_a_module_has_is_called_by_its_own_name(package: Path) -> None:
    (package / "package" / "both.py").write_text(
        "from package import sizes as s\nfrom . import device\n\n\n"
        "def twice(n):\n    return (s.block(n) + s.SIZE,\n        device.CARDS)\n"
    )
    text = Extraction(package, {"CARDS": "CARDS = 2"}).text("package.both", ["twice"])
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    twice = names["twice"]
    assert callable(twice)
    assert twice(9) == (7, 2)
    assert "s.block" not in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("def twice(block):\n    return s.block(block)\n", "it has a block of its own"),
        ("def twice(n):\n    return list(map(print, [s]))\n", "as a value"),
    ],
)
def test_an_alias_that_cannot_be_done_without_is_said(package: Path, body: str, why: str) -> None:
    (package / "package" / "both.py").write_text(f"from package import sizes as s\n\n\n{body}")
    with pytest.raises(NotExtractedError, match=why):
        Extraction(package).text("package.both", ["twice"])


def test_a_given_text_may_take_from_the_package(package: Path) -> None:
    given = {"CARDS": "from package.sizes import SIZE\nCARDS = SIZE + 1"}
    text = Extraction(package, given).text("package.ops.sums", ["summed"])
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    summed = names["summed"]
    assert callable(summed)
    assert summed(9) == 15


def test_what_a_module_makes_of_what_is_given_is_its_own(package: Path) -> None:
    (package / "package" / "both.py").write_text(
        "from .device import CARDS\n\nCARDS = CARDS + 1\n\n\ndef cards():\n    return CARDS\n"
    )
    text = Extraction(package, {"CARDS": "CARDS = 2"}).text("package.both", ["cards"])
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    assert names["CARDS"] == 3


def test_names_of_several_modules_come_into_one_file(package: Path) -> None:
    text = Extraction(package, {"CARDS": "CARDS = 2"}).text(
        "package.sizes", ["block", "package.ops.sums:total"]
    )
    assert "def block" in text
    assert "def total" in text


def test_what_a_branch_holds_is_taken_without_the_rest_of_it(package: Path) -> None:
    (package / "package" / "both.py").write_text(
        "import absent\n\nif absent.has():\n    import math\n\n    def root(n):\n        return math.sqrt(n)\n\n"
        "    @absent.registered\n    def other(n):\n        return n\n\nelse:\n\n    def root(n):\n        return None\n"
    )
    text = Extraction(package, branches={"absent.has()": True}).text("package.both", ["root"])
    assert "absent" not in text
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    root = names["root"]
    assert callable(root)
    assert root(9) == 3


def test_a_function_of_a_class_is_taken_without_it(package: Path) -> None:
    (package / "package" / "held.py").write_text(
        "import absent\n\nSIZE = 3\n\n\nclass Held(absent.Base):\n    def size():\n        return SIZE\n\n"
        "    def other():\n        return absent\n"
    )
    text = Extraction(package).text("package.held", ["Held.size"])
    assert "absent" not in text
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    size = names["size"]
    assert callable(size)
    assert size() == 3


def test_what_a_module_does_as_a_program_is_no_part_of_it(package: Path) -> None:
    (package / "package" / "tried.py").write_text(
        'def doubled(n):\n    m = 2 * n\n    return m\n\n\nif __name__ == "__main__":\n    m = 3\n    print(m)\n'
    )
    assert "print" not in Extraction(package).text("package.tried", ["doubled"])
