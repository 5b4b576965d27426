"""The objectives: one file each, and this table."""

from collections.abc import Callable
from typing import Any

from polyseme.config import Config
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, Source, Together
from polyseme.objectives.both_ways import Backward, BothWaysConfig, Forward
from polyseme.objectives.dialogue import RealDialogue
from polyseme.objectives.masked import MaskedConfig, MaskedTokens
from polyseme.objectives.next_sentence import NextSentence
from polyseme.objectives.next_token import NextToken, NextTokenConfig
from polyseme.objectives.next_word import NextWord, NextWordConfig
from polyseme.objectives.regularized import Regularized, RegularizedConfig
from polyseme.objectives.sentence_order import SentenceOrder
from polyseme.objectives.translation import Translation, TranslationConfig
from polyseme.objectives.vectors import ClassesConfig, GloveConfig, OneHotConfig, SvdConfig, Word2vecConfig
from polyseme.text.tokenizer import Specials

__all__ = ["OBJECTIVES", "Objective", "Source", "Together", "build_objective"]


PAIRS: dict[str, type[NextSentence]] = {"next": NextSentence, "order": SentenceOrder, "dialogue": RealDialogue}


def _masked(config: MaskedConfig, encoder: Encoder, specials: Specials) -> Together:
    masked = MaskedTokens(config, encoder, specials)
    if config.pairs == "none":
        return Together({"masked": masked})
    pairs = PAIRS[config.pairs](encoder, specials)
    return Together({pairs.name: pairs, "masked": masked}, weights={pairs.name: config.pairs_weight})


def _next_token(config: NextTokenConfig, encoder: Encoder, specials: Specials) -> Together:
    return Together({"next_token": NextToken()})


def _next_word(config: NextWordConfig, encoder: Encoder, specials: Specials) -> Together:
    return Together({"next_token": NextWord(encoder)})


def _both_ways(config: BothWaysConfig, encoder: Encoder, specials: Specials) -> Together:
    forward = Forward(config, encoder, specials)
    parts = {"forwards": forward, "backwards": Backward(forward)}
    return Together(parts, weights=dict.fromkeys(parts, 0.5))


def _regularized(config: RegularizedConfig, encoder: Encoder, specials: Specials) -> Together:
    return Together({"next_token": Regularized(config, encoder)})


def _translation(config: TranslationConfig, encoder: Encoder, specials: Specials) -> Together:
    return Together({"translation": Translation(config, encoder, specials)})


def _no_heads(config: Config, encoder: Encoder, specials: Specials) -> Together:
    return Together({})


OBJECTIVES: dict[str, tuple[type[Config], Callable[[Any, Encoder, Specials], Together]]] = {
    "masked": (MaskedConfig, _masked),
    "next_token": (NextTokenConfig, _next_token),
    "next_word": (NextWordConfig, _next_word),
    "both_ways": (BothWaysConfig, _both_ways),
    "regularized": (RegularizedConfig, _regularized),
    "translation": (TranslationConfig, _translation),
    "onehot": (OneHotConfig, _no_heads),
    "wordclass": (ClassesConfig, _no_heads),
    "svd": (SvdConfig, _no_heads),
    "cbow": (Word2vecConfig, _no_heads),
    "skipgram": (Word2vecConfig, _no_heads),
    "glove": (GloveConfig, _no_heads),
}


def build_objective(config: Any, encoder: Encoder, specials: Specials) -> Together:
    """What a recipe trains for."""
    return OBJECTIVES[config.kind][1](config, encoder, specials)
