"""Why the policy writes nothing for a module, as exceptions."""

from __future__ import annotations


class PolicyCannot(Exception):
    """The policy cannot rewrite this module; the message ends with what to do."""

    def __init__(self, what: str, why: str, instead: str = "") -> None:
        """`instead`: another way out, named before that of another writer."""
        way_out = f"{instead}, or give" if instead else "give"
        super().__init__(
            f"the built-in policy cannot rewrite {what} because {why}; {way_out} a model with --model"
        )


class TookTooLong(PolicyCannot):
    """There is no time to try anything else."""
