"""Synthetic examples of every task that a tiny model learns in a few steps, and tiny models of every family."""

import dataclasses
import functools
import random
from pathlib import Path

import torch

from polyseme.datasets.squad import Answer, SpanExample
from polyseme.datasets.task_schemas import ChoiceExample, ClassifyExample, PairExample, SimilarityExample, TagExample
from polyseme.families import FAMILIES
from polyseme.tasks import TASKS, FineTuningConfig, build_finetuning_objective, task_spec
from polyseme.tasks.inputs.input_formatter import InputFormatter, add_delimiters
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.recipe import Recipe

KINDS = ("classify", "pair", "similarity", "choice", "tag", "span")
# One of each file with vectors; the others differ in nothing that a task could see.
DIFFERENT = [name for name in FAMILIES if name not in ("ngram", "wordclass", "svd", "cbow", "glove", "mbert")]
# One of each way to read; on the town, all of them learn.
SOME = ("bert", "gpt", "elmo", "cove", "skipgram")
FILLERS = ("the", "old", "man", "saw", "a", "small", "house", "near", "river", "with", "two", "large", "trees")
COLOURS = ["red", "blue"]
ANIMALS = ["dog", "cat"]
RATES = {"elmo": 2e-2, "ulmfit": 2e-2, "skipgram": 2e-2, "onehot": 3e-2, "cove": 5e-3}
SIZES = {"width": 32, "num_layers": 2, "num_heads": 2, "inner_width": 128, "dropout": 0.0, "embedding_width": 16}
SIZES |= {"cell_width": 32, "character_width": 8, "filters": ((1, 8), (2, 16)), "num_highways": 1, "max_length": 40}


def some(rng, *, least=2, most=6):
    return [rng.choice(FILLERS) for _ in range(rng.randint(least, most))]


def with_one(rng, words, others):
    words.insert(rng.randint(0, len(words)), rng.choice(others))
    return words


def example(kind, rng, row):
    place = {"file": Path("made-up.tsv"), "row": row}
    words, others = some(rng), some(rng)
    colourful = rng.random() < 0.5
    with_one(rng, others, COLOURS if colourful else ANIMALS)
    label = "colour" if colourful else "animal"
    if kind == "classify":
        return ClassifyExample(text=" ".join(others), label=label, **place)
    if kind == "pair":
        return PairExample(text_a=" ".join(words), text_b=" ".join(others), label=label, **place)
    if kind == "similarity":
        return SimilarityExample(
            text_a=" ".join(words), text_b=" ".join(others), score=5.0 if colourful else 1.0, **place
        )
    if kind == "choice":
        choices = [" ".join(some(rng)) for _ in range(rng.choice([1, 2]))]
        answer = rng.randint(0, len(choices))
        choices.insert(answer, " ".join(with_one(rng, some(rng), COLOURS)))
        return ChoiceExample(context=" ".join(words), choices=tuple(choices), answer=answer, **place)
    if kind == "tag":
        words = [*words, *others]
        tags = ["B-COLOUR" if word in COLOURS else "B-ANIMAL" if word in ANIMALS else "O" for word in words]
        return TagExample(words=tuple(words), tags=tuple(tags), **place)
    passage = " ".join(others)
    answer = next((word for word in others if word in COLOURS), None)
    answers = (Answer(answer, passage.index(answer)),) if answer else ()
    return SpanExample(id=str(row), question="which red or blue", passage=passage, answers=answers, **place)


@functools.cache
def examples(kind, number=48, seed=0):
    rng = random.Random(f"{kind} {seed}")
    return [example(kind, rng, row) for row in range(1, number + 1)]


@functools.cache
def texts():
    rng = random.Random(0)
    return [" ".join([*some(rng), *COLOURS, *ANIMALS, "which or"]) for _ in range(40)]


@functools.cache
def tokenizer_of(family):
    config = Recipe.preset(family, "tiny").tokenizer.replace(min_count=1)
    return Tokenizer.train(config, texts(), vocab_size=330)


