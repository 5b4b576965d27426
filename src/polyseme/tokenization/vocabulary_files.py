"""Original vocabulary files of BERT, GPT, GPT-2 and RoBERTa, and SentencePiece models as ALBERT uses them."""

import base64
import re
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import models, normalizers

from polyseme.errors import CheckpointError, DataError
from polyseme.system.regular_files import read_regular
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.json_files import read_json_object, read_lines
from polyseme.tokenization.tokenizer_json.component import check_component
from polyseme.tokenization.tokenizer_json.pipelines import Precompiled
from polyseme.tokenization.tokenizer_json.vocabularies import Bpe, Unigram, WordPiece
from polyseme.tokenization.training import SINGLE_SPACES, call_library

VOCABULARY_FILES = ("vocab.txt", "vocab.json", "encoder.json", "encoder_bpe_40000.json", "spiece.model")
"""Files with the tokens of a vocabulary; a folder has one of them."""

MERGES_FILES = ("merges.txt", "vocab.bpe", "vocab_40000.bpe")
"""Files with the merges of a BPE vocabulary."""

_WORDPIECE, *_BPE, _SENTENCEPIECE = VOCABULARY_FILES
_NORMAL, _UNKNOWN = 1, 2  # types of pieces in a SentencePiece model
_UNIGRAM = 1
_MAX_SENTENCEPIECE = 16_000_000  # bytes; those of mT5 and XLM-R have 4 and 5 MB
_MAX_FIELDS = 500_000  # of a SentencePiece model, which has one for each piece


TokenizerParts = tuple[models.Model, TokenizerConfig, normalizers.Normalizer | None, dict[str, str]]
"""The arguments of `Tokenizer.build`: the vocabulary, its kind, and a normalizer and special tokens of its own."""


def read_vocabulary_files(folder: Path, settings: Mapping[str, Any]) -> TokenizerParts:
    """Read the vocabulary in a folder; `settings` is its tokenizer_config.json."""

    def first(*names: str) -> Path | None:
        return next((folder / name for name in names if (folder / name).exists()), None)

    wordpiece, bpe, merges, sentencepiece = first(_WORDPIECE), first(*_BPE), first(*MERGES_FILES), first(_SENTENCEPIECE)
    try:
        if wordpiece is not None:
            return _read_wordpiece(wordpiece, settings)
        if bpe is not None and merges is not None:
            return _read_bpe(bpe, merges)
        if sentencepiece is not None:
            return _read_sentencepiece(sentencepiece, settings)
    except (OSError, ValueError, DataError) as error:
        raise CheckpointError(f"{folder}: the vocabulary cannot be read ({error}); copy it again") from None
    raise CheckpointError(
        f"{folder}: no tokenizer here; add tokenizer.json, vocab.txt, vocab.json and merges.txt, or spiece.model"
    )


def detect_style(vocab: Collection[str]) -> str:
    """The style of the special tokens in a vocabulary."""
    styles = {"[CLS]": "bert", "<mask>": "roberta", "<s>": "plain", "<|endoftext|>": "gpt2", "[UNK]": "bert"}
    return next((style for token, style in styles.items() if token in vocab), "gpt")


def _read_wordpiece(path: Path, settings: Mapping[str, Any]) -> TokenizerParts:
    lines = read_lines(path)
    vocab = {line.rstrip("\r"): id for id, line in enumerate(lines) if line}
    lowercase = bool(settings.get("do_lower_case", True))
    normalizer = call_library(
        normalizers.BertNormalizer,
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=settings.get("strip_accents"),
        lowercase=lowercase,
    )
    check_component(WordPiece, {"unk_token": "[UNK]", "vocab": vocab})
    model = models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
    return model, TokenizerConfig(kind="wordpiece", specials="bert", lowercase=lowercase), normalizer, {}


