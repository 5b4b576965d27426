"""Attention weights by token and by word, and statistics of attention heads (Vig, 2019; Clark et al., 2019).

Statistics are means over the query tokens. Queries that see only themselves, as the first token of a causal model,
are excluded. In a causal model later queries see more keys, so compare the weight on the first token with its value
under uniform attention, the mean of 1/t, and use evenness, the entropy of a query relative to its maximum, ln t.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import entr

from polyseme.arrays import AnyFloats, Floats
from polyseme.batch import Batch
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.inference.beam_search import BeamSearchConfig, cross_attention, translate_ids
from polyseme.inference.model import LoadedModel
from polyseme.layers.attention import SelfAttention, record_attention
from polyseme.models.transformer import CrossAttention
from polyseme.objectives.translation import Translation
from polyseme.tokenization.masking_units import mark_continuations
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.words import find_words, token_text

ATTENTION_SINK = "first token (attention sink)"
LABEL_THRESHOLD = 0.5  # the weight from which a pattern names the head, as in Clark et al. for the previous token
BROAD_THRESHOLD = 0.8  # the evenness from which a head without a dominant pattern is broad

LABELS = {name: f"{name} token" for name in ("previous", "next", "same")}
LABELS |= {"first": ATTENTION_SINK, "separators": "separators"}

Span = tuple[int, int]
_SPACE = "␣"  # shown for a token of white space only
_REPLACEMENT = "\ufffd"  # that a decoder writes for invalid bytes
_NOTEBOOK_HEIGHT = 900  # pixels


@dataclass(frozen=True, kw_only=True)
class TokenSequence:
    """The tokens of a text, grouped into words."""

    tokens: list[str]  # as in the vocabulary
    display: list[str]  # as in the text; ## marks the continuation of a word in vocabularies with this mark
    word_spans: list[Span]  # the first token of each word and the end; they cover all tokens
    word_texts: list[str]  # as in the text
    is_special: list[bool]  # [CLS], [SEP] and their equivalents

    def by_word(self) -> TokenSequence:
        """The sequence with words as tokens."""
        return TokenSequence(
            tokens=self.word_texts,
            display=self.word_texts,
            word_spans=[(index, index + 1) for index in range(len(self.word_texts))],
            word_texts=self.word_texts,
            is_special=[self.is_special[first] for first, _ in self.word_spans],
        )


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Statistics of a head; those of neighbouring tokens are None for cross-attention."""

    layer: int  # from 1; 0 is the embedding
    head: int  # from 1
    label: str
    first: float  # weight on the first token
    first_if_uniform: float  # the same under uniform attention
    separators: float  # weight on [CLS], [SEP] and their equivalents, without the first token
    previous: float | None  # weight on the token before, and so on
    next: float | None
    same: float | None
    distance: float | None  # mean distance in tokens between query and key
    entropy: float  # nats
    evenness: float  # entropy relative to its maximum: 1 is uniform, 0 a single token


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention:
    """Attention weights from queries to keys; those of a query sum to 1."""

    model: str
    name: str  # self-attention, or what the keys of cross-attention are
    texts: list[str]
    queries: TokenSequence
    keys: TokenSequence  # the queries, or the source of a translation
    weights: Floats  # (layers, heads, queries, keys)
    causal: bool
    num_truncated: int = 0  # tokens beyond the maximum length of the model
    cross: Attention | None = None  # cross-attention from the model's translation, if it translates

    @property
    def tokens(self) -> list[str]:
        """The query tokens."""
        return self.queries.tokens

    @cached_property
    def heads(self) -> list[HeadStatistics]:
        """Statistics of each head, layer by layer."""
        is_cross = self.keys is not self.queries
        return head_statistics(self.weights, self.keys.is_special, causal=self.causal, cross=is_cross)

    def table(self) -> list[dict[str, Any]]:
        """The statistics as rows of a table."""
        return [dataclasses.asdict(head) for head in self.heads]

    def by_word(self) -> Attention:
        """Attention between words: summed over the tokens of a key, averaged over those of a query (Clark et al.)."""
        columns, rows = (np.array(part.word_spans, dtype=np.int64).T for part in (self.keys, self.queries))
        weights = np.add.reduceat(self.weights, columns[0], axis=3)
        weights = np.add.reduceat(weights, rows[0], axis=2) / (rows[1] - rows[0])[:, None].astype(np.float32)
        queries = self.queries.by_word()
        keys = queries if self.keys is self.queries else self.keys.by_word()
        cross = self.cross and self.cross.by_word()
        return dataclasses.replace(self, queries=queries, keys=keys, weights=weights, cross=cross)

    def page(self, *others: Attention) -> str:
        """A stand-alone HTML page, with the attention for other texts side by side."""
        from polyseme.analysis.attention_page import attention_page

        return attention_page([self, *others])

    def _repr_html_(self) -> str:
        """The representation in a notebook."""
        attributes = f'sandbox="allow-scripts" width="100%" height="{_NOTEBOOK_HEIGHT}" style="border: 0"'
        return f'<iframe srcdoc="{escape(self.page())}" {attributes}></iframe>'


