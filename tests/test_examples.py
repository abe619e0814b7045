"""Every module in examples/ is one that a judge can work with: small, finite, and every part matters."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))
MOST_BYTES = 4 << 20
PLAIN = {"rotary_embedding": ("RotaryEmbedding", "example_inputs")}


class Example:
    """A problem file as its docstring says to use it."""

    def __init__(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        self.file = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.file)
        self._model, self.inputs = PLAIN.get(path.stem, ("Model", "get_inputs"))
        self.path = path

    def module(self) -> torch.nn.Module:
        torch.manual_seed(0)
        arguments = getattr(self.file, "get_init_inputs", list)()
        return getattr(self.file, self._model)(*arguments).eval()

    def input_sets(self) -> Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]:
        torch.manual_seed(1)
        made = getattr(self.file, self.inputs)()
        if isinstance(made, list):
            return {"default": (tuple(made), {})}
        return {name: (item["args"], item["kwargs"]) for name, item in made.items()}


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request) -> Example:
    return Example(request.param)


def outputs(module: torch.nn.Module, arguments: Any) -> list[torch.Tensor]:
    args, kwargs = arguments
    with torch.no_grad():
        return tree_leaves(module(*args, **kwargs))


def differ(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_there_are_seven_examples():
    assert len(EXAMPLES) >= 7


def test_reference_is_finite(example):
    for arguments in example.input_sets().values():
        assert all(torch.isfinite(o).all() for o in outputs(example.module(), arguments))


def test_reference_is_deterministic(example):
    module = example.module()
    for arguments in example.input_sets().values():
        assert not differ(outputs(module, arguments), outputs(module, arguments))


def test_reference_leaves_its_inputs_alone(example):
    for arguments in example.input_sets().values():
        before = [t.clone() for t in tree_leaves(arguments)]
        outputs(example.module(), arguments)
        assert not differ(before, tree_leaves(arguments))


def test_reference_depends_on_every_parameter(example):
    for arguments in example.input_sets().values():
        original = outputs(example.module(), arguments)
        for name, _ in example.module().named_parameters():
            changed = example.module()
            with torch.no_grad():
                changed.get_parameter(name).mul_(1.5)
            assert differ(original, outputs(changed, arguments)), name


def test_reference_depends_on_every_input(example):
    module = example.module()
    for arguments in example.input_sets().values():
        original = outputs(module, arguments)
        for place in range(len(tree_leaves(arguments))):
            assert differ(original, outputs(module, with_one_changed(arguments, place))), place


def with_one_changed(arguments: Any, place: int) -> Any:
    places = iter(range(len(tree_leaves(arguments))))

    def change(tensor: torch.Tensor) -> torch.Tensor:
        return another(tensor) if next(places) == place else tensor

    return tree_map(change, arguments)


def another(tensor: torch.Tensor) -> torch.Tensor:
    """Values of the same kind, inside the same range."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.dtype.is_floating_point:
        return tensor * 0.5
    return tensor.flip(-1)


def test_no_parameter_is_constant(example):
    # Ones and zeros let a candidate pass that never reads them.
    for name, parameter in example.module().named_parameters():
        assert parameter.unique().numel() > 1, name


def test_one_call_is_small_enough_to_interpret(example):
    module = example.module()
    weights = sum(p.nbytes for p in module.parameters())
    for arguments in example.input_sets().values():
        moved = tree_leaves(arguments) + outputs(module, arguments)
        assert weights + sum(t.nbytes for t in moved) <= MOST_BYTES


def test_example_says_the_size_to_use_on_a_gpu(example):
    assert "# on a GPU: " in example.path.read_text(encoding="utf-8")


def test_example_is_drawn_anew_on_each_call(example):
    make: Callable[[], Any] = getattr(example.file, example.inputs)
    assert differ(tree_leaves(make()), tree_leaves(make()))
