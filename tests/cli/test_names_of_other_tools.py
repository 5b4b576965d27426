"""Options, settings and methods under the names of other tools: the error names the one that does it here."""

import re

import pytest

from polyseme.cli.other_tools import _ADVICE
from polyseme.families import FAMILIES, OBJECTIVES
from polyseme.tasks import TASKS, FineTuningConfig
from polyseme.tokenization.config import TokenizerConfig
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.finetune_recipe import LabelledDataConfig
from polyseme.training.recipes.recipe import DataConfig
from polyseme.training.recipes.settings_of_other_tools import _OPTIONS_OF_OTHER_TOOLS, SETTINGS_OF_OTHER_TOOLS

GROUPS = {
    "model": [family.Config for family in FAMILIES.values()],
    "objective": [config for config, _ in OBJECTIVES.values()],
    "tasks": [spec.Config for spec in TASKS.values()],
    "finetuning": [FineTuningConfig],
    "data": [DataConfig, LabelledDataConfig],
    "training": [TrainingConfig],
    "tokenizer": [TokenizerConfig],
}


def is_setting(name):
    group, _, setting = name.partition(".")
    return any(setting in config.model_fields for config in GROUPS[group])


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("finetune runs/bert --epochs 3", "--budget 3epochs"),
        ("pretrain bert --num-train-epochs 3", "--budget 3epochs"),
        ("pretrain bert --max_steps 3", "--budget 500steps"),
        ("finetune runs/bert --lr 1e-4", "--set training.learning_rate=VALUE"),
        ("adapt runs/bert --learning-rate 1e-4", "--set training.learning_rate=VALUE"),
        ("finetune runs/bert --batch-size 8", "--set data.batch_size=32"),
        ("pretrain bert --batch-size 8", "--set training.batch_tokens=4096"),
        ("pretrain bert --model-size tiny", "--size small"),
        ("pretrain bert --output x", "--out PATH"),
        ("finetune runs/bert --output-dir x", "--out PATH"),
        ("finetune runs/bert --train-file x", "--train FILE"),
        ("pretrain bert --train-file x", "--corpus FILE"),
        ("finetune runs/bert --validation_file x", "--dev FILE"),
        ("finetune runs/bert --text-column x", "--column text=NAME"),
        ("pretrain bert --text-column x", "--column NAME"),
        ("generate runs/gpt2 --max-new-tokens 3", "--max-tokens 50"),
        ("fill runs/bert --top-k 3", "--top 5"),
    ],
)
def test_options(polyseme, line, advice):
    ended = polyseme(*line.split())
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert f"; write {advice}" in ended.err


def test_option_without_a_counterpart(polyseme):
    """No option of another command is suggested."""
    ended = polyseme("serve", "x", "--epochs", "3")
    assert ended.code == 2 and "write" not in ended.err and "polyseme serve --help" in ended.err


def test_advice_names_settings_that_exist():
    advice = [text for texts in _ADVICE.values() for text in texts]
    advice += [*SETTINGS_OF_OTHER_TOOLS.values(), *_OPTIONS_OF_OTHER_TOOLS.values()]
    names = re.findall(r"[a-z]+\.\w+", " ".join(advice))
    assert names and [name for name in names if not is_setting(name)] == []


def test_names_of_other_tools_are_not_ours():
    """A setting of ours is never refused as that of another tool."""
    for name in SETTINGS_OF_OTHER_TOOLS:
        assert "." in name or not any(is_setting(f"{group}.{name}") for group in GROUPS), name
    assert not is_setting("training.batch_size")


@pytest.mark.parametrize(
    ("setting", "ours"),
    [
        ("plan.lr=1e-4", "training.learning_rate"),
        ("training.lr=1e-4", "training.learning_rate"),
        ("lr=1e-4", "training.learning_rate"),
        ("training.epochs=3", "training.budget"),
        ("model.hidden_size=64", "model.width"),
        ("training.batch_size=8", "training.batch_tokens"),
    ],
)
def test_settings(polyseme, corpus_file, tmp_path, setting, ours):
    ended = polyseme("pretrain", "bert", "--corpus", corpus_file, "--set", setting, "--out", tmp_path / "out")
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert f"the setting is called {ours}" in ended.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("method", "ours"), [("lora", "frozen or mix"), ("linear_probe", "frozen"), ("all", "full")])
def test_methods(polyseme, bert, tmp_path, method, ours):
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "a river\tnature\nmoney\tbank\n" * 4)
    ended = polyseme("finetune", bert, "--train", tmp_path / "train.tsv", "--method", method, "--out", tmp_path / "out")
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert f"the closest is {ours}" in ended.err