@torch.inference_mode()
def compute_attention(model: LoadedModel, text: str, pair: str | None = None) -> Attention:
    """The attention weights for a text or a pair of texts; of a translation model, the cross-attention too."""
    encoder, tokenizer, family = model.encoder, model.require_tokenizer(), model.family
    head = next((part for part in model.objective.parts if isinstance(part, Translation)), None)
    has_self_attention = any(isinstance(module, SelfAttention) for module in encoder.modules())
    if not has_self_attention and head is None:
        raise ConfigError(f"{family} has no attention weights; choose a Transformer such as bert or gpt2, or cove")
    if pair is not None and encoder.input_format != "cross_encoder":
        raise ConfigError(f"{family} does not encode text pairs; pass one text, or compare two texts side by side")
    texts = [replace_surrogates(given) for given in (text, pair) if given is not None]
    ids, segments, queries, num_truncated = _tokenize(tokenizer, texts, encoder.config.max_length)
    shared: dict[str, Any] = {"model": str(model.folder), "texts": texts, "num_truncated": num_truncated}
    cross = _translate(model, head, ids, queries, shared) if head else None
    if not has_self_attention:
        if cross is None:
            raise DataError("the translation of this text is empty, so it has no attention weights; use another text")
        return cross
    batch = Batch.of(torch.tensor([ids]), segments=torch.tensor([segments]) if any(segments) else None)
    with record_attention(encoder) as layers:
        encoder(batch.to(encoder.device))
    weights = torch.stack(layers)[:, 0].float().cpu().numpy()
    if not np.isfinite(weights).all():
        raise CheckpointError(
            f"{model.folder} gives attention weights that are not finite; train it again or use another"
        )
    return Attention(
        name="self-attention",
        queries=queries,
        keys=queries,
        weights=weights,
        causal=encoder.context == "left",
        cross=cross,
        **shared,
    )


def _translate(
    model: LoadedModel, head: Translation, ids: list[int], source: TokenSequence, shared: dict[str, Any]
) -> Attention | None:
    """Cross-attention from the model's translation to its source; nothing if the translation is empty."""
    (translation,) = translate_ids(model.encoder, head, [ids], BeamSearchConfig())
    if not translation:
        return None
    with record_attention(head.decoder, CrossAttention) as layers:
        single = cross_attention(model.encoder, head, ids, translation)  # (T, S)
    weights = torch.stack(layers)[:, 0, :, : len(translation)] if layers else single[None, None]
    return Attention(
        name="translation to source",
        queries=_generated_tokens(model.require_tokenizer(), translation),
        keys=source,
        weights=weights.float().cpu().numpy(),
        causal=False,
        **shared,
    )


def _tokenize(
    tokenizer: Tokenizer, texts: list[str], max_length: int
) -> tuple[list[int], list[int], TokenSequence, int]:
    """The ids, segments and tokens of texts in the model's template, and by how many they exceed the maximum length."""
    template = tokenizer.single_template if len(texts) == 1 else tokenizer.pair_template
    encoding = tokenizer.encode(*texts, specials=False, max_length=max_length - template.num_specials)
    if not encoding.ids:
        raise DataError("the text is empty; pass a text")
    tokens: list[tuple[int, int, Span, bool]] = []  # id, segment, offsets in the joined texts, added by the template
    for number, added in enumerate(template.added):
        end = tokens[-1][2][1] if tokens else 0
        tokens += [(id, segment, (end, end), True) for id, segment in added]
        shift = len(texts[0]) + 1 if number else 0
        for id, text, (start, end) in zip(encoding.ids, encoding.segments, encoding.offsets, strict=True):
            if text == number:
                tokens.append((id, template.segments[number], (start + shift, end + shift), False))
    ids, segments, offsets, is_added = (list(column) for column in zip(*tokens, strict=True))
    num_truncated = sum(map(len, tokenizer.encode_ids(texts))) + template.num_specials - len(ids)
    return ids, segments, _text_tokens(tokenizer, "\n".join(texts), ids, offsets, is_added), num_truncated


