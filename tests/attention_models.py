"""Tiny untrained models of each family, with weights large enough that attention heads differ."""

from pathlib import Path

import torch

from polyseme.families import FAMILIES, build_objective
from polyseme.objectives.joint import JointObjective
from polyseme.pretrained import Pretrained
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

TEXTS = [
    "The old bank by the river lends money to every farmer who can swim, and the new bank in town does not.",
    "A bat slept in the barn while the boys looked for their other bat. She lit a match before the match began.",
    "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。",
]
SIZES = {"max_length": 64, "width": 24, "num_layers": 2, "num_heads": 3, "inner_width": 96, "dropout": 0.0}


def model_of(family, *, start="none"):
    """An untrained model with a small vocabulary."""
    recipe = Recipe.preset(family, "tiny")
    tokenizer = Tokenizer.train(recipe.tokenizer.replace(min_count=1), TEXTS, vocab_size=380)
    tokenizer = tokenizer.with_null() if start == "null" else tokenizer
    torch.manual_seed(0)
    known = {name: size for name, size in SIZES.items() if name in type(recipe.model).model_fields}
    encoder = FAMILIES[family](recipe.model.replace(**known, vocab_size=tokenizer.vocab_size))
    encoder.set_tokenizer(tokenizer)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    with torch.no_grad():
        for weight in [*encoder.parameters(), *objective.parameters()]:
            weight.add_(torch.randn_like(weight) * 0.2)
    return Pretrained(
        folder=Path(family),
        family=family,
        encoder=encoder.eval(),
        objective=JointObjective(dict(zip(objective.names, objective.parts, strict=True))).eval(),
        tokenizer=tokenizer,
        recipe=None,
    )
