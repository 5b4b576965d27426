"""Texts that a model writes at the same time: a new one joins at the next token, and one that has ended leaves.

Each text has a memory of its own (keys and values, or a recurrent state). A prompt is read alone; after it, each step
reads the last token of every text together. A text is the same, bit for bit, whoever else is being written for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from polyseme.generation import Sampling, choose
from polyseme.layers.attention import Cache, Caches
from polyseme.layers.linear import MOST_ROWS, alike
from polyseme.objectives.next_token import NextToken
from polyseme.pretrained import Pretrained
from polyseme.serve.pieces import Piece, Pieces
from polyseme.tensors import Batch, State

logger = logging.getLogger(__name__)

Ending = Literal["stop", "length", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Told:
    """How likely a token was, and what else might have been."""

    logprob: float
    top: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class News:
    """What has been written since the last news."""

    pieces: list[Piece]
    num_tokens: int = 0  # so far
    ending: Ending | None = None


@dataclass(eq=False)
class Manuscript:
    """A text that is being written, and who waits for it."""

    prompt: list[int]
    sampling: Sampling
    num_logprobs: int | None
    news: asyncio.Queue[News]
    loop: asyncio.AbstractEventLoop
    left: bool = False  # whether nobody waits any more
    text: list[int] = field(default_factory=list)
    place: int = 0  # up to where it was read
    state: State | None = None
    pieces: Pieces | None = None
    chance: torch.Generator = field(default_factory=torch.Generator)
    num_written: int = 0


class Writer:
    """All that one model writes."""

    def __init__(self, model: Pretrained) -> None:
        assert model.tokenizer is not None
        self.model = model
        self.tokenizer = model.tokenizer
        self.head: NextToken = next(part for part in model.objective.parts if isinstance(part, NextToken))
        self.num_kept = len(self.tokenizer.null)
        self.end = self.tokenizer.specials.end
        self.limit = model.encoder.config.max_length
        self.joining: list[Manuscript] = []
        self.writing: list[Manuscript] = []
        self.num_tokens = 0  # written in all
        self._lock = threading.Lock()

    @property
    def num_open(self) -> int:
        """Texts that are not ended."""
        return len(self.writing) + len(self.joining)

    def join(self, manuscript: Manuscript) -> None:
        """Write this too, from the next token on."""
        with self._lock:
            self.joining.append(manuscript)

    def step(self) -> bool:
        """Write one token of each text; whether any is left."""
        with self._lock:
            self.joining = [one for one in self.joining if not one.left]
            self.writing = [one for one in self.writing if not one.left]
            room = MOST_ROWS - len(self.writing)
            new, self.joining = self.joining[:room], self.joining[room:]
        for manuscript in new:
            self._begin(manuscript)
        self.writing += new
        told: list[tuple[Manuscript, News]] = []
        with torch.inference_mode():
            for some, logits in self._read():
                for manuscript, scores in zip(some, logits, strict=True):
                    news = self._write(manuscript, scores)
                    told.append((manuscript, news))
                    if news.ending:
                        self.writing.remove(manuscript)
        _tell(told)
        with self._lock:
            return bool(self.writing or self.joining)

    def stop(self, why: Literal["stopped", "failed"]) -> None:
        """End all at once."""
        with self._lock:
            ended, self.writing, self.joining = [*self.writing, *self.joining], [], []
        _tell([(manuscript, News(pieces=[], ending=why)) for manuscript in ended])

    def _begin(self, manuscript: Manuscript) -> None:
        prompt = manuscript.prompt
        manuscript.text = list(prompt)
        manuscript.place = max(self.num_kept, len(prompt) - self.limit + 1 + self.num_kept)
        manuscript.pieces = Pieces(self.tokenizer, prompt, manuscript.sampling.stop)
        manuscript.chance.manual_seed(manuscript.sampling.seed)

    def _read(self) -> list[tuple[list[Manuscript], Tensor]]:
        """What was not read yet: of new texts their prompt, each alone, and of the others the last token together."""
        read, together = [], []
        for manuscript in self.writing:
            state, number = manuscript.state, len(manuscript.text) - manuscript.place
            if state is None:
                room = min(self.limit, self.num_kept + number + manuscript.sampling.max_tokens)
                read.append(([manuscript], self._forward(manuscript, room)))
            elif state.room is not None and state.length + number > state.room:
                # Past the model's length the older half of the text is forgotten and the rest read again.
                manuscript.place = len(manuscript.text) - self.limit // 2
                read.append(([manuscript], self._forward(manuscript, self.limit)))
            else:
                together.append(manuscript)
        if together:
            read.append((together, self._forward_together(together)))
        return read

    def _forward(self, manuscript: Manuscript, room: int) -> Tensor:
        kept = manuscript.prompt[: self.num_kept]
        manuscript.state = self.model.encoder.begin(1, room)
        return self._logits([manuscript], [kept + manuscript.text[manuscript.place :]], manuscript.state)

    def _forward_together(self, some: Sequence[Manuscript]) -> Tensor:
        caches = [one.state for one in some if isinstance(one.state, Cache)]
        if len(caches) < len(some):  # recurrent states: how these are multiplied depends on how many there are
            return torch.cat([self._logits([one], [one.text[one.place :]], one.state) for one in some])
        with alike():
            return self._logits(some, [one.text[one.place :] for one in some], Caches(caches))

    def _logits(self, some: Sequence[Manuscript], ids: list[list[int]], state: State | None) -> Tensor:
        encoder = self.model.encoder
        encoded = encoder(Batch.of(torch.tensor(ids, device=encoder.device)), state)
        for manuscript in some:
            if not isinstance(state, Caches):
                manuscript.state = encoded.state
            manuscript.place = len(manuscript.text)
        return self.head.logits(encoder, self.head.read(encoded)[:, -1]).cpu()

    def _write(self, manuscript: Manuscript, logits: Tensor) -> News:
        token = choose(logits, manuscript.text, manuscript.sampling, manuscript.chance)
        pieces = manuscript.pieces
        assert pieces is not None
        if token == self.end:
            return News(pieces=pieces.end(), num_tokens=manuscript.num_written, ending="stop")
        manuscript.text.append(token)
        manuscript.num_written += 1
        self.num_tokens += 1
        told = None if manuscript.num_logprobs is None else self._told(pieces, logits, token, manuscript.num_logprobs)
        given = pieces.add(token, told)
        ending: Ending | None = None
        if pieces.stopped:
            ending = "stop"
        elif manuscript.num_written >= manuscript.sampling.max_tokens:
            ending, given = "length", [*given, *pieces.end()]
        return News(pieces=given, num_tokens=manuscript.num_written, ending=ending)

    def _told(self, pieces: Pieces, logits: Tensor, token: int, number: int) -> Told:
        chances = logits.log_softmax(-1)
        top: dict[str, float] = {}
        if number:
            best = chances.topk(min(number, len(chances)))
            for id, value in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                spelt = pieces.spell(id)
                if not spelt or "\ufffd" in spelt or spelt in top:
                    spelt = self.tokenizer.token(id)
                top[spelt] = value
        return Told(logprob=float(chances[token]), top=top)


def _tell(told: Sequence[tuple[Manuscript, News]]) -> None:
    """Hand news to the event loop, all at once."""

    def hand_over() -> None:
        for manuscript, news in told:
            manuscript.news.put_nowait(news)

    if told:
        try:
            told[0][0].loop.call_soon_threadsafe(hand_over)
        except RuntimeError:  # the loop is closed, and nobody waits
            logger.debug("news came too late")


def manuscript_of(
    model: Pretrained, prompt: list[int], sampling: Sampling, num_logprobs: int | None = None
) -> Manuscript:
    """A text to be written for the running task."""
    return Manuscript(prompt, sampling, num_logprobs, asyncio.Queue(), asyncio.get_running_loop())


def settings(**given: Any) -> Sampling:
    """How tokens are chosen, where what is not given stays as it is."""
    return Sampling(**{name: value for name, value in given.items() if value is not None})
