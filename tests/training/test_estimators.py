from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelagent.training.advantages import grpo, returns, trloo
from kernelagent.training.mismatch import (
    LOWER,
    UPPER,
    VETO,
    geometric_ratio,
    keep_sequence,
    keep_trajectory,
    keep_turns,
)
from kernelagent.training.policy_loss import Aggregation, Clip, policy_loss, token_loss
from kernelagent.training.turn_rewards import (
    PAPER,
    RELEASE,
    Outcome,
    keep_probability,
    pr_reward,
    profiling_share,
)
from tests.training import slow_reference as slow

CASES = 10_000
RAGGED = st.lists(st.lists(st.floats(-5, 5), max_size=5), min_size=1, max_size=6)


def flat(rows):
    return [value for row in rows for value in row]


@pytest.mark.long
def test_trloo_and_grpo_agree_with_the_slow_reference_on_ten_thousand_groups():
    dice = random.Random(0)
    for _ in range(CASES):
        group, mask = slow.random_group(dice)
        gamma, by_std = dice.choice([1.0, 0.9, 0.0]), dice.random() < 0.5
        got = flat(trloo(group, gamma=gamma, mask=mask))
        assert got == pytest.approx(flat(slow.trloo(group, gamma, mask)), abs=1e-9)
        got = flat(grpo(group, gamma=gamma, mask=mask, by_std=by_std))
        wanted = flat(slow.grpo(group, gamma, mask, by_std, 1e-6))
        assert got == pytest.approx(wanted, abs=1e-8)


def test_rejection_agrees_with_the_slow_reference_on_ten_thousand_sequences():
    dice = random.Random(1)
    kept = 0
    for _ in range(CASES):
        rollout = [dice.uniform(-4, 0) for _ in range(dice.randint(0, 12))]
        width = dice.choice([1e-4, 1e-3, 1e-2])
        trainer = [r + dice.gauss(0, width) for r in rollout]
        if rollout and dice.random() < 0.1:
            trainer[dice.randrange(len(trainer))] -= dice.uniform(8, 12)
        wanted = slow.keep(trainer, rollout, LOWER, UPPER, VETO)
        assert keep_sequence(trainer, rollout) == wanted
        kept += wanted
    assert 0.1 * CASES < kept < 0.9 * CASES


@pytest.mark.long
def test_losses_agree_with_the_slow_reference_on_ten_thousand_batches():
    dice = random.Random(2)
    for _ in range(CASES):
        lengths = [dice.randint(0, 4) for _ in range(dice.randint(1, 3))]
        old = [[dice.uniform(-3, 0) for _ in range(n)] for n in lengths]
        new = [[o + dice.gauss(0, 0.8) for o in row] for row in old]
        advantages = [[dice.uniform(-2, 2)] * n for n in lengths]
        mask = [[dice.random() < 0.7 for _ in range(n)] for n in lengths]
        how, high = dice.choice(get_args(Aggregation)), dice.choice([0.2, 0.28])
        losses = [
            [slow.loss(n, o, a, 0.2, high, 3.0) for n, o, a in zip(*rows, strict=True)]
            for rows in zip(new, old, advantages, strict=True)
        ]
        got = policy_loss(new, old, advantages, mask, clip=Clip(0.2, high), aggregation=how)
        assert got == pytest.approx(slow.aggregate(losses, mask, how), abs=1e-9)


def test_rewards_agree_with_their_definition_on_ten_thousand_turns():
    dice = random.Random(3)
    for _ in range(CASES):
        total = dice.uniform(0.1, 100)
        share = dice.choice([0.0, 1.0, dice.random(), dice.uniform(0.25, 0.45)])
        speedup = dice.choice([None, dice.uniform(0, 6)])
        outcome = Outcome(dice.random() < 0.6, profiling_share(share * total, total), speedup)
        for weights, half in ((PAPER, 1.0), (RELEASE, 0.5)):
            wanted = 0.0
            if outcome.correct:
                wanted = 1 + half * min(speedup or 0.0, 3.0) + half * outcome.coverage
            assert pr_reward(outcome, weights) == pytest.approx(wanted)
        linear = max(0.0, min(1.0, (outcome.coverage - 0.3) / 0.1))
        assert keep_probability(outcome) == (linear if outcome.correct else 1.0)


@pytest.mark.parametrize(
    ("coverage", "probability"), [(0.014, 0.0), (0.3, 0.0), (0.35, 0.5), (0.4, 1.0), (0.86, 1.0)]
)
def test_lazy_turns_are_dropped_and_genuine_ones_kept(coverage, probability):
    assert keep_probability(Outcome(True, coverage)) == pytest.approx(probability)


