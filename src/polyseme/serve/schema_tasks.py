"""The same of fine-tuned models, of what is inside of models, and of runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from polyseme.serve.schema import (
    MOST_CHARACTERS,
    Answer,
    Asked,
    Pairs,
    Probability,
    ShortText,
    Text,
    Texts,
    Top,
    Word,
    example,
)


class AskClassify(Asked):
    """Texts whose class is asked for."""

    model_config = example(model="reviews", input=["I would watch it again.", "A waste of time."])

    task: Annotated[str, Field(max_length=200)] | None = Field(None, description="Where a model knows several.")
    input: Text | Texts


class AskPair(Asked):
    """Pairs of texts, and how they are related."""

    model_config = example(model="nli", pairs=[["A man sleeps.", "Nobody is awake."]])

    task: Annotated[str, Field(max_length=200)] | None = None
    pairs: Pairs


class Judged(Answer):
    """The likeliest class."""

    index: int
    label: str
    probabilities: dict[str, Probability]


class Judgements(Answer):
    """The class of each."""

    model: str
    task: str
    data: list[Judged]


class AskTag(AskClassify):
    """Texts whose words are to be tagged."""

    model_config = example(model="ner", input="Ada Lovelace lived in London.")


class TaggedSpan(Answer):
    """An entity, or a word where words are tagged one by one."""

    start: int
    end: int
    text: str
    label: str
    probability: Probability


class TaggedText(Answer):
    """What was found in a text."""

    index: int
    spans: list[TaggedSpan]


class Tagged(Answer):
    """What was found in each text."""

    model: str
    task: str
    data: list[TaggedText]


class AskSimilarity(Asked):
    """Pairs of texts, and how alike they are."""

    model_config = example(model="bert", pairs=[["The bank of the river.", "The shore of the lake."]])

    task: Annotated[str, Field(max_length=200)] | None = None
    pairs: Pairs


class Likeness(Answer):
    """How alike two texts are."""

    index: int
    score: float


class Similarities(Answer):
    """Scores on the scale of what the model was fine-tuned on, or cosines of its vectors."""

    model: str
    by: Literal["head", "cosine"]
    data: list[Likeness]


class AskAnswer(Asked):
    """A question about a passage."""

    model_config = example(
        model="squad", question="Where did Ada live?", passage="Ada lived in London, and Charles in Devon."
    )

    task: Annotated[str, Field(max_length=200)] | None = None
    question: Annotated[str, Field(min_length=1, max_length=2_000)]
    passage: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class Answered(Answer):
    """Where the passage has the answer; null where it has none."""

    model: str
    answer: str | None
    start: int | None
    end: int | None
    probability: Probability
    null_probability: Probability
    threshold: float | None = Field(description="By how much an answer must beat there being none.")


class AskChoose(Asked):
    """A text and ways to go on."""

    model_config = example(
        model="gpt2", context="It was raining, so she", choices=["took her umbrella.", "sang a stone."]
    )

    task: Annotated[str, Field(max_length=200)] | None = None
    context: ShortText
    choices: Annotated[list[Annotated[str, Field(min_length=1, max_length=2_000)]], Field(min_length=2, max_length=16)]


class Choice(Answer):
    """The likeliest way to go on, counted from 0."""

    model: str
    choice: int
    probabilities: list[Probability]
    by: Literal["head", "likelihood"]


class AskTranslate(Asked):
    """Texts to translate."""

    model_config = example(model="transformer", input="A dog runs through the grass.")

    input: ShortText | Annotated[list[ShortText], Field(min_length=1, max_length=64)]


class Translation(Answer):
    """A translation."""

    index: int
    text: str


class Translations(Answer):
    """The translation of each text."""

    model: str
    data: list[Translation]


class AskNeighbours(Asked):
    """A word whose nearest are asked for."""

    model_config = example(model="skipgram", word="bank", top=10)

    word: Word
    top: Top = 10


class AskAnalogy(Asked):
    """Three words: b is to a as what to c?"""

    model_config = example(model="skipgram", a="man", b="king", c="woman", top=5)

    a: Word
    b: Word
    c: Word
    top: Top = 10


class Near(Answer):
    """A word, and how near it is."""

    text: str
    similarity: float


class NearWords(Answer):
    """Words of the vocabulary, the nearest first."""

    model: str
    data: list[Near]


class AskAttention(Asked):
    """A text, or two in one frame, whose tokens look at each other."""

    model_config = example(model="bert", input="The bank of the river was steep.")

    input: Annotated[str, Field(min_length=1, max_length=2_000)]
    second: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None


class AttentionToken(Answer):
    """A token by its characters; special tokens have none."""

    text: str
    start: int
    end: int
    second: bool = Field(description="Whether it is of the second text.")


class HeadTold(Answer):
    """What a head does."""

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


class Attention(Answer):
    """How much each token looks at each other, by layer and head; of a translation, at its source."""

    model: str
    name: str
    tokens: list[AttentionToken]
    seen: list[AttentionToken] | None = Field(description="What is looked at, where that is another text.")
    layers: int
    heads: int
    causal: bool
    weights: list[list[list[list[float]]]]
    heads_told: list[HeadTold]
    cross: Attention | None = Field(description="From the model's own translation to this text, where it translates.")


class AskSenses(Asked):
    """Texts with one word in different uses."""

    model_config = example(
        model="bert",
        word="bank",
        texts=["The bank lends money.", "The bank of the river was steep.", "The bank raised its rates."],
    )

    word: Word
    texts: Annotated[list[ShortText], Field(min_length=1, max_length=200)]


class SensePoint(Answer):
    """An occurrence of the word: which text, counted from 0, its characters, and where it lies on the map."""

    text: int
    start: int
    end: int
    x: float
    y: float


class SenseLayer(Answer):
    """A map of the occurrences in one layer; layer 0 knows nothing of the words around."""

    layer: int
    self_similarity: float | None = Field(description="Mean cosine of two occurrences.")
    points: list[SensePoint]


class Senses(Answer):
    """The occurrences of a word in every layer."""

    model: str
    word: str
    static: bool
    layers: list[SenseLayer]


class Run(Answer):
    """A run, and how far it is."""

    name: str
    family: str | None
    steps: int | None = Field(description="That it will have, where it is known.")
    done: int
    training: bool
    figures: list[str]


class RunDetails(Answer):
    """How a run has learnt."""

    name: str
    history: list[dict[str, Any]]
    scores: dict[str, Any] | None
    probe: dict[str, str] = Field(description="Drawings (SVG) that polyseme probe left in the directory, by name.")


class Report(Answer):
    """A page that compares models."""

    name: str
