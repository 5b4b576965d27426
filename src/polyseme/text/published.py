"""Vocabularies as their authors published them: BERT, GPT, GPT-2, RoBERTa, and SentencePiece as ALBERT uses it."""

import json
import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import models, normalizers

from polyseme.errors import CheckpointError, DataError
from polyseme.text.vocabulary import SINGLE_SPACES, TokenizerConfig, guarded

VOCABULARIES = ("vocab.txt", "vocab.json", "encoder.json", "encoder_bpe_40000.json", "spiece.model")
"""Files that say which tokens there are; a folder has one of them."""

MERGES = ("merges.txt", "vocab.bpe", "vocab_40000.bpe")
"""Files that say how the tokens of some of them are made."""

_WORDS, *_CODES, _PIECES = VOCABULARIES
_NORMAL, _UNKNOWN = 1, 2  # SentencePiece's types of pieces
_UNIGRAM = 1


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a tokenizer is made of."""

    model: models.Model
    config: TokenizerConfig
    normalizer: normalizers.Normalizer | None = None  # where it is not the usual one of the kind
    specials: Mapping[str, str] = field(default_factory=dict)  # by role, where they are called otherwise


def read_published(folder: Path, settings: Mapping[str, Any]) -> Published:
    """The vocabulary in a folder; `settings` are those of its tokenizer_config.json."""

    def first(*names: str) -> Path | None:
        return next((folder / name for name in names if (folder / name).is_file()), None)

    words, codes, merges, pieces = first(_WORDS), first(*_CODES), first(*MERGES), first(_PIECES)
    try:
        if words is not None:
            return _read_wordpiece(words, settings)
        if codes is not None and merges is not None:
            return _read_bpe(codes, merges)
        if pieces is not None:
            return _read_sentencepiece(pieces, settings)
    except (OSError, ValueError, DataError) as error:
        raise CheckpointError(f"{folder}: the vocabulary cannot be read ({error}); copy it again") from None
    raise CheckpointError(
        f"{folder}: no tokenizer here; it needs tokenizer.json, vocab.txt, vocab.json and merges.txt, or spiece.model"
    )


def style_of(vocab: Mapping[str, int]) -> str:
    """Whose special tokens a vocabulary has."""
    marks = {"[CLS]": "bert", "<mask>": "roberta", "<s>": "plain", "<|endoftext|>": "gpt2", "[UNK]": "bert"}
    return next((style for mark, style in marks.items() if mark in vocab), "gpt")


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON object; an absent file is an empty one."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: not readable as JSON; copy it again")
    return content


def _read_wordpiece(words: Path, settings: Mapping[str, Any]) -> Published:
    lines = words.read_text(encoding="utf-8").split("\n")
    vocab = {line.rstrip("\r"): number for number, line in enumerate(lines) if line}
    lowercase = bool(settings.get("do_lower_case", True))
    normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=settings.get("strip_accents"),
        lowercase=lowercase,
    )
    return Published(
        model=models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100),
        config=TokenizerConfig(kind="wordpiece", specials="bert", lowercase=lowercase),
        normalizer=normalizer,
    )


def _read_bpe(codes: Path, merges: Path) -> Published:
    vocab = read_settings(codes)
    lines = merges.read_text(encoding="utf-8").split("\n")
    pairs = [(a, b) for a, _, b in (line.partition(" ") for line in lines if line and not line.startswith("#version"))]
    if any(token.endswith("</w>") for token in vocab):
        vocab.setdefault("<unk>", 0)
        model = guarded(models.BPE, vocab, pairs, unk_token="<unk>", end_of_word_suffix="</w>")
        return Published(model=model, config=TokenizerConfig(kind="bpe", specials="gpt"))
    values = {"kind": "byte-bpe", "specials": style_of(vocab), "lowercase": False}
    return Published(model=guarded(models.BPE, vocab, pairs), config=TokenizerConfig.parse(values, group="tokenizer"))


def _read_sentencepiece(path: Path, settings: Mapping[str, Any]) -> Published:
    """A unigram model (Kudo and Richardson, 2018), for text that is prepared as ALBERT's is."""
    try:
        parts: dict[int, list[bytes]] = defaultdict(list)
        for number, value in _fields(path.read_bytes()):
            parts[number].append(value)
        usual: dict[int, Any] = {1: b"", 2: bytes(4), 3: _NORMAL}
        pieces = [usual | dict(_fields(piece)) for piece in parts[1]]
        names = [piece[1].decode() for piece in pieces]
        scores = [struct.unpack("<f", piece[2])[0] for piece in pieces]
        unknown = [piece[3] for piece in pieces].index(_UNKNOWN)
        trainer, normalizer = (dict(_fields(b"".join(parts[number]))) for number in (2, 3))
    except (AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise ValueError(f"{path.name} is no SentencePiece model") from None
    if trainer.get(3, _UNIGRAM) != _UNIGRAM:
        raise ValueError(f"{path.name} is not of the unigram kind, the only one that is known")
    # ALBERT cuts the comma off a number, whatever the model says. Short scores come back from JSON as they were.
    entries = [
        (name, round(score - 100 * bool(re.search(r"\d,$", name)), 6))
        for name, score in zip(names, scores, strict=True)
    ]
    lowercase, accents = bool(settings.get("do_lower_case", True)), bool(settings.get("keep_accents", False))
    plain = [] if accents else [normalizers.NFKD(), normalizers.StripAccents()]
    steps = [
        *[normalizers.Replace(quote, '"') for quote in ("``", "''")],
        *plain,
        *([normalizers.Lowercase()] if lowercase else []),
        *([guarded(normalizers.Precompiled, normalizer[2])] if normalizer.get(2) else []),
        *SINGLE_SPACES,
    ]
    values = {"kind": "unigram", "specials": style_of(dict.fromkeys(names, 0)), "lowercase": lowercase}
    return Published(
        model=guarded(models.Unigram, entries, unknown, False),
        config=TokenizerConfig.parse(values, group="tokenizer"),
        normalizer=normalizers.Sequence(steps),
        specials={"pad": "<pad>", "unknown": names[unknown]},
    )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer: each a number or a stretch of bytes."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        kind = key & 7
        length, place = _number(message, place) if kind in (0, 2) else ({1: 8, 5: 4}[kind], place)
        if kind == 0:
            yield key >> 3, length
            continue
        if place + length > len(message):
            raise ValueError("cut short")
        yield key >> 3, message[place : place + length]
        place += length


def _number(message: bytes, place: int) -> tuple[int, int]:
    """A number in bytes of seven bits, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number is too long")
