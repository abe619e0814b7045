"""What holds for the drop-in in the file holds for the one in the package, test by test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

_BOTH = (
    "test_dropin_guard",
    "test_dropin_state",
    "test_dropin_compiled",
    "test_dropin_verified_module",
    "test_dropin_reached",
    "test_dropin_settings",
    "test_dropin_other_layers",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in _BOTH:
        metafunc.parametrize("emitted_so", ["inline", "package"], indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def emitted_so(request: pytest.FixtureRequest) -> Iterator[str]:
    """`text_for` emits the form that is under test."""
    from tests.dropin import emitted

    whole = emitted.emit_module
    form = str(getattr(request, "param", "inline"))
    emitted.emit_module = partial(whole, runtime=form)
    yield form
    emitted.emit_module = whole
