"""Models of random weights with real tokenizers: they know nothing, but they add up."""

from pathlib import Path

import torch

from polyseme.models import FAMILIES
from polyseme.objectives import build_objective
from polyseme.pretrained import Pretrained
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe

SMALL = ["model.vocab_size=300", "model.max_length=32", "data.length=16"]
SIZES = {
    "elmo": ["model.width=16", "model.cell_width=24", "model.filters=[[1, 8], [2, 8]]"],
    "ulmfit": ["model.width=16", "model.inner_width=24"],
    "nnlm": ["model.width=16", "model.inner_width=24"],
}
HEADS = ["model.width=32", "model.num_layers=2", "model.num_heads=2"]


def random_model(family: str, documents: list[str], *settings: str, folder: Path | None = None) -> Pretrained:
    """A model of a family, its tokenizer learnt from documents; weights are large, so that they tell things apart."""
    segmenter = ["tokenizer.segmenter=none"]
    recipe = Recipe.preset(family, "tiny", [*SMALL, *SIZES.get(family, HEADS), *segmenter, *settings])
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    encoder.spell(tokenizer)
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
