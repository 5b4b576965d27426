"""What a model can do, decided in one place for the library, the command line, the server and comparisons."""

from typing import Literal

from polyseme.layers.attention import SelfAttention
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.objectives.bidirectional_lm import BidirectionalLm
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.objectives.translation import Translation
from polyseme.tasks import FineTuningObjective
from polyseme.tokenization.tokenizer import Tokenizer

Capability = Literal["embed", "neighbours", "senses", "fill", "score", "generate", "translate", "attention", "predict"]
LikelihoodScale = Literal["causal", "bidirectional", "masked"]

# In this order: a bidirectional language model is also a causal one.
_SCALES: dict[type, LikelihoodScale] = {BidirectionalLm: "bidirectional", CausalLm: "causal", MaskedLm: "masked"}


def capabilities_of(encoder: Encoder, objective: JointObjective, tokenizer: Tokenizer | None) -> frozenset[Capability]:
    """The verbs of a loaded model that work; without a tokenizer, none do.

    `embed`, `neighbours` and `senses` need a family with vectors, `fill` a masked language model, `generate` (and
    scores of continuations) a language model that reads left to right, `score` either of the two, `translate` a
    decoder, `attention` attention weights, `predict` a fine-tuned task.
    """
    if tokenizer is None:
        return frozenset()

    def trained_with(kind: type[Objective]) -> bool:
        return any(isinstance(part, kind) for part in objective.parts)

    has_attention = any(isinstance(module, SelfAttention) for module in encoder.modules())
    optional: dict[Capability, bool] = {
        **dict.fromkeys(("embed", "neighbours", "senses"), encoder.has_vectors),
        "score": likelihood_scale(objective) is not None,
        "fill": trained_with(MaskedLm),
        "generate": trained_with(CausalLm) and encoder.context != "right",
        "translate": trained_with(Translation),
        "attention": trained_with(Translation) or has_attention,
        "predict": isinstance(objective, FineTuningObjective),
    }
    return frozenset(name for name, works in optional.items() if works)


def likelihood_scale(objective: JointObjective) -> LikelihoodScale | None:
    """How a model scores text; scores on different scales cannot be compared.

    causal: the likelihood in one direction. bidirectional: the mean of two directions, sentence by sentence. masked:
    the pseudo-likelihood of a masked language model. None if it has no language model.
    """
    scales = (scale for part in objective.parts for kind, scale in _SCALES.items() if isinstance(part, kind))
    return next(scales, None)
