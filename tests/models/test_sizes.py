"""The base size of each family has exactly the number of parameters of the published model."""

import pytest

from polyseme.families import FAMILIES, build_objective
from polyseme.tokenization.config import SpecialTokens
from polyseme.training.recipes.presets import display_name, preset_families
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.model_dir import meta_device

SPECIALS = SpecialTokens(pad=0, unknown=1, start=2, separator=3, mask=4, end=3)
PARAMETERS = {  # with their heads
    "bert": 110_106_428,  # published: 110M
    "mbert": 178_566_653,
    "roberta": 124_697_433,  # 125M
    "albert": 11_813_810,  # 12M
    "ernie": 100_477_778,
    "gpt": 116_534_784,  # 117M
    "gpt2": 124_439_808,  # 124M
}


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.hf_mapping])
def test_base_has_the_published_number_of_parameters(family):
    import transformers

    recipe = Recipe.preset(family, "base", recipe="paper")
    with meta_device():
        encoder = FAMILIES[family](recipe.model)
        objective = build_objective(recipe.objective, encoder, SPECIALS)
        settings = encoder.hf_mapping.settings_to(recipe.model.model_dump(), objective.names)
        peer = getattr(transformers, settings["architectures"][0])(transformers.AutoConfig.for_model(**settings))
    ours = sum(weight.numel() for weight in [*encoder.parameters(), *objective.parameters()])
    theirs = sum(weight.numel() for weight in peer.parameters())
    assert ours == theirs == PARAMETERS[family]


def test_every_family_has_a_preset_with_its_display_name():
    assert preset_families() == sorted(FAMILIES)
    assert all(map(display_name, FAMILIES)) and display_name("bart") is None
