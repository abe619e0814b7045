"""A package of kernels as one text: put together where that means the same, refused by name where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.loop.emitted.one_file import in_one_file

OPS = '"""Kernels."""\nimport math\n\nEPS = 2.0\n\n\ndef root(x):  # of x\n    return math.sqrt(x + EPS)\n'
LAYERS = "import math\nfrom .ops import root\n\n\nclass Norm:\n    def at(self, x):\n        return root(x) * math.pi\n"


def package(folder: Path, **files: str) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def ran(text: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(text, "one_file", "exec"), names)
    return names


def test_what_a_file_imports_from_its_package_stands_before_it(tmp_path: Path) -> None:
    package(tmp_path, ops=OPS, layers=LAYERS)
    text = in_one_file(tmp_path / "layers.py", tmp_path)
    assert text.startswith('"""Kernels."""')
    assert "def root(x):  # of x" in text
    assert "from ." not in text
    assert ran(text)["Norm"]().at(2.0) == pytest.approx(6.2831853)


def test_names_that_are_changed_files_in_folders_and_shared_files_are_followed(
    tmp_path: Path,
) -> None:
    future = "from __future__ import annotations\n"
    files = {
        "constants": "\nTWO = 2\n",
        "deep/ops": "from ..constants import TWO\n\n\ndef twice(x): return TWO * x\n",
        "deep/__init__": "from .ops import (\n    twice as double,\n)\n",
        "layers": "from .constants import TWO as two\nfrom .deep import double\n\n\n"
        "def f(x): return double(x) + two\n",
    }
    package(tmp_path, **{name: future + text for name, text in files.items()})
    text = in_one_file(tmp_path / "layers.py", tmp_path)
    assert text.splitlines()[0] == "from __future__ import annotations"
    assert text.count("__future__") == 1
    assert text.count("TWO = 2") == 1
    assert ran(text)["f"](5) == 12


def test_a_file_without_such_imports_is_taken_letter_by_letter(tmp_path: Path) -> None:
    text = "from __future__ import annotations; import math\nglobal_ = 1\ndef max(): ...\n"
    package(tmp_path, one=text)
    assert in_one_file(tmp_path / "one.py", tmp_path) == text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"layers": "from .gone import x\n"}, "line 1: what it imports from its own package is"),
        ({"layers": "from . import ops\n"}, r"line 1: `\.` is imported from as a whole \(ops\)"),
        ({"layers": "from .ops import *\n"}, "is imported from as a whole"),
        ({"layers": "def f():\n    from .ops import root\n"}, "line 2: .* not at the file's top"),
        ({"layers": "from .ops import missing\n"}, "ops.py has no name missing"),
        ({"layers": "from .ops import root\nEPS = 1\n"}, "EPS means two things: ops.py, line 4"),
        (
            {"layers": "from .ops import root\nimport cmath as math\n"},
            "math means two things: import math, and import cmath",
        ),
        ({"layers": "from .ops import root\n\ndef sum(x): ...\n"}, "hides the builtin"),
        (
            {"layers": "from .ops import root\ndef f():\n    global EPS\n    EPS = 1\n"},
            "`global` may mean another name",
        ),
        ({"layers": "from .ops import root; x = 1\n"}, "two statements share this line"),
        (
            {"layers": "from .a import x\n", "a": "from .b import x\n", "b": "from .a import x\n"},
            "a.py imports from itself, by way of b.py",
        ),
        (
            {"layers": "from __future__ import annotations\nfrom .ops import root\n"},
            "ops.py and layers.py have different `from __future__` imports",
        ),
        ({"layers": "from ..above import x\n"}, "no file above.py"),
    ],
    ids=lambda value: None if isinstance(value, str) else value["layers"].splitlines()[-1],
)
def test_what_may_mean_something_else_in_one_file_is_refused_with_its_place(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    package(tmp_path, above="x = 1\n")
    folder = package(tmp_path / "kernels", **{"ops": OPS, **files})
    with pytest.raises(UsageError, match=said):
        in_one_file(folder / "layers.py", folder)


def test_names_inside_of_comprehensions_and_functions_are_nobodys(tmp_path: Path) -> None:
    package(
        tmp_path,
        ops="SIZES = [i for i in (1, 2)]\nif SIZES:\n    def f():\n        t = 1\n        return t\n",
        layers="from .ops import f\nMORE = {i: 2 for i in (3,)}\nt = f()\n",
    )
    assert ran(in_one_file(tmp_path / "layers.py", tmp_path))["t"] == 1
