"""Builds the JSON Schemas into the package: they are made from the records, so none is kept in the tree."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).resolve().parent


class BuildWithSchemas(build_py):
    """`build_py` that also writes `kernelagent/schemas/*.json`; an editable install makes them on request."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        sys.path.insert(0, str(SOURCE))
        from kernelagent.cli.schemas import write

        write(Path(self.build_lib) / "kernelagent" / "schemas")


setup(cmdclass={"build_py": BuildWithSchemas})
