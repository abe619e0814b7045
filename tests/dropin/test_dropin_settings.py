"""A settings object, such as a config: what no code reads of it may change, what some code may read is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelagent.tools.judge.envelope.settings import holds_settings, settings_of
from tests.dropin.emitted import facts_of, imported, text_for, warnings_as_errors

X = torch.randn(4, 8)
CANDIDATE = """\
import torch

CALLS = [0]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        CALLS[0] += 1
        return x * 2.0
"""


class Config:
    """As libraries have them: other names for fields, a loop over them, properties, methods."""

    other_names = {"width": "d_model"}  # noqa: RUF012 - as libraries write it

    def __init__(self) -> None:
        self.scale = 2.0
        self.d_model = 8
        self.labels: list[str] | None = None
        self.saved_by = "1.0"
        self._implementation = "eager"

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("other_names")
        return super().__getattribute__(names.get(name, name))

    def __iter__(self) -> Iterator[str]:
        yield from (str(value) for value in self.__dict__.values())

    @property
    def implementation(self) -> str:
        return self._implementation

    @property
    def every(self) -> dict[str, Any]:
        return self.__dict__

    def itself(self) -> Config:
        return self


class Part(torch.nn.Module):
    """Reads what the function given reads, and then doubles."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.config = Config()
        self.read = read

    def forward(self, x: Any) -> Any:
        self.read(self)
        return x * 2.0


def length_of(config: Any) -> int:
    return sum(map(len, config))


def nothing(part: Any) -> None:
    pass


def by_name(part: Any) -> float:
    return part.config.scale * part.config.width if part.config.implementation else 0.0


READ_AS_A_WHOLE: dict[str, Callable[[Any], Any]] = {
    "gone through": lambda part: [*part.config],
    "given to a function": lambda part: length_of(part.config),
    "kept in a variable": lambda part: _in_a_variable(part),
    "by a name that is computed": lambda part: getattr(part.config, "la" + "bels"),
    "its fields at once": lambda part: vars(part.config),
    "by a property that hands out all fields": lambda part: part.config.every,
    "by a method that hands it out": lambda part: [*part.config.itself()],
    "compared": lambda part: part.config == 1,
    "read in a function inside": lambda part: [[*p.config] for p in [part]],
}


def _in_a_variable(part: Any) -> list[str]:
    config = part.config
    return [*config]


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad(), warnings_as_errors():
        yield


def _emitted(part: Part, folder: Path) -> ModuleType:
    told, held = settings_of(part), holds_settings(part)
    return imported(
        text_for(CANDIDATE, facts_of(part, "()"), attributes=told, settings=held), folder
    )


def _stays(emitted: ModuleType, dropin: Any) -> None:
    before = emitted.CALLS[0]
    torch.testing.assert_close(dropin(X), dropin.original(X))
    assert emitted.CALLS[0] == before + 1


def _goes(emitted: ModuleType, dropin: Any) -> None:
    with pytest.warns(emitted.OutsideEnvelopeWarning, match="what was verified"):
        dropin(X)


@pytest.mark.parametrize("read", [nothing, by_name], ids=["not read", "read by name"])
def test_a_field_that_no_code_names_may_change_appear_and_go(
    read: Callable[[Any], Any], tmp_path: Path
) -> None:
    part = Part(read).eval()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    part.config.labels = ["a", "b"]
    _stays(emitted, dropin)
    part.config.loss = "cross entropy"  # type: ignore[attr-defined]
    _stays(emitted, dropin)
    del part.config.saved_by
    _stays(emitted, dropin)
    watch = dropin._dropin._watch
    _stays(emitted, dropin)
    assert dropin._dropin._watch is watch


@pytest.mark.parametrize(
    "change", [{"scale": 3.0}, {"d_model": 16}, {"width": 16}, {"_implementation": ""}], ids=str
)
def test_a_field_that_is_read_by_its_name_or_another_is_compared(
    change: dict[str, Any], tmp_path: Path
) -> None:
    part = Part(by_name).eval()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    for name, value in change.items():
        object.__setattr__(part.config, Config.other_names.get(name, name), value)
    _goes(emitted, dropin)


def test_another_settings_object_is_compared_field_by_field(tmp_path: Path) -> None:
    part = Part(by_name).eval()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    part.config = Config()
    part.config.labels = ["a", "b"]
    _stays(emitted, dropin)
    part.config = Config()
    part.config.scale = 3.0
    _goes(emitted, dropin)


@pytest.mark.parametrize("way", READ_AS_A_WHOLE)
def test_where_code_may_read_any_field_each_is_compared(way: str, tmp_path: Path) -> None:
    part = Part(READ_AS_A_WHOLE[way]).eval()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    part.config.labels = ["a", "b"]
    _goes(emitted, dropin)


class Outer:
    def __init__(self) -> None:
        self.inner = Config()

    def __iter__(self) -> Iterator[Any]:
        yield from self.__dict__.values()


def test_a_settings_object_in_a_list_or_in_another_object_is_compared_where_that_is_gone_through(
    tmp_path: Path,
) -> None:
    listed = Part(lambda part: [[*config] for config in part.whole]).eval()
    listed.whole = [listed.config]
    nested = Part(lambda part: (part.outer.inner.scale, [[*inner] for inner in part.outer])).eval()
    nested.outer = Outer()
    for part, config in ((listed, listed.config), (nested, nested.outer.inner)):
        emitted = _emitted(part, tmp_path)
        dropin = emitted.optimized(part)
        _stays(emitted, dropin)
        config.labels = ["a"]
        _goes(emitted, dropin)


def test_a_settings_object_in_another_may_change_where_both_are_read_by_name(
    tmp_path: Path,
) -> None:
    part = Part(lambda part: part.outer.inner.scale).eval()
    part.outer = Outer()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    part.outer.inner.labels = ["a"]
    _stays(emitted, dropin)
    part.outer.inner.scale = 1.0
    _goes(emitted, dropin)


def test_a_class_that_answers_with_an_error_of_its_own_ends_nothing(tmp_path: Path) -> None:
    class Strict(Config):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise KeyError(name)

    part = Part(by_name).eval()
    part.config = Strict()
    emitted = _emitted(part, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    part.config.scale = 5.0
    _goes(emitted, dropin)


@pytest.mark.long
def test_saving_a_transformers_model_or_giving_it_labels_leaves_its_mlp_on_the_kernel(
    tmp_path: Path,
) -> None:
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3ForSequenceClassification, Qwen3MLP

    class Doubled(Qwen3MLP):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 2.0

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "pad_token_id": 0}
    model = Qwen3ForSequenceClassification(Qwen3Config(**sizes, **heads)).eval()
    model.model.layers[0].mlp = Doubled(model.config).eval()
    part = model.model.layers[0].mlp
    source = CANDIDATE.replace(
        "    def forward", "    def __init__(self, config):\n        super().__init__()\n"
        "        for name in ('gate_proj', 'up_proj', 'down_proj'):\n"
        "            setattr(self, name, torch.nn.Linear(8, 8, bias=False))\n\n    def forward",
    )  # fmt: skip
    text = text_for(source, facts_of(part, "(None)"), attributes=settings_of(part), settings=True)
    emitted = imported(text, tmp_path)
    dropin = emitted.optimized(part)
    _stays(emitted, dropin)
    before = repr(model.config)
    model.save_pretrained(tmp_path / "saved")
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([1]))
    assert repr(model.config) != before
    _stays(emitted, dropin)
    part.config.hidden_act = "relu"
    _stays(emitted, dropin)
