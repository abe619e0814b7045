"""Candidates that keep a Parameter or what was computed from it: right while weights change where they are.

The emitted module constructs with parameters that nothing has filled, and puts the user's own Parameter objects in
the place of the candidate's, again whenever the user replaces one; in the user's program there are several instances, and freed memory is given out again.
Sorted under the threats they belong to, as in `whitebox`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelagent.tools.corpus.fixture import Fixture, edited
from kernelagent.tools.corpus.whitebox.first import CLASS, EMPTY, HONEST, LAUNCH

_INIT = "        self.weight = nn.Parameter(torch.ones(width))\n"
_NOTHING_YET = "        self.packed = (None, None)\n"
_ADDRESS = "(self.weight.data_ptr(), self.weight._version)"
_TABLE = "\n\nPACKED = {}"


def _kept(
    name: str,
    weight: str,
    code: str | None = "insensitive",
    *,
    top: str = "",
    init: str = "",
    before: str = "",
) -> Fixture:
    """The honest module, but its kernel is given `weight`."""
    source = edited(
        HONEST,
        (_INIT, _INIT + init),
        (CLASS, top + CLASS),
        (EMPTY, before + EMPTY),
        (LAUNCH, LAUNCH.replace("self.weight", weight)),
    )
    also = ("stale_output", "wrong_output") if code == "insensitive" else ()
    return Fixture(f"w-{name}", "silu_gate", source, code, also=also)


def _packs(key: str, where: str = "self.packed") -> str:
    return (
        f"        key = {key}\n"
        f"        if {where}[0] != key:\n"
        f"            {where} = (key, self.weight.detach().clone())\n"
    )


_FUSED = """        self._parameters["fused"] = self._parameters.pop("weight")
        self._register_state_dict_hook(shown)
        self._register_load_state_dict_pre_hook(taken)
"""
_HOOKS = """

def shown(module, state, prefix, metadata):
    state[prefix + "weight"] = state.pop(prefix + "fused")
    return state


def taken(state, prefix, *rest):
    state[prefix + "fused"] = state.pop(prefix + "weight")
"""

CHEATS: Mapping[int, tuple[Fixture, ...]] = {
    25: (
        _kept("weights-behind-hooks", "self.fused", "state_mismatch", top=_HOOKS, init=_FUSED),
        _kept(
            "takes-a-table-from-new-weights",
            "self.weight + self.table",
            "init_error",
            init="        nn.init.ones_(self.weight)\n"
            "        self.register_buffer('table', 1.0 - self.weight.detach(), persistent=False)\n",
        ),
        _kept(
            "counts-by-its-new-weights",
            "self.weight * self.times",
            "init_error",
            init="        nn.init.ones_(self.weight)\n"
            "        self.times = int(self.weight.mean().item())\n",
        ),
    ),
    75: (
        _kept(
            "keeps-the-first-parameter", "self.held[0]", init="        self.held = [self.weight]\n"
        ),
        _kept(
            "keeps-a-view-of-the-weight",
            "self.flat",
            init="        self.flat = self.weight.data.view(-1)\n",
        ),
        _kept(
            "packs-by-object-and-version",
            "self.packed[1]",
            init=_NOTHING_YET,
            before=_packs("(id(self.weight), self.weight._version)"),
        ),
        _kept(
            "one-pack-for-all-instances",
            "PACKED[0]",
            top=_TABLE,
            init="        self.key = None\n",
            before=_packs(_ADDRESS)
            .replace("self.packed[0]", "self.key")
            .replace("self.packed = (key, ", "self.key, PACKED[0] = (key, "),
        ),
        _kept(
            "packs-in-a-table-by-address",
            "PACKED[key]",
            top=_TABLE,
            before=f"        key = {_ADDRESS}\n"
            "        if key not in PACKED:\n"
            "            PACKED[key] = self.weight.detach().clone()\n",
        ),
    ),
}

TWINS: Mapping[int, tuple[Fixture, ...]] = {
    25: (
        _kept("state-under-its-own-names", "self._parameters['weight']", None),
        _kept(
            "takes-a-table-from-its-arguments",
            "self.weight + self.table",
            None,
            init="        nn.init.ones_(self.weight)\n"
            "        self.register_buffer('table', torch.zeros(width), persistent=False)\n",
        ),
    ),
    75: (
        _kept(
            "packs-in-a-table-of-living-weights",
            "PACKED[self.weight][1]",
            None,
            top="\n\nfrom torch.utils.weak import WeakTensorKeyDictionary\n\nPACKED = WeakTensorKeyDictionary()",
            before=f"        key = {_ADDRESS}\n"
            "        if PACKED.get(self.weight, (None,))[0] != key:\n"
            "            PACKED[self.weight] = (key, self.weight.detach().clone())\n",
        ),
    ),
}
