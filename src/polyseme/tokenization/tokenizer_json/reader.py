"""The closed schema of tokenizer.json, checked before the tokenizers library reads a file of unknown origin.

The library compiles any regular expression, allocates by any number in the file, and aborts or loops on some of them.
Here each component has its known fields, sizes have limits, the ids of special tokens have to agree with the
vocabulary, and what multiplies the length of a text is bounded. The library reads what was checked, written again.
"""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tokenizers
from pydantic import FailFast, Field, field_validator, model_validator
from pydantic_core import to_json

from polyseme.errors import CheckpointError, DataError
from polyseme.tokenization.json_files import read_json_object
from polyseme.tokenization.tokenizer_json.component import Component, Count, check_component, flatten
from polyseme.tokenization.tokenizer_json.pipelines import (
    Decoder,
    Normalizer,
    PostProcessor,
    PreTokenizer,
    added_tokens,
    pipeline_growth,
)
from polyseme.tokenization.tokenizer_json.vocabularies import Model, check_range
from polyseme.tokenization.training import call_library

_MAX_OBJECTS = 200  # in a pipeline: its steps, their patterns and tokens
_MAX_STEPS = 32  # of a pipeline
_MAX_GROWTH = 400  # of a text; ALBERT's NFKD and SentencePiece's NFKC each turn one character into up to 18
_MAX_ORDINARY_GROWTH = 8  # of ordinary text
_MAX_ADDED_CHARACTERS = 1_000_000  # of 140 bytes, in the automaton that finds added tokens
_ORDINARY_TEXT = (
    f"{string.printable} The old bank by the river, für ça, под водой, 我在银行工作，アイウ 가나 ابت कखग กขค\n"
)
_PIPELINES = ("normalizer", "pre_tokenizer", "post_processor", "decoder")


class AddedToken(Component):
    id: Count
    content: Annotated[str, Field(min_length=1, max_length=1000)]
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


class TokenizerJson(Component):
    """The content of a tokenizer.json."""

    version: Literal["1.0"]
    truncation: None = None  # Polyseme truncates and pads by itself, whatever the file has
    padding: None = None
    added_tokens: Annotated[list[AddedToken], FailFast()] = Field(default_factory=list)
    normalizer: Normalizer | None = None
    pre_tokenizer: PreTokenizer | None = None
    post_processor: PostProcessor | None = None
    decoder: Decoder | None = None
    model: Model

    @field_validator(*_PIPELINES, mode="before")
    @classmethod
    def _check_size(cls, pipeline: Any) -> Any:
        """Count the components before any is checked, which takes ten milliseconds for a long regular expression."""
        num_objects, values = 0, [pipeline]
        while values:
            value = values.pop()
            num_objects += isinstance(value, dict | list)
            values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
            if num_objects > _MAX_OBJECTS:
                raise ValueError(f"has more than {_MAX_OBJECTS} parts")
        return pipeline

    @field_validator(*_PIPELINES)
    @classmethod
    def _check_steps(cls, pipeline: Component | None) -> Component | None:
        if (num_steps := len(list(flatten(pipeline)))) > _MAX_STEPS:
            raise ValueError(f"has {num_steps} steps, more than the allowed {_MAX_STEPS}")
        if (growth := pipeline_growth(pipeline)) > _MAX_GROWTH:
            raise ValueError(f"can make a text {growth:.0f} times as long, more than the allowed {_MAX_GROWTH}")
        return pipeline

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        ids = dict(self.model.ids)
        tokens = {id: token for token, id in ids.items()}
        for added in self.added_tokens:
            content, id = added.content, added.id
            if ids.setdefault(content, id) != id or tokens.setdefault(id, content) != content:
                raise ValueError(f"the added token {content!r:.60} has another id, or the id of another token")
        check_range(tokens)
        for token, id in added_tokens(self.post_processor):
            if ids.get(token) != id:
                raise ValueError(f"the post-processor adds {token!r:.60} as {id}, which is not its id")
        return self

    @model_validator(mode="after")
    def _check_added_tokens(self) -> Self:
        growth = pipeline_growth(self.normalizer)
        lengths = (len(added.content) * (growth if added.normalized else 1) for added in self.added_tokens)
        if sum(lengths) > _MAX_ADDED_CHARACTERS:
            raise ValueError(f"added_tokens have more than {_MAX_ADDED_CHARACTERS:,} characters when normalized")
        return self


def read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    """Check a tokenizer.json, and build the tokenizer that it describes."""
    try:
        values = {**_with_model_type(read_json_object(path)), "truncation": None, "padding": None}
        check_component(TokenizerJson, values)
        backend: tokenizers.Tokenizer = call_library(tokenizers.Tokenizer.from_buffer, to_json(values))
        _check_ordinary_growth(backend)
    except DataError as error:
        raise CheckpointError(f"{path}: {error}; copy it again") from None
    return backend


def _check_ordinary_growth(backend: tokenizers.Tokenizer) -> None:
    """Raise a DataError if the normalizer multiplies a text; few characters become 18, as Unicode has it."""
    if backend.normalizer:
        length = len(call_library(backend.normalizer.normalize_str, _ORDINARY_TEXT))
        if length > _MAX_ORDINARY_GROWTH * len(_ORDINARY_TEXT):
            raise DataError(f"normalizer: makes ordinary text {length // len(_ORDINARY_TEXT)} times as long")


def _with_model_type(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the type of the model, which early versions of the library did not write."""
    model = state.get("model")
    if not isinstance(model, Mapping) or "type" in model:
        return state
    if isinstance(model.get("vocab"), list):
        kind = "Unigram"
    else:
        kind = "BPE" if "merges" in model else "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"
    return {**state, "model": {**model, "type": kind}}
