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


class AttentionUnknown(PolicyCannot):
    """Of an attention that is trained no kernel of ours can do a part; it can be written out as products and a softmax."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "it is not known how what an attention or its backward reads lies in memory, or its heads are too long",
        )


class TookTooLong(PolicyCannot):
    """There is no time to try anything else."""