def test_a_share_above_its_whole_is_refused():
    with pytest.raises(ValueError, match="no share"):
        profiling_share(2.0, 1.0)


@given(RAGGED)
def test_advantages_of_a_full_turn_add_up_to_zero_in_both(group):
    for result in (trloo(group), grpo(group, by_std=False)):
        for t in range(max(map(len, group))):
            there = [row[t] for row in result if t < len(row)]
            if len(there) > 1:
                assert math.fsum(there) == pytest.approx(0.0, abs=1e-8)


@given(RAGGED)
def test_trloo_is_grpo_without_std_times_n_over_n_minus_one(group):
    leave_one_out, with_self = trloo(group), grpo(group, by_std=False)
    for i, row in enumerate(group):
        for t in range(len(row)):
            n = sum(t < len(other) for other in group)
            if n > 1:
                assert leave_one_out[i][t] == pytest.approx(with_self[i][t] * n / (n - 1), abs=1e-8)


@given(RAGGED, st.floats(-10, 10))
def test_a_constant_added_to_last_turns_of_equal_length_changes_no_advantage(group, shift):
    group = [row for row in group if len(row) == len(group[0])]
    moved = [[*row[:-1], row[-1] + shift] if row else [] for row in group]
    if len(group) > 1:
        assert flat(trloo(moved)) == pytest.approx(flat(trloo(group)), abs=1e-7)


def test_the_only_trajectory_of_a_turn_keeps_its_return():
    assert trloo([[1.0, 2.0], [4.0]]) == [[3.0 - 4.0, 2.0], [4.0 - 3.0]]


def test_a_masked_turn_is_in_nobodys_baseline_but_still_in_earlier_returns():
    result = trloo([[1.0, 5.0], [2.0, 7.0]], mask=[[True, False], [True, True]])
    assert result == [[6.0 - 9.0, 0.0], [9.0 - 6.0, 7.0]]


def test_a_mask_of_another_form_is_refused():
    with pytest.raises(ValueError, match="one entry for each turn"):
        trloo([[1.0]], mask=[[True, True]])


@given(st.lists(st.floats(-3, 3), max_size=6), st.floats(0, 1))
def test_returns_satisfy_their_recursion(rewards, gamma):
    result = [*returns(rewards, gamma), 0.0]
    for t, reward in enumerate(rewards):
        assert result[t] == pytest.approx(reward + gamma * result[t + 1])


def test_one_vetoed_token_drops_the_trajectory_but_only_its_own_turn():
    rollout = [[-1.0] * 4, [-1.0] * 4]
    trainer = [[-1.0] * 4, [-1.0, -1.0, -1.0, -12.0]]
    assert keep_turns(trainer, rollout) == [True, False]
    assert not keep_trajectory(trainer, rollout)


def test_turns_that_drift_apart_in_opposite_ways_cancel_over_the_trajectory():
    rollout, trainer = [[-1.0], [-1.0]], [[-1.002], [-0.998]]
    assert keep_turns(trainer, rollout) == [False, False]
    assert keep_trajectory(trainer, rollout)


@given(st.lists(st.floats(-6, 0), min_size=1, max_size=8), st.floats(-0.5, 0.5))
def test_geometric_ratio_of_a_constant_shift_is_its_exponential(rollout, shift):
    trainer = [r + shift for r in rollout]
    assert geometric_ratio(trainer, rollout) == pytest.approx(math.exp(shift))


@given(st.floats(-4, 0), st.floats(-4, 0), st.floats(-3, 3))
def test_dual_clip_bounds_the_loss_of_bad_tokens_and_never_rewards_leaving_the_region(
    new, old, advantage
):
    result = token_loss(new, old, advantage)
    if advantage < 0:
        assert result <= -advantage * 3.0 + 1e-12
    else:
        assert result >= -advantage * 1.2 - 1e-12


def test_a_batch_without_a_learnt_token_has_no_loss():
    assert policy_loss([[-1.0]], [[-1.0]], [[1.0]], [[False]]) == 0.0


def test_importing_the_training_side_imports_neither_torch_nor_numpy():
    import json
    import subprocess

    code = (
        "import json, sys\n"
        "from kernelagent.training import advantages, mismatch, policy_loss, turn_rewards\n"
        "print(json.dumps(sorted({'torch', 'numpy'} & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
