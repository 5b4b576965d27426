"""The families: one file each, and this table."""

from polyseme.models.base import Encoder
from polyseme.models.bert import Bert
from polyseme.models.gpt2 import Gpt2

FAMILIES: dict[str, type[Encoder]] = {
    "bert": Bert,
    "gpt2": Gpt2,
}
