"""Vocabularies: what a tokenizer learns from a sample of the text."""

import heapq
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import tokenizers
from pydantic import Field
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from polyseme.config import Config
from polyseme.errors import DataError

FORMAT = 2  # counts changes of how text is cut and vocabularies are learnt; older ones in the cache are passed over
_CHUNK = 4_000  # characters of the sample drawn together
_SURROGATE = re.compile("[\ud800-\udfff]")
IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN = re.compile(f"[{IDEOGRAPHS}]+")
SINGLE_SPACES = (normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip())


class TokenizerConfig(Config):
    """How text is cut into tokens."""

    kind: Literal["word", "char", "wordpiece", "bpe", "byte-bpe", "unigram"] = "wordpiece"
    """What a token is: a word, a character, or a piece of a word learned in one of four ways."""
    specials: Literal["bert", "gpt2", "roberta", "gpt", "elmo", "plain"] = "bert"
    """Whose special tokens are added, and where among the ids."""
    lowercase: bool = True
    """Whether capitals and accents are dropped; byte-bpe always keeps them."""
    min_count: int = Field(default=2, ge=1)
    """How often a word or pair of pieces must occur to enter the vocabulary."""
    sample_bytes: int = Field(default=32_000_000, ge=1)
    """How much of the corpus, drawn at random, pieces of words are learned from; whole words are counted in all."""
    segmenter: Literal["none", "auto", "rjieba", "jieba"] = "none"
    """What finds the words of Chinese, where a token is a word; with none, each ideograph is one."""


def draw_sample(texts: Iterable[str], num_bytes: int, *, ideograph_bytes: int = 3) -> list[str]:
    """A random part of the texts of at most `num_bytes`, in order; all of them when they are few."""
    draw = random.Random(0)
    kept: list[tuple[float, int, int, str]] = []  # a heap whose first has the worst lot
    total = number = 0
    for text in texts:
        for chunk in cut(text, _CHUNK):
            number += 1
            lot = -draw.random()
            length = len(chunk)
            if not chunk.isascii():
                num_ideographs = sum(map(len, _RUN.findall(chunk))) if ideograph_bytes > 3 else 0
                length = len(mend(chunk).encode()) + num_ideographs * (ideograph_bytes - 3)
            if total + length > num_bytes and kept and lot < kept[0][0]:
                continue
            heapq.heappush(kept, (lot, number, length, chunk))
            total += length
            while total > num_bytes and len(kept) > 1:
                total -= heapq.heappop(kept)[2]
    return [mend(chunk) for _, _, _, chunk in sorted(kept, key=lambda entry: entry[1])]


def cut(text: str, longest: int) -> Iterator[str]:
    """Cut a text before spaces into pieces that the library can hold."""
    start = 0
    while len(text) - start > longest:
        end = text.rfind(" ", start + 1, start + longest)
        if end < 0:
            end = max(text.rfind("\n", start + 1, start + longest), text.rfind("。", start, start + longest - 1) + 1)
        end = end if end > start else start + longest
        yield text[start:end]
        start = end
    yield text[start:]


def mend(text: str) -> str:
    """Replace lone surrogates, which no encoding knows, one character for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def guarded(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call into the library; what it throws, panics included, becomes a DataError."""
    try:
        return function(*arguments, **options)
    except BaseException as error:  # a panic of the Rust code is not an Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            why = (str(error).splitlines() or [""])[0]
            raise DataError(f"the tokenizer cannot take this ({why:.200})") from None
        raise


def stages(config: TokenizerConfig, model: models.Model) -> tokenizers.Tokenizer:
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
        separate = config.segmenter == "none"  # ideographs; else words of them have come with spaces between
        backend.normalizer = normalizers.BertNormalizer(lowercase=config.lowercase, handle_chinese_chars=separate)
        backend.pre_tokenizer = _phrase_splitter() if config.kind == "word" else pre_tokenizers.BertPreTokenizer()
        backend.decoder = _words_decoder() if config.kind == "bpe" else decoders.WordPiece()
        if config.kind == "char":
            every = pre_tokenizers.Split(tokenizers.Regex(r"\S"), "isolated")
            backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), every])
            backend.decoder = decoders.Fuse()
    return backend


def splits_words(splitter: pre_tokenizers.PreTokenizer) -> bool:
    """Whether a first stage cuts at white space and marks, as BERT does, and nowhere else."""
    usual = isinstance(splitter, pre_tokenizers.BertPreTokenizer)
    return usual or bool(splitter.__getstate__() == _phrase_splitter().__getstate__())


