"""What a reference raises on inputs that it does not take."""

from __future__ import annotations

from kernelagent.domain.errors import ProblemError

REFUSALS = (ProblemError, RuntimeError, ValueError, IndexError, ArithmeticError, AssertionError)
