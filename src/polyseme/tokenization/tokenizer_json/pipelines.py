"""The steps of a tokenizer besides its model: normalizers, pre-tokenizers, post-processors and decoders."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from polyseme.tokenization.tokenizer_json.character_map import UNICODE_GROWTH, CharacterMap
from polyseme.tokenization.tokenizer_json.component import Component, Count, Fields, ShortText, Text, flatten, one_of
from polyseme.tokenization.tokenizer_json.regex_limits import shortest_match

Character = Annotated[str, Field(min_length=1, max_length=1)]
SmallCount = Annotated[int, Field(ge=0, le=64)]
TokenId = Annotated[tuple[Text, Count], Field(strict=False)]
Behavior = Literal["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def _check_regex(pattern: str) -> str:
    try:
        shortest_match(pattern)
    except ValueError as error:
        raise ValueError(f"the regular expression {error}") from None
    return pattern


class RegexPattern(Component):
    """A regular expression."""

    Regex: Annotated[str, AfterValidator(_check_regex)]


class StringPattern(Component):
    """A literal string to search for."""

    String: Annotated[str, Field(min_length=1, max_length=1000)]


Pattern = RegexPattern | StringPattern


class Precompiled(Component):
    """SentencePiece's normalizer."""

    precompiled_charsmap: CharacterMap


class TemplatePart(Component):
    id: Text
    type_id: Annotated[int, Field(ge=0, le=255)]


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
    """Which special tokens to add around one text or two."""

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


def _without_fields(*types: str) -> dict[str, Fields]:
    return {type: {} for type in types}


_BYTE_LEVEL = {"add_prefix_space": bool, "trim_offsets": bool, "use_regex": (bool, True)}
_METASPACE = {
    "replacement": Character,
    "prepend_scheme": (Literal["first", "never", "always"], "always"),
    "split": (bool, True),
    "add_prefix_space": (bool | None, None),  # before version 0.15 of the library
    "str_rep": (Character | None, None),
}
_BERT_NORMALIZER = {"clean_text": bool, "handle_chinese_chars": bool, "strip_accents": bool | None, "lowercase": bool}
_REPLACE = {"pattern": Pattern, "content": Text}
_BERT_PROCESSING = {"sep": TokenId, "cls": TokenId}

NORMALIZERS = {
    "BertNormalizer": _BERT_NORMALIZER,
    **_without_fields("NFC", "NFD", "Lowercase", "StripAccents", "Nmt", "NFKC", "NFKD"),
    "Strip": {"strip_left": bool, "strip_right": bool},
    "Prepend": {"prepend": ShortText},
    "ByteLevel": {},
    "Precompiled": Precompiled,
    "Replace": _REPLACE,
}
PRE_TOKENIZERS = {
    **_without_fields("BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
    "ByteLevel": _BYTE_LEVEL,
    "CharDelimiterSplit": {"delimiter": Character},
    "Digits": {"individual_digits": bool},
    "FixedLength": {"length": Annotated[int, Field(ge=1, lt=1 << 31)]},
    "Metaspace": _METASPACE,
    "Punctuation": {"behavior": (Behavior, "Isolated")},
    "Split": {"pattern": Pattern, "behavior": Behavior, "invert": (bool, False)},
}
DECODERS = {
    **_without_fields("ByteFallback", "Fuse"),
    "BPEDecoder": {"suffix": ShortText},
    "ByteLevel": _BYTE_LEVEL,
    "WordPiece": {"prefix": ShortText, "cleanup": bool},
    "Metaspace": _METASPACE,
    "CTC": {"pad_token": ShortText, "word_delimiter_token": ShortText, "cleanup": bool},
    "Replace": _REPLACE,
    "Strip": {"content": Character, "start": SmallCount, "stop": SmallCount},
}
POST_PROCESSORS = {
    "BertProcessing": _BERT_PROCESSING,
    "RobertaProcessing": {**_BERT_PROCESSING, "trim_offsets": bool, "add_prefix_space": bool},
    "ByteLevel": _BYTE_LEVEL,
    "TemplateProcessing": TemplateProcessing,
}

Normalizer = Annotated[Component, one_of(NORMALIZERS, sequence="normalizers")]
PreTokenizer = Annotated[Component, one_of(PRE_TOKENIZERS, sequence="pretokenizers")]
Decoder = Annotated[Component, one_of(DECODERS, sequence="decoders")]
PostProcessor = Annotated[Component, one_of(POST_PROCESSORS, sequence="processors")]


def pipeline_growth(pipeline: Component | None) -> float:
    """The largest ratio of a text's length after a pipeline to that before."""
    return math.prod(map(_growth, flatten(pipeline)))


def _growth(step: Any) -> float:
    match step.type:
        case "BertNormalizer" if step.handle_chinese_chars:
            return 3  # spaces on both sides of ideographs
        case "NFKC" | "NFKD" | "Precompiled":
            return UNICODE_GROWTH
        case "Prepend":
            return 1 + len(step.prepend)
        case "ByteLevel":
            return 2  # in bytes
        case "Metaspace":
            return 2  # if every character is a word
        case "Replace":
            pattern = step.pattern
            shortest = len(pattern.String) if isinstance(pattern, StringPattern) else shortest_match(pattern.Regex)
            return max(1, len(step.content) / shortest) if shortest else 1 + len(step.content)
    return 1


def added_tokens(post_processor: Component | None) -> Iterator[tuple[str, int]]:
    """The special tokens that a post-processor adds, with their ids."""
    for step in flatten(post_processor):
        match step.type:
            case "BertProcessing" | "RobertaProcessing":
                yield from (step.sep, step.cls)
            case "TemplateProcessing":
                for token in step.special_tokens.values():
                    yield from zip(token.tokens, token.ids, strict=True)
