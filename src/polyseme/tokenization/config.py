"""Settings of tokenizers, and the special tokens of each published style."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from polyseme.config import Config


class TokenizerConfig(Config):
    """How text is split into tokens."""

    kind: Literal["word", "char", "wordpiece", "bpe", "byte-bpe", "unigram"] = "wordpiece"
    """Whether a token is a word, a character, or a subword of one of four algorithms."""
    specials: Literal["bert", "gpt2", "roberta", "gpt", "elmo", "plain"] = "bert"
    """The model whose special tokens are added, and their ids."""
    lowercase: bool = True
    """Whether to lowercase text and strip accents; byte-bpe never does."""
    min_count: int = Field(default=2, ge=1)
    """Minimum frequency of a word or subword pair in the vocabulary."""
    sample_bytes: int = Field(default=32_000_000, ge=1)
    """Size of the random sample of the corpus that subwords are trained on; whole words are counted in all of it."""
    segmenter: Literal["none", "auto", "rjieba", "jieba"] = "none"
    """Chinese word segmenter of word tokenizers; with none, each ideograph is a token."""


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The ids of the special tokens by role."""

    pad: int | None = None
    unknown: int | None = None
    start: int | None = None
    separator: int | None = None
    mask: int | None = None
    end: int | None = None  # ends a document in the token store


NULL_TOKEN = "<|null|>"
"""A token without meaning, put before every sequence of a left-to-right model that needs a first token."""

# Special tokens by role, in the order of their ids.
ROLES: dict[str, dict[str, str]] = {
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
    # The paper has no end-of-document token: published vocabularies lack it, those trained here have it.
    "gpt": {"unknown": "<unk>", "pad": "<end>", "end": "<end>"},
    "elmo": {"start": "<S>", "separator": "</S>", "unknown": "<UNK>", "end": "</S>"},
    "plain": {"pad": "<pad>", "unknown": "<unk>", "start": "<s>", "separator": "</s>", "end": "</s>"},
}
# Special tokens whose ids follow the vocabulary, as published; all others precede it.
TRAILING = {"gpt2": ["<|endoftext|>"], "gpt": ["<end>"], "roberta": ["<mask>"]}
WRAPPED_STYLES = ("bert", "roberta", "elmo")  # a start and a separator token around every text
LEFT_TO_RIGHT_STYLES = ("gpt", "gpt2")  # one token ends a text and begins the next
# The name of each role in transformers; the first one present counts.
HF_ROLES = {
    "pad": ["pad_token"],
    "unknown": ["unk_token"],
    "start": ["cls_token", "bos_token"],
    "separator": ["sep_token", "eos_token"],
    "mask": ["mask_token"],
    "end": ["eos_token", "sep_token"],
}