def _phrase_splitter() -> pre_tokenizers.PreTokenizer:
    """Cuts as BERT does, but not at what joins the words of a phrase: new_york."""
    mark = r"\p{P}$+<=>^`|~"
    cuts = pre_tokenizers.Split(tokenizers.Regex(rf"(?!(?<=[^{mark}])_[^{mark}])[{mark}]"), "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), cuts])


def _words_decoder() -> decoders.Decoder:
    """Words between spaces, but for those that were only put around ideographs and before punctuation."""
    wide = f"\u3000-\u303f\uff01-\uff60{IDEOGRAPHS}"
    unwritten = tokenizers.Regex(f" (?=[.,;:!?)\\]{wide}])|(?<=[(\\[{wide}]) ")
    return decoders.Sequence([decoders.BPEDecoder(), decoders.Fuse(), decoders.Replace(unwritten, "")])


def take_words(
    config: TokenizerConfig,
    counts: Mapping[str, int],
    specials: list[str],
    last: list[str],
    unknown: str,
    vocab_size: int,
) -> tuple[models.Model, int]:
    """The model of a tokenizer of whole words, and the number of its tokens: those that were met most often."""
    reserved = {*specials, *last}
    known = [word for word, count in counts.items() if count >= config.min_count and word not in reserved]
    often = sorted(known, key=lambda word: (-counts[word], word))
    tokens = [*specials, *often[: vocab_size - len(specials) - len(last)], *last]
    vocab = {token: number for number, token in enumerate(tokens)}
    return models.WordLevel(vocab, unk_token=unknown), len(vocab)


def learn_vocabulary(
    config: TokenizerConfig, sample: list[str], specials: list[str], last: list[str], unknown: str, vocab_size: int
) -> tuple[models.Model, int]:
    """The model of a tokenizer and the number of its tokens, learned from a sample.

    The library numbers pieces in the order in which a hash table happens to give them; passing the alphabet as if it
    were special tokens numbers it beforehand, so that two runs agree.
    """
    kind, size = config.kind, vocab_size - len(last)
    options: dict[str, Any] = {"min_frequency": config.min_count, "show_progress": False}
    trainer: trainers.Trainer
    if kind == "byte-bpe":
        backend = stages(config, models.BPE())
        runs = tokenizers.Regex(f"[\u3040-\u30ff{IDEOGRAPHS}]{{1,4}}")
        # Ideographs come in long runs that never repeat; short ones teach the same merges in a tenth of the memory.
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(runs, "isolated"), backend.pre_tokenizer])
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=letters, **options)
        state = _train(backend, sample, trainer)
        vocab = _numbered(state["vocab"], last)
        return models.BPE(vocab, _pairs(state)), len(vocab)
    if kind == "unigram":
        return _learn_unigram(config, sample, specials, last, unknown, vocab_size)

    suffix = "</w>" if kind == "bpe" else None
    backend = stages(config, models.BPE(end_of_word_suffix=suffix) if suffix else models.WordPiece())
    letters = _alphabet(backend, sample, size * 3 // 4)
    inner = [letter for letter in letters if _joins(backend, letter, before=suffix is not None)]
    if suffix is None:
        forms = letters + [f"##{letter}" for letter in inner]
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            special_tokens=specials + forms,
            initial_alphabet=letters,
            limit_alphabet=len(letters),
            **options,
        )
        vocab = _numbered(_train(backend, sample, trainer)["vocab"], last)
        return models.WordPiece(vocab, unk_token=unknown, max_input_chars_per_word=100), len(vocab)
    # The library also numbers letters that only ever end a word; they are left out again.
    useless = set(letters) - set(inner)
    forms = inner + [f"{letter}{suffix}" for letter in letters]
    trainer = trainers.BpeTrainer(
        vocab_size=size + len(useless),
        special_tokens=specials + forms,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        end_of_word_suffix=suffix,
        **options,
    )
    state = _train(backend, sample, trainer)
    vocab = _numbered({token: number for token, number in state["vocab"].items() if token not in useless}, last)
    return models.BPE(vocab, _pairs(state), unk_token=unknown, end_of_word_suffix=suffix), len(vocab)


