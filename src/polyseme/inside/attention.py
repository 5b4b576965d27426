"""Where the tokens of a text look, in every head of every layer (Vig, 2019; Clark et al., 2019)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.inside.attention_page import attention_page
from polyseme.inside.heads import Head, measure
from polyseme.layers.attention import SelfAttention, recording
from polyseme.models.base import Encoder
from polyseme.models.transformer import CrossAttention
from polyseme.objectives.translation import Translation
from polyseme.tensors import Batch
from polyseme.text.tokenizer import Template, Tokenizer
from polyseme.text.units import WORD, Units, UnitsConfig, align, choose_segmenter
from polyseme.text.vocabulary import mend
from polyseme.translating import Beam, attention, translate_ids

Span = tuple[int, int]
_SPACE = "␣"  # a token of white space alone
_HEIGHT = 900  # pixels of a page in a notebook


@dataclass(frozen=True, kw_only=True)
class Line:
    """Tokens in a row, and which of them are the pieces of one word."""

    tokens: list[str]  # as the vocabulary has them
    shown: list[str]  # as they stand in the text; ## begins a piece that goes on with a word
    words: list[Span]  # the first piece of each word and the one behind its last; together they are all tokens
    spelt: list[str]  # each word as it stands in the text
    marks: list[bool]  # which are [CLS], [SEP] and their like

    def by_word(self) -> Line:
        """The same with words for tokens."""
        words = [(place, place + 1) for place in range(len(self.spelt))]
        marks = [self.marks[first] for first, _ in self.words]
        return Line(tokens=self.spelt, shown=self.spelt, words=words, spelt=self.spelt, marks=marks)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention:
    """How much each token looks at each other; the weights of a token are shares of 1."""

    model: str
    name: str  # whose weights they are
    texts: list[str]
    line: Line  # what looks
    seen: Line  # what is looked at: the same, or the source of a translation
    maps: NDArray[np.float32]  # (layers, heads, tokens, tokens that are seen)
    causal: bool  # whether a token sees only what came before
    left_out: int = 0  # tokens at the end for which the model has no room
    cross: Attention | None = None  # of the model's translation to this text, where it translates

    @property
    def tokens(self) -> list[str]:
        """What looks."""
        return self.line.tokens

    @property
    def words(self) -> list[Span]:
        """Which tokens are the pieces of one word."""
        return self.line.words

    @cached_property
    def heads(self) -> list[Head]:
        """What each head does, layer by layer."""
        return measure(self.maps, self.seen.marks, causal=self.causal, crossing=self.seen is not self.line)

    def table(self) -> list[dict[str, Any]]:
        """The same as plain rows."""
        return [dataclasses.asdict(head) for head in self.heads]

    def by_word(self) -> Attention:
        """From words to words: the sum over the pieces that are seen, the mean over those that look (Clark et al.)."""
        columns, rows = (np.array(line.words, dtype=np.int64).T for line in (self.seen, self.line))
        maps = np.add.reduceat(self.maps, columns[0], axis=3)
        maps = np.add.reduceat(maps, rows[0], axis=2) / (rows[1] - rows[0])[:, None].astype(np.float32)
        line = self.line.by_word()
        seen = line if self.seen is self.line else self.seen.by_word()
        cross = self.cross and self.cross.by_word()
        return dataclasses.replace(self, line=line, seen=seen, maps=maps, cross=cross)

    def page(self, *beside: Attention) -> str:
        """A page that stands alone, with the attention of other texts beside this one."""
        return attention_page([self, *beside])

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        look = f'sandbox="allow-scripts" width="100%" height="{_HEIGHT}" style="border: 0"'
        return f'<iframe srcdoc="{escape(self.page())}" {look}></iframe>'


@torch.inference_mode()
def attend(
    encoder: Encoder,
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    *,
    model: str,
    family: str,
    head: Translation | None = None,
) -> Attention:
    """Where the tokens of a text, or of two in one frame, look; with a `head` that translates, what it looks at too."""
    looks = any(isinstance(module, SelfAttention) for module in encoder.modules())
    if not looks and head is None:
        raise ConfigError(f"{family} has no attention to show; choose a Transformer such as bert or gpt2, or a cove")
    if pair is not None and encoder.layout != "framed":
        raise ConfigError(f"{family} has no frame for two texts; leave the pair away, and see them beside each other")
    texts = [mend(given) for given in (text, pair) if given is not None]
    ids, segments, line = _frame(tokenizer, texts, encoder.config.max_length)
    num_tokens = sum(map(len, tokenizer.encode_ids(texts))) + _template(tokenizer, texts).num_specials
    told: dict[str, Any] = {"model": model, "texts": texts, "left_out": num_tokens - len(ids)}
    cross = _cross(encoder, tokenizer, head, ids, line, told) if head else None
    if not looks:
        if cross is None:
            raise DataError("the model writes nothing for this text, and so looks at nothing; give another one")
        return cross
    batch = Batch.of(torch.tensor([ids]), segments=torch.tensor([segments]) if any(segments) else None)
    with recording(encoder) as maps:
        encoder(batch.to(encoder.device))
    weights = torch.stack(maps)[:, 0].float().cpu().numpy()
    if not np.isfinite(weights).all():
        raise CheckpointError(f"{model} has weights that are no numbers; train it again, or take an older one")
    return Attention(
        name="self-attention",
        line=line,
        seen=line,
        maps=weights,
        causal=encoder.context == "left",
        cross=cross,
        **told,
    )


def _cross(
    encoder: Encoder, tokenizer: Tokenizer, head: Translation, ids: list[int], source: Line, told: dict[str, Any]
) -> Attention | None:
    """From the tokens of the model's own translation to those of its source, if it writes any."""
    (written,) = translate_ids(encoder, head, [ids], Beam())
    if not written:
        return None
    with recording(head.decoder, CrossAttention) as maps:
        single = attention(encoder, head, ids, written)  # (T, S)
    weights = torch.stack(maps)[:, 0, :, : len(written)] if maps else single[None, None]
    return Attention(
        name="translation to source",
        line=_written(tokenizer, written),
        seen=source,
        maps=weights.float().cpu().numpy(),
        causal=False,
        **told,
    )


