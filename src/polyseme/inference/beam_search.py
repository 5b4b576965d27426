"""Translation by beam search, and soft word alignment by cross-attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from pydantic import Field
from torch import Tensor

from polyseme.arrays import Floats
from polyseme.batch import Batch
from polyseme.config import Config
from polyseme.inference.batching import BATCH_TOKENS, bucket_by_length, padded_batch, tokenize_windows
from polyseme.models.base import Encoder
from polyseme.objectives.translation import Translation
from polyseme.tokenization.tokenizer import Tokenizer


class BeamSearchConfig(Config):
    """Settings of beam search; the defaults are those of Vaswani et al. (2017)."""

    beam_size: int = Field(4, ge=1, le=100)  # hypotheses per text; 1: greedy decoding
    length_penalty: float = Field(0.6, ge=0, le=10)  # above 0, longer translations are preferred (Wu et al., 2016)
    max_extra: int = Field(50, ge=0)  # tokens by which a translation may be longer than its source


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """A translation with the cross-attention weights of its tokens."""

    translation: str
    source: list[str]
    target: list[str]
    weights: Floats  # (target, source)


def translate_texts(
    encoder: Encoder, head: Translation, tokenizer: Tokenizer, texts: Sequence[str], config: BeamSearchConfig
) -> list[str]:
    """Translate texts; those longer than the model window by window."""
    windows = tokenize_windows(tokenizer, texts, encoder.config.max_length)
    found = translate_ids(encoder, head, [window.ids for window in windows], config)
    by_text = groupby(zip(windows, found, strict=True), lambda pair: pair[0].text)
    return [" ".join(_decode(tokenizer, ids) for _, ids in translated) for _, translated in by_text]


def align_texts(
    encoder: Encoder, head: Translation, tokenizer: Tokenizer, texts: Sequence[str], config: BeamSearchConfig
) -> list[Alignment]:
    """Translate the first window of each text, with the attention of its tokens."""
    windows = tokenize_windows(tokenizer, texts, encoder.config.max_length)
    firsts = [next(of_text) for _, of_text in groupby(windows, lambda window: window.text)]
    found = translate_ids(encoder, head, [window.ids for window in firsts], config)
    return [
        Alignment(
            translation=_decode(tokenizer, ids),
            source=window.tokens,
            target=[tokenizer.token(id) for id in ids],
            weights=cross_attention(encoder, head, window.ids, ids).cpu().numpy(),
        )
        for window, ids in zip(firsts, found, strict=True)
    ]


def _decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of a translation; bytes that do not form characters, as a weak model may generate, are omitted."""
    return tokenizer.decode(ids).replace("\ufffd", "").strip()


def translate_ids(
    encoder: Encoder, head: Translation, rows: Sequence[Sequence[int]], config: BeamSearchConfig
) -> list[list[int]]:
    """Translate sequences of ids, in batches of similar length."""
    found: list[list[int]] = [[] for _ in rows]
    for group in bucket_by_length([len(row) for row in rows], max(1, BATCH_TOKENS // config.beam_size)):
        batch = padded_batch([rows[index] for index in group], encoder.device)
        for index, translation in zip(group, _search(encoder, head, batch, config), strict=True):
            found[index] = translation
    return found


@torch.inference_mode()
def _search(encoder: Encoder, head: Translation, batch: Batch, config: BeamSearchConfig) -> list[list[int]]:
    size, device = config.beam_size, batch.ids.device
    limits = (batch.mask.sum(1) + config.max_extra).clamp(max=encoder.config.max_length).tolist()
    state = head.decoder.new_state(encoder(batch), max(limits))
    state.select(torch.arange(len(batch.ids), device=device).repeat_interleave(size))
    excluded = torch.tensor([head.pad, head.unknown, head.start], device=device)
    active = list(range(len(batch.ids)))  # sources that are still being translated
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in active]
    hypotheses = torch.full((len(active), size, 1), head.start, device=device)
    scores = torch.full((len(active), size), float("-inf"), device=device)
    scores[:, 0] = 0.0  # at first all hypotheses are the same, and one of them counts
    for length in range(1, max(limits) + 1):
        hidden = head.decoder(encoder, hypotheses[:, :, -1:].flatten(0, 1), state).hidden[:, -1]
        log_probabilities = head.logits(encoder, hidden).log_softmax(-1)  # (active · size, V)
        log_probabilities[:, excluded] = float("-inf")
        vocab_size = log_probabilities.shape[-1]
        sums = (scores[..., None] + log_probabilities.view(len(active), size, -1)).flatten(1)
        best = sums.topk(2 * size)  # at least half of them do not end here
        parent, token = best.indices // vocab_size, best.indices % vocab_size
        ends = token == head.end
        penalty = ((5 + length) / 6) ** config.length_penalty
        for row, rank in (ends & best.values.isfinite())[:, :size].nonzero().tolist():
            ids = hypotheses[row, parent[row, rank], 1:].tolist()
            finished[active[row]].append((float(best.values[row, rank]) / penalty, ids))
        unfinished = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :size]  # the best of them
        scores, parent, token = (part.gather(1, unfinished) for part in (best.values, parent, token))
        hypotheses = torch.cat([hypotheses.take_along_dim(parent[..., None], 1), token[..., None]], -1)
        for row, source in enumerate(active):
            if length == limits[source] and not finished[source]:
                finished[source].append((0.0, hypotheses[row, 0, 1:].tolist()))
        remaining = [row for row, n in enumerate(active) if len(finished[n]) < size and length < limits[n]]
        if not remaining:
            break
        rows = torch.tensor(remaining, device=device)
        active, hypotheses, scores = [active[row] for row in remaining], hypotheses[rows], scores[rows]
        state.select((size * rows[:, None] + parent[rows]).flatten())
    return [max(translations)[1] for translations in finished]


@torch.inference_mode()
def cross_attention(encoder: Encoder, head: Translation, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Attention of each target token over the source, (T, S), with the decoder fed the target."""
    device = encoder.device
    encoded = encoder(Batch.of(torch.tensor([list(source)], device=device)))
    inputs = torch.tensor([[head.start, *target]], device=device)  # the last of which predicts nothing
    return head.decoder(encoder, inputs, head.decoder.new_state(encoded)).attention[0, :-1]  # type: ignore[no-any-return]