def _learn_unigram(
    config: TokenizerConfig, sample: list[str], specials: list[str], last: list[str], unknown: str, vocab_size: int
) -> tuple[models.Model, int]:
    """Start from twice too many pieces, found by merging, and drop the least used until the size is right.

    The library's own trainer gives another vocabulary every time and needs 180 bytes for each byte of Chinese;
    here pieces are counted in the best segmentation of each word instead of in all of them.
    """
    backend = stages(config, models.BPE())
    runs = re.compile(rf"▁?(?:[{IDEOGRAPHS}]{{1,4}}|[^\W{IDEOGRAPHS}]+|[^\w\s▁])|▁")
    normalize = backend.normalizer.normalize_str
    texts = [" ".join(runs.findall("▁" + normalize(chunk).replace(" ", "▁"))) for chunk in sample]
    counts = Counter(word for text in texts for word in text.split(" "))
    words = sorted(counts)
    weights = np.array([counts[word] for word in words], dtype=np.float64)

    plain = tokenizers.Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    num_pieces = vocab_size - len(specials) - len(last)
    letters = _alphabet(plain, texts, num_pieces * 3 // 4)
    trainer = trainers.BpeTrainer(
        vocab_size=2 * num_pieces,
        min_frequency=config.min_count,
        special_tokens=letters,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        max_token_length=16,
        show_progress=False,
    )
    pieces = list(_numbered(_train(plain, texts, trainer)["vocab"], []))
    used = np.ones(len(pieces))
    for _ in range(8):
        scores = np.log(used + 0.1) - np.log(used.sum())
        model = models.Unigram([("", 0.0), *zip(pieces, scores.tolist(), strict=True)], 0, False)
        backend = tokenizers.Tokenizer(model)
        used = np.zeros(len(pieces))
        for start in range(0, len(words), 10_000):
            encodings = backend.encode_batch_fast(words[start : start + 10_000], add_special_tokens=False)
            ids = [number for encoding in encodings for number in encoding.ids]
            repeats = np.repeat(weights[start : start + 10_000], [len(encoding) for encoding in encodings])
            used += np.bincount(ids, repeats, minlength=len(pieces) + 1)[1:]
        keep = max(num_pieces, len(pieces) * 3 // 4)
        order = sorted(range(len(pieces)), key=lambda index: (len(pieces[index]) > 1, -used[index], pieces[index]))
        order = sorted(order[:keep], key=lambda index: (-used[index], pieces[index]))
        pieces, used = [pieces[index] for index in order], used[order]
    scores = np.round(
        np.log(used + 0.1) - np.log(used.sum()), 4
    )  # short, so that they come back from JSON as they were
    entries = [
        *((token, 0.0) for token in specials),
        *zip(pieces, scores.tolist(), strict=True),
        *((token, 0.0) for token in last),
    ]
    names = [token for token, _ in entries]
    return models.Unigram(entries, names.index(unknown), False), len(entries)


def _train(backend: tokenizers.Tokenizer, sample: list[str], trainer: trainers.Trainer) -> dict[str, Any]:
    guarded(backend.train_from_iterator, sample, trainer)
    state: dict[str, Any] = json.loads(backend.model.__getstate__())
    return state


def _alphabet(backend: tokenizers.Tokenizer, sample: list[str], most: int) -> list[str]:
    """The letters that make up 99.95 % of the sample, so that Chinese gets its thousands and English no more."""
    counts: Counter[str] = Counter()
    for chunk in sample:
        counts.update(backend.normalizer.normalize_str(chunk) if backend.normalizer else chunk)
    ranked = sorted(
        ((letter, count) for letter, count in counts.items() if not letter.isspace()),
        key=lambda entry: (-entry[1], entry[0]),
    )
    rest = sum(count for _, count in ranked)
    spare = rest * 0.0005
    letters: list[str] = []
    for letter, count in ranked:
        if rest <= spare or most <= 0:
            break
        letters.append(letter)
        rest -= count
        most -= 1 + _joins(backend, letter, before=False)
    return sorted(letters)


def _joins(backend: tokenizers.Tokenizer, letter: str, *, before: bool) -> bool:
    """Whether a letter can be one word with a letter that follows, or else precedes, it."""
    pair = letter + "a" if before else "a" + letter
    text = backend.normalizer.normalize_str(pair) if backend.normalizer else pair
    return len(backend.pre_tokenizer.pre_tokenize_str(text)) == 1


def _numbered(vocab: Mapping[str, int], last: list[str]) -> dict[str, int]:
    ordered = sorted(vocab, key=lambda token: vocab[token])
    return {token: number for number, token in enumerate([*ordered, *last])}


def _pairs(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(first, second) for first, second in state["merges"]]