def _generated_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> TokenSequence:
    """The tokens of generated ids, with offsets from decoding each prefix."""
    text = tokenizer.decode(ids)
    ends = [len(tokenizer.decode(ids[:end]).rstrip(_REPLACEMENT)) for end in range(1, len(ids) + 1)]
    bounds = np.minimum(np.maximum.accumulate([0, *ends]), len(text)).tolist()
    return _text_tokens(tokenizer, text, ids, list(pairwise(bounds)), [False] * len(ids))


def _text_tokens(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], offsets: Sequence[Span], is_added: Sequence[bool]
) -> TokenSequence:
    """The tokens of a text, given their character offsets and which of them a template added."""
    tokens, roles = [tokenizer.token(id) for id in ids], tokenizer.specials
    special = np.array([added or id in tokenizer.special_ids for id, added in zip(ids, is_added, strict=True)])
    separators = {roles.start, roles.separator, roles.end} - {roles.unknown}
    continues = mark_continuations(find_words(text), *np.array(offsets, dtype=np.int64).T) & ~special
    firsts = np.flatnonzero(~continues).tolist()
    word_spans = list(pairwise([*firsts, len(ids)]))

    def text_of(first: int, end: int) -> str:
        part = text[offsets[first][0] : offsets[end - 1][1]]
        if not part or _REPLACEMENT in part:  # bytes of a character that is not complete
            part = "".join(token_text(tokenizer, id) for id in ids[first:end])
        return tokens[first] if special[first] else part.strip() or _SPACE

    def display(index: int) -> str:
        if special[index] or _REPLACEMENT not in tokenizer.decode([ids[index]]):
            mark = "##" if continues[index] and tokens[index].startswith("##") else ""
            return mark + text_of(index, index + 1)
        return token_text(tokenizer, ids[index]).strip()  # one of several tokens of a character

    return TokenSequence(
        tokens=tokens,
        display=[display(index) for index in range(len(ids))],
        word_spans=word_spans,
        word_texts=[text_of(*span) for span in word_spans],
        is_special=[added or id in separators for id, added in zip(ids, is_added, strict=True)],
    )


def head_statistics(weights: Floats, is_special: Sequence[bool], *, causal: bool, cross: bool) -> list[HeadStatistics]:
    """The statistics of every head of attention weights (layers, heads, T, S); `is_special` is that of the S keys."""
    num_queries, num_keys = weights.shape[2:]
    num_visible = np.arange(1, num_queries + 1) if causal else np.full(num_queries, num_keys)
    has_choice = num_visible > 1 if (num_visible > 1).any() else np.ones(num_queries, dtype=bool)
    rows = np.flatnonzero(has_choice)
    max_entropy = np.log(num_visible[rows])
    distances = np.abs(rows[:, None] - np.arange(num_keys))
    separators = np.flatnonzero(np.array(is_special) & (np.arange(num_keys) > 0))

    heads = []
    for layer, of_layer in enumerate(weights, start=1):
        for head, all_rows in enumerate(of_layer, start=1):
            of_head = all_rows[rows].astype(np.float64)  # (rows, S)
            entropies = entr(of_head).sum(1)
            patterns: dict[str, float | None] = {
                "previous": None if cross else _mean(np.diagonal(all_rows, -1)),
                "next": None if cross else _mean(np.diagonal(all_rows, 1)),
                "same": None if cross else _mean(np.diagonal(all_rows)[rows]),
                "first": _mean(of_head[:, 0]),
                "separators": _mean(of_head[:, separators].sum(1)),
            }
            evenness = _mean(entropies / np.where(max_entropy > 0, max_entropy, 1.0))
            heads.append(
                HeadStatistics(
                    layer=layer,
                    head=head,
                    label=_label(patterns, evenness) if max_entropy.any() else "",
                    first_if_uniform=_mean(1 / num_visible[rows]),
                    distance=None if cross else _mean((of_head * distances).sum(1)),
                    entropy=_mean(entropies),
                    evenness=evenness,
                    **patterns,  # type: ignore[arg-type]
                )
            )
    return heads


def _label(patterns: dict[str, float | None], evenness: float) -> str:
    name, weight = max(((name, weight or 0.0) for name, weight in patterns.items()), key=lambda pair: pair[1])
    if weight >= LABEL_THRESHOLD:
        return LABELS[name]
    return "broad" if evenness >= BROAD_THRESHOLD else "mixed"


def _mean(values: AnyFloats) -> float:
    return float(values.mean()) if values.size else 0.0
