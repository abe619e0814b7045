"""The exceptions a user can meet, each with the exit status it ends the program with.

A failed candidate is never an exception: it is an `Evaluation`. These are for what stops the run.
"""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """What the process returns; the meanings are fixed by the public contract."""

    OK = 0
    NOT_FOUND = 1
    """`evaluate`: the candidate was rejected. `optimize`: no better module was found."""
    USAGE = 2
    ENVIRONMENT = 3
    INTERRUPTED = 130


class KernelAgentError(Exception):
    """Base of all our errors: says what failed, where, and what to do next."""

    exit_status = ExitStatus.ENVIRONMENT


class UsageError(KernelAgentError):
    """The command, a flag or a file was given wrongly."""

    exit_status = ExitStatus.USAGE


class ProblemError(KernelAgentError):
    """The user's module or its inputs cannot be read or run as given."""

    exit_status = ExitStatus.USAGE


class EnvironmentFault(KernelAgentError):
    """This machine cannot do what was asked: no device, no sandbox, a lost process."""

    exit_status = ExitStatus.ENVIRONMENT


class NoTrace(EnvironmentFault):
    """The device's kernels cannot be traced on this machine."""


class ModelError(KernelAgentError):
    """The model cannot be asked: wrong key, wrong name, endpoint out of reach, or beyond its means."""

    exit_status = ExitStatus.ENVIRONMENT


class BeyondThePolicy(ModelError):
    """The built-in policy cannot rewrite this module: going on with the run would end the same way."""


class PromptTooLong(ModelError):
    """The prompt does not fit into the model's window; with less of the history it may."""

    def __init__(
        self, message: str, *, window: int | None = None, shortest: int | None = None
    ) -> None:
        """`window`: tokens of question and answer together, where the endpoint said so.

        `shortest`: tokens of the shortest prompt there is, where that is what does not fit.
        """
        super().__init__(message)
        self.window = window
        self.shortest = shortest


class FunctionsRefused(ModelError):
    """The endpoint takes no functions to call; the tools can be offered in words."""
