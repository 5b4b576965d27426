"""Training of vocabularies, and the normalization and pre-tokenization pipeline of each kind of tokenizer."""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from polyseme.corpora.scripts import IDEOGRAPHS, KANA, WIDE
from polyseme.errors import DataError
from polyseme.tokenization.config import TokenizerConfig

CACHE_VERSION = 2  # increases when the same text and settings give another vocabulary; cached older ones are ignored
SINGLE_SPACES = (normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip())


@dataclass(frozen=True, kw_only=True)
class VocabularyLayout:
    """The size of a vocabulary and its special tokens."""

    size: int
    leading: list[str]  # special tokens with the first ids
    trailing: list[str]  # special tokens with the last ids
    unknown: str

    @property
    def num_learned(self) -> int:
        """The number of tokens that are not special."""
        return self.size - len(self.leading) - len(self.trailing)


def call_library(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call the tokenizers library; its exceptions, panics included, become a DataError."""
    try:
        return function(*arguments, **options)
    except BaseException as error:  # a Rust panic is not an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            reason = (str(error).splitlines() or [""])[0]
            raise DataError(f"the tokenizer cannot process this ({reason:.200})") from None
        raise


def build_pipeline(config: TokenizerConfig, model: models.Model) -> tokenizers.Tokenizer:
    """A tokenizer of a kind, without special tokens."""
    backend = tokenizers.Tokenizer(model)
    if config.kind == "byte-bpe":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    elif config.kind == "unigram":
        plain = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()] if config.lowercase else []
        backend.normalizer = normalizers.Sequence([*plain, normalizers.NFKC(), *SINGLE_SPACES])
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    else:
        separate = config.segmenter == "none"  # ideographs; a segmenter has already put spaces between words
        backend.normalizer = normalizers.BertNormalizer(lowercase=config.lowercase, handle_chinese_chars=separate)
        backend.pre_tokenizer = _phrase_splitter() if config.kind == "word" else pre_tokenizers.BertPreTokenizer()
        backend.decoder = _word_decoder() if config.kind == "bpe" else decoders.WordPiece()
        if config.kind == "char":
            characters = pre_tokenizers.Split(tokenizers.Regex(r"\S"), "isolated")
            backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), characters])
            backend.decoder = decoders.Fuse()
    return backend


@functools.cache
def byte_alphabet() -> list[str]:
    """The character of each byte in a byte-level vocabulary: itself if printable, or one from U+0100 on."""
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    others = (character for character in characters if ord(character) > 255)
    return [chr(byte) if chr(byte) in characters else next(others) for byte in range(256)]


def is_word_splitter(pre_tokenizer: pre_tokenizers.PreTokenizer) -> bool:
    """Whether a pre-tokenizer splits at white space and punctuation, as BERT does, and nowhere else."""
    is_bert = isinstance(pre_tokenizer, pre_tokenizers.BertPreTokenizer)
    return is_bert or bool(pre_tokenizer.__getstate__() == _phrase_splitter().__getstate__())


def _phrase_splitter() -> pre_tokenizers.PreTokenizer:
    """BERT's pre-tokenizer, except that the underscore inside a phrase, as in new_york, does not split."""
    mark = r"\p{P}$+<=>^`|~"
    splits = pre_tokenizers.Split(tokenizers.Regex(rf"(?!(?<=[^{mark}])_[^{mark}])[{mark}]"), "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), splits])


def _word_decoder() -> decoders.Decoder:
    """Join words by spaces, but not beside ideographs and before punctuation."""
    no_space = tokenizers.Regex(f" (?=[.,;:!?)\\]{WIDE}])|(?<=[(\\[{WIDE}]) ")
    return decoders.Sequence([decoders.BPEDecoder(), decoders.Fuse(), decoders.Replace(no_space, "")])


def build_word_vocabulary(config: TokenizerConfig, counts: Mapping[str, int], layout: VocabularyLayout) -> models.Model:
    """The model of a word tokenizer, made of the most frequent words."""
    reserved = {*layout.leading, *layout.trailing}
    known = [word for word, count in counts.items() if count >= config.min_count and word not in reserved]
    frequent = sorted(known, key=lambda word: (-counts[word], word))
    tokens = [*layout.leading, *frequent[: layout.num_learned], *layout.trailing]
    vocab = {token: id for id, token in enumerate(tokens)}
    return models.WordLevel(vocab, unk_token=layout.unknown)


def train_vocabulary(config: TokenizerConfig, sample: list[str], layout: VocabularyLayout) -> models.Model:
    """Train a subword model on a sample.

    The library numbers subwords in the order of a hash table. Passing the alphabet as special tokens fixes its ids, so
    that two trainings agree.
    """
    kind, size = config.kind, layout.size - len(layout.trailing)
    options: dict[str, Any] = {"min_frequency": config.min_count, "show_progress": False}
    trainer: trainers.Trainer
    if kind == "byte-bpe":
        backend = build_pipeline(config, models.BPE())
        runs = tokenizers.Regex(f"[{KANA}{IDEOGRAPHS}]{{1,4}}")
        # Ideographs come in long runs that never repeat; short ones give the same merges in a tenth of the memory.
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(runs, "isolated"), backend.pre_tokenizer])
        options["initial_alphabet"] = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=layout.leading, **options)
        state = _train(backend, sample, trainer)
        return models.BPE(_assign_ids(state["vocab"], layout.trailing), _merges(state))
    if kind == "unigram":
        return _train_unigram(config, sample, layout)

    suffix = "</w>" if kind == "bpe" else None
    backend = build_pipeline(config, models.BPE(end_of_word_suffix=suffix) if suffix else models.WordPiece())
    alphabet = _find_alphabet(backend, sample, size * 3 // 4)
    options |= {"initial_alphabet": alphabet, "limit_alphabet": len(alphabet)}
    inner = [character for character in alphabet if _joins(backend, character, before=suffix is not None)]
    if suffix is None:
        forms = alphabet + [f"##{character}" for character in inner]
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=layout.leading + forms, **options)
        vocab = _assign_ids(_train(backend, sample, trainer)["vocab"], layout.trailing)
        return models.WordPiece(vocab, unk_token=layout.unknown, max_input_chars_per_word=100)
    # The library also adds, without suffix, characters that only ever end a word; they are removed again.
    useless = set(alphabet) - set(inner)
    forms = inner + [f"{character}{suffix}" for character in alphabet]
    trainer = trainers.BpeTrainer(
        vocab_size=size + len(useless),
        special_tokens=layout.leading + forms,
        end_of_word_suffix=suffix,
        **options,
    )
    state = _train(backend, sample, trainer)
    vocab = _assign_ids({token: id for token, id in state["vocab"].items() if token not in useless}, layout.trailing)
    return models.BPE(vocab, _merges(state), unk_token=layout.unknown, end_of_word_suffix=suffix)


