"""Calls with other values in buffers that every judged call has as the constructor made them.

A checkpoint may hold others: zero points, scales, orders. A kernel may as well compute what a table holds, as positions
are, so that nobody is refused for them; what such a call shows is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelagent.tools.calls.complex_numbers import in_each_part, is_inexact
from kernelagent.tools.calls.torch_dtypes import widened
from kernelagent.tools.judge.problem.context import JudgeContext
from kernelagent.tools.judge.problem.trials.input_domain import laid_out_like, standard_normal
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.probes import share_nonfinite
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import in_drawn_order
from kernelagent.tools.judge.problem.trials.variation import varied
from kernelagent.tools.judge.verify.beyond.asking import NO_ANSWER, TIMEOUT, Asked, ask, without_end
from kernelagent.tools.judge.verify.findings import Findings
from kernelagent.tools.judge.verify.process.candidate_process import CandidateProcess
from kernelagent.tools.judge.verify.rejection import Rejected

_MOST = 4
"""Buffers that are tried alone, drawn, where all together have no answer or a wrong one."""
_SPREAD = 0.25
_DOUBLINGS = (0.5, 2.0)
"""Numbers are moved by so many doublings or halvings: a function that meets the right one in a few points leaves it there."""


@dataclass(frozen=True)
class OtherBuffers:
    """What is asked with, for one candidate."""

    context: JudgeContext
    process: CandidateProcess
    findings: Findings
    generator: torch.Generator

    def about(self, source: InputSource, kept: Sequence[str]) -> Collection[str]:
        """Tells of those whose other values are answered otherwise; returns those that were tried."""
        given = self.context.oracle.given_weights
        others: Mapping[str, torch.Tensor] = {
            name: other
            for name in kept
            if name in given and (other := other_values(given[name], self.generator)) is not None
        }
        if not others:
            return ()
        others, together = self._together(source, others)
        if together is not None and together.agrees:
            return others.keys()
        tried = []
        for name in in_drawn_order([*others], self.generator)[:_MOST]:
            asked = self._ask(source, {name: others[name]}) if len(others) > 1 else together
            if asked is None or asked.late:
                continue
            tried.append(name)
            if asked.wrong is not None:
                self.findings.disclose(
                    "differs_on_other_buffers",
                    f"buffer {name} held what the constructor made in every judged call; with other values in it, which "
                    f"your module takes and a checkpoint may have, the candidate's result differs from your module's: "
                    f"{asked.wrong:.200}",
                )
                if asked.code == TIMEOUT:
                    break
        return tried

    def _together(
        self, source: InputSource, others: Mapping[str, torch.Tensor]
    ) -> tuple[Mapping[str, torch.Tensor], Asked | None]:
        """Other numbers where the module takes them, far off or near; else the same in another order."""
        # Whole numbers have no others but those in another order.
        for factors in (_far, _near) if any(map(is_inexact, others.values())) else ():
            moved = {
                name: _moved(tensor, factors, self.generator) if is_inexact(tensor) else tensor
                for name, tensor in others.items()
            }
            asked = self._ask(source, moved)
            if asked is not None:
                return moved, asked
        return others, self._ask(source, others)

    def _ask(self, source: InputSource, others: Mapping[str, torch.Tensor]) -> Asked | None:
        """None where the reference takes no such values."""
        oracle = self.context.oracle
        weights = {**oracle.given_weights, **others}
        arguments = draw(source)
        try:
            oracle.use_weights(oracle.given_weights)
            usual = share_nonfinite(oracle.eager(arguments))
            return ask(
                self.context,
                self.process,
                self.findings,
                source,
                arguments,
                "other buffers",
                weights=weights,
                nonfinite=usual,
            )
        except NO_ANSWER:
            return None
        except Rejected as refused:
            return without_end(refused)


def other_values(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    """Of the same kind; None where none can be thought of. What is one number gets one beside it in each place."""
    if not tensor.numel():
        return None
    if is_inexact(tensor) and bool((tensor == tensor.reshape(-1)[0]).all()):
        wide = widened(tensor)
        if not bool(wide.isfinite().all()) or not bool(wide.any()):
            return None
        moved = in_each_part(lambda part: part * _beside(part, generator), wide).to(tensor.dtype)
        return laid_out_like(moved, tensor)
    return varied(tensor, generator)


Factors = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _moved(tensor: torch.Tensor, factors: Factors, generator: torch.Generator) -> torch.Tensor:
    """Larger or smaller numbers; zeros, signs and infinities stay."""
    wide = widened(tensor)
    moved = in_each_part(lambda part: part * factors(part, generator), wide)
    return laid_out_like(moved.to(tensor.dtype), tensor)


def _near(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """For half of the numbers; the others stay."""
    half = torch.rand(tensor.shape, generator=generator).to(tensor.device) < 0.5
    return torch.where(half, _beside(tensor, generator), 1.0)


def _beside(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return 1 + _SPREAD * standard_normal(tensor, generator).clamp(-3, 3)


def _far(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = standard_normal(tensor, generator)
    return torch.exp2(drawn.sign() * drawn.abs().clamp(*_DOUBLINGS))