def encoder_of(family, seed=0, **sizes):
    kind, tokenizer = FAMILIES[family], tokenizer_of(family)
    torch.manual_seed(seed)
    sizes = {**SIZES, **sizes, "vocab_size": tokenizer.vocab_size}
    encoder = kind(kind.Config(**{name: size for name, size in sizes.items() if name in kind.Config.model_fields}))
    encoder.set_tokenizer(tokenizer)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(3 if weight.dim() > 1 and encoder.input_format != "bi_encoder" else 1)  # as if it were wider
    return encoder


@dataclasses.dataclass
class Tuned:
    """A tiny model with a task."""

    encoder: torch.nn.Module
    objective: torch.nn.Module
    formatter: InputFormatter

    @property
    def task(self):
        (task,) = self.objective.tasks.values()
        return task

    def read(self, examples, num_rows=16):
        return self.task.read(self.formatter, examples, num_rows=num_rows)

    def predict(self, examples, num_rows=16):
        return self.task.predict(self.encoder, self.read(examples, num_rows))

    def learner(self, examples, *, num_rows=16, **training):
        return self.learner_of(self.read(examples, num_rows), **training)

    def learner_of(self, source, **training):
        settings = {"steps": 40, "learning_rate": 1e-2, "warmup_fraction": 0.1, **training}
        return GradientLearner(self.encoder, self.objective, source, TrainingConfig(**settings))


def tuned(family, kind, *, max_length=40, sizes=None, **settings):
    encoder = encoder_of(family, **(sizes or {}))
    tokenizer = add_delimiters(encoder, tokenizer_of(family))
    settings = {**TASKS[kind].Config.infer_config(examples(kind)), **settings}
    return Tuned(encoder, build(kind, encoder, **settings), InputFormatter(encoder, tokenizer, max_length=max_length))


def parse_task(kind, **settings):
    return task_spec(kind).Config.parse({"kind": kind, **settings}, group="task")


def build(kind, encoder, **settings):
    """The objective of one task; settings are of the task or of the fine-tuning."""
    of_tuning = {name: settings.pop(name) for name in FineTuningConfig.model_fields if name in settings}
    return build_finetuning_objective({kind: parse_task(kind, **settings)}, tuning_config(**of_tuning), encoder)


def tuning_config(**settings):
    return FineTuningConfig.parse({"dropout": 0.0, "width": 16, **settings}, group="finetuning")


def tuned_together(family, kinds, **settings):
    """A tiny model with several tasks by name."""
    encoder = encoder_of(family)
    layout = InputFormatter(encoder, add_delimiters(encoder, tokenizer_of(family)), max_length=40)
    tasks = {name: parse_task(kind, **TASKS[kind].Config.infer_config(examples(kind))) for name, kind in kinds.items()}
    return Tuned(encoder, build_finetuning_objective(tasks, tuning_config(**settings), encoder), layout)


def majority(kind, gold):
    """The score of the majority baseline."""
    if kind in ("classify", "pair", "choice"):
        labels = [label for example in gold for label in example.labels]
        return max(map(labels.count, labels)) / len(labels)
    return sum(not example.answers for example in gold) / len(gold) if kind == "span" else 0.0


def check_learning(family, kind, **settings):
    """In a few steps the loss falls, and the score on other examples exceeds the majority baseline."""
    settings = {"language_model": 0.0, **settings}  # which takes more steps
    model, fresh = tuned(family, kind, sizes={"num_layers": 1}, **settings), examples(kind, 48, seed=1)
    losses = [
        step.losses[kind] for step in model.learner(examples(kind, 64), learning_rate=RATES.get(family, 1e-2)).steps()
    ]
    assert sum(losses[-4:]) / 4 < 0.7 * losses[0]
    scores = model.task.score(model.predict(fresh), fresh)
    assert scores[model.task.selection_metric] > majority(kind, fresh) + 0.1
    return losses, scores
