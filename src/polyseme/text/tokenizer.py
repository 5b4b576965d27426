"""Tokenizers: text to ids and back, one class over the `tokenizers` library for six kinds."""

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
from tokenizers import AddedToken, Encoding, models, processors

from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.files import size, write_file
from polyseme.text.published import Published, read_published, read_settings, style_of
from polyseme.text.spacing import Spacing
from polyseme.text.spelling import Spelling
from polyseme.text.units import choose_segmenter
from polyseme.text.utf16 import Numbers
from polyseme.text.vocabulary import (
    TokenizerConfig,
    cut,
    draw_sample,
    guarded,
    learn_vocabulary,
    mend,
    stages,
    take_words,
)

if TYPE_CHECKING:
    from polyseme.text.draft import Draft

NULL = "<|null|>"  # a token that means nothing, before rows that are read from left to right
LONGEST_TEXT = 10_000_000  # characters that are encoded at once with all their offsets
_PIECE = 1_000_000  # characters given to the library at once; it needs 130 bytes for each
_FEWEST = 8  # tokens that make a vocabulary worth the name

# Special tokens by role, in the order of their ids.
_LAYOUTS: dict[str, dict[str, str]] = {
    "bert": {
        "pad": "[PAD]",
        "unknown": "[UNK]",
        "start": "[CLS]",
        "separator": "[SEP]",
        "mask": "[MASK]",
        "end": "[SEP]",
    },
    "gpt2": {"pad": "<|endoftext|>", "end": "<|endoftext|>"},
    "roberta": {
        "start": "<s>",
        "pad": "<pad>",
        "separator": "</s>",
        "unknown": "<unk>",
        "mask": "<mask>",
        "end": "</s>",
    },
    # The paper has no end of a document; published vocabularies lack it, and those that are trained here do not.
    "gpt": {"unknown": "<unk>", "pad": "<end>", "end": "<end>"},
    "elmo": {"start": "<S>", "separator": "</S>", "unknown": "<UNK>", "end": "</S>"},
    "plain": {"pad": "<pad>", "unknown": "<unk>", "start": "<s>", "separator": "</s>", "end": "</s>"},
}
_LAST = {
    "gpt2": ["<|endoftext|>"],
    "gpt": ["<end>"],
    "roberta": ["<mask>"],
}  # these follow the vocabulary, as published
_FRAMED = ("bert", "roberta", "elmo")  # a text stands between two tokens
_LEFT = ("gpt", "gpt2")  # one token ends a text and begins the next
# What transformers calls the roles, the first name it has being the one that counts.
_FOREIGN = {
    "pad": ["pad_token"],
    "unknown": ["unk_token"],
    "start": ["cls_token", "bos_token"],
    "separator": ["sep_token", "eos_token"],
    "mask": ["mask_token"],
    "end": ["eos_token", "sep_token"],
}