def _template(tokenizer: Tokenizer, texts: Sequence[str]) -> Template:
    return tokenizer.single_template if len(texts) == 1 else tokenizer.pair_template


def _frame(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> tuple[list[int], list[int], Line]:
    """Texts in the frame that a model expects, as many of their tokens as it has room for."""
    template = _template(tokenizer, texts)
    found = tokenizer.encode(*texts, specials=False, max_length=limit - template.num_specials)
    if not found.ids:
        raise DataError("there is no text to look at; give some")
    ids, segments, parts = [], [], []
    for number, added in enumerate(template.added):
        ids += [id for id, _ in added]
        segments += [segment for _, segment in added]
        parts += [_mark(tokenizer.token(id)) for id, _ in added]
        if number < len(texts):
            mine = [place for place, segment in enumerate(found.segments) if segment == number]
            if not mine:
                continue
            ids += [found.ids[place] for place in mine]
            segments += [template.segments[number]] * len(mine)
            parts.append(_line(tokenizer, texts[number], ids[-len(mine) :], [found.offsets[place] for place in mine]))
    return ids, segments, _joined(parts)


def _written(tokenizer: Tokenizer, ids: Sequence[int]) -> Line:
    """Tokens that a model has written; where each stands in the text, the text without the rest says."""
    text = tokenizer.decode(ids)
    ends = [len(tokenizer.decode(ids[:end]).rstrip("\ufffd")) for end in range(1, len(ids) + 1)]
    bounds = np.minimum(np.maximum.accumulate([0, *ends]), len(text)).tolist()
    return _line(tokenizer, text, ids, list(pairwise(bounds)))


def _line(tokenizer: Tokenizer, text: str, ids: Sequence[int], offsets: Sequence[Span]) -> Line:
    """Tokens of a text by the characters that they stand for."""
    tokens, roles = [tokenizer.token(id) for id in ids], tokenizer.specials
    special = np.array([id in tokenizer.special_ids for id in ids])
    units = Units(UnitsConfig(segmenter=choose_segmenter("auto")))
    goes_on = align(units.find(text)[WORD], *np.array(offsets, dtype=np.int64).T) & ~special
    firsts = np.flatnonzero(~goes_on).tolist()
    words = list(pairwise([*firsts, len(ids)]))

    def spell(first: int, end: int) -> str:
        piece = text[offsets[first][0] : offsets[end - 1][1]]
        return tokens[first] if special[first] or not piece else piece.strip() or _SPACE

    shown = [("##" if more else "") + spell(place, place + 1) for place, more in enumerate(goes_on)]
    spelt = [spell(*word) for word in words]
    marks = [id in (roles.start, roles.separator, roles.end) and id != roles.unknown for id in ids]
    return Line(tokens=tokens, shown=shown, words=words, spelt=spelt, marks=marks)


def _mark(token: str) -> Line:
    return Line(tokens=[token], shown=[token], words=[(0, 1)], spelt=[token], marks=[True])


def _joined(lines: Iterable[Line]) -> Line:
    whole = Line(tokens=[], shown=[], words=[], spelt=[], marks=[])
    for line in lines:
        before = len(whole.tokens)
        whole.words.extend((before + first, before + end) for first, end in line.words)
        for name in ("tokens", "shown", "spelt", "marks"):
            getattr(whole, name).extend(getattr(line, name))
    return whole
