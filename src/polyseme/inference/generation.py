"""Autoregressive text generation with a KV cache or a recurrent state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from polyseme.batch import Batch, State
from polyseme.config import Config
from polyseme.inference.detokenizer import Detokenizer
from polyseme.layers.kv_cache import KVCache, RaggedKVCache
from polyseme.layers.linear import batch_invariant
from polyseme.models.base import Encoder
from polyseme.objectives.causal_lm import CausalLm
from polyseme.tokenization.tokenizer import Tokenizer

MAX_PROMPTS = 8
"""Prompts that are decoded in lockstep; in larger groups, finished sequences hold up the others."""


class GenerationConfig(Config):
    """How text is sampled; the defaults decode greedily."""

    max_tokens: int = Field(50, ge=1)  # maximum number of new tokens
    temperature: float = Field(0.0, ge=0, le=1000)  # 0: greedy; 1: the distribution of the model
    top_k: int = Field(0, ge=0)  # sample among the k most probable tokens; 0: all
    top_p: float = Field(1.0, gt=0, le=1)  # nucleus sampling: the most probable tokens with this total probability
    repetition_penalty: float = Field(1.0, gt=0)  # above 1, tokens that occurred before become less probable
    seed: int = Field(0, ge=0, lt=2**63)
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()  # strings that end the text; not part of it


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """What decoding needs of a model."""

    encoder: Encoder
    head: CausalLm
    end: int | None  # token that ends a text
    prefix_length: int = 0  # tokens at the start of every prompt that stay when the context is truncated

    @torch.inference_mode()
    def next_logits(self, ids: Sequence[Sequence[int]], state: State | None) -> tuple[Tensor, State | None]:
        """Feed ids (B, T) to a state; the logits of the next token (B, V), and the new state."""
        encoded = self.encoder(Batch.of(torch.tensor(ids, device=self.encoder.device)), state)
        return self.head.logits(self.encoder, self.head.hidden_states(encoded)[:, -1]).cpu(), encoded.state


@dataclass(eq=False, kw_only=True)
class GeneratedSequence:
    """The tokens of one prompt and its continuation."""

    ids: list[int]
    num_read: int  # ids that have been fed to the model
    config: GenerationConfig
    rng: torch.Generator
    num_generated: int = 0
    finished: bool = False

    def extend(self, logits: Tensor, end: int | None) -> int | None:
        """Choose the next token and append it; None at the end token, and while the prompt is still being read."""
        if self.num_read < len(self.ids):
            return None
        token = 0 if self.finished else choose_token(logits, self.ids, self.config, self.rng)
        self.ids.append(token)  # after the end too: the sequences of a group stay aligned
        if self.finished or token == end:
            self.finished = True
            return None
        self.num_generated += 1
        self.finished = self.num_generated >= self.config.max_tokens
        return token


class DecodingGroup:
    """Sequences that are decoded in lockstep on one state.

    Nothing is padded: while the shortest prompt is extended, the rest of the longer ones is read. At the model's
    maximum length the older half of the context is dropped and the rest is read again, after the first `prefix_length`
    tokens, which are the same in all.
    """

    def __init__(self, model: LanguageModel, prompts: Sequence[Sequence[int]], config: GenerationConfig) -> None:
        self.model = model
        self.limit: int = model.encoder.config.max_length
        self.prefix = list(prompts[0][: model.prefix_length])
        self.sequences = [
            GeneratedSequence(
                ids=list(prompt),
                num_read=max(model.prefix_length, len(prompt) - self.limit + 1 + model.prefix_length),
                config=config,
                rng=torch.Generator().manual_seed(config.seed),
            )
            for prompt in prompts
        ]
        self.state: State | None = None
        self.extends_state = False  # whether the ids to feed are one token more for each sequence

    @property
    def finished(self) -> bool:
        """Whether every sequence is."""
        return all(sequence.finished for sequence in self.sequences)

    def next_ids(self) -> list[list[int]]:
        """The ids to feed next, as many of each sequence; makes a new state where the context is truncated."""
        state, encoder, prefix, num_new = self.state, self.model.encoder, self.prefix, 1
        self.extends_state = state is not None and (state.capacity is None or state.length < state.capacity)
        if state is None:
            unread = [len(sequence.ids) - sequence.num_read for sequence in self.sequences]
            num_new = min(unread)
            room = len(prefix) + max(unread) + self.sequences[0].config.max_tokens
            self.state = encoder.new_state(len(unread), min(self.limit, room))
        elif self.extends_state:
            prefix = []
        else:
            num_new = self.limit // 2
            for sequence in self.sequences:
                sequence.num_read += 1 - num_new
            self.state = encoder.new_state(len(self.sequences), self.limit)
        ids = [prefix + one.ids[one.num_read : one.num_read + num_new] for one in self.sequences]
        for sequence in self.sequences:
            sequence.num_read += num_new
        return ids

    def step(self) -> list[int | None]:
        """One forward pass; the next token of each sequence, None for those that ended or are still being read."""
        logits, self.state = self.model.next_logits(self.next_ids(), self.state)
        return [one.extend(scores, self.model.end) for one, scores in zip(self.sequences, logits, strict=True)]


def step_groups(model: LanguageModel, groups: Sequence[DecodingGroup]) -> Iterator[tuple[list[DecodingGroup], Tensor]]:
    """Advance groups of one sequence each by one forward pass; yields groups with the logits of their next token.

    Groups whose KV cache grows by one token share a forward pass, in arithmetic that does not depend on the batch: a
    sequence is the same, bit for bit, whichever others it is decoded with. New prompts, truncated contexts and
    recurrent states run alone.
    """
    shared: list[tuple[DecodingGroup, list[int], KVCache]] = []
    for group in groups:
        (ids,) = group.next_ids()
        if group.extends_state and isinstance(group.state, KVCache):
            shared.append((group, ids, group.state))
        else:
            logits, group.state = model.next_logits([ids], group.state)
            yield [group], logits
    if shared:
        with batch_invariant():
            logits, _ = model.next_logits([ids for _, ids, _ in shared], RaggedKVCache([cache for *_, cache in shared]))
        yield [group for group, *_ in shared], logits


def generate_texts(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> list[str]:
    """Generate text after each of several prompts, decoded in batches."""
    texts = [""] * len(prompts)
    for group in batch_prompts([len(ids) for ids in prompts], config.max_tokens):
        for index, text in stream_texts(model, tokenizer, [prompts[index] for index in group], config):
            texts[group[index]] += text
    return texts


def stream_texts(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> Iterator[tuple[int, str]]:
    """Generate text after prompts that are decoded in lockstep; yields the index of a prompt and some of its text."""
    detokenizers = [Detokenizer(tokenizer, prompt, config.stop) for prompt in prompts]
    for tokens in generate_batch(model, prompts, config):
        for index, (detokenizer, token) in enumerate(zip(detokenizers, tokens, strict=True)):
            if token is not None and not detokenizer.stopped:
                yield index, "".join(piece.text for piece in detokenizer.add(token))
        if all(detokenizer.stopped for detokenizer in detokenizers):
            break
    for index, detokenizer in enumerate(detokenizers):
        if not detokenizer.stopped:
            yield index, "".join(piece.text for piece in detokenizer.flush())


def generate_batch(
    model: LanguageModel, prompts: Sequence[Sequence[int]], config: GenerationConfig
) -> Iterator[list[int | None]]:
    """Step by step, the next token after each of `prompts`; None for those that ended or are still being read."""
    group = DecodingGroup(model, prompts, config)
    while not group.finished:
        yield group.step()


def batch_prompts(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Group prompts of similar length for decoding in lockstep, so that no group takes more steps than it saves."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) == MAX_PROMPTS or lengths[index] > lengths[group[0]] + max_tokens):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def choose_token(logits: Tensor, previous: list[int], config: GenerationConfig, rng: torch.Generator) -> int:
    """Choose one token by its logits, (V,)."""
    if config.repetition_penalty != 1.0 and previous:
        logits = logits.clone()
        repeated = torch.tensor(sorted(set(previous)))
        scores = logits[repeated]
        # Keskar et al. (2019): divide positive logits by the penalty, multiply negative ones with it.
        penalty = config.repetition_penalty
        logits[repeated] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if config.temperature < 1e-4:  # dividing by less would overflow
        return int(logits.numpy().argmax())  # five times faster than torch's
    order = None
    if config.top_k:
        logits, order = logits.topk(min(config.top_k, len(logits)))
    probabilities = (logits / config.temperature).softmax(-1)
    if config.top_p < 1:
        probabilities, nucleus = _nucleus(probabilities, config.top_p)
        order = nucleus if order is None else order[nucleus]
    # Inverse transform sampling draws one random number; torch.multinomial draws one for each token.
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    threshold = torch.rand((), dtype=torch.float64, generator=rng) * cumulative[-1]
    index = min(int(torch.searchsorted(cumulative, threshold, right=True)), len(cumulative) - 1)
    return index if order is None else int(order[index])


def _nucleus(probabilities: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The smallest set of tokens with a total probability of `top_p`, and their ids; sorts only as many as needed."""
    size = 64
    while True:
        values, ids = probabilities.topk(min(size, len(probabilities)))
        preceding = values.cumsum(-1) - values
        count = max(1, int((preceding < top_p).sum()))  # the token that crosses the threshold counts
        if count < size:
            return values[:count], ids[:count]
        size *= 8
