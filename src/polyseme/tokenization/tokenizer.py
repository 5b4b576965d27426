"""Tokenizers: text to ids and back, one class over the `tokenizers` library for six kinds of tokens."""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken, models, normalizers, processors

from polyseme.corpora.sampling import draw_sample, split_long_text
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.errors import ConfigError, DataError
from polyseme.system.atomic_io import write_file
from polyseme.system.formatting import format_bytes
from polyseme.tokenization.config import (
    HF_ROLES,
    LEFT_TO_RIGHT_STYLES,
    NULL_TOKEN,
    ROLES,
    TRAILING,
    WRAPPED_STYLES,
    SpecialTokens,
    TokenizerConfig,
)
from polyseme.tokenization.json_files import read_json_object
from polyseme.tokenization.oov_model import OovModel
from polyseme.tokenization.templates import Template, build_post_processor
from polyseme.tokenization.tokenizer_json.reader import read_tokenizer_json
from polyseme.tokenization.training import (
    VocabularyLayout,
    build_pipeline,
    build_word_vocabulary,
    call_library,
    train_vocabulary,
)
from polyseme.tokenization.vocabulary_files import detect_style, read_vocabulary_files
from polyseme.tokenization.word_segmentation import WordSegmentation, choose_segmenter

if TYPE_CHECKING:
    from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenizedText

MAX_TEXT_LENGTH = 10_000_000  # characters that can be encoded at once with all their offsets
_PIECE_LENGTH = 1_000_000  # characters passed to the library at once; it needs 130 bytes for each
_MIN_LEARNED = 8  # tokens besides the special ones, fewer of which point to a mistake

