"""The tables of model families and training objectives."""

from collections.abc import Callable
from typing import Any

from polyseme.baselines.ngram import Ngram, NgramLm, NgramLmConfig
from polyseme.config import Config
from polyseme.models.albert import Albert
from polyseme.models.base import Encoder
from polyseme.models.bert import Bert
from polyseme.models.cove import Cove
from polyseme.models.elmo import Elmo
from polyseme.models.ernie import Ernie
from polyseme.models.gpt import Gpt
from polyseme.models.gpt2 import Gpt2
from polyseme.models.nnlm import Nnlm
from polyseme.models.roberta import Roberta
from polyseme.models.transformer import Transformer
from polyseme.models.ulmfit import Ulmfit
from polyseme.objectives.awd_lm import AwdLm, AwdLmConfig
from polyseme.objectives.bidirectional_lm import BidirectionalLm, BidirectionalLmConfig
from polyseme.objectives.causal_lm import CausalLm, CausalLmConfig, FeedforwardLm, FeedforwardLmConfig
from polyseme.objectives.dialogue import DialogueResponse
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.masked_lm import MaskedLm, MaskedLmConfig
from polyseme.objectives.next_sentence import NextSentence
from polyseme.objectives.sentence_order import SentenceOrder
from polyseme.objectives.translation import Translation, TranslationConfig
from polyseme.static_embeddings.config import (
    FastTextObjectiveConfig,
    GloveConfig,
    SvdConfig,
    Word2vecConfig,
    WordClusterConfig,
)
from polyseme.static_embeddings.encoder import StaticEmbedding
from polyseme.static_embeddings.fasttext.encoder import FastText
from polyseme.static_embeddings.onehot import OneHot, OneHotObjectiveConfig
from polyseme.tokenization.config import SpecialTokens

FAMILIES: dict[str, type[Encoder]] = {
    "ngram": Ngram,
    "onehot": OneHot,
    "wordclass": StaticEmbedding,  # one-hot class vectors
    "svd": StaticEmbedding,
    "nnlm": Nnlm,
    "cbow": StaticEmbedding,
    "skipgram": StaticEmbedding,
    "fasttext": FastText,
    "glove": StaticEmbedding,
    "elmo": Elmo,
    "ulmfit": Ulmfit,
    "cove": Cove,
    "transformer": Transformer,
    "bert": Bert,
    "mbert": Bert,  # a BERT with a multilingual corpus and vocabulary
    "roberta": Roberta,
    "albert": Albert,
    "ernie": Ernie,
    "gpt": Gpt,
    "gpt2": Gpt2,
}

PAIRS: dict[str, type[NextSentence]] = {"next": NextSentence, "order": SentenceOrder, "dialogue": DialogueResponse}


def _masked_lm(config: MaskedLmConfig, encoder: Encoder, specials: SpecialTokens) -> JointObjective:
    masked = MaskedLm(config, encoder, specials)
    if config.pairs == "none":
        return JointObjective({"masked_lm": masked})
    pairs = PAIRS[config.pairs](encoder, specials)
    return JointObjective({pairs.name: pairs, "masked_lm": masked}, weights={pairs.name: config.pairs_weight})


def _bidirectional_lm(config: BidirectionalLmConfig, encoder: Encoder, specials: SpecialTokens) -> JointObjective:
    parts = {"bidirectional_lm": BidirectionalLm(config, encoder, specials)}
    return JointObjective(parts, weights={"forward": 0.5, "backward": 0.5})


def _no_objective(*_: Any) -> JointObjective:
    return JointObjective({})


# By `objective.kind`: the config class, and the function that builds the objective. Static families have no objective
# module; the `build_trainer` of their config returns what trains them.
OBJECTIVES: dict[str, tuple[type[Config], Callable[[Any, Encoder, SpecialTokens], JointObjective]]] = {
    "masked_lm": (MaskedLmConfig, _masked_lm),
    "causal_lm": (CausalLmConfig, lambda *_: JointObjective({"causal_lm": CausalLm()})),
    "feedforward_lm": (
        FeedforwardLmConfig,
        lambda _, encoder, __: JointObjective({"causal_lm": FeedforwardLm(encoder)}),
    ),
    "ngram": (
        NgramLmConfig,
        lambda _, encoder, specials: JointObjective({"causal_lm": NgramLm(encoder, specials)}),
    ),
    "bidirectional_lm": (BidirectionalLmConfig, _bidirectional_lm),
    "awd_lm": (AwdLmConfig, lambda config, encoder, _: JointObjective({"causal_lm": AwdLm(config, encoder)})),
    "translation": (TranslationConfig, lambda *args: JointObjective({"translation": Translation(*args)})),
    "onehot": (OneHotObjectiveConfig, _no_objective),
    "wordclass": (WordClusterConfig, _no_objective),
    "svd": (SvdConfig, _no_objective),
    "cbow": (Word2vecConfig, _no_objective),
    "skipgram": (Word2vecConfig, _no_objective),
    "fasttext": (FastTextObjectiveConfig, _no_objective),
    "glove": (GloveConfig, _no_objective),
}


def build_objective(config: Any, encoder: Encoder, specials: SpecialTokens) -> JointObjective:
    """Build the objective of a config."""
    return OBJECTIVES[config.kind][1](config, encoder, specials)
