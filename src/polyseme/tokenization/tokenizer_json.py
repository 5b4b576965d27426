"""The closed schema of tokenizer.json, checked before the tokenizers library reads a file of unknown origin.

The library compiles any regular expression, allocates by any number in the file, and aborts or loops on some of them.
Here each component has its known fields, sizes have limits, the ids of special tokens have to agree with the
vocabulary, and what multiplies the length of a text is bounded. The library reads what was checked, written again.
"""

import base64
import binascii
import functools
import math
import string
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import to_json

from polyseme.arrays import Bytes
from polyseme.config import plain_message
from polyseme.errors import CheckpointError, DataError
from polyseme.tokenization.json_files import read_json_object
from polyseme.tokenization.regex_limits import shortest_match
from polyseme.tokenization.training import call_library

_MAX_FIELDS = 32  # of a component
_MAX_OBJECTS = 200  # in a pipeline: its steps, their patterns and tokens
_MAX_STEPS = 32  # of a pipeline
_MAX_GROWTH = 400  # of a text; ALBERT's NFKD and SentencePiece's NFKC each turn one character into up to 18
_MAX_ORDINARY_GROWTH = 8  # of ordinary text
_UNICODE_GROWTH = 18
_MAX_CHARSMAP = 2_000_000  # in base64; that of SentencePiece has 320 kB
_TRIE_BLOCK = 256  # units of a character map, addressed by the last byte
_MAX_PIECE_LENGTH = 1000  # characters; the library's unigram trie is as deep
_MAX_PIECE_CHARACTERS = 10_000_000  # of a vocabulary; XLM-R has 2 million
_MAX_SCORE = 1e9
_MAX_TRIE_NODES = 1_500_000  # of 330 bytes
_MAX_NODES_PER_PIECE = 16  # on average; T5 has 2.6
_MAX_ADDED_CHARACTERS = 1_000_000  # of 140 bytes, in the automaton that finds added tokens
_ORDINARY_TEXT = (
    f"{string.printable} The old bank by the river, für ça, под водой, 我在银行工作，アイウ 가나 ابت कखग กขค\n"
)
_MAX_WORD_LENGTH = 1000  # of WordPiece, whose time is quadratic in it; published models have 100

Text = Annotated[str, Field(max_length=1000)]
ShortText = Annotated[str, Field(max_length=64)]
Character = Annotated[str, Field(min_length=1, max_length=1)]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]
TypeId = Annotated[int, Field(ge=0, le=255)]
TokenId = Annotated[tuple[Text, Count], Field(strict=False)]


def _check_vocab(vocab: Any) -> dict[str, int]:
    """Check the ids of tokens, without the copy that a schema would make of a hundred thousand."""
    if not isinstance(vocab, dict) or not all(type(id) is int and 0 <= id < 1 << 31 for id in vocab.values()):
        raise ValueError("not an id for each token")
    return vocab


def _check_pieces(pieces: Any) -> list[tuple[str, float]]:
    """Check the pieces of a unigram model and their scores."""
    if not isinstance(pieces, list) or not all(map(_is_piece, pieces)):
        raise ValueError(f"not a list of pieces of at most {_MAX_PIECE_LENGTH} characters, each with its score")
    return pieces


def _is_piece(piece: Any) -> bool:
    if not isinstance(piece, list | tuple) or len(piece) != 2:
        return False
    token, score = piece
    return (
        type(token) is str and 0 < len(token) <= _MAX_PIECE_LENGTH and type(score) in (float, int) and abs(score) < 1e9
    )


def _check_merges(merges: Any) -> list[str | list[str] | tuple[str, str]]:
    """Check the merges of a BPE model, which are pairs, or strings of both tokens in files of early versions."""
    if not isinstance(merges, list) or not all(map(_is_merge, merges)):
        raise ValueError("not a list of pairs of tokens")
    return merges


def _is_merge(merge: Any) -> bool:
    if isinstance(merge, str):
        return merge.count(" ") == 1
    return isinstance(merge, list | tuple) and len(merge) == 2 and type(merge[0]) is type(merge[1]) is str


Vocab = Annotated[dict[str, int], PlainValidator(_check_vocab)]


