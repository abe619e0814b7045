"""What is followed through one whole text before it is read.

Devices, sets, what text is made of, effects, which gradients are asked for, tables of addresses, and what objects are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelagent.tools.judge.source_reading.checks.addresses import Addresses
from kernelagent.tools.judge.source_reading.checks.asked_gradients import AskedGradients
from kernelagent.tools.judge.source_reading.checks.cards import Cards
from kernelagent.tools.judge.source_reading.checks.devices import Devices
from kernelagent.tools.judge.source_reading.checks.effects import Effects
from kernelagent.tools.judge.source_reading.checks.identity import Identity
from kernelagent.tools.judge.source_reading.checks.order import Orders
from kernelagent.tools.judge.source_reading.checks.texts import Texts
from kernelagent.tools.judge.source_reading.following.names import Names, Scope


class Followed:
    """Answers for one text."""

    def __init__(self, names: Names, tree: ast.Module) -> None:
        self.effects = Effects(names)
        self._devices = Devices(names, tree)
        self._orders = Orders(names, tree)
        self._texts = Texts(names, tree)
        self._gradients = AskedGradients(names, tree)
        self._addresses = Addresses(names, tree)
        self._identity = Identity(names)
        self._cards = Cards(names)

    def misused(self, node: ast.AST, scope: Scope, *, of_types: bool) -> Iterator[ast.expr]:
        """The parts of a node whose value may be another where the text runs next, and that may not stand there.

        `of_types`: the node says only of what kind something is.
        """
        yield from self._devices.misused(node, scope)
        for part in self._gradients.misused(node, scope):
            yield node if isinstance(node, ast.expr) else part
        yield from self._addresses.misused(node, scope)
        yield from self._identity.asked(node, scope, of_types=of_types)
        yield from self._cards.written(node, scope)
        if not of_types:
            yield from self._orders.misused(node, scope)
            yield from self._texts.telling(node, scope)
