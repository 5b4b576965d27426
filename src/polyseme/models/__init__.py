"""The families: one file each, and this table."""

from polyseme.models.albert import Albert
from polyseme.models.base import Encoder
from polyseme.models.bert import Bert
from polyseme.models.ernie import Ernie
from polyseme.models.gpt import Gpt
from polyseme.models.gpt2 import Gpt2
from polyseme.models.roberta import Roberta

FAMILIES: dict[str, type[Encoder]] = {
    "bert": Bert,
    "mbert": Bert,  # of many languages: only its text and its vocabulary are different
    "roberta": Roberta,
    "albert": Albert,
    "ernie": Ernie,
    "gpt": Gpt,
    "gpt2": Gpt2,
}
