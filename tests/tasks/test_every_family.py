"""Every family learns every task on the built-in labelled data, from files to predictions and scores."""

import functools
import math
from collections import Counter
from statistics import mean

import pytest
import torch
from tests.tasks.synthetic_examples import KINDS

import polyseme as ps
from polyseme.api import open_base_model
from polyseme.datasets.labelled_files import read_examples
from polyseme.datasets.town.writers import write_town
from polyseme.families import FAMILIES
from polyseme.tasks import TASKS
from polyseme.training.finetuning import FineTuningSession
from polyseme.training.recipes.finetune_recipe import plan_finetuning

WITH_VECTORS = [name for name, family in FAMILIES.items() if family.has_vectors]
STATIC = ["onehot", "wordclass", "svd", "cbow", "skipgram", "fasttext", "glove"]
FRAMED = [name for name, family in FAMILIES.items() if family.input_format == "cross_encoder"]
# Where a tiny model without pretraining is better than the majority baseline after a few steps. The
# others see a few examples again and again, and have to learn those: benchmarks/every_task.py gives them more time.
LEARNABLE = {
    "classify": [name for name in WITH_VECTORS if name != "elmo"],
    "pair": [],
    "similarity": [*STATIC, "nnlm", "elmo", "ulmfit", "transformer", "gpt", "gpt2", *FRAMED],
    "choice": [],
    "tag": WITH_VECTORS,
    "span": ["svd", "nnlm", "cbow", "skipgram"],
}
METRICS = {"similarity": "spearman", "span": "f1"}  # of the others, accuracy
MARGIN = 0.05

SIZES = {"vocab_size": 1200, "max_length": 96, "width": 32, "num_layers": 1, "num_heads": 2, "embedding_width": 16}
SIZES |= {"cell_width": 32, "character_width": 16, "filters": [[1, 16], [2, 32], [3, 32]], "num_highways": 1}
SCALES = {"elmo": 2, "cove": 3, "gpt": 3, "gpt2": 3} | dict.fromkeys(FRAMED, 3)
RATES = {"onehot": 8e-2, "nnlm": 1e-2, "ulmfit": 2e-2, "cove": 1e-2} | dict.fromkeys(STATIC[1:], 2e-2)


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A part of the built-in text and examples."""
    folder = tmp_path_factory.mktemp("town")
    write_town(folder, languages=["en"], num_documents=200, num_rows=400)
    return folder


@pytest.fixture(scope="module")
def base_of(town, tmp_path_factory):
    """A tiny model of each family: static ones are trained, the others have random weights."""
    place = tmp_path_factory.mktemp("models")

    @functools.cache
    def base(family):
        sizes = {name: size for name, size in SIZES.items() if name in FAMILIES[family].Config.model_fields}
        if family == "cove":
            sizes["vectors"] = base("svd").name
        ps.pretrain(
            family,
            corpus=file_of(town, "translate", "train") if family in ("cove", "transformer") else town / "en.train.txt",
            out=place / family,
            size="tiny",
            budget="1steps" if family not in STATIC else "15epochs",
            settings=[
                *(f"model.{name}={size}" for name, size in sizes.items()),
                *("tokenizer.segmenter=none", "data.sequence_length=64"),
                *("training.initialization=paper", "training.batch_tokens=512", "training.threads=1"),
            ],
        )
        begun = open_base_model(place / family)
        with torch.no_grad():
            for weight in begun.encoder.parameters():
                weight.mul_(SCALES.get(family, 1) if weight.dim() > 1 else 1)  # as if it were wider
        return begun

    return base


def file_of(town, kind, split):
    (file,) = (town / kind).glob(f"{split}.*")
    return file


def learn(base, town, out, kind, *, learnable):
    """Run a fine-tuning, and return the losses of its steps."""
    files = {split: {kind: str(file_of(town, kind, split))} for split in ("train", "dev")}
    data = {**files, "sequence_length": 64, "batch_size": 16}
    num_steps = 60
    if not learnable:
        data |= {"dev": {}, "sequence_length": 40 if kind == "span" else 24, "batch_size": 8, "num_labels": 8}
        num_steps = 24
    elif base.family in STATIC:
        data |= {"sequence_length": 64 if kind == "span" else 40, "batch_size": 32}
        num_steps = 40
    elif base.family in FRAMED and kind == "classify":
        num_steps = 90
    values = plan_finetuning(
        base,
        {kind: kind},
        ["model.dropout=0"] if "dropout" in base.encoder.Config.model_fields else [],
        data=data,
        finetuning={
            "dropout": 0.0,
            "width": 16,
            "language_model": 0.0,
            # The linear probe solves much of these tasks before the first step.
            "head_initialization": "random",
            "linear_path": False,
        },
        training={
            "seed": 0,
            "budget": f"{num_steps}steps",
            "learning_rate": RATES.get(base.family, 6e-3),
            "evaluate_every": num_steps,
            "threads": 1,
        },
    )
    session = FineTuningSession.start(values, out, base)
    losses = [progress.step.losses[kind] for progress in session.steps()]
    session.finish()
    return losses


def majority(kind, gold):
    """The score of the majority baseline."""
    if kind == "similarity":
        return 0.0
    if kind == "span":
        return mean(not example.answers for example in gold)
    labels = Counter(label for example in gold for label in example.labels)
    return max(labels.values()) / labels.total()


def check_answer(kind, answer, example, task):
    """Check that a prediction is valid for the task."""
    if kind in ("classify", "pair"):
        assert answer.label in task.labels and answer.probabilities.keys() == task.labels.keys()
        assert sum(answer.probabilities.values()) == pytest.approx(1)
    elif kind == "similarity":
        assert math.isfinite(answer.score)
    elif kind == "choice":
        assert answer.choice in range(len(example.choices)) and len(answer.probabilities) == len(example.choices)
        assert sum(answer.probabilities) == pytest.approx(1)
    elif kind == "tag":
        assert tuple(word.text for word in answer.words) == example.words
        assert all(word.tag in task.labels and 0 < word.probability <= 1 for word in answer.words)
    else:
        assert answer.answers.best and math.isfinite(answer.answers.margin)
        for best in answer.answers.best:
            assert best.text and best.text == example.passage[best.start : best.end]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", WITH_VECTORS)
def test_every_family_learns_every_task(base_of, town, tmp_path, family, kind):
    learnable = family in LEARNABLE[kind]
    losses = learn(base_of(family), town, tmp_path / "out", kind, learnable=learnable)
    assert mean(losses[-5:]) < 0.9 * mean(losses[:5])

    model, gold = ps.load(tmp_path / "out"), read_examples(file_of(town, kind, "test"), TASKS[kind].Example)
    gold = gold if learnable else gold[:10]
    answers = model.predict(gold)
    for answer, example in zip(answers, gold, strict=True):
        check_answer(kind, answer, example, model.tasks[kind])
    scores = model.tasks[kind].score(answers, gold)
    assert all(map(math.isfinite, scores.values()))
    if learnable:
        assert scores[METRICS.get(kind, "accuracy")] > majority(kind, gold) + MARGIN
