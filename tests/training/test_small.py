from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from benchmarks.small_training import KEPT, differing, drawn, kept_verdicts, study, written
from kernelagent.domain.candidate import Candidate, parse_reply
from kernelagent.domain.evaluation import Evaluation, Stage
from kernelagent.training.policy_loss import Clip, policy_loss
from kernelagent.training.small.judged import JudgedOnce, Verdicts
from kernelagent.training.small.language import SLOTS, TASKS, Sentence, sentences
from kernelagent.training.small.learning import (
    Episode,
    Recipe,
    Written,
    advantages_of,
    dual_clip_loss,
)
from kernelagent.training.small.policy import IDS, TURN, Policy, sentence_of
from kernelagent.training.small.trial import RECIPES, interval

ALL = [sentence for task in TASKS for sentence in sentences(task)]


@dataclass
class Counting:
    """The kept verdicts as a judge of their own, which remembers what it was asked."""

    kept: JudgedOnce
    asked: list[str] = field(default_factory=list)

    @property
    def facts(self):
        return self.kept.facts

    @property
    def device(self):
        return self.kept.device

    def evaluate(self, candidate: Candidate, on_stage: Callable[[Stage], None]) -> Evaluation:
        self.asked.append(candidate.sha256)
        return self.kept.evaluate(candidate, on_stage)

    def close(self) -> None: ...


def no_judge(task: str) -> JudgedOnce:
    raise AssertionError(f"{task}: a verdict is missing and would have to be judged")


def test_every_sentence_is_a_program_of_its_own():
    assert len({sentence.candidate.sha256 for sentence in ALL}) == len(ALL) == 72


def test_reply_of_a_sentence_parses_to_its_program():
    assert all(parse_reply(sentence.reply) == sentence.candidate for sentence in ALL)


@pytest.mark.parametrize("words", [(), ("all",), ("all", "tile64", "warps2", "masked")])
def test_words_outside_the_language_are_refused(words):
    with pytest.raises(ValueError, match="is no sentence"):
        Sentence("softmax", words)


def test_every_program_has_a_kept_verdict_and_some_are_right_some_lazy_some_wrong():
    verdicts = Verdicts(KEPT, no_judge)
    result = [verdicts.of(sentence.task, sentence.candidate) for sentence in ALL]
    assert len(verdicts) == 72
    assert sum(item.accepted for item in result) == 18
    codes = {item.reason.code for item in result if item.reason is not None}
    assert {"compile_error", "out_of_bounds", "wrong_output"} <= codes


def test_writing_the_verdicts_again_gives_the_same_file(tmp_path):
    copy = tmp_path / "verdicts.jsonl"
    copy.write_bytes(KEPT.read_bytes())
    Verdicts(copy, no_judge).save()
    assert copy.read_bytes() == KEPT.read_bytes()


def test_a_program_is_judged_once_and_never_again_after_it_is_saved(tmp_path):
    judge = Counting(Verdicts(KEPT, no_judge).judge("softmax"))
    candidate = ALL[0].candidate
    path = tmp_path / "new.jsonl"
    first = Verdicts(path, lambda _task: judge)
    for _ in range(3):
        first.judge("softmax").evaluate(candidate, lambda _: None)
    first.save()
    assert Verdicts(path, no_judge).of("softmax", candidate) == first.of("softmax", candidate)
    assert judge.asked == [candidate.sha256]


def test_verdicts_on_another_text_of_the_problem_are_not_used(tmp_path):
    kept = KEPT.read_text(encoding="utf-8")
    _, _, rest = kept.partition('"text_sha256":"')
    old = rest[:64]
    path = tmp_path / "stale.jsonl"
    path.write_text(kept.replace(old, old[::-1]), encoding="utf-8")
    assert len(Verdicts(path, no_judge)) == 36


def test_policy_writes_sentences_and_says_how_likely_they_were():
    policy = Policy(3)
    dice = torch.Generator().manual_seed(0)
    begun = [[IDS[task]] for task in TASKS for _ in range(8)]
    words, chances = policy.write(begun, dice)
    tasks = [task for task in TASKS for _ in range(8)]
    assert all(sentence_of(task, row).words for task, row in zip(tasks, words, strict=True))
    ids = torch.tensor([[*b, *w, IDS["own"]] for b, w in zip(begun, words, strict=True)])
    again = policy.log_probabilities(ids, 1)[:, 0]
    torch.testing.assert_close(again, torch.tensor(chances))