_EncodedText = tuple[list[int], list[tuple[int, int]]]  # ids and offsets, without special tokens


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """An encoded text; offsets are in its characters, (0, 0) for special tokens that were added."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    segments: list[int]
    special: list[bool]


class Tokenizer:
    """A trained tokenizer."""

    def __init__(self, backend: tokenizers.Tokenizer, config: TokenizerConfig, specials: SpecialTokens) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.config = config
        self.specials = specials
        added = backend.get_added_tokens_decoder()
        roles = {id for id in asdict(specials).values() if id is not None}
        self.special_ids = frozenset(roles | {id for id, token in added.items() if token.special})
        self.segmentation = WordSegmentation(config.segmenter)
        segmenter = config.segmenter if config.segmenter != "none" else ""
        self.fingerprint = hashlib.sha256((backend.to_str() + segmenter).encode()).hexdigest()
        self.single_template = Template.probe(backend, pair=False)
        self.pair_template = Template.probe(backend, pair=True)
        before, _ = self.special_template
        self.null_prefix = before if before == [backend.token_to_id(NULL_TOKEN)] else []

    @property
    def vocab_size(self) -> int:
        """The number of ids, special ones included."""
        return self.backend.get_vocab_size()

    @property
    def special_template(self) -> tuple[list[int], list[int]]:
        """The ids added before and after a single text."""
        before, after = ([id for id, _ in added] for added in self.single_template.added)
        return before, after

    @property
    def generation_prefix(self) -> list[int]:
        """The ids after which a left-to-right model begins a text: the template's, or the end of another text."""
        end = self.specials.end if self.specials.end is not None else self.specials.start
        before = [] if end is None else [end]
        return self.null_prefix + before if self.null_prefix else self.special_template[0] or before

    @functools.cached_property
    def oov_model(self) -> OovModel:
        """A character-level model of out-of-vocabulary words."""
        vocabulary = self.backend.get_vocab()
        words = (token for token in sorted(vocabulary) if vocabulary[token] not in self.special_ids)
        marker = re.compile({"wordpiece": "^##", "unigram": "▁", "bpe": "</w>$"}.get(self.config.kind, "$"))
        return OovModel([word for word in (marker.sub("", token) for token in words) if word])

    @classmethod
    def train(
        cls,
        config: TokenizerConfig,
        texts: Iterable[str],
        *,
        vocab_size: int,
        pretokenized: "PretokenizedText | None" = None,
    ) -> Self:
        """Train a vocabulary of at most `vocab_size` tokens; the same text gives the same vocabulary.

        A word or character tokenizer reads the whole text, and can keep it in `pretokenized` for encoding.
        """
        roles, trailing = ROLES[config.specials], TRAILING.get(config.specials, [])
        leading = [token for token in dict.fromkeys(roles.values()) if token not in trailing]
        num_bytes = 256 if config.kind == "byte-bpe" else 0
        min_size = len(leading) + len(trailing) + (num_bytes or _MIN_LEARNED)
        if vocab_size < min_size:
            raise ConfigError(f"model.vocab_size: {config.kind} needs at least {min_size} tokens (it was {vocab_size})")
        if config.segmenter != "none":
            # Saved by name, so that the tokenizer never uses another segmenter.
            name = choose_segmenter(config.segmenter, group="tokenizer") if config.kind == "word" else "none"
            config = config.replace(segmenter=name)
        unknown = roles.get("unknown", "<|endoftext|>")
        layout = VocabularyLayout(size=vocab_size, leading=leading, trailing=trailing, unknown=unknown)
        if config.kind in ("word", "char"):
            from polyseme.tokenization.word_counts import count_words  # imports this module

            backend, added = build_pipeline(config, models.WordLevel(unk_token=unknown)), [*leading, *trailing]
            segmentation = WordSegmentation(config.segmenter)
            counts = count_words(texts, backend, segmentation=segmentation, added=added, pretokenized=pretokenized)
            model = build_word_vocabulary(config, counts, layout)
        else:
            # Runs of ideographs hardly repeat, and training on them takes a hundred bytes of memory for each.
            ideograph_bytes = {"byte-bpe": 24, "unigram": 6}.get(config.kind, 3)
            sample_bytes = config.sample_bytes // (4 if config.kind == "unigram" else 1)
            sample = draw_sample(texts, sample_bytes, ideograph_bytes=ideograph_bytes)
            if not any(map(str.strip, sample)):
                raise DataError("the corpus is empty; provide text")
            model = train_vocabulary(config, sample, layout)
        num_tokens = tokenizers.Tokenizer(model).get_vocab_size()
        num_learned = num_tokens - len(leading) - len(trailing) - num_bytes
        if num_learned < _MIN_LEARNED:
            advice = " or lower tokenizer.min_count" if config.min_count > 1 else ""
            raise DataError(f"the corpus has only {max(num_learned, 0)} distinct tokens; provide more text{advice}")
        return cls.build(model, config)

    @classmethod
    def build(
        cls,
        model: models.Model,
        config: TokenizerConfig,
        normalizer: normalizers.Normalizer | None = None,
        specials: Mapping[str, str] | None = None,
    ) -> Self:
        """Build the pipeline of a kind around a vocabulary; `normalizer` and `specials`, by role, replace the usual."""
        backend = build_pipeline(config, model)
        backend.normalizer = normalizer or backend.normalizer
        roles = {**ROLES[config.specials], **(specials or {})}
        present = {role: token for role, token in roles.items() if backend.token_to_id(token) is not None}
        tokens = dict.fromkeys(present.values())
        # RoBERTa's mask includes the space before it.
        backend.add_special_tokens([AddedToken(token, lstrip=token == "<mask>", normalized=False) for token in tokens])
        if config.specials in WRAPPED_STYLES and {"start", "separator"} <= present.keys():
            backend.post_processor = build_post_processor(backend, present, config.specials)
        return cls(backend, config, _find_special_ids(backend, present, config.kind))

    def encode(
        self, text: str, pair: str | None = None, *, specials: bool = True, max_length: int | None = None
    ) -> Tokens:
        """Encode a text or a pair; over `max_length` tokens, the longer of the two is truncated at its end."""
        full = self.single_template if pair is None else self.pair_template
        template = full if specials else Template.none(pair is not None)
        room = None if max_length is None else max(0, max_length - template.num_specials)
        parts = [self._encode_texts([part], room)[0] for part in (text, pair) if part is not None]
        return self._assemble(template, parts, room)

    def encode_batch(
        self, texts: Sequence[str], *, specials: bool = True, max_length: int | None = None
    ) -> list[Tokens]:
        """Encode many texts, in parallel."""
        template = self.single_template if specials else Template.none(False)
        return self.encode_rows([(text,) for text in texts], template, max_length=max_length)

    def encode_rows(
        self, rows: Sequence[tuple[str, ...]], template: Template, *, max_length: int | None = None
    ) -> list[Tokens]:
        """Encode rows of one text or two, as the template has, in parallel."""
        room = None if max_length is None else max(0, max_length - template.num_specials)
        parts = iter(self._encode_texts([text for row in rows for text in row], room))
        return [self._assemble(template, [next(parts) for _ in row], room) for row in rows]

    def encode_ids(self, texts: Sequence[str]) -> list[NDArray[np.uint32]]:
        """Encode texts to ids without special tokens, without offsets: the fast way."""
        return self.encode_segmented([self.segmentation.segment(replace_surrogates(text)) for text in texts])

    def encode_segmented(self, texts: Sequence[str]) -> list[NDArray[np.uint32]]:
        """Encode texts whose words have already been segmented; segmenting a part again might split it differently."""
        if max(map(len, texts), default=0) > _PIECE_LENGTH:
            return [
                np.concatenate([self.encode_segmented([piece])[0] for piece in split_long_text(text, _PIECE_LENGTH)])
                for text in texts
            ]
        encodings = call_library(self.backend.encode_batch_fast, list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint32) for encoding in encodings]

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True) -> str:
        """Decode ids to text, as close to the original as the kind allows."""
        ids, vocab_size = [int(id) for id in ids], self.vocab_size
        for id in ids:
            if not 0 <= id < vocab_size:
                raise self._invalid_id(id)
        return str(call_library(self.backend.decode, ids, skip_special_tokens=skip_specials))

    def id(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self.backend.token_to_id(token) if replace_surrogates(token) == token else None

    def token(self, id: int) -> str:
        """The token of an id."""
        token = self.backend.id_to_token(id) if 0 <= id < 1 << 32 else None
        if token is None:
            raise self._invalid_id(id)
        return token

    def normalize(self, word: str) -> str:
        """Normalize a word as the vocabulary does."""
        normalizer = self.backend.normalizer
        return str(call_library(normalizer.normalize_str, word)).strip() if normalizer else word

    def with_specials(self, tokens: Sequence[str]) -> "Tokenizer":
        """A copy with more special tokens, whose ids follow the vocabulary."""
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.add_special_tokens([AddedToken(token, normalized=False) for token in tokens])
        return Tokenizer(backend, self.config, self.specials)

    def with_null(self) -> "Tokenizer":
        """A copy that puts the null token before every text."""
        backend = self.with_specials([NULL_TOKEN]).backend
        backend.post_processor = processors.TemplateProcessing(
            single=f"{NULL_TOKEN} $A",
            pair=f"{NULL_TOKEN} $A $B:1",
            special_tokens=[(NULL_TOKEN, backend.token_to_id(NULL_TOKEN))],
        )
        return Tokenizer(backend, self.config, self.specials)

    def save(self, folder: Path | str, *, max_length: int | None = None) -> None:
        """Write tokenizer.json and tokenizer_config.json, which transformers and `load` read."""
        folder = Path(folder)
        names = {role: self.token(id) for role, id in asdict(self.specials).items() if id is not None}
        if "unknown" not in names and self.config.specials == "gpt2" and "end" in names:
            names["unknown"] = names["end"]
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        is_bert = self.config.specials == "bert"
        for role, (name, *others) in HF_ROLES.items():
            if role in names and not (is_bert and role == "end"):
                settings |= dict.fromkeys([name, *(others if not is_bert else [])], names[role])
        if self.config.specials in LEFT_TO_RIGHT_STYLES and "end" in names:
            settings["bos_token"] = names["end"]
            settings.pop("sep_token", None)
        if max_length is not None:
            settings["model_max_length"] = max_length
        inputs = ["input_ids", "token_type_ids", "attention_mask"] if is_bert else ["input_ids", "attention_mask"]
        settings |= {"model_input_names": inputs, "clean_up_tokenization_spaces": False}
        settings["polyseme"] = self.config.model_dump()
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        write_file(folder / "tokenizer_config.json", json.dumps(settings, ensure_ascii=False, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read the files of `save`, of transformers or of a published model."""
        folder = Path(folder)
        settings = read_json_object(folder / "special_tokens_map.json")
        settings |= read_json_object(folder / "tokenizer_config.json")
        if not (folder / "tokenizer.json").exists():
            return cls.build(*read_vocabulary_files(folder, settings))
        backend = read_tokenizer_json(folder / "tokenizer.json")
        values = settings["polyseme"] if "polyseme" in settings else _infer_config(backend)
        config = TokenizerConfig.parse(values, group="tokenizer")
        return cls(backend, config, _find_special_ids(backend, _read_roles(settings, config), config.kind))

    def _invalid_id(self, id: int) -> DataError:
        return DataError(f"{id} is not a valid token id; use 0 to {self.vocab_size - 1}")

    def _encode_texts(self, texts: Sequence[str], room: int | None) -> list[_EncodedText]:
        if any(len(text) > _PIECE_LENGTH for text in texts):
            return [self._encode_long_text(text, room) for text in texts]
        segmented = [self.segmentation.insert_spaces(replace_surrogates(text)) for text in texts]
        if len(texts) == 1:  # a tenth faster than as a batch
            encodings = [call_library(self.backend.encode, segmented[0][0], add_special_tokens=False)]
        else:
            sources = [text for text, _ in segmented]
            encodings = call_library(self.backend.encode_batch, sources, add_special_tokens=False)
        encoded = []
        for encoding, (_, spaces) in zip(encodings, segmented, strict=True):
            offsets = encoding.offsets
            if len(spaces):
                bounds = np.array(offsets, np.int64).reshape(-1, 2)
                offsets = list(map(tuple, (bounds - np.searchsorted(spaces, bounds)).tolist()))
            encoded.append((encoding.ids, offsets))
        return encoded

    def _encode_long_text(self, text: str, room: int | None) -> _EncodedText:
        """Encode a text piece by piece, until there are enough tokens."""
        if room is None and len(text) > MAX_TEXT_LENGTH:
            raise DataError(
                f"a text of {format_bytes(len(text))} is too long to encode at once; set a max_length or split it"
            )
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        start = 0
        for piece in split_long_text(text, _PIECE_LENGTH):
            ((piece_ids, piece_offsets),) = self._encode_texts([piece], room)
            ids += piece_ids
            offsets += [(start + begin, start + end) for begin, end in piece_offsets]
            start += len(piece)
            if room is not None and len(ids) >= room:
                break
        return ids, offsets

    def _assemble(self, template: Template, parts: list[_EncodedText], room: int | None) -> Tokens:
        if room is not None:
            _truncate(parts, room)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        segments: list[int] = []
        special: list[bool] = []
        for index, added in enumerate(template.added):
            ids += [id for id, _ in added]
            offsets += [(0, 0)] * len(added)
            segments += [segment for _, segment in added]
            special += [True] * len(added)
            if index < len(parts):
                own_ids, own_offsets = parts[index]
                ids += own_ids
                offsets += own_offsets
                segments += [template.segments[index]] * len(own_ids)
                special += [id in self.special_ids for id in own_ids]
        tokens = [self.backend.id_to_token(id) or "" for id in ids]
        return Tokens(ids=ids, tokens=tokens, offsets=offsets, segments=segments, special=special)


def _truncate(parts: list[_EncodedText], room: int) -> None:
    """Truncate the longer of two texts, and then both."""
    shorter, longer = (0, *sorted(len(ids) for ids, _ in parts))[-2:]
    shorter = min(shorter, room // 2)  # the odd token goes to the longer, as in transformers
    longer = min(longer, room - shorter)
    first_is_longer = len(parts) == 1 or len(parts[0][0]) > len(parts[1][0])
    for (ids, offsets), length in zip(parts, (longer, shorter) if first_is_longer else (shorter, longer), strict=False):
        del ids[length:], offsets[length:]


def _find_special_ids(backend: tokenizers.Tokenizer, names: Mapping[str, str], kind: str) -> SpecialTokens:
    ids = {role: backend.token_to_id(token) for role, token in names.items()}
    if kind != "byte-bpe":
        ids.setdefault("unknown", ids.get("end"))  # OOV words need some id
    elif ids.get("unknown") == ids.get("end"):
        ids.pop("unknown", None)  # no byte is unknown; GPT-2 only names a token because it has to
    return SpecialTokens(**ids)


def _infer_config(backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """The settings closest to a tokenizer of another program."""
    state = json.loads(backend.to_str())
    kind = {"WordPiece": "wordpiece", "WordLevel": "word", "Unigram": "unigram"}.get(state["model"]["type"], "bpe")
    if kind == "bpe" and '"ByteLevel"' in json.dumps(state["pre_tokenizer"]):
        kind = "byte-bpe"
    lowercase = kind != "byte-bpe" and re.search(r'"lowercase": true|"Lowercase"', json.dumps(state["normalizer"]))
    return {"kind": kind, "specials": detect_style(backend.get_vocab()), "lowercase": bool(lowercase)}


def _read_roles(settings: Mapping[str, Any], config: TokenizerConfig) -> dict[str, str]:
    """Special tokens by role, from the settings of transformers, or else the usual ones of the style."""
    roles = dict(ROLES[config.specials])
    for role, keys in HF_ROLES.items():
        values = [settings.get(key) for key in keys]
        tokens = [value.get("content") if isinstance(value, dict) else value for value in values]
        token = next((token for token in tokens if isinstance(token, str)), None)
        if token is not None and not (config.specials in LEFT_TO_RIGHT_STYLES and role in ("start", "separator")):
            roles[role] = token
    return roles
