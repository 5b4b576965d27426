"""The largest size of each family is the model of its paper, to the last parameter."""

import pytest

from polyseme.models import FAMILIES
from polyseme.models.directory import weightless
from polyseme.objectives import build_objective
from polyseme.text.tokenizer import Specials
from polyseme.train.recipe import Recipe

SPECIALS = Specials(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
PARAMETERS = {  # with their heads
    "bert": 110_106_428,  # published: 110M
    "mbert": 178_566_653,
    "roberta": 124_697_433,  # 125M
    "albert": 11_813_810,  # 12M
    "ernie": 100_477_778,
    "gpt": 116_534_784,  # 117M
    "gpt2": 124_439_808,  # 124M
}


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.foreign])
def test_base_has_the_published_number_of_parameters(family):
    import transformers

    recipe = Recipe.preset(family, "base", recipe="paper")
    with weightless():
        encoder = FAMILIES[family](recipe.model)
        objective = build_objective(recipe.objective, encoder, SPECIALS)
        settings = encoder.foreign.settings_to(recipe.model.model_dump(), objective.names)
        peer = getattr(transformers, settings["architectures"][0])(transformers.AutoConfig.for_model(**settings))
    ours = sum(weight.numel() for weight in [*encoder.parameters(), *objective.parameters()])
    theirs = sum(weight.numel() for weight in peer.parameters())
    assert ours == theirs == PARAMETERS[family]