def test_log_probabilities_of_a_turn_do_not_depend_on_what_comes_later():
    policy = Policy(1)
    dice = random.Random(0)
    head = [IDS["softmax"], *(IDS[slot[0]] for slot in SLOTS), IDS["own"]]
    tails = [[IDS[dice.choice(slot)] for slot in SLOTS] + [IDS["lazy"]] for _ in range(4)]
    ids = torch.tensor([head + tail for tail in tails])
    assert ids.shape[1] == 1 + 2 * TURN
    first = policy.log_probabilities(ids, 2)[:, 0]
    torch.testing.assert_close(first, first[:1].expand_as(first))


def test_same_seed_gives_the_same_policy_and_leaves_the_global_dice_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    item, two = Policy(7), Policy(7)
    assert torch.equal(before, torch.random.get_rng_state())
    pairs = zip(item.parameters(), two.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("seed", range(20))
def test_loss_in_tensors_is_the_loss_in_the_equation(seed):
    dice = torch.Generator().manual_seed(seed)
    new = -2 * torch.rand(5, 2, 4, generator=dice).double()
    old = -2 * torch.rand(5, 2, 4, generator=dice).double()
    gain = torch.randn(5, 2, generator=dice).double()
    kept = torch.rand(5, 2, generator=dice) < 0.7
    clip = Clip(0.2, 0.3, 1.5)
    wide = gain[..., None].expand(5, 2, 4).reshape(5, 8).tolist()
    mask = kept[..., None].expand(5, 2, 4).reshape(5, 8).tolist()
    slow = policy_loss(
        new.reshape(5, 8).tolist(), old.reshape(5, 8).tolist(), wide, mask, clip=clip
    )
    assert float(dual_clip_loss(new, old, gain, kept, clip)) == pytest.approx(slow)


def test_each_task_is_a_group_of_its_own():
    def episode(task: str, reward: float) -> Episode:
        return Episode(task, (), (Written(reward, 0.0, False, True, ()),))

    mixed = [episode("softmax", 1.0), episode("rms_norm", 10.0), episode("softmax", 3.0)]
    result = advantages_of([*mixed, episode("rms_norm", 10.0)], Recipe("any"))
    assert result == [[-2.0], [0.0], [2.0], [0.0]]


def test_interval_over_seeds_is_students():
    middle, low, high = interval([1.0, 2.0, 3.0])
    assert (middle, round(high - middle, 3), round(middle - low, 3)) == (2.0, 2.484, 2.484)


def test_recipes_differ_from_the_first_in_one_thing_each():
    ours = RECIPES[0]
    same = {"trloo": ours.estimator, "prs": ours.prs, "repeats": ours.learn_from_repeats}
    for other in RECIPES[1:]:
        theirs = {"trloo": other.estimator, "prs": other.prs, "repeats": other.learn_from_repeats}
        assert sum(same[key] != theirs[key] for key in same) == 1
        restored = replace(
            other,
            name=ours.name,
            estimator=ours.estimator,
            prs=ours.prs,
            learn_from_repeats=ours.learn_from_repeats,
        )
        assert restored == ours


@pytest.mark.long
def test_two_seeds_learn_to_write_better_than_untrained_and_than_random_search():
    verdicts = Verdicts(KEPT, no_judge)
    result = study(verdicts, seeds=2, steps=40)
    assert verdicts.judged == 0
    for run, item in zip(result.of(RECIPES[0].name), result.searches, strict=True):
        assert len(run.curve) == len(item.curve)
        assert run.trained.reward > run.untrained.reward + 0.5
        assert run.trained.reward > item.reward + 0.5
    assert "above the untrained policy in 2 of 2 seeds" in written(result, verdicts, "the test")
    assert drawn(result).startswith("<svg")


@pytest.mark.long
def test_kept_verdicts_are_what_the_judge_says_today(draw):
    verdicts = kept_verdicts(Path(KEPT))
    try:
        assert differing(verdicts, 4, draw.randrange(1_000_000)) == []
    finally:
        verdicts.close()
