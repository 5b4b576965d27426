"""Tiny models with random weights: one of each architecture, and one fine-tuned for every task."""

import json
import sys

import pytest
import torch
from tests.server.client import serving

import polyseme as ps
from polyseme.families import FAMILIES, build_objective
from polyseme.pretrained import Pretrained
from polyseme.tasks import TASKS
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

SMALL = ["model.vocab_size=300", "model.max_length=48", "data.sequence_length=32", "tokenizer.segmenter=none"]
HEADS = ["model.width=32", "model.num_layers=2", "model.num_heads=2"]
SIZES = {
    "elmo": ["model.width=16", "model.cell_width=24", "model.filters=[[1, 8], [2, 8]]"],
    "ulmfit": ["model.width=16", "model.inner_width=24"],
    "nnlm": ["model.width=16", "model.inner_width=24"],
    "onehot": [],
    "svd": ["model.width=16"],
    "skipgram": ["model.width=16"],
    "cove": ["model.width=16"],
}
SERVED = ("bert", "roberta", "gpt", "gpt2", "elmo", "ulmfit", "nnlm", "onehot", "svd", "skipgram", "transformer")
RIVER, CITY = "the old bank by the river", "the bank in the city"
LABELLED = {
    "classify.tsv": ["text\tlabel", f"{RIVER}\triver", f"{CITY}\tcity"],
    "pair.tsv": ["text_a\ttext_b\tlabel", f"{RIVER}\t{CITY}\tno", f"{CITY}\t{CITY}\tyes"],
    "similarity.tsv": ["text_a\ttext_b\tscore", f"{RIVER}\t{CITY}\t1.5", f"{CITY}\t{CITY}\t5"],
    "choice.jsonl": [
        json.dumps({"context": RIVER, "choices": ["is wet", "is rich"], "answer": 0}),
        json.dumps({"context": CITY, "choices": ["is wet", "is rich", "is a bird"], "answer": 1}),
    ],
    "tag.conll": ["Ada B-PER", "left O", "", "they O", "saw O", "New B-LOC", "York I-LOC"],
}


def random_model(family, documents, folder):
    """A model directory with random weights, large enough that outputs differ."""
    recipe = Recipe.preset(family, "tiny", [*SMALL, *SIZES.get(family, HEADS)])
    if recipe.objective.uses_parallel_text:
        documents = [f"{document}\n{document.upper()}" for document in documents]
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=300)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    encoder.set_tokenizer(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    parts = {"encoder": encoder.eval(), "objective": objective.eval(), "tokenizer": tokenizer, "recipe": None}
    Pretrained(folder=folder, family=family, **parts).save(folder)
    return folder


@pytest.fixture(scope="session")
def folders(documents, tmp_path_factory):
    """Model directories by name."""
    root = tmp_path_factory.mktemp("served")
    made = {family: random_model(family, documents, root / family) for family in SERVED}
    files = root / "labelled"
    files.mkdir()
    for name, lines in LABELLED.items():
        (files / name).write_text("\n".join(lines), encoding="utf-8")
    questions = [
        {"id": "a", "question": "where is the bank", "answers": [{"text": "river", "answer_start": 20}]},
        {"id": "b", "question": "who is there", "answers": [], "is_impossible": True},
    ]
    squad = {"data": [{"paragraphs": [{"context": RIVER, "qas": questions}]}]}
    (files / "span.json").write_text(json.dumps(squad), encoding="utf-8")
    kinds = {f"my-{task}": task for task in TASKS}
    train = {f"my-{task}": next(files.glob(f"{task}.*")) for task in TASKS}
    settings = ["training.threads=1", "data.batch_size=4", "data.sequence_length=48"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(root / "cache"))
        ps.finetune(made["bert"], task=kinds, train=train, out=root / "tuned", budget="2steps", settings=settings)
    return {**made, "tuned": root / "tuned"}


@pytest.fixture(scope="session")
def server(folders):
    """A server of all of them."""
    with serving(*folders.values()) as client:
        yield client


@pytest.fixture
def print_metric(capsys):
    """Print a measurement of a soak test."""

    def write(name, value):
        with capsys.disabled():
            sys.stdout.write(f"\n  {name}: {value}\n")

    return write
