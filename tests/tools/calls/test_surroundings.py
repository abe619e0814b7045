"""What is varied around judged calls, and that it is put back."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from kernelagent.tools.calls.loading import is_free, memory_left_by, put_in, state_of, unplaced
from kernelagent.tools.calls.surroundings import (
    USUAL,
    Deck,
    Surroundings,
    as_asked,
    as_given,
    forward_in,
    in_its_thread,
    other_weights,
    placed_inside,
    settings_of,
)

FED = Surroundings(given="parameters")


class Telling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.seen = []

    def forward(self, x):
        grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        self.seen.append((*grad, self.weight.requires_grad))
        return x * self.weight


@pytest.mark.parametrize(
    ("gradients", "seen"),
    [
        ("off", (False, False, True)),
        ("inference", (False, True, True)),
        ("frozen", (True, False, False)),
    ],
)
def test_a_forward_sees_the_mode_it_was_asked_for_and_weights_learn_again_afterwards(
    gradients, seen
):
    module = Telling()
    forward_in(module, (torch.ones(3),), {}, Surroundings(gradients=gradients))
    assert module.seen == [seen]
    assert module.weight.requires_grad


def test_every_kind_of_surroundings_comes_in_nineteen_calls():
    deck = Deck()
    drawn = [deck.next(keeps_state=True) for _ in range(19)]
    assert {s.gradients for s in drawn} == {"off", "inference", "frozen"}
    assert {s.module for s in drawn} == {"itself", "copied", "pickled", "copied flatly"}
    assert {(s.given, s.weights) for s in drawn} >= {
        ("parameters", "parameters"),
        ("tensors", "tensors"),
    }
    assert {s.thread for s in drawn} == {s.deterministic for s in drawn} == {True, False}
    assert any(s.toggled for s in drawn)
    assert USUAL in drawn


def test_another_instance_is_called_only_where_this_one_has_something_of_its_weights_to_lose():
    for _ in range(40):
        deck = Deck()
        deck.loading()
        drawn = [deck.next(keeps_state=True) for _ in range(19)]
        first = next(at for at, asked in enumerate(drawn) if asked.another)
        usual = [s.module == "itself" and s.weights == "parameters" for s in drawn[:first]]
        assert any(usual)
        assert drawn[first - 1].weights == "parameters"


def test_inference_mode_comes_late():
    deck = Deck()
    drawn = [deck.next(keeps_state=True) for _ in range(16)]
    assert all(s.gradients != "inference" for s in drawn[:9])


def test_calls_that_change_state_are_made_by_the_module_itself_outside_inference_mode():
    deck = Deck()
    drawn = [deck.next(keeps_state=False) for _ in range(16)]
    assert {(s.module, s.gradients) for s in drawn} == {("itself", "off"), ("itself", "frozen")}


def test_weights_come_in_by_every_way_in_the_five_rounds_of_a_turn_and_first_as_usual():
    deck = Deck()
    ways = [deck.loading() for _ in range(5)]
    assert ways[0] == "load"
    assert set(ways) == {"load", "in place", "in a parent", "bound", "data"}


def test_where_an_entry_of_the_state_has_no_place_no_object_is_exchanged():
    deck = Deck(binds=False)
    assert {deck.loading() for _ in range(9)} == {"load", "in place", "in a parent"}


def test_inputs_may_be_parameters_in_the_same_memory_and_one_given_twice_stays_one():
    x = torch.ones(3)
    (first, again), named = as_given(([x, x], {"n": 3, "k": torch.ones(2, dtype=torch.int64)}), FED)
    assert isinstance(first, torch.nn.Parameter)
    assert first is again
    assert (first.requires_grad, first.data_ptr()) == (True, x.data_ptr())
    assert (named["n"], named["k"].dtype, type(named["k"])) == (3, torch.int64, torch.Tensor)
    assert as_given(x, USUAL) is x


def test_plain_tensors_stand_in_the_places_of_parameters_during_one_forward():
    module = Telling()
    weight = module.weight
    kinds = []
    module.register_forward_pre_hook(lambda m, _: kinds.append(type(m.weight)))
    forward_in(module, (torch.ones(3),), {}, Surroundings(weights="tensors"))
    assert kinds == [torch.Tensor]
    assert module.weight is weight


def test_a_flat_copy_has_the_same_weights_and_attributes():
    module = Telling()
    other = as_asked(module, Surroundings(module="copied flatly"))
    assert other is not module
    assert (other.weight, other.seen) == (module.weight, module.seen)


def test_a_difference_that_only_an_identity_tells_is_said_in_words():
    assert not USUAL.by_identity
    asked = Surroundings(given="parameters", weights="tensors", module="copied flatly")
    assert asked.by_identity
    for words in ("copy.copy", "nn.Parameters", "functional_call"):
        assert words in asked.described


@pytest.mark.parametrize("how", ["load", "in place", "in a parent", "bound", "data"])
def test_weights_are_the_same_however_they_come_in(how):
    module = torch.nn.BatchNorm1d(3)
    values = {n: t + 2 if t.is_floating_point() else t for n, t in module.state_dict().items()}
    put_in(module, values, how)
    shown = state_of(module, how)
    assert all(torch.equal(shown[name], value) for name, value in values.items())


def test_bound_weights_are_other_objects_at_other_addresses_and_of_the_same_layout():
    module = torch.nn.Linear(4, 3)
    module.weight = torch.nn.Parameter(torch.randn(4, 3).t(), requires_grad=False)
    before = module.weight
    put_in(module, {"weight": torch.ones(3, 4), "bias": torch.ones(3)}, "bound")
    assert module.weight is not before
    assert module.weight.data_ptr() != before.data_ptr()
    assert (module.weight.stride(), module.weight.requires_grad) == ((1, 3), False)
    assert isinstance(module.weight, torch.nn.Parameter)
    assert not torch.equal(before, module.weight)


def test_weights_that_come_in_as_data_keep_object_and_version():
    module = torch.nn.Linear(4, 3)
    before = module.weight, module.weight._version, module.weight.data_ptr()  # noqa: SLF001
    put_in(module, {"weight": torch.ones(3, 4), "bias": torch.ones(3)}, "data")
    assert (module.weight, module.weight._version) == before[:2]  # noqa: SLF001
    assert module.weight.data_ptr() != before[2]


def test_tied_weights_stay_tied_when_bound():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    values = {name: torch.ones_like(value) for name, value in module.state_dict().items()}
    put_in(module, values, "bound")
    assert module[0].weight is module[1].weight


@pytest.mark.long
def test_bound_weights_may_lie_where_those_of_a_module_were_that_is_gone():
    gone, module = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    places = gone.weight.data_ptr(), gone.bias.data_ptr()
    kept = gone.bias.detach()
    left = memory_left_by(gone)
    del gone
    gc.collect()
    assert [name for name, storage in left.items() if is_free(storage)] == ["weight"]
    put_in(module, module.state_dict(), "bound", {"weight": left["weight"]})
    assert module.weight.data_ptr() == places[0]
    assert module.weight._version == module.bias._version == 0  # noqa: SLF001 - what a cache would ask
    assert kept.data_ptr() == places[1] != module.bias.data_ptr()


def test_an_entry_that_a_hook_shows_has_no_place():
    module = torch.nn.Linear(3, 3)
    module._register_state_dict_hook(  # noqa: SLF001 - as a candidate would
        lambda _, state, prefix, __: state.update({f"{prefix}other": state[f"{prefix}bias"]})
    )
    assert unplaced(module) == ["other"]
    with pytest.raises(KeyError):
        put_in(module, module.state_dict(), "bound")


def test_other_weights_are_other_ones_also_where_all_are_alike():
    module = torch.nn.LayerNorm(4)
    other_weights(module)
    assert torch.equal(module.weight, torch.full((4,), 0.75))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_other_weights_are_made_of_narrow_types_too(dtype):
    module = torch.nn.Module()
    weight = torch.tensor([4.0, 8.0]).to(dtype)
    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    other_weights(module)
    assert module.weight.dtype == dtype
    assert module.weight.tolist() == [6.0, 3.0]


def test_a_call_in_a_thread_returns_and_raises_what_it_would_here():
    asked = Surroundings(thread=True)
    assert in_its_thread(asked, threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        in_its_thread(asked, lambda: 1 // 0)


@pytest.mark.parametrize("module", ["copied", "pickled"])
def test_a_copy_has_the_same_weights_in_other_memory(module):
    linear = torch.nn.Linear(3, 2)
    other = as_asked(linear, Surroundings(module=module))
    assert torch.equal(other.weight, linear.weight)
    assert other.weight.data_ptr() != linear.weight.data_ptr()


def test_deterministic_algorithms_are_off_inside_alone():
    before = torch.are_deterministic_algorithms_enabled()
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # noqa: SLF001 - as the runner
    try:
        with settings_of(Surroundings(deterministic=False)):
            assert not torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch._C._set_deterministic_algorithms(before)  # noqa: SLF001 - as the runner


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
@pytest.mark.parametrize(("inside", "multiple"), [("16 bytes", True), ("one element", False)])
def test_inputs_may_begin_inside_of_larger_memory(dtype, inside, multiple):
    given = torch.ones(4, 6).to(dtype).T[:, 1:]
    nest = (given, 3, {"again": given})
    placed, number, named = placed_inside(nest, inside)
    assert number == 3
    for tensor in (placed, named["again"]):
        assert torch.equal(tensor, given)
        assert tensor.stride() == given.stride()
        assert tensor.storage_offset() > 0
        assert tensor.data_ptr() % 64 != 0
        assert (tensor.data_ptr() % 16 == 0) is multiple
    assert torch.equal(_bytes(placed), _bytes(placed_inside(given, inside)))
    assert placed_inside(nest, "no") is nest


def _bytes(tensor):
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def test_expanded_inputs_stay_where_they_are():
    given = torch.ones(3, 1).expand(3, 4)
    assert placed_inside(given, "16 bytes") is given


def test_odd_addresses_are_left_to_long_judgings():
    deck = Deck()
    asked = [deck.next(keeps_state=True).inside for _ in range(60)]
    assert asked.count("16 bytes") == 1
    assert asked.index("16 bytes") < 20
    assert asked.count("one element") == 1
    assert asked.index("one element") >= 39
