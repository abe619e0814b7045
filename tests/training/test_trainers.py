from __future__ import annotations

import json

import pytest

from kernelagent.domain.errors import UsageError
from kernelagent.training.trainers import (
    KernelReward,
    trl_rows,
    verl_rows,
    verl_score,
    write_parquet,
)
from tests.training.test_environment import PROBLEM, ByNumber, judges, reply_with


def test_the_trl_reward_takes_text_and_conversations():
    shared = judges(ByNumber())
    (row,) = trl_rows([PROBLEM], shared)
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    conversation = [{"role": "assistant", "content": reply_with(0)}]
    result = KernelReward(shared)(
        prompts=[row["prompt"]] * 3,
        completions=[reply_with(1), conversation, "no code"],
        completion_ids=[[1], [2], [3]],
        problem=[row["problem"]] * 3,
    )
    assert result == pytest.approx([1.9, 0.0, 0.0])


def test_a_data_set_without_problems_is_refused():
    with pytest.raises(UsageError, match="column `problem`"):
        KernelReward(judges(ByNumber()))(prompts=[""], completions=[""])


def test_verls_rows_name_the_problem_and_its_score_says_what_it_is_made_of():
    shared = judges(ByNumber())
    (row,) = verl_rows([PROBLEM], shared)
    assert json.loads(row["reward_model"]["ground_truth"]) == {"path": "toy.py"}
    compute_score = verl_score(shared)
    result = compute_score(
        data_source=row["data_source"],
        solution_str=reply_with(1),
        ground_truth=row["reward_model"]["ground_truth"],
        extra_info=row["extra_info"],
    )
    assert result == {
        "score": pytest.approx(1.9),
        "verdict": "accepted",
        "coverage": 0.9,
        "keep_probability": 1.0,
    }


def tiny_tokenizer():
    """A tokenizer of single bytes with a chat template, made on the spot."""
    tokenizers = pytest.importorskip("tokenizers", reason="the extra `train` is not installed")
    transformers = pytest.importorskip("transformers", reason="the extra `train` is not installed")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    known = {word: index for index, word in enumerate(["<pad>", "<eos>", *alphabet])}
    core = tokenizers.Tokenizer(tokenizers.models.BPE(known, []))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="<eos>"
    )
    made.chat_template = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return made


def tiny_model(tokenizer):
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=8192,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return GPT2LMHeadModel(sizes)


@pytest.mark.long
def test_trls_trainer_takes_a_step_with_our_reward(tmp_path):
    pytest.importorskip("trl", reason="the extra `train` is not installed")
    datasets = pytest.importorskip("datasets", reason="the extra `train` is not installed")
    from trl import GRPOConfig, GRPOTrainer

    judge = ByNumber()
    shared = judges(judge)
    seen = []
    reward = KernelReward(shared)

    def counted(prompts, completions, **columns):
        # A model of random weights writes no kernel: half of its completions are replaced by some.
        answers = [reply_with(1) if i % 2 else c for i, c in enumerate(completions)]
        seen.extend(reward(prompts, answers, **columns))
        return seen[-len(completions) :]

    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer)
    before = model.lm_head.weight.detach().clone()
    options = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=8,
        max_steps=1,
        learning_rate=0.1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        args=options,
        reward_funcs=counted,
        processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_list(trl_rows([PROBLEM], shared) * 2),
    )
    trainer.train()
    assert seen == pytest.approx([0.0, 1.9])
    assert not (before == model.lm_head.weight).all()
    logged = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert logged == pytest.approx([0.95])


def test_rows_survive_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra `train` is not installed")
    from pyarrow import parquet

    rows = verl_rows([PROBLEM] * 2, judges(ByNumber()))
    write_parquet(rows, tmp_path / "train.parquet")
    assert parquet.read_table(tmp_path / "train.parquet").to_pylist() == rows


@pytest.mark.long
def test_verls_own_data_set_reads_our_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra `train` is not installed")
    omegaconf = pytest.importorskip("omegaconf", reason="verl is not installed")
    reader = pytest.importorskip("verl.utils.dataset.rl_dataset", reason="verl is not installed")
    write_parquet(verl_rows([PROBLEM] * 2, judges(ByNumber())), tmp_path / "train.parquet")
    options = omegaconf.OmegaConf.create(
        {"cache_dir": str(tmp_path / "cache"), "max_prompt_length": 8192, "truncation": "error"}
    )
    rows = reader.RLHFDataset(str(tmp_path / "train.parquet"), tiny_tokenizer(), options)
    assert len(rows) == 2
    row = rows[0]
    assert row["data_source"] == "kernelagent"
    assert json.loads(row["reward_model"]["ground_truth"]) == {"path": "toy.py"}
