"""Randomly initialised models with real tokenizers."""

from pathlib import Path

import torch

from polyseme.families import FAMILIES, build_objective
from polyseme.pretrained import Pretrained
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

SMALL = ["model.vocab_size=300", "model.max_length=32", "data.sequence_length=16"]
SIZES = {
    "elmo": ["model.width=16", "model.cell_width=24", "model.filters=[[1, 8], [2, 8]]"],
    "ulmfit": ["model.width=16", "model.inner_width=24"],
    "nnlm": ["model.width=16", "model.inner_width=24"],
}
HEADS = ["model.width=32", "model.num_layers=2", "model.num_heads=2"]


def random_model(family: str, documents: list[str], *settings: str, folder: Path | None = None) -> Pretrained:
    """A model with a tokenizer trained on documents, and weights large enough to give distinct scores."""
    segmenter = ["tokenizer.segmenter=none"]
    recipe = Recipe.preset(family, "tiny", [*SMALL, *SIZES.get(family, HEADS), *segmenter, *settings])
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    encoder.set_tokenizer(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.1)
    model = Pretrained(
        folder=folder or Path(family),
        family=family,
        encoder=encoder.eval(),
        objective=objective.eval(),
        tokenizer=tokenizer,
        recipe=None,
    )
    if folder:
        model.save(folder)
    return model
