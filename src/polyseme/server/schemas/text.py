"""Embeddings, completions, masked-token prediction and likelihood."""

from typing import Annotated, Literal

from pydantic import Field

from polyseme.server.schemas.common import IndexedRow, RequestBody, ResponseBody, RowsResponse, TextSpan, example
from polyseme.server.schemas.field_types import Probability, ShortText, Text, Texts, TopK


class EmbeddingsRequest(RequestBody):
    """Texts to embed."""

    model_config = example(model="bert", input=["The bank of the river.", "The bank lends money."])

    input: Text | Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        None, description="Must equal the width of the model; embeddings are not truncated."
    )
    layer: Annotated[int, Field(ge=-1000, le=1000)] = Field(
        -1, description="0 is the embedding layer, -1 the last layer."
    )
    pool: Literal["mean", "first", "last", "max"] = "mean"
    user: Annotated[str, Field(max_length=500)] | None = None


class Usage(ResponseBody):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int


class Embedding(IndexedRow):
    """The embedding of one text: floats, or little-endian float32 in base64."""

    object: Literal["embedding"]
    embedding: list[float] | str


class EmbeddingsResponse(RowsResponse[Embedding]):
    """Embeddings in the order of the texts."""

    object: Literal["list"]
    usage: Usage


StopString = Annotated[str, Field(min_length=1, max_length=200)]


class CompletionsRequest(RequestBody):
    """One or several prompts to complete."""

    model_config = example(model="gpt2", prompt="The function returns", max_tokens=20, temperature=0.8, seed=1)

    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=64)] = ""
    max_tokens: Annotated[int, Field(ge=1, le=4096)] | None = 16
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(1.0, description="0 decodes greedily.")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, le=100_000)] = Field(0, description="0 samples from all tokens.")
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0
    n: Annotated[int, Field(ge=1, le=16)] | None = Field(1, description="Completions per prompt.")
    best_of: Annotated[int, Field(ge=1, le=16)] | None = Field(None, description="Must equal n.")
    stream: bool | None = False
    stream_options: dict[Literal["include_usage", "include_obfuscation"], bool] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="Number of most probable tokens to return at each position, beside the generated one."
    )
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    echo: bool | None = Field(False, description="Return the prompt too; not together with logprobs.")
    suffix: None = None
    presence_penalty: Literal[0] | None = 0
    frequency_penalty: Literal[0] | None = 0
    logit_bias: dict[str, float] | None = Field(None, max_length=0)
    user: Annotated[str, Field(max_length=500)] | None = None


class CompletionLogprobs(ResponseBody):
    """Log probabilities of the generated tokens and of the most probable alternatives."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(IndexedRow):
    """One generated text."""

    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class CompletionsResponse(ResponseBody):
    """Generated texts; in a stream, each event has this format and holds the next part of a text."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class FillRequest(RequestBody):
    """Texts with masked tokens."""

    model_config = example(model="bert", input="The [MASK] of the river was steep.", top=5)

    input: Text | Texts
    top: TopK = 5


class TokenCandidate(ResponseBody):
    """A predicted token."""

    text: str
    probability: Probability


class MaskCandidates(ResponseBody):
    """The character span of a mask, and the most probable tokens for it."""

    start: int
    end: int
    candidates: list[TokenCandidate]


class FilledText(IndexedRow):
    """The masks of one text."""

    masks: list[MaskCandidates]


class FillResponse(RowsResponse[FilledText]):
    """The masks of each text."""


class ScoreRequest(RequestBody):
    """Texts whose log probability is computed."""

    model_config = example(model="gpt2", input=["The cat sat on the mat.", "Mat the on sat cat the."], top=3)

    input: ShortText | Annotated[list[ShortText], Field(min_length=1, max_length=256)]
    top: Annotated[int, Field(ge=0, le=20)] = Field(0, description="Alternatives to return for each token.")


class TokenAlternative(ResponseBody):
    """A probable token at the same position."""

    text: str
    log_probability: float


class TokenLikelihood(TextSpan):
    """The character span of a token, and its log probability."""

    log_probability: float
    alternatives: list[TokenAlternative]


class TextScore(IndexedRow):
    """Log probability (natural logarithm) of a text; scores on different scales cannot be compared."""

    log_probability: float
    bits_per_character: float | None
    scale: Literal["causal", "bidirectional", "masked"]
    tokens: list[TokenLikelihood]


class ScoreResponse(RowsResponse[TextScore]):
    """The score of each text."""
