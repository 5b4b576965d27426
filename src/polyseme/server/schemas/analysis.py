"""Nearest neighbours, analogies, attention and word senses."""

from typing import Annotated, Literal

from pydantic import Field

from polyseme.server.schemas.common import RequestBody, ResponseBody, RowsResponse, TextSpan, example
from polyseme.server.schemas.field_types import NonEmptyText, ShortText, TopK, Word


class NeighboursRequest(RequestBody):
    """A word whose nearest neighbours are searched."""

    model_config = example(model="skipgram", word="bank", top=10)

    word: Word
    top: TopK = 10


class AnalogyRequest(RequestBody):
    """An analogy: a is to b as c is to what?"""

    model_config = example(model="skipgram", a="man", b="king", c="woman", top=5)

    a: Word
    b: Word
    c: Word
    top: TopK = 10


class WordSimilarity(ResponseBody):
    """A word and its similarity."""

    text: str
    similarity: float


class NeighboursResponse(RowsResponse[WordSimilarity]):
    """Words of the vocabulary, the most similar first."""


class AttentionRequest(RequestBody):
    """A text, or a sentence pair, whose attention weights are computed."""

    model_config = example(model="bert", input="The bank of the river was steep.")

    input: NonEmptyText
    text_pair: NonEmptyText | None = None


class AttentionToken(TextSpan):
    """A token and its character span; special tokens have an empty span."""

    segment: Literal[0, 1] = Field(description="0 for input, 1 for text_pair.")


class HeadSummary(ResponseBody):
    """Mean attention weight of a head by kind of key, and a label for its dominant pattern."""

    layer: int
    head: int
    label: str
    first: float
    separators: float
    previous: float | None
    next: float | None
    same: float | None
    distance: float | None
    entropy: float
    evenness: float


class AttentionResponse(ResponseBody):
    """Attention weights by layer, head, query token and key token."""

    model: str
    name: str
    tokens: list[AttentionToken]
    key_tokens: list[AttentionToken] | None = Field(description="Of cross-attention; null if the keys are `tokens`.")
    layers: int
    heads: int
    causal: bool
    weights: list[list[list[list[float]]]]
    head_statistics: list[HeadSummary]
    cross_attention: "AttentionResponse | None" = Field(
        description="From the translation of the text to its source tokens, for encoder-decoder models."
    )


class SensesRequest(RequestBody):
    """Sentences that use one word in different senses."""

    model_config = example(
        model="bert",
        word="bank",
        texts=["The bank lends money.", "The bank of the river was steep.", "The bank raised its rates."],
    )

    word: Word
    texts: Annotated[list[ShortText], Field(min_length=1, max_length=200)]


class SensePoint(ResponseBody):
    """An occurrence of the word: the index of its text, its character span, and its position on the map."""

    text: int
    start: int
    end: int
    x: float
    y: float


class SenseLayer(ResponseBody):
    """A two-dimensional projection of the occurrences in one layer; layer 0 is context-free."""

    layer: int
    self_similarity: float | None = Field(description="Mean cosine similarity of two occurrences (Ethayarajh, 2019).")
    points: list[SensePoint]


class SensesResponse(ResponseBody):
    """The occurrences of a word in every layer."""

    model: str
    word: str
    static: bool
    layers: list[SenseLayer]
