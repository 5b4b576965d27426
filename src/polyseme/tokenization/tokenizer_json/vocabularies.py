"""The models of tokenizers: BPE, WordPiece, whole words and unigrams, with their vocabularies."""

import functools
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, model_validator

from polyseme.tokenization.tokenizer_json.component import Component, Count, ShortText, Text, one_of

_MAX_PIECE_LENGTH = 1000  # characters; the library's unigram trie is as deep
_MAX_PIECE_CHARACTERS = 10_000_000  # of a vocabulary; XLM-R has 2 million
_MAX_SCORE = 1e9
_MAX_TRIE_NODES = 1_500_000  # of 330 bytes
_MAX_NODES_PER_PIECE = 16  # on average; T5 has 2.6
_MAX_WORD_LENGTH = 1000  # of WordPiece, whose time is quadratic in it; published models have 100


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
    is_token = type(token) is str and 0 < len(token) <= _MAX_PIECE_LENGTH
    return is_token and type(score) in (float, int) and abs(score) < _MAX_SCORE


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


class Vocabulary(Component):
    """Base class of models."""

    vocab: Vocab

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """The tokens with their ids."""
        return self.vocab

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        ids = set(self.ids.values())
        if len(ids) < len(self.ids):
            raise ValueError("the vocabulary gives an id to two tokens")
        check_range(ids)
        return self


def check_range(ids: Collection[int]) -> None:
    """Reject ids far above the number of tokens, since arrays have a row for each."""
    if (largest := max(ids, default=0)) > 2 * len(ids) + 1000:
        raise ValueError(f"the id {largest} is out of range, since there are {len(ids)} tokens")


class Bpe(Vocabulary):
    """Byte-pair encoding."""

    dropout: Annotated[float, Field(ge=0, le=0)] | None = None  # would encode a text differently each time
    unk_token: Text | None = None
    continuing_subword_prefix: ShortText | None = None
    end_of_word_suffix: ShortText | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    merges: Annotated[list[Any], PlainValidator(_check_merges)]

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        prefix = len(self.continuing_subword_prefix or "")
        for merge in self.merges:
            left, right = merge.split(" ") if isinstance(merge, str) else merge
            if not {left, right, left + right[prefix:]} <= self.vocab.keys():
                raise ValueError(f"the merge {merge!r:.60} has tokens that are not in the vocabulary")
        return self


class WordLevel(Vocabulary):
    """Whole words."""

    unk_token: Text

    @model_validator(mode="after")
    def _check_unknown(self) -> Self:
        if self.unk_token not in self.vocab:
            raise ValueError(f"the vocabulary has no unknown token {self.unk_token!r:.60}")
        return self


class WordPiece(WordLevel):
    """Subwords by the longest match."""

    continuing_subword_prefix: ShortText = "##"
    max_input_chars_per_word: Annotated[int, Field(ge=1, le=_MAX_WORD_LENGTH)] = 100


class Unigram(Vocabulary):
    """Subwords by their scores."""

    unk_id: Count | None
    vocab: Annotated[list[Any], PlainValidator(_check_pieces)]  # type: ignore[assignment]
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


Model = Annotated[Vocabulary, one_of({"BPE": Bpe, "WordPiece": WordPiece, "WordLevel": WordLevel, "Unigram": Unigram})]
