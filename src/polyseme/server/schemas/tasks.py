"""Fine-tuned tasks, similarity, multiple choice and translation."""

from typing import Annotated, Literal

from pydantic import Field

from polyseme.server.schemas.common import IndexedRow, RequestBody, ResponseBody, RowsResponse, TextSpan, example
from polyseme.server.schemas.field_types import NonEmptyText, Passage, Probability, ShortText, Text, TextPairs, Texts


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
    passage: Passage


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


class Classification(IndexedRow):
    """The most probable class, and the distribution."""

    label: str
    probabilities: dict[str, Probability]


class ClassificationResponse(RowsResponse[Classification]):
    """The class of each text or pair."""

    task: str


class LabelledSpan(TextSpan):
    """An entity, or a word if the task labels single words."""

    label: str
    probability: Probability


class LabelledText(IndexedRow):
    """The labelled spans of one text."""

    spans: list[LabelledSpan]


class TagResponse(RowsResponse[LabelledText]):
    """The labelled spans of each text."""

    task: str


class PairSimilarity(IndexedRow):
    """The similarity of two texts."""

    score: float


class SimilarityResponse(RowsResponse[PairSimilarity]):
    """Scores of a fine-tuned head on the scale of its training data, or cosines of text embeddings."""

    method: Literal["head", "cosine"]


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


class TranslatedText(IndexedRow):
    """One translation."""

    text: str


class TranslateResponse(RowsResponse[TranslatedText]):
    """The translation of each text."""
