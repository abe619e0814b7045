"""Which versions of torch, triton and Python the examples run on, measured in environments of their own."""

from __future__ import annotations
