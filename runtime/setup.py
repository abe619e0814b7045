"""Builds the drop-in's text into the package: it is kernelagent's own file, so no copy is kept in the tree."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
NAME = Path("kernelagent_runtime", "section.py")
# A source distribution carries the copy; a checkout has the original beside this folder.
SOURCES = (HERE / NAME, HERE.parent / "kernelagent" / "dropin" / "template" / "dropin.py")


def copy_into(folder: Path) -> None:
    """Put the section into the package that is built in `folder`."""
    source = next(path for path in SOURCES if path.is_file())
    if source != folder / NAME:
        shutil.copyfile(source, folder / NAME)


class BuildWithSection(build_py):
    """`build_py` that also writes `section.py`; an editable install reads the original."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            copy_into(Path(self.build_lib))


class SourceWithSection(sdist):
    """`sdist` that also carries `section.py`."""

    def make_release_tree(self, base_dir: str, files: Sequence[str]) -> None:
        super().make_release_tree(base_dir, files)
        copy_into(Path(base_dir))


setup(cmdclass={"build_py": BuildWithSection, "sdist": SourceWithSection})