def _train_unigram(config: TokenizerConfig, sample: list[str], layout: VocabularyLayout) -> models.Model:
    """Start from twice as many subwords, found by BPE, and prune the least used ones.

    The library's own trainer is not deterministic and needs 180 bytes for each byte of Chinese. Here subwords are
    counted in the best segmentation of each word instead of in all of them.
    """
    backend = build_pipeline(config, models.BPE())
    runs = re.compile(rf"▁?(?:[{IDEOGRAPHS}]{{1,4}}|[^\W{IDEOGRAPHS}]+|[^\w\s▁])|▁")
    normalize = backend.normalizer.normalize_str
    texts = [" ".join(runs.findall("▁" + normalize(chunk).replace(" ", "▁"))) for chunk in sample]
    counts = Counter(word for text in texts for word in text.split(" "))
    words = sorted(counts)
    weights = np.array([counts[word] for word in words], dtype=np.float64)

    splitter = tokenizers.Tokenizer(models.BPE())
    splitter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    alphabet = _find_alphabet(splitter, texts, layout.num_learned * 3 // 4)
    trainer = trainers.BpeTrainer(
        vocab_size=2 * layout.num_learned,
        min_frequency=config.min_count,
        special_tokens=alphabet,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        max_token_length=16,
        show_progress=False,
    )
    subwords = list(_assign_ids(_train(splitter, texts, trainer)["vocab"], []))
    usage = np.ones(len(subwords))
    for _ in range(8):
        scores = np.log(usage + 0.1) - np.log(usage.sum())
        model = models.Unigram([("", 0.0), *zip(subwords, scores.tolist(), strict=True)], 0, False)
        backend = tokenizers.Tokenizer(model)
        usage = np.zeros(len(subwords))
        for start in range(0, len(words), 10_000):
            encodings = backend.encode_batch_fast(words[start : start + 10_000], add_special_tokens=False)
            ids = [id for encoding in encodings for id in encoding.ids]
            repeats = np.repeat(weights[start : start + 10_000], [len(encoding) for encoding in encodings])
            usage += np.bincount(ids, repeats, minlength=len(subwords) + 1)[1:]
        num_remaining = max(layout.num_learned, len(subwords) * 3 // 4)
        order = sorted(
            range(len(subwords)), key=lambda index: (len(subwords[index]) > 1, -usage[index], subwords[index])
        )
        order = sorted(order[:num_remaining], key=lambda index: (-usage[index], subwords[index]))
        subwords, usage = [subwords[index] for index in order], usage[order]
    # Rounded, so that they are the same after a round trip through JSON.
    scores = np.round(np.log(usage + 0.1) - np.log(usage.sum()), 4)
    entries = [
        *((token, 0.0) for token in layout.leading),
        *zip(subwords, scores.tolist(), strict=True),
        *((token, 0.0) for token in layout.trailing),
    ]
    tokens = [token for token, _ in entries]
    return models.Unigram(entries, tokens.index(layout.unknown), False)


def _train(backend: tokenizers.Tokenizer, sample: list[str], trainer: trainers.Trainer) -> dict[str, Any]:
    call_library(backend.train_from_iterator, sample, trainer)
    state: dict[str, Any] = json.loads(backend.model.__getstate__())
    return state


def _find_alphabet(backend: tokenizers.Tokenizer, sample: list[str], max_tokens: int) -> list[str]:
    """The characters that cover 99.95 % of the sample: thousands for Chinese, but no more than needed for English."""
    counts: Counter[str] = Counter()
    for chunk in sample:
        counts.update(backend.normalizer.normalize_str(chunk) if backend.normalizer else chunk)
    ranked = sorted((-count, character) for character, count in counts.items() if not character.isspace())
    uncovered = -sum(count for count, _ in ranked)
    tolerated = uncovered * 0.0005
    alphabet: list[str] = []
    for negative_count, character in ranked:
        if uncovered <= tolerated or max_tokens <= 0:
            break
        alphabet.append(character)
        uncovered += negative_count
        max_tokens -= 1 + _joins(backend, character, before=False)
    return sorted(alphabet)


def _joins(backend: tokenizers.Tokenizer, character: str, *, before: bool) -> bool:
    """Whether a character can be in one word with a character after it (`before`) or in front of it."""
    pair = character + "a" if before else "a" + character
    text = backend.normalizer.normalize_str(pair) if backend.normalizer else pair
    return len(backend.pre_tokenizer.pre_tokenize_str(text)) == 1


def _assign_ids(vocab: Mapping[str, int], trailing: list[str]) -> dict[str, int]:
    ordered = sorted(vocab, key=lambda token: vocab[token])
    return {token: id for id, token in enumerate([*ordered, *trailing])}


def _merges(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(first, second) for first, second in state["merges"]]
