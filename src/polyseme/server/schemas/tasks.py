"""Fine-tuned tasks, similarity, multiple choice and translation."""

from typing import Annotated, Literal

from pydantic import Field

from polyseme.server.schemas.common import (
    MAX_CHARACTERS,
    NonEmptyText,
    Probability,
    RequestBody,
    ResponseBody,
    ShortText,
    Text,
    TextPairs,
    Texts,
    example,
)


class TaskRequest(RequestBody):
    """A request to a fine-tuned task."""

    task: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Name of the task; required if the model has several of this kind."
    )


class ClassifyRequest(TaskRequest):
    """Texts to classify."""

    model_config = example(model="reviews", input=["I would watch it again.", "A waste of time."])

    input: Text | Texts


class TagRequest(TaskRequest):
    """Texts to label."""

    model_config = example(model="ner", input="Ada Lovelace lived in London.")

    input: Text | Texts


class PairRequest(TaskRequest):
    """Sentence pairs to classify."""

    model_config = example(model="nli", pairs=[["A man sleeps.", "Nobody is awake."]])

    pairs: TextPairs


class SimilarityRequest(TaskRequest):
    """Sentence pairs whose semantic similarity is computed."""

    model_config = example(model="bert", pairs=[["The bank of the river.", "The shore of the lake."]])

    pairs: TextPairs


class AnswerRequest(TaskRequest):
    """A question about a passage."""

    model_config = example(
        model="squad", question="Where did Ada live?", passage="Ada lived in London, and Charles in Devon."
    )

    question: NonEmptyText
    passage: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


class ChooseRequest(TaskRequest):
    """A context and candidate continuations."""

    model_config = example(
        model="gpt2", context="It was raining, so she", choices=["took her umbrella.", "sang a stone."]
    )

    context: ShortText
    choices: Annotated[list[NonEmptyText], Field(min_length=2, max_length=16)]


class TranslateRequest(RequestBody):
    """Texts to translate."""

    model_config = example(model="transformer", input="A dog runs through the grass.")

    input: ShortText | Annotated[list[ShortText], Field(min_length=1, max_length=64)]


class Classification(ResponseBody):
    """The most probable class, and the distribution."""

    index: int
    label: str
    probabilities: dict[str, Probability]


class ClassificationResponse(ResponseBody):
    """The class of each text or pair."""

    model: str
    task: str
    data: list[Classification]


class LabelledSpan(ResponseBody):
    """An entity, or a word if the task labels single words."""

    start: int
    end: int
    text: str
    label: str
    probability: Probability


class LabelledText(ResponseBody):
    """The labelled spans of one text."""

    index: int
    spans: list[LabelledSpan]


class TagResponse(ResponseBody):
    """The labelled spans of each text."""

    model: str
    task: str
    data: list[LabelledText]


class PairSimilarity(ResponseBody):
    """The similarity of two texts."""

    index: int
    score: float


class SimilarityResponse(ResponseBody):
    """Scores of a fine-tuned head on the scale of its training data, or cosines of text embeddings."""

    model: str
    method: Literal["head", "cosine"]
    data: list[PairSimilarity]


class AnswerResponse(ResponseBody):
    """The span that answers the question; null if the passage has no answer."""

    model: str
    answer: str | None
    start: int | None
    end: int | None
    probability: Probability
    null_probability: Probability
    threshold: float | None = Field(description="Margin by which an answer must outscore the null answer.")


class ChooseResponse(ResponseBody):
    """The index of the most probable choice, from 0."""

    model: str
    choice: int
    probabilities: list[Probability]
    method: Literal["head", "likelihood"]


class TranslatedText(ResponseBody):
    """One translation."""

    index: int
    text: str


class TranslateResponse(ResponseBody):
    """The translation of each text."""

    model: str
    data: list[TranslatedText]