class Component(BaseModel):
    """Base class of the parts of a tokenizer file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, values: Any) -> Any:
        """Reject a thousand unknown fields at once; an error for each takes a kilobyte."""
        if isinstance(values, dict) and len(values) > _MAX_FIELDS:
            raise ValueError(f"has {len(values):,} fields")
        return values

    @property
    def steps(self) -> Iterable["Component"]:
        """The components of a pipeline."""
        return [self]

    @property
    def growth(self) -> float:
        """The largest ratio of a text's length after this step to that before."""
        return 1


class RegexPattern(Component):
    """A regular expression."""

    Regex: str

    @field_validator("Regex")
    @classmethod
    def _check_regex(cls, pattern: str) -> str:
        try:
            shortest_match(pattern)
        except ValueError as error:
            raise ValueError(f"the regular expression {error}") from None
        return pattern

    @property
    def shortest_match(self) -> int:
        return shortest_match(self.Regex)


class StringPattern(Component):
    """A literal string to search for."""

    String: Annotated[str, Field(min_length=1, max_length=1000)]

    @property
    def shortest_match(self) -> int:
        return len(self.String)


Pattern = RegexPattern | StringPattern


class Replace(Component):
    """Replaces the matches of a pattern; a normalizer and a decoder."""

    type: Literal["Replace"]
    pattern: Pattern
    content: Text

    @property
    def growth(self) -> float:
        shortest = self.pattern.shortest_match
        return max(1, len(self.content) / shortest) if shortest else 1 + len(self.content)


# --- normalizers


class BertNormalizer(Component):
    type: Literal["BertNormalizer"]
    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool | None
    lowercase: bool

    @property
    def growth(self) -> float:
        return 3 if self.handle_chinese_chars else 1  # spaces on both sides of ideographs


class PlainNormalizer(Component):
    type: Literal["NFC", "NFD", "Lowercase", "StripAccents", "Nmt"]


class CompatibilityNormalizer(Component):
    type: Literal["NFKC", "NFKD"]

    @property
    def growth(self) -> float:
        return _UNICODE_GROWTH


class StripNormalizer(Component):
    type: Literal["Strip"]
    strip_left: bool
    strip_right: bool


class Prepend(Component):
    type: Literal["Prepend"]
    prepend: ShortText

    @property
    def growth(self) -> float:
        return 1 + len(self.prepend)


class ByteLevelNormalizer(Component):
    type: Literal["ByteLevel"]

    @property
    def growth(self) -> float:
        return 2  # in bytes


