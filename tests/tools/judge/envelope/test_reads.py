"""What calls of a reference read is seen while they run, and the classes are left as they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from kernelagent.domain.errors import ProblemError
from kernelagent.tools.judge.envelope.reads import Reads, reads_of


class Config:
    other_names = {"width": "d_model"}  # noqa: RUF012 - as libraries write it

    def __init__(self) -> None:
        self.d_model, self.eps, self.path = 8, 1e-5, "a/path"

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("other_names")
        return super().__getattribute__(names.get(name, name))


class Layer(torch.nn.Module):
    gain = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.config, self.number, self.rate, self.calls = Config(), 3, 0.5, 0
        self.in_c = SimpleNamespace(named=1.0, other=2.0)
        self.seen: list[int] = []
        self.norm = torch.nn.LayerNorm(8)
        self.register_buffer("table", torch.ones(8), persistent=False)

    def forward(self, x: Any, cache: Any = None) -> Any:
        self.calls += 1
        self.seen.append(1)
        if cache is not None:
            cache.update(self.number)
        if self.training:
            x = x * self.rate
        return self.norm(x) * self.config.width * self.gain * getattr(self, "boost", 1.0)


class Whole(Layer):
    def forward(self, x: Any, cache: Any = None) -> Any:
        return x * len(vars(self.config)) * self.in_c.named * self.table


X = torch.ones(2, 8)


def read_by(module: torch.nn.Module, *, both_modes: bool = False) -> Reads:
    result = reads_of(module.eval(), lambda x: module(x), [X], both_modes=both_modes)  # type: ignore[arg-type]
    assert result is not None
    return result


def test_an_attribute_on_a_way_that_no_call_takes_is_not_read() -> None:
    read = read_by(Layer())
    assert ".number" not in read.places
    assert "norm.eps" in read.places


def test_of_a_config_the_fields_that_are_asked_for_are_read_also_by_another_name() -> None:
    places = {place for place in read_by(Layer()).places if "config" in place}
    assert places & {".config.d_model", ".config.width"}
    assert not places & {".config.eps", ".config.path"}


def test_all_fields_are_read_where_the_dict_of_them_is() -> None:
    assert {".config.d_model", ".config.eps", ".config.path"} <= read_by(Whole()).places


def test_of_an_object_in_c_what_code_names_counts_as_read() -> None:
    read = read_by(Whole())
    assert ".in_c.named" in read.places
    assert ".in_c.other" not in read.places


def test_a_buffer_that_is_not_saved_is_read_where_it_is_looked_up() -> None:
    assert ".table" in read_by(Whole()).places
    assert ".table" not in read_by(Layer()).places


def test_what_a_call_leaves_is_another_after_each() -> None:
    assert {"the attribute calls", "the attribute seen"} <= read_by(Layer()).changed


def test_the_other_mode_is_asked_where_the_emitted_module_answers_in_it() -> None:
    assert ".rate" not in read_by(Layer()).places
    layer = Layer()
    assert ".rate" in read_by(layer, both_modes=True).places
    assert not any(part.training for part in layer.modules())


def test_what_is_not_there_and_what_the_class_has_are_told_apart() -> None:
    read = read_by(Layer())
    assert ".boost" in read.missing
    assert ".gain" in read.in_classes


def test_the_classes_are_as_before_afterwards() -> None:
    before = Config.__getattribute__
    layer = Layer()
    read_by(layer)
    assert Config.__getattribute__ is before
    assert "__getattribute__" not in vars(Layer) | vars(torch.nn.LayerNorm)
    assert not vars(layer)["_forward_hooks"]
    assert not vars(layer)["_forward_pre_hooks"]


def test_nothing_is_known_where_no_call_can_be_made() -> None:
    def refuse(_: Any) -> None:
        raise ProblemError("no")

    assert reads_of(Layer(), refuse, [X], both_modes=False) is None  # type: ignore[list-item]
