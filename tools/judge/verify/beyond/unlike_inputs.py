"""Calls with inputs that lack a property which all of the user's have: what is wrong there is told, nobody is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from kernelagent.tools.judge.problem.load import Arguments
from kernelagent.tools.judge.problem.reference.reached import reached
from kernelagent.tools.judge.problem.steps.upstreams import of_unlike_sizes
from kernelagent.tools.judge.problem.trials.checked_inputs import checked_inputs
from kernelagent.tools.judge.problem.trials.equal_elements import equal_elements
from kernelagent.tools.judge.problem.trials.floors import at_floors, floors_of
from kernelagent.tools.judge.problem.trials.input_domain import Tensors
from kernelagent.tools.judge.problem.trials.inputs import InputSource
from kernelagent.tools.judge.problem.trials.lone_elements import lone_changes, lone_elements
from kernelagent.tools.judge.problem.trials.near_rows import near_rows
from kernelagent.tools.judge.problem.trials.planting.literals import literals_of
from kernelagent.tools.judge.problem.trials.probes import named_tensors, share_nonfinite
from kernelagent.tools.judge.problem.trials.regular_rows import regular_rows
from kernelagent.tools.judge.problem.trials.scaled_together import scaled_together
from kernelagent.tools.judge.problem.trials.switches import begun_anew, switched
from kernelagent.tools.judge.problem.trials.trials import draw
from kernelagent.tools.judge.problem.trials.unlike import (
    Unlike,
    in_drawn_order,
    unlike,
    unlike_weights,
)
from kernelagent.tools.judge.problem.trials.unlike_buffers import larger_buffers
from kernelagent.tools.judge.problem.trials.unread_places import (
    alike_integers,
    other_truths,
    unread_places,
)
from kernelagent.tools.judge.verify.beyond.asking import (
    NO_ANSWER,
    Asked,
    same_answers,
    with_changed,
    without_end,
)
from kernelagent.tools.judge.verify.beyond.other_integers import OtherIntegers
from kernelagent.tools.judge.verify.beyond.unlike_calls import NoMore, UnlikeCalls, stop_after
from kernelagent.tools.judge.verify.rejection import Rejected

_T = TypeVar("_T")


@dataclass(frozen=True)
class UnlikeInputs(UnlikeCalls):
    """What is asked with, for one candidate; the last that its process is asked."""

    def about_all(self) -> None:
        try:
            for source in self.context.sources:
                self._about(source)
        except NoMore as end:
            if str(end):
                self.findings.disclose("properties_not_tried", str(end))

    def _about(self, source: InputSource) -> None:
        usual = share_nonfinite(self.context.oracle.eager(draw(source)))
        self._small(source)
        parts: tuple[Callable[[], None], ...] = (
            partial(self._switches, source, usual),
            partial(self._unread, source, usual),
            partial(self._checked, source, usual),
            partial(self._inputs, source, usual),
            partial(self._other_integers.about, source, usual),
            partial(self._weights, source, usual),
        )
        for part in self._in_order(parts):
            part()

    def _in_order(self, kinds: Sequence[_T]) -> Sequence[_T]:
        """As they are given; of a sample, as they are drawn."""
        return in_drawn_order(kinds, self.generator) if self.allowance.sample else kinds

    def _inputs(self, source: InputSource, usual: float) -> None:
        given = self.context.oracle.given_weights
        report: set[str] = set()
        drawn = draw(source)
        natural = named_tensors(drawn)
        kinds: tuple[Iterator[Unlike], ...] = (
            near_rows(natural, given, self.generator),
            scaled_together(natural),
            regular_rows(natural, self.generator),
            at_floors(natural, self._floors, self.generator),
            lone_elements(natural, self.generator),
            lone_changes(natural, self.generator),
            unlike(natural, self.generator, self._constants),
            equal_elements(natural, given, self.generator),
        )
        for item in chain.from_iterable(self._in_order(kinds)):
            if item.property in report:
                continue
            # What was made like another input needs that one beside it.
            arguments = with_changed(drawn if item.other else draw(source), item.tensors)
            asked = self._ask(source, arguments, item.property, usual)
            self._note(source, item, asked, report)

    def _switches(self, source: InputSource, usual: float) -> None:
        """Several single numbers at a time, and states of which a part was begun anew."""
        given = self.context.oracle.given_weights
        drawn = draw(source)
        inputs = named_tensors(drawn)
        for values, tensors in switched({**given, **inputs}, self.generator):
            own = {name: tensor for name, tensor in tensors.items() if name in given}
            arguments = with_changed(
                draw(source), {n: t for n, t in tensors.items() if n not in own}
            )
            asked = self._ask(source, arguments, "switches", usual, {**given, **own})
            where = " and ".join(
                f"{self._label(source, n)} is {value}" for n, value in values.items()
            )
            if self._differs("differs_on_switches", f"where {where}", asked):
                break
        if not self.context.oracle.expect(drawn).state64:
            return
        natural = [draw(source) for _ in range(2)]
        state, count = reached(self.context.oracle, given, natural, 1)
        for back, weights in begun_anew(given, state, self.generator) if count else ():
            asked = self._ask(source, draw(source), "state begun anew", usual, weights)
            where = f"where a part of the state ({', '.join(back)}) begins anew and the rest stays as forwards left it"
            if self._differs("differs_on_state_begun_anew", where, asked):
                break

    def _unread(self, source: InputSource, usual: float) -> None:
        """What the reference does not look at, and inputs of which it may look at nothing."""
        drawn = draw(source)
        natural, report = named_tensors(drawn), set[str]()
        keeps = self._keeps(drawn, usual)
        self._ask_each(source, drawn, unread_places(natural, keeps, self.generator), usual, report)
        for item in other_truths(natural, self.generator):
            changed = with_changed(drawn, item.tensors)
            if item.property not in report and self._same(drawn, changed):
                self._note(source, item, self._ask(source, changed, item.property, usual), report)
        # A mean over none of them is NaN, and has to be.
        self._ask_each(source, drawn, alike_integers(natural, self.generator), 1.0, report)

    def _ask_each(
        self,
        source: InputSource,
        drawn: Arguments,
        items: Iterable[Unlike],
        usual: float,
        report: set[str],
    ) -> None:
        """One call for each beside what else was drawn, until its property is told of."""
        for item in items:
            if item.property not in report:
                asked = self._ask(source, with_changed(drawn, item.tensors), item.property, usual)
                self._note(source, item, asked, report)

    def _keeps(self, drawn: Arguments, usual: float) -> Callable[[Tensors], bool]:
        """Whether the reference answers with these in the places of their names, no more of it NaN or infinite."""

        def keeps(tensors: Tensors) -> bool:
            if self.allowance.spent:
                return False
            try:
                answer = self.context.oracle.eager(with_changed(drawn, tensors))
            except NO_ANSWER:
                return False
            return share_nonfinite(answer) <= usual

        return keeps

    def _checked(self, source: InputSource, usual: float) -> None:
        """Where the module refuses some inputs, others that it does not."""
        drawn, report = draw(source), set[str]()
        keeps = self._keeps(drawn, usual)
        items = checked_inputs(named_tensors(drawn), keeps, self.generator)
        self._ask_each(source, drawn, items, usual, report)

    def _same(self, one: Arguments, other: Arguments) -> bool:
        """Whether the reference answers both the same."""
        try:
            return same_answers(*(self.context.oracle.eager(given) for given in (one, other)))
        except NO_ANSWER:
            return False

    def _differs(self, code: str, where: str, asked: Asked | None) -> bool:
        """Whether it does there, which is told."""
        wrong = None if asked is None else asked.wrong
        if asked is not None and wrong is not None:
            self.findings.disclose(
                code,
                f"{where}, which no judged call has at once, the candidate's {asked.what} from your module's: {wrong:.200}",
            )
        stop_after(asked)
        return wrong is not None

    def _weights(self, source: InputSource, usual: float) -> None:
        oracle = self.context.oracle
        given, report = oracle.given_weights, set[str]()
        own = {n: given[n] for n, _ in oracle.module.named_parameters() if n in given}
        buffers = {name: tensor for name, tensor in given.items() if name not in own}
        kinds: tuple[Iterator[Unlike], ...] = (
            at_floors(buffers, self._floors, self.generator),
            larger_buffers(buffers, self.generator),
            unlike_weights(own, self.generator),
            lone_elements(given, self.generator),
        )
        for item in chain.from_iterable(self._in_order(kinds)):
            if item.property in report:
                continue
            weights = {**given, **item.tensors}
            arguments = draw(source)
            asked = self._ask(source, arguments, item.property, usual, weights)
            self._note(source, item, asked, report)

    @property
    def _constants(self) -> tuple[float, ...]:
        """The reference's own numbers."""
        return literals_of("", self.context.problem.source).values

    @property
    def _floors(self) -> tuple[float, ...]:
        return floors_of(self.context.oracle.module, self._constants)

    @property
    def _other_integers(self) -> OtherIntegers:
        return OtherIntegers(
            self.context,
            self.process,
            self.findings,
            self.generator,
            self.allowance,
            self.steps,
        )

    def _small(self, source: InputSource) -> None:
        asked = self._ask(source, draw(source), "natural", 1.0)
        if asked is not None and asked.zeros is not None:
            self.findings.disclose(
                "zeros_of_other_sign",
                f"{asked.zeros} have another sign than with your module; a quotient by them is the other infinity",
            )
        self._tell_lost(asked, "on inputs drawn as yours are")
        stop_after(asked)
        if self.context.trains:
            self._quiet_upstreams(source)

    def _quiet_upstreams(self, source: InputSource) -> None:
        """A step whose upstream gradients are loud in some rows and quiet in others."""
        arguments = draw(source)
        step = self._single_step(arguments)
        if step is None:
            return
        rows = tuple(of_unlike_sizes(row, self.generator) for row in step.upstream)
        step = replace(step, upstream=rows)
        try:
            asked = self._called(source, arguments, "natural", step=step)
        except Rejected as refused:
            asked = without_end(refused)
        if asked is not None and asked.wrong is not None:
            self.findings.disclose(
                "differs_on_magnitudes",
                "upstream gradients are all of one size in every judged step; where rows of them differ by many powers of two the "
                f"candidate's gradients differ from your module's: {asked.wrong:.200}",
            )
        self._tell_lost(asked, "with upstream gradients whose rows differ in size")
        stop_after(asked)
