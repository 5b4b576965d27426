"""The families: one file each, and this table."""

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
from polyseme.models.vectors import OneHot, Vectors

FAMILIES: dict[str, type[Encoder]] = {
    "onehot": OneHot,
    "wordclass": Vectors,  # as wide as there are classes
    "svd": Vectors,
    "nnlm": Nnlm,
    "cbow": Vectors,
    "skipgram": Vectors,
    "glove": Vectors,
    "elmo": Elmo,
    "ulmfit": Ulmfit,
    "cove": Cove,
    "transformer": Transformer,
    "bert": Bert,
    "mbert": Bert,  # of many languages: only its text and its vocabulary are different
    "roberta": Roberta,
    "albert": Albert,
    "ernie": Ernie,
    "gpt": Gpt,
    "gpt2": Gpt2,
}
