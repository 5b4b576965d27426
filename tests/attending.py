"""A tiny model of each family in the hand, with weights large enough that heads differ."""

from pathlib import Path

import torch

from polyseme.models import FAMILIES
from polyseme.objectives import Together, build_objective
from polyseme.pretrained import Pretrained
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe

TEXTS = [
    "The old bank by the river lends money to every farmer who can swim, and the new bank in town does not.",
    "A bat slept in the barn while the boys looked for their other bat. She lit a match before the match began.",
    "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。",
]
SIZES = {"max_length": 64, "width": 24, "num_layers": 2, "num_heads": 3, "inner_width": 96, "dropout": 0.0}


def model_of(family, *, start="none"):
    """A model that has learnt nothing, with a vocabulary of its own."""
    recipe = Recipe.preset(family, "tiny")
    tokenizer = Tokenizer.train(recipe.tokenizer.replace(min_count=1), TEXTS, vocab_size=380)
    tokenizer = tokenizer.with_null() if start == "null" else tokenizer
    torch.manual_seed(0)
    known = {name: size for name, size in SIZES.items() if name in type(recipe.model).model_fields}
    encoder = FAMILIES[family](recipe.model.replace(**known, vocab_size=tokenizer.vocab_size))
    encoder.spell(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.2)
    return Pretrained(
        folder=Path(family),
        family=family,
        encoder=encoder.eval(),
        objective=Together(dict(zip(objective.names, objective.parts, strict=True))).eval(),
        tokenizer=tokenizer,
        recipe=None,
    )
