"""What is asked over HTTP and what is answered; the OpenAPI document is made of this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_CHARACTERS = 20_000
"""Of a text; a longer one is sent in parts."""

MOST_TEXTS = 2048
"""Of a request, as OpenAI has it."""

Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)]
ShortText = Annotated[str, Field(max_length=2_000)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Pairs = Annotated[list[Annotated[list[Text], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=1024)]
Top = Annotated[int, Field(ge=1, le=100)]
Probability = Annotated[float, Field(ge=0, le=1.000001)]


class Asked(BaseModel):
    """A request: closed, so that a typing error is an error and not a default."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    model: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="As /v1/models names it; may be left away where one is served."
    )


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(allow_inf_nan=False)


def example(**values: Any) -> ConfigDict:
    """The settings of a request with an example."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class Problem(BaseModel):
    """What went wrong, and what to do."""

    message: str
    type: str
    code: str
    param: str | None = None


class Problems(BaseModel):
    """An error, as OpenAI has it."""

    error: Problem


class AskEmbeddings(Asked):
    """Texts to turn into vectors."""

    model_config = example(model="bert", input=["The bank of the river.", "The bank lends money."])

    input: Text | Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        None, description="Numbers of a vector: as many as the model has, since its vectors cannot be cut."
    )
    layer: Annotated[int, Field(ge=-1000, le=1000)] = Field(-1, description="0 is the embedding, -1 the top.")
    pool: Literal["mean", "first", "last", "max"] = "mean"
    user: Annotated[str, Field(max_length=500)] | None = None


class Usage(Answer):
    """Tokens that were read, and written."""

    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int


class Embedding(Answer):
    """The vector of a text: numbers, or their bytes (float32, little endian) in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(Answer):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


Stop = Annotated[str, Field(min_length=1, max_length=200)]


class AskCompletions(Asked):
    """A text to go on from."""

    model_config = example(model="gpt2", prompt="The function returns", max_tokens=20, temperature=0.8, seed=1)

    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=64)] = ""
    max_tokens: Annotated[int, Field(ge=1, le=4096)] | None = 16
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, le=100_000)] = 0
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] = 1.0
    n: Annotated[int, Field(ge=1, le=16)] | None = 1
    best_of: Annotated[int, Field(ge=1, le=16)] | None = Field(None, description="As many as n, or nothing.")
    stream: bool | None = False
    stream_options: dict[Literal["include_usage", "include_obfuscation"], bool] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="So many of the likeliest tokens at each place, with the one that was written."
    )
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    echo: bool | None = Field(False, description="The prompt before what is written; not with logprobs.")
    suffix: None = None
    presence_penalty: Literal[0] | None = 0
    frequency_penalty: Literal[0] | None = 0
    logit_bias: dict[str, float] | None = Field(None, max_length=0)
    user: Annotated[str, Field(max_length=500)] | None = None


class Logprobs(Answer):
    """The tokens that were written, how likely each was, and what else might have been."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class Written(Answer):
    """What was written after a prompt."""

    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"] | None


class Completions(Answer):
    """What was written; of a stream, each event is one of these with a piece of the text."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Written]
    usage: Usage | None = None


class AskFill(Asked):
    """Texts with blanks."""

    model_config = example(model="bert", input="The [MASK] of the river was steep.", top=5)

    input: Text | Texts
    top: Top = 5


class Candidate(Answer):
    """A token for a blank."""

    text: str
    probability: Probability


class Blank(Answer):
    """A blank by its characters, and what may stand there."""

    start: int
    end: int
    candidates: list[Candidate]


class FilledText(Answer):
    """The blanks of a text."""

    index: int
    blanks: list[Blank]


class Filled(Answer):
    """The blanks of each text."""

    model: str
    data: list[FilledText]


class AskScore(Asked):
    """Texts whose probability is asked for."""

    model_config = example(model="gpt2", input=["The cat sat on the mat.", "Mat the on sat cat the."], top=3)

    input: ShortText | Annotated[list[ShortText], Field(min_length=1, max_length=256)]
    top: Annotated[int, Field(ge=0, le=20)] = Field(0, description="Alternatives to each token.")


class Alternative(Answer):
    """A token that might have stood there."""

    text: str
    log_probability: float


class TokenScore(Answer):
    """A token by its characters, and how likely it was."""

    text: str
    start: int
    end: int
    log_probability: float
    alternatives: list[Alternative]


class TextScore(Answer):
    """How likely a text is, in nats; scores of different scales are not to be compared."""

    index: int
    log_probability: float
    bits_per_character: float | None
    scale: Literal["causal", "bidirectional", "masked"]
    tokens: list[TokenScore]


class Scores(Answer):
    """How likely each text is."""

    model: str
    data: list[TextScore]


class Facts(Answer):
    """What a model is and can do."""

    family: str
    context: Literal["none", "left", "right", "both"]
    parameters: int
    layers: int
    max_length: int
    can: list[str]
    tasks: dict[str, str]
    labels: dict[str, list[str]]
    directory: str


class ModelEntry(Answer):
    """A model, as OpenAI has it, and more."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    polyseme: Facts


class ModelList(Answer):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelEntry]


class Ready(Answer):
    """Whether requests are answered; who has no key where one is needed learns no names."""

    status: Literal["ready", "stopping", "nothing is served"]
    models: list[str] | int
    problems: dict[str, str] | int