def _read_bpe(path: Path, merges: Path) -> TokenizerParts:
    vocab = read_json_object(path)
    lines = (line.partition(" ") for line in read_lines(merges) if line and not line.startswith("#version"))
    pairs = [(a, b) for a, _, b in lines]
    check_component(Bpe, {"vocab": vocab, "merges": pairs})
    if any(token.endswith("</w>") for token in vocab):
        vocab.setdefault("<unk>", 0)
        model = call_library(models.BPE, vocab, pairs, unk_token="<unk>", end_of_word_suffix="</w>")
        return model, TokenizerConfig(kind="bpe", specials="gpt"), None, {}
    values = {"kind": "byte-bpe", "specials": detect_style(vocab), "lowercase": False}
    return call_library(models.BPE, vocab, pairs), TokenizerConfig.parse(values, group="tokenizer"), None, {}


def _read_sentencepiece(path: Path, settings: Mapping[str, Any]) -> TokenizerParts:
    """A unigram model (Kudo and Richardson, 2018), with the text normalization of ALBERT."""
    try:
        parts: dict[int, list[bytes]] = defaultdict(list)
        for number, value in _read_fields(read_regular(path, limit=_MAX_SENTENCEPIECE)):
            parts[number].append(value)
        defaults: dict[int, Any] = {1: b"", 2: bytes(4), 3: _NORMAL}
        pieces = [defaults | dict(_read_fields(piece)) for piece in parts[1]]
        tokens = [piece[1].decode() for piece in pieces]
        scores = [struct.unpack("<f", piece[2])[0] for piece in pieces]
        unknown = [piece[3] for piece in pieces].index(_UNKNOWN)
        trainer, normalizer = (dict(_read_fields(b"".join(parts[number]))) for number in (2, 3))
        charsmap = base64.b64encode(normalizer.get(2, b"")).decode("ascii")
    except (AttributeError, LookupError, TypeError, ValueError, struct.error):
        raise ValueError(f"{path.name} is not a SentencePiece model") from None
    if trainer.get(3, _UNIGRAM) != _UNIGRAM:
        raise ValueError(f"{path.name} is not a unigram model, the only kind supported")
    # ALBERT splits a comma off a number, whatever the model's scores. Rounded scores survive a round trip through JSON.
    penalties = [100 * bool(re.search(r"\d,$", token)) for token in tokens]
    rows = zip(tokens, scores, penalties, strict=True)
    entries = [(token, round(score - penalty, 6)) for token, score, penalty in rows]
    lowercase = bool(settings.get("do_lower_case", True))
    steps: list[normalizers.Normalizer] = [normalizers.Replace(quote, '"') for quote in ("``", "''")]
    if not settings.get("keep_accents"):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    if charsmap:
        check_component(Precompiled, {"precompiled_charsmap": charsmap})
        steps.append(call_library(normalizers.Precompiled, normalizer[2]))
    steps += SINGLE_SPACES
    values = {"kind": "unigram", "specials": detect_style(tokens), "lowercase": lowercase}
    config = TokenizerConfig.parse(values, group="tokenizer")
    check_component(Unigram, {"unk_id": unknown, "vocab": entries})
    model = call_library(models.Unigram, entries, unknown, False)
    return model, config, normalizers.Sequence(steps), {"pad": "<pad>", "unknown": tokens[unknown]}


def _read_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer message: integers and byte strings."""
    place = num_fields = 0
    while place < len(message):
        if (num_fields := num_fields + 1) > _MAX_FIELDS:
            raise ValueError("too many fields")
        key, place = _read_varint(message, place)
        wire_type = key & 7
        length, place = _read_varint(message, place) if wire_type in (0, 2) else ({1: 8, 5: 4}[wire_type], place)
        if wire_type == 0:
            yield key >> 3, length
            continue
        if place + length > len(message):
            raise ValueError("truncated")
        yield key >> 3, message[place : place + length]
        place += length


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """An integer in groups of seven bits, the lowest first, and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("an integer is too long")