class Precompiled(Component):
    type: Literal["Precompiled"]
    precompiled_charsmap: Annotated[str, Field(max_length=_MAX_CHARSMAP)]

    @field_validator("precompiled_charsmap")
    @classmethod
    def _check_charsmap(cls, value: str) -> str:
        """The size of a trie of 4-byte units, the trie, and replacements that end with NUL."""
        try:
            content = base64.b64decode(value, validate=True)
            (size,) = struct.unpack_from("<I", content)
            replacements = content[4 + size :].decode()
        except (binascii.Error, struct.error, ValueError):
            raise ValueError("not a character map in base64") from None
        if size % (4 * _TRIE_BLOCK) or 4 + size > len(content):
            raise ValueError("its trie is not as long as the character map declares")
        if max(map(len, replacements.split("\0"))) > 2 * _UNICODE_GROWTH:
            raise ValueError(f"replaces a character by more than {2 * _UNICODE_GROWTH}")
        units, values = np.frombuffer(content, "<u4", size // 4, 4), np.frombuffer(content, np.uint8)[4 + size :]
        if not _is_double_array(units, values):
            raise ValueError("its trie points out of the character map")
        return value

    @property
    def growth(self) -> float:
        return _UNICODE_GROWTH


def _is_double_array(units: NDArray[np.uint32], replacements: Bytes) -> bool:
    """Whether all nodes of a double-array trie (Darts-clone) point into it, and its values at whole characters."""
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    nodes = np.flatnonzero(units < 1 << 31)  # the others are values
    children = nodes ^ offsets[nodes]
    has_value = (units[nodes] >> 8) & 1 == 1
    if (children >= len(units)).any():
        return False
    values = units[children[has_value]] & 0x7FFFFFFF
    return bool((values < len(replacements)).all()) and not (replacements[values] & 0xC0 == 0x80).any()


class NormalizerSequence(Component):
    type: Literal["Sequence"]
    normalizers: list["Normalizer"]

    @property
    def steps(self) -> Iterator[Component]:
        return flatten(self.normalizers)


Normalizer = Annotated[
    BertNormalizer
    | PlainNormalizer
    | CompatibilityNormalizer
    | StripNormalizer
    | Prepend
    | ByteLevelNormalizer
    | Precompiled
    | Replace
    | NormalizerSequence,
    Field(discriminator="type"),
]

# --- pre-tokenizers, decoders and post-processors

Behavior = Literal["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


class PlainPreTokenizer(Component):
    type: Literal["BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"]


class ByteLevel(Component):
    type: Literal["ByteLevel"]
    add_prefix_space: bool
    trim_offsets: bool
    use_regex: bool = True

    @property
    def growth(self) -> float:
        return 2  # in bytes


class CharDelimiterSplit(Component):
    type: Literal["CharDelimiterSplit"]
    delimiter: Character


class Digits(Component):
    type: Literal["Digits"]
    individual_digits: bool


class FixedLength(Component):
    type: Literal["FixedLength"]
    length: Annotated[int, Field(ge=1, lt=1 << 31)]


class Metaspace(Component):
    type: Literal["Metaspace"]
    replacement: Character
    prepend_scheme: Literal["first", "never", "always"] = "always"
    split: bool = True
    add_prefix_space: bool | None = None  # before version 0.15 of the library
    str_rep: Character | None = None

    @property
    def growth(self) -> float:
        return 2  # if every character is a word


class Punctuation(Component):
    type: Literal["Punctuation"]
    behavior: Behavior = "Isolated"


class Split(Component):
    type: Literal["Split"]
    pattern: Pattern
    behavior: Behavior
    invert: bool = False


class PreTokenizerSequence(Component):
    type: Literal["Sequence"]
    pretokenizers: list["PreTokenizer"]

    @property
    def steps(self) -> Iterator[Component]:
        return flatten(self.pretokenizers)


PreTokenizer = Annotated[
    PlainPreTokenizer
    | ByteLevel
    | CharDelimiterSplit
    | Digits
    | FixedLength
    | Metaspace
    | Punctuation
    | Split
    | PreTokenizerSequence,
    Field(discriminator="type"),
]


class PlainDecoder(Component):
    type: Literal["ByteFallback", "Fuse"]


class BpeDecoder(Component):
    type: Literal["BPEDecoder"]
    suffix: ShortText


class WordPieceDecoder(Component):
    type: Literal["WordPiece"]
    prefix: ShortText
    cleanup: bool


class CtcDecoder(Component):
    type: Literal["CTC"]
    pad_token: ShortText
    word_delimiter_token: ShortText
    cleanup: bool


class StripDecoder(Component):
    type: Literal["Strip"]
    content: Character
    start: Annotated[int, Field(ge=0, le=64)]
    stop: Annotated[int, Field(ge=0, le=64)]


class DecoderSequence(Component):
    type: Literal["Sequence"]
    decoders: list["Decoder"]

    @property
    def steps(self) -> Iterator[Component]:
        return flatten(self.decoders)


Decoder = Annotated[
    PlainDecoder
    | BpeDecoder
    | ByteLevel
    | WordPieceDecoder
    | Metaspace
    | CtcDecoder
    | Replace
    | StripDecoder
    | DecoderSequence,
    Field(discriminator="type"),
]


class BertProcessing(Component):
    type: Literal["BertProcessing"]
    sep: TokenId
    cls: TokenId

    @property
    def tokens(self) -> Iterable[tuple[str, int]]:
        """The special tokens that are added, with their ids."""
        return [self.sep, self.cls]


class RobertaProcessing(BertProcessing):
    type: Literal["RobertaProcessing"]  # type: ignore[assignment]
    trim_offsets: bool
    add_prefix_space: bool


class TemplatePart(Component):
    id: Text
    type_id: TypeId


class SpecialPart(Component):
    SpecialToken: TemplatePart


class TextPart(Component):
    Sequence: TemplatePart


class TemplateToken(Component):
    id: Text
    ids: Annotated[list[Count], Field(min_length=1, max_length=16)]
    tokens: Annotated[list[Text], Field(min_length=1, max_length=16)]


TemplateParts = Annotated[list[SpecialPart | TextPart], Field(max_length=32)]


class TemplateProcessing(Component):
    type: Literal["TemplateProcessing"]
    single: TemplateParts
    pair: TemplateParts
    special_tokens: dict[str, TemplateToken]

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        for parts, texts in ((self.single, ["A"]), (self.pair, ["A", "B"])):
            if sorted(part.Sequence.id for part in parts if isinstance(part, TextPart)) != texts:
                raise ValueError(f"the template has to contain each of the texts {', '.join(texts)} once")
            if any(part.SpecialToken.id not in self.special_tokens for part in parts if isinstance(part, SpecialPart)):
                raise ValueError("the template has a token that is not among its special tokens")
        if any(key != token.id or len(token.ids) != len(token.tokens) for key, token in self.special_tokens.items()):
            raise ValueError("the special tokens of the template are inconsistent")
        return self

    @property
    def tokens(self) -> Iterable[tuple[str, int]]:
        """The special tokens that are added, with their ids."""
        for token in self.special_tokens.values():
            yield from zip(token.tokens, token.ids, strict=True)


class PostProcessorSequence(Component):
    type: Literal["Sequence"]
    processors: list["PostProcessor"]

    @property
    def steps(self) -> Iterator[Component]:
        return flatten(self.processors)


PostProcessor = Annotated[
    BertProcessing | RobertaProcessing | ByteLevel | TemplateProcessing | PostProcessorSequence,
    Field(discriminator="type"),
]


def flatten(components: Iterable[Component]) -> Iterator[Component]:
    """The components of nested sequences, in order."""
    for component in components:
        yield from component.steps


# --- vocabularies


class Vocabulary(Component):
    """Base class of models."""

    @property
    def ids(self) -> Mapping[str, int]:
        """The tokens with their ids."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        ids = set(self.ids.values())
        if len(ids) < len(self.ids):
            raise ValueError("the vocabulary gives an id to two tokens")
        _check_range(ids)
        return self


def _check_range(ids: Collection[int]) -> None:
    """Reject ids far above the number of tokens, since arrays have a row for each."""
    if (largest := max(ids, default=0)) > 2 * len(ids) + 1000:
        raise ValueError(f"the id {largest} is out of range, since there are {len(ids)} tokens")


class Bpe(Vocabulary):
    type: Literal["BPE"]
    dropout: Annotated[float, Field(ge=0, le=0)] | None = None  # would encode a text differently each time
    unk_token: Text | None = None
    continuing_subword_prefix: ShortText | None = None
    end_of_word_suffix: ShortText | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    vocab: Vocab
    merges: Annotated[list[Any], PlainValidator(_check_merges)]

    @property
    def ids(self) -> Mapping[str, int]:
        return self.vocab

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        prefix = len(self.continuing_subword_prefix or "")
        for merge in self.merges:
            left, _, right = merge.partition(" ") if isinstance(merge, str) else (merge[0], " ", merge[1])
            if not {left, right, left + right[prefix:]} <= self.vocab.keys():
                raise ValueError(f"the merge {merge!r:.60} has tokens that are not in the vocabulary")
        return self


class WordLevel(Vocabulary):
    type: Literal["WordLevel"]
    unk_token: Text
    vocab: Vocab

    @property
    def ids(self) -> Mapping[str, int]:
        return self.vocab

    @model_validator(mode="after")
    def _check_unknown(self) -> Self:
        if self.unk_token not in self.vocab:
            raise ValueError(f"the vocabulary has no unknown token {self.unk_token!r:.60}")
        return self


class WordPiece(WordLevel):
    type: Literal["WordPiece"]  # type: ignore[assignment]
    continuing_subword_prefix: ShortText = "##"
    max_input_chars_per_word: Annotated[int, Field(ge=1, le=_MAX_WORD_LENGTH)] = 100


class Unigram(Vocabulary):
    type: Literal["Unigram"]
    unk_id: Count | None
    vocab: Annotated[list[Any], PlainValidator(_check_pieces)]
    byte_fallback: bool = False

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        return {token: id for id, (token, _) in enumerate(self.vocab)}

    @model_validator(mode="after")
    def _check_trie(self) -> Self:
        if self.unk_id is not None and self.unk_id >= len(self.vocab):
            raise ValueError(f"unk_id is {self.unk_id}, and the vocabulary has {len(self.vocab)} tokens")
        num_characters = sum(map(len, self.ids))
        max_nodes = min(_MAX_TRIE_NODES, _MAX_NODES_PER_PIECE * len(self.ids) + 10_000)
        if num_characters > _MAX_PIECE_CHARACTERS or (4 * num_characters > max_nodes and self._num_nodes() > max_nodes):
            raise ValueError(f"the trie of the vocabulary has more than {max_nodes:,} nodes")
        return self

    def _num_nodes(self) -> int:
        """The number of distinct prefixes in bytes."""
        num_nodes, previous = 0, b""
        for token in sorted(token.encode() for token in self.ids):
            pairs = enumerate(zip(token, previous, strict=False))
            num_nodes += len(token) - next((length for length, (a, b) in pairs if a != b), len(previous))
            previous = token
        return num_nodes


Model = Annotated[Bpe | WordPiece | WordLevel | Unigram, Field(discriminator="type")]


class AddedToken(Component):
    id: Count
    content: Annotated[str, Field(min_length=1, max_length=1000)]
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


class Truncation(Component):
    direction: Literal["Left", "Right"] = "Right"
    max_length: Count
    strategy: Literal["LongestFirst", "OnlyFirst", "OnlySecond"]
    stride: Count


class FixedPadding(Component):
    Fixed: Count


class Padding(Component):
    strategy: Literal["BatchLongest"] | FixedPadding
    direction: Literal["Left", "Right"]
    pad_to_multiple_of: Count | None = None
    pad_id: Count
    pad_type_id: Count
    pad_token: Text


class TokenizerJson(Component):
    """The content of a tokenizer.json."""

    version: Literal["1.0"]
    truncation: Truncation | None = None
    padding: Padding | None = None
    added_tokens: Annotated[list[AddedToken], FailFast()] = []
    normalizer: Normalizer | None = None
    pre_tokenizer: PreTokenizer | None = None
    post_processor: PostProcessor | None = None
    decoder: Decoder | None = None
    model: Model

    @field_validator("normalizer", "pre_tokenizer", "post_processor", "decoder", mode="before")
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

    @field_validator("normalizer", "pre_tokenizer", "post_processor", "decoder")
    @classmethod
    def _check_steps(cls, pipeline: Component | None) -> Component | None:
        steps = list(pipeline.steps) if pipeline else []
        if len(steps) > _MAX_STEPS:
            raise ValueError(f"has {len(steps)} steps, more than the allowed {_MAX_STEPS}")
        if (growth := _growth(steps)) > _MAX_GROWTH:
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
        _check_range(tokens)
        for step in self.post_processor.steps if self.post_processor else []:
            for token, id in getattr(step, "tokens", ()):
                if ids.get(token) != id:
                    raise ValueError(f"the post-processor adds {token!r:.60} as {id}, which is not its id")
        return self

    @model_validator(mode="after")
    def _check_added_tokens(self) -> Self:
        growth = _growth(self.normalizer.steps) if self.normalizer else 1
        lengths = (len(added.content) * (growth if added.normalized else 1) for added in self.added_tokens)
        if sum(lengths) > _MAX_ADDED_CHARACTERS:
            raise ValueError(f"added_tokens have more than {_MAX_ADDED_CHARACTERS:,} characters when normalized")
        return self


def _growth(steps: Iterable[Component]) -> float:
    return math.prod(step.growth for step in steps)


def read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    """Check a tokenizer.json, and build the tokenizer that it describes."""
    try:
        values = _with_model_type(read_json_object(path))
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


def check_component(component: type[Component], values: Mapping[str, Any]) -> None:
    """Raise a DataError with the first value that a component does not allow."""
    try:
        component.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:120]
        reason = plain_message(first["msg"])[:200]
        raise DataError(f"{place}: {reason}" if place else reason) from None


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
