"""What a model can do, decided in one place for the library, the command line, the server and comparisons."""

from __future__ import annotations

from typing import Literal

from polyseme.layers.attention import SelfAttention
from polyseme.models.base import Encoder
from polyseme.objectives.bidirectional_lm import ForwardLm
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.objectives.translation import Translation
from polyseme.tasks import FineTuningObjective
from polyseme.tokenization.tokenizer import Tokenizer

Capability = Literal["embed", "neighbours", "senses", "fill", "score", "generate", "translate", "attention", "predict"]
LikelihoodScale = Literal["causal", "bidirectional", "masked"]


def capabilities_of(encoder: Encoder, objective: JointObjective, tokenizer: Tokenizer | None) -> frozenset[Capability]:
    """The verbs of a loaded model that work; without a tokenizer, none do.

    `fill` needs a masked language model, `generate` (and scores of continuations) a language model that reads left to
    right, `score` either of them, `translate` a decoder, `attention` attention weights, `predict` a fine-tuned task.
    """
    if tokenizer is None:
        return frozenset()
    found: set[Capability] = {"embed", "neighbours", "senses"}
    scale = likelihood_scale(objective)
    if scale:
        found.add("score")
    if any(isinstance(part, MaskedLm) for part in objective.parts):
        found.add("fill")
    if any(isinstance(part, CausalLm) for part in objective.parts) and encoder.context != "right":
        found.add("generate")
    if any(isinstance(part, Translation) for part in objective.parts):
        found |= {"translate", "attention"}
    if any(isinstance(module, SelfAttention) for module in encoder.modules()):
        found.add("attention")
    if isinstance(objective, FineTuningObjective):
        found.add("predict")
    return frozenset(found)


def likelihood_scale(objective: JointObjective) -> LikelihoodScale | None:
    """How a model scores text; scores on different scales cannot be compared.

    causal: the likelihood in one direction. bidirectional: the mean of two directions, sentence by sentence. masked:
    the pseudo-likelihood of a masked language model. None if it has no language model.
    """
    for part in objective.parts:
        if isinstance(part, ForwardLm):
            return "bidirectional"
        if isinstance(part, CausalLm):
            return "causal"
        if isinstance(part, MaskedLm):
            return "masked"
    return None
