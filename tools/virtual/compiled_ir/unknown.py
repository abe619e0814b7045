"""Raised where a compiled kernel does what is not executed here, so that it is compared with nothing."""

from __future__ import annotations


class Unknown(Exception):
    """The message says what it is."""