@dataclass(frozen=True, kw_only=True)
class Specials:
    """The ids of the special tokens by role."""

    pad: int | None = None
    unknown: int | None = None
    start: int | None = None
    separator: int | None = None
    mask: int | None = None
    end: int | None = None  # closes a document in the store


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """An encoded text; offsets are in characters of the text, (0, 0) for special tokens that were added."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    segments: list[int]
    special: list[bool]


class Tokenizer:
    """A trained tokenizer."""

    def __init__(self, backend: tokenizers.Tokenizer, config: TokenizerConfig, specials: Specials) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.config = config
        self.specials = specials
        added = backend.get_added_tokens_decoder()
        roles = {value for value in asdict(specials).values() if value is not None}
        self.special_ids = frozenset(roles | {number for number, token in added.items() if token.special})
        self.spacing = Spacing(config.segmenter)
        cut_by = config.segmenter if config.segmenter != "none" else ""
        self.fingerprint = hashlib.sha256((backend.to_str() + cut_by).encode()).hexdigest()
        self.single_template = Template.probe(backend, pair=False)
        self.pair_template = Template.probe(backend, pair=True)
        self.null = before if (before := self.frame[0]) == [backend.token_to_id(NULL)] else []

    @property
    def vocab_size(self) -> int:
        """The number of ids, special ones included."""
        return self.backend.get_vocab_size()

    @classmethod
    def train(
        cls, config: TokenizerConfig, texts: Iterable[str], *, vocab_size: int, draft: "Draft | None" = None
    ) -> Self:
        """Learn a vocabulary of at most `vocab_size` tokens; the same text gives the same vocabulary.

        While whole words are counted, the text may be kept in a `draft`.
        """
        layout, last = _LAYOUTS[config.specials], _LAST.get(config.specials, [])
        specials = [token for token in dict.fromkeys(layout.values()) if token not in last]
        least = len(specials) + len(last) + (256 if config.kind == "byte-bpe" else _FEWEST)
        if vocab_size < least:
            raise ConfigError(f"model.vocab_size: {config.kind} needs at least {least} tokens (it was {vocab_size})")
        if config.segmenter != "none":
            # By its own name, so that the tokenizer never cuts by another one.
            name = choose_segmenter(config.segmenter, group="tokenizer") if config.kind == "word" else "none"
            config = config.replace(segmenter=name)
        # Runs of ideographs hardly repeat, and learning pieces from them takes a hundred bytes of memory for each.
        dense = {"byte-bpe": 24, "unigram": 6}.get(config.kind, 3)
        share = 4 if config.kind == "unigram" else 1
        unknown = layout.get("unknown", "<|endoftext|>")
        if config.kind in ("word", "char"):
            from polyseme.text.counting import count_words  # which is made of tokenizers itself

            backend = stages(config, models.WordLevel(unk_token=unknown))
            spacing = Spacing(config.segmenter)
            counts = count_words(texts, backend, spacing=spacing, added=[*specials, *last], draft=draft)
            model, num_tokens = take_words(config, counts, specials, last, unknown, vocab_size)
        else:
            sample = draw_sample(texts, config.sample_bytes // share, ideograph_bytes=dense)
            if not any(map(str.strip, sample)):
                raise DataError("the corpus has only 0 different tokens; give more text")
            model, num_tokens = learn_vocabulary(config, sample, specials, last, unknown, vocab_size)
        num_learned = num_tokens - len(specials) - len(last) - (256 if config.kind == "byte-bpe" else 0)
        if num_learned < _FEWEST:
            rare = " or a lower tokenizer.min_count" if config.min_count > 1 else ""
            raise DataError(f"the corpus has only {max(num_learned, 0)} different tokens; give more text{rare}")
        return cls.build(Published(model=model, config=config))

    @classmethod
    def build(cls, given: Published) -> Self:
        """Put the stages of a kind around a vocabulary."""
        config = given.config
        backend = stages(config, given.model)
        backend.normalizer = given.normalizer or backend.normalizer
        layout = {**_LAYOUTS[config.specials], **given.specials}
        found = {role: token for role, token in layout.items() if backend.token_to_id(token) is not None}
        # A mask in a sentence has a space before it, which RoBERTa counts as its own.
        backend.add_special_tokens(
            [AddedToken(token, lstrip=token == "<mask>", normalized=False) for token in dict.fromkeys(found.values())]
        )
        if config.specials in _FRAMED and {"start", "separator"} <= found.keys():
            backend.post_processor = _frame(backend, found["start"], found["separator"], config.specials)
        return cls(backend, config, _specials(backend, found, config.kind))

    def encode(
        self, text: str, pair: str | None = None, *, specials: bool = True, max_length: int | None = None
    ) -> Tokens:
        """Encode a text or a pair; over `max_length` tokens, the longer of the two is cut at its end."""
        framed = self.single_template if pair is None else self.pair_template
        template = framed if specials else Template.none(pair is not None)
        room = None if max_length is None else max(0, max_length - template.num_specials)
        parts = [self._part(given, room) for given in (text, pair) if given is not None]
        return self._assemble(template, parts, room)

    def encode_batch(
        self, texts: Sequence[str], *, specials: bool = True, max_length: int | None = None
    ) -> list[Tokens]:
        """Encode many texts, in parallel."""
        template = self.single_template if specials else Template.none(False)
        return self.encode_rows([(text,) for text in texts], template, max_length=max_length)

    def encode_rows(
        self, rows: Sequence[tuple[str, ...]], template: "Template", *, max_length: int | None = None
    ) -> list[Tokens]:
        """Encode rows of as many texts as the template frames, in parallel."""
        room = None if max_length is None else max(0, max_length - template.num_specials)
        parts = iter(self._parts([text for row in rows for text in row], room))
        return [self._assemble(template, [next(parts) for _ in row], room) for row in rows]

    def encode_ids(self, texts: Sequence[str]) -> list[NDArray[np.uint32]]:
        """The ids alone, without special tokens: the fast way."""
        return self.encode_spaced([self.spacing.space(mend(text)) for text in texts])

    def encode_spaced(self, texts: Sequence[str]) -> list[NDArray[np.uint32]]:
        """The same of texts whose words stand apart already; found again alone, they might come apart."""
        if max(map(len, texts), default=0) > _PIECE:
            return [np.concatenate([self.encode_spaced([piece])[0] for piece in cut(text, _PIECE)]) for text in texts]
        encodings = guarded(self.backend.encode_batch_fast, list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.uint32) for encoding in encodings]

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True) -> str:
        """Text from ids, as near to the original as the kind allows."""
        numbers = [int(number) for number in ids]
        wrong = next((number for number in numbers if not 0 <= number < self.vocab_size), None)
        if wrong is not None:
            raise DataError(f"{wrong} is no token id; give ids from 0 to {self.vocab_size - 1}")
        return str(guarded(self.backend.decode, numbers, skip_special_tokens=skip_specials))

    def id(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self.backend.token_to_id(token) if mend(token) == token else None

    def normalize(self, word: str) -> str:
        """A word as the vocabulary would spell it."""
        normalizer = self.backend.normalizer
        return str(normalizer.normalize_str(word)).strip() if normalizer else word

    @functools.cached_property
    def spelling(self) -> Spelling:
        """What the letters of words cost that it does not know."""
        vocabulary = self.backend.get_vocab()
        words = (token for token in sorted(vocabulary) if vocabulary[token] not in self.special_ids)
        marks = re.compile({"wordpiece": "^##", "unigram": "▁", "bpe": "</w>$"}.get(self.config.kind, "$"))
        return Spelling([word for word in (marks.sub("", token) for token in words) if word])

    def with_specials(self, tokens: Sequence[str]) -> "Tokenizer":
        """The same tokenizer with special tokens behind its vocabulary, but for those that it has."""
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.add_special_tokens([AddedToken(token, normalized=False) for token in tokens])
        return Tokenizer(backend, self.config, self.specials)

    def with_null(self) -> "Tokenizer":
        """The same tokenizer with a token that means nothing before every text."""
        backend = self.with_specials([NULL]).backend
        backend.post_processor = processors.TemplateProcessing(
            single=f"{NULL} $A", pair=f"{NULL} $A $B:1", special_tokens=[(NULL, backend.token_to_id(NULL))]
        )
        return Tokenizer(backend, self.config, self.specials)

    def token(self, id: int) -> str:
        """The token of an id."""
        token = self.backend.id_to_token(id) if 0 <= id < 1 << 32 else None
        if token is None:
            raise DataError(f"{id} is no token id; give ids from 0 to {self.vocab_size - 1}")
        return token

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The ids that stand before and after a text."""
        before, after = ([number for number, _ in added] for added in self.single_template.added)
        return before, after

    @property
    def opening(self) -> list[int]:
        """The ids after which a text begins, for models that read left to right: its frame, or the end of another."""
        end = self.specials.end if self.specials.end is not None else self.specials.start
        before = [] if end is None else [end]
        return self.null + before if self.null else self.frame[0] or before

    def save(self, folder: Path | str, *, max_length: int | None = None) -> None:
        """Write the files from which transformers and `load` make the same tokenizer."""
        folder = Path(folder)
        names = {role: self.token(number) for role, number in asdict(self.specials).items() if number is not None}
        if "unknown" not in names and self.config.specials == "gpt2" and "end" in names:
            names["unknown"] = names["end"]
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        bert = self.config.specials == "bert"
        for role, (name, *others) in _FOREIGN.items():
            if role in names and not (bert and role == "end"):
                settings |= dict.fromkeys([name, *(others if not bert else [])], names[role])
        if self.config.specials in _LEFT and "end" in names:
            settings["bos_token"] = names["end"]
            settings.pop("sep_token", None)
        if max_length is not None:
            settings["model_max_length"] = max_length
        inputs = ["input_ids", "token_type_ids", "attention_mask"] if bert else ["input_ids", "attention_mask"]
        settings |= {"model_input_names": inputs, "clean_up_tokenization_spaces": False}
        settings["polyseme"] = self.config.model_dump()
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        write_file(folder / "tokenizer_config.json", json.dumps(settings, ensure_ascii=False, indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read what `save`, transformers or the authors of a published model wrote."""
        folder = Path(folder)
        settings = read_settings(folder / "special_tokens_map.json") | read_settings(folder / "tokenizer_config.json")
        if (folder / "tokenizer.json").is_file():
            try:
                backend = guarded(tokenizers.Tokenizer.from_file, str(folder / "tokenizer.json"))
            except DataError as error:
                raise CheckpointError(f"{folder / 'tokenizer.json'}: {error}; copy it again") from None
            if "polyseme" in settings:
                config = TokenizerConfig.parse(settings["polyseme"], group="tokenizer")
            else:
                config = _recognize(backend)
            return cls(backend, config, _specials(backend, _names(settings, config), config.kind))
        return cls.build(read_published(folder, settings))

    def _parts(self, texts: Sequence[str], room: int | None) -> list["_Part"]:
        if any(len(text) > _PIECE for text in texts):
            return [self._part(text, room) for text in texts]
        spaced = [self.spacing.place(mend(text)) for text in texts]
        encodings = guarded(self.backend.encode_batch, [text for text, _ in spaced], add_special_tokens=False)
        return [_Part.of([(0, encoding, places)]) for encoding, (_, places) in zip(encodings, spaced, strict=True)]

    def _part(self, text: str, room: int | None) -> "_Part":
        if room is None and len(text) > LONGEST_TEXT:
            raise DataError(f"a text of {size(len(text))} is too long to encode at once; set a max_length or cut it")
        start, num_tokens = 0, 0
        encodings = []
        for piece in cut(text, _PIECE):
            spaced, places = self.spacing.place(mend(piece))
            encoding = guarded(self.backend.encode, spaced, add_special_tokens=False)
            encodings.append((start, encoding, places))
            start += len(piece)
            num_tokens += len(encoding)
            if room is not None and num_tokens >= room:
                break
        return _Part.of(encodings)

    def _assemble(self, template: "Template", parts: list["_Part"], room: int | None) -> Tokens:
        if room is not None:
            lengths = sorted(len(part.ids) for part in parts)
            shorter, longer = (0, *lengths)[-2:]
            if shorter + longer > room:
                longer = max(shorter, room - shorter)
            if shorter + longer > room:  # halves, the odd one to the longer, as transformers has it
                shorter, longer = room // 2, room - room // 2
            first_is_longer = len(parts) == 1 or len(parts[0].ids) > len(parts[1].ids)
            for part, length in zip(parts, (longer, shorter) if first_is_longer else (shorter, longer), strict=False):
                part.cut(length)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        segments: list[int] = []
        special: list[bool] = []
        for index, added in enumerate(template.added):
            ids += [number for number, _ in added]
            offsets += [(0, 0)] * len(added)
            segments += [segment for _, segment in added]
            special += [True] * len(added)
            if index < len(parts):
                ids += parts[index].ids
                offsets += parts[index].offsets
                segments += [template.segments[index]] * len(parts[index].ids)
                special += [number in self.special_ids for number in parts[index].ids]
        tokens = [self.backend.id_to_token(number) or "" for number in ids]
        return Tokens(ids=ids, tokens=tokens, offsets=offsets, segments=segments, special=special)


@dataclass
class _Part:
    """One text of a pair, without special tokens."""

    ids: list[int]
    offsets: list[tuple[int, int]]

    @classmethod
    def of(cls, encodings: Iterable[tuple[int, Encoding, Numbers]]) -> "_Part":
        """Of stretches of a text: where each begins, and where spaces were put in that the text does not have."""
        part = cls([], [])
        for start, encoding, places in encodings:
            part.ids += encoding.ids
            offsets = encoding.offsets
            if start or len(places):
                bounds = np.array(offsets, np.int64).reshape(-1, 2)
                offsets = list(map(tuple, (bounds + start - np.searchsorted(places, bounds)).tolist()))
            part.offsets += offsets
        return part

    def cut(self, length: int) -> None:
        del self.ids[length:], self.offsets[length:]


@dataclass(frozen=True)
class Template:
    """Which special tokens stand before, between and after the texts."""

    added: list[list[tuple[int, int]]]  # id and segment, one list more than there are texts
    segments: list[int]

    @property
    def num_specials(self) -> int:
        return sum(map(len, self.added))

    @classmethod
    def none(cls, pair: bool) -> "Template":
        return cls([[], [], []] if pair else [[], []], [0, 1] if pair else [0])

    @classmethod
    def probe(cls, backend: tokenizers.Tokenizer, *, pair: bool) -> "Template":
        """Ask the library what it adds, so that any tokenizer.json is followed."""
        encoding = guarded(backend.encode, "a", "a") if pair else guarded(backend.encode, "a")
        template = cls.none(pair)
        place = 0
        for number, segment, sequence in zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True):
            if sequence is None:
                template.added[place].append((number, segment))
            else:
                place = sequence + 1
                template.segments[sequence] = segment
        return template


def _frame(backend: tokenizers.Tokenizer, start: str, separator: str, style: str) -> processors.TemplateProcessing:
    second = 1 if style == "bert" else 0
    between = separator if style == "bert" else f"{separator} {separator}"
    return processors.TemplateProcessing(
        single=f"{start} $A {separator}",
        pair=f"{start} $A {between} $B:{second} {separator}:{second}",
        special_tokens=[(token, backend.token_to_id(token)) for token in (start, separator)],
    )


def _specials(backend: tokenizers.Tokenizer, names: Mapping[str, str], kind: str) -> Specials:
    found = {role: backend.token_to_id(token) for role, token in names.items()}
    if kind != "byte-bpe":
        found.setdefault("unknown", found.get("end"))  # something must stand for what is not in the vocabulary
    elif found.get("unknown") == found.get("end"):
        found.pop("unknown", None)  # bytes are never unknown; GPT-2 names a token for form's sake
    return Specials(**found)


def _recognize(backend: tokenizers.Tokenizer) -> TokenizerConfig:
    """The settings that come nearest to a tokenizer made elsewhere."""
    state = json.loads(backend.to_str())
    vocab = backend.get_vocab()
    kind = {"WordPiece": "wordpiece", "WordLevel": "word", "Unigram": "unigram"}.get(state["model"]["type"], "bpe")
    if kind == "bpe" and '"ByteLevel"' in json.dumps(state["pre_tokenizer"]):
        kind = "byte-bpe"
    lowercase = kind != "byte-bpe" and re.search(r'"lowercase": true|"Lowercase"', json.dumps(state["normalizer"]))
    return TokenizerConfig.parse(
        {"kind": kind, "specials": style_of(vocab), "lowercase": bool(lowercase)}, group="tokenizer"
    )


def _names(settings: Mapping[str, Any], config: TokenizerConfig) -> dict[str, str]:
    """Special tokens by role, from what transformers wrote or else from their usual names."""
    names = dict(_LAYOUTS[config.specials])
    for role, keys in _FOREIGN.items():
        values = [settings.get(key) for key in keys]
        tokens = [value.get("content") if isinstance(value, dict) else value for value in values]
        named = next((token for token in tokens if isinstance(token, str)), None)
        if named is not None and not (config.specials in _LEFT and role in ("start", "separator")):
            names[role] = named
    return names
