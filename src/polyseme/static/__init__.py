"""Vectors of words without back-propagation: counts, kernels, and a learner for each way to learn them."""

from importlib import import_module
from typing import Any

# By the kind of the objective; each is fetched when it is needed, because kernels bring a compiler with them.
_HOMES = {
    "onehot": "onehot.OneHot",
    "wordclass": "classes.Classes",
    "svd": "svd.Svd",
    "cbow": "word2vec.Word2vec",
    "skipgram": "word2vec.Word2vec",
    "glove": "glove.Glove",
}


def learner_of(kind: str) -> Any:
    """What learns for an objective: a class that is made of its settings and a Task."""
    module, _, name = _HOMES[kind].partition(".")
    return getattr(import_module(f"polyseme.static.{module}"), name)
