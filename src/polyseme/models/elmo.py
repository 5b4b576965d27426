"""ELMo: two language models, one from each end, over words that are read letter by letter (Peters et al., 2018).

Set apart from what came before in three ways: a word has no vector of its own, its spelling makes one, so that none is
unknown; the two directions share nothing but these vectors and the output; and all layers are meant to be used, mixed
by what the task has weighed them to be worth (`layers/mix.py`). Layer 0 is the vector of the word, twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from polyseme.layers.dropout import Dropout
from polyseme.layers.lstm import ProjectedLstm
from polyseme.models.base import Encoder, ModelConfig
from polyseme.tensors import Batch, Encoded, Recurrent, State
from polyseme.text.tokenizer import Tokenizer

NUM_CHARACTERS = 261  # 256 bytes, and these:
_FIRST, _LAST, _BEGIN, _END, _REST = range(256, 261)  # the words around a sentence; around a word, and behind it
_AT_ONCE = 2048  # words whose vectors are made together
_ROUND_WORDS, _ROUND_LETTERS = 128, 8


class ElmoConfig(ModelConfig):
    """The sizes of an ELMo; the defaults are those of the paper."""

    vocab_size: int = Field(793_471, ge=1)  # words that can be predicted
    width: int = Field(512, ge=1)  # of the vector of a word, and of each direction of a layer
    cell_width: int = Field(4096, ge=1)  # of what a layer remembers
    num_layers: int = Field(2, ge=1)
    character_width: int = Field(16, ge=1)
    filters: tuple[tuple[int, int], ...] = Field(  # how many letters are seen at once, and by how many filters
        ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)), min_length=1, max_length=50
    )
    num_highways: int = Field(2, ge=0, le=50)
    max_characters: int = Field(50, ge=12, le=1000)  # of a word, with those that are put around it
    cell_clip: float = Field(3.0, gt=0)
    clip: float = Field(3.0, gt=0)  # of what a layer gives
    residual: bool = True  # layers above the first add to what they are given
    dropout: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _filters_that_fit(self) -> ElmoConfig:
        for width, number in self.filters:
            if not 1 <= width <= self.max_characters or number < 1:
                raise ValueError(f"filters: [{width}, {number}] fits no word; say [[1, 32], [2, 64]]")
        return self

    def spelling_of(self, tokenizer: Tokenizer) -> Tensor:
        """The letters of all tokens, (V, C); those around a sentence are letters of their own."""
        spelling = spell([tokenizer.token(id) for id in range(tokenizer.vocab_size)], self.max_characters)
        for id, letter in ((tokenizer.specials.start, _FIRST), (tokenizer.specials.end, _LAST)):
            if id is not None:
                spelling[id] = _REST
                spelling[id, :3] = torch.tensor([_BEGIN, letter, _END])
        return spelling


class Highway(nn.Module):
    """A layer that chooses, number by number, between its own and what it was given (Srivastava et al., 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)  # how much of its own is taken; little at first
        for linear in (self.transform, self.carry):
            nn.init.normal_(linear.weight, std=width**-0.5)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, F.relu(self.transform(x)), torch.sigmoid(self.carry(x)))


class SpelledWords(nn.Module):
    """Vectors of words from their letters; stands where other families have a table of vectors."""

    spelling: Tensor  # (V, C)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = config.vocab_size, config.width
        self.register_buffer("spelling", _numbered(config.vocab_size, config.max_characters))
        self.characters = nn.Embedding(NUM_CHARACTERS, config.character_width)
        self.filters = nn.ModuleList(
            nn.Conv1d(config.character_width, number, width) for width, number in config.filters
        )
        num_filters = sum(number for _, number in config.filters)
        self.highways = nn.ModuleList(Highway(num_filters) for _ in range(config.num_highways))
        self.projection = nn.Linear(num_filters, config.width)
        self.widest = max(width for width, _ in config.filters)
        nn.init.uniform_(self.characters.weight, -1, 1)
        nn.init.normal_(self.projection.weight, std=num_filters**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, ids: Tensor, letters: Tensor | None = None) -> Tensor:
        """The vectors of words, (…, D), some of them with letters of their own; each word is read once."""
        words, places = torch.unique(ids, return_inverse=True)
        if letters is None:
            spelling = self.spelling[words]
        else:
            known = words[words < len(self.spelling)]  # they come first
            spelling = torch.cat([self.spelling[known], letters[words[len(known) :] - len(self.spelling)]])
        return F.embedding(places, self.read(spelling))

    def read(self, spelling: Tensor) -> Tensor:
        """The vectors of words that are spelt so, (N, C) to (N, D)."""
        # Behind its end every word looks the same, so that little more than the longest has to be looked at. Sizes are
        # rounded up, so that they come again: for each new one torch prepares itself anew, and keeps what it prepared.
        num_words, longest = len(spelling), int((spelling != _REST).sum(1).max()) + self.widest
        spelling = F.pad(spelling, (0, 0, 0, -num_words % _ROUND_WORDS), value=_REST)
        spelling = spelling[:, : longest + -longest % _ROUND_LETTERS]
        letters = self.characters(spelling.long()).transpose(1, 2)  # (N, width, C)
        # ReLU after the largest is found, as in the program of the paper.
        x = F.relu(torch.cat([filters(letters).amax(-1) for filters in self.filters], 1))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)[:num_words]  # type: ignore[no-any-return]

    @property
    def weight(self) -> Tensor:
        """The vectors of all words, (V, D), made anew."""
        with torch.no_grad():
            return torch.cat([self.read(some) for some in torch.split(self.spelling, _AT_ONCE)])


class Elmo(Encoder):
    """See the top of this file."""

    Config = ElmoConfig
    context = "both"
    any_length = True
    reads_letters = True
    tokens: SpelledWords  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.widths = (2 * config.width,) * (config.num_layers + 1)
        self.tokens = SpelledWords(config)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                ProjectedLstm(
                    config.width, config.cell_width, config.width, cell_clip=config.cell_clip, clip=config.clip
                )
                for _ in ("forward", "backward")
            )
            for _ in range(config.num_layers)
        )
        self.drop = Dropout(config.dropout)

    def spell(self, tokenizer: Tokenizer) -> None:
        self.tokens.spelling[: tokenizer.vocab_size] = self.config.spelling_of(tokenizer)

    def letters(self, words: Sequence[str]) -> Tensor:
        return spell(words, self.config.max_characters)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.lengths is not None:
            return self._one_after_another(batch)
        read = state or Recurrent(batch.carried)
        before = read.carried or self.begin(len(batch.ids), 0).carried
        lengths = batch.mask.sum(1)
        order = None
        if batch.mirrored is None:
            left = self.tokens(batch.ids, batch.letters).transpose(0, 1)  # (T, B, D)
            order = _reversal(lengths, len(left))[..., None]
            right = left.gather(0, order.expand_as(left))
        else:
            left, right = self.tokens(torch.stack([batch.ids, batch.mirrored])).transpose(1, 2)

        rows, ends = torch.arange(len(lengths), device=lengths.device), (lengths - 1).clamp_min(0)
        sides = [left, right]
        layers = [_joined(sides, order)]
        hidden, cell = [], []
        for number, directions in enumerate(self.layers):
            for side, lstm in enumerate(directions.children()):
                place = 2 * number + side
                x = self.drop(sides[side])
                y, cells = lstm(x, before["hidden"][:, place], before["cell"][:, place])
                hidden.append(y[ends, rows])
                cell.append(cells[ends, rows])
                sides[side] = y + x if number and self.config.residual else y
            layers.append(_joined(sides, order))
        layers[-1] = self.drop(layers[-1])
        after = Recurrent({"hidden": torch.stack(hidden, 1), "cell": torch.stack(cell, 1)}, read.length + len(left))
        return Encoded(layers=tuple(layers), mask=batch.mask, state=after)

    def _one_after_another(self, batch: Batch) -> Encoded:
        assert batch.lengths is not None
        rows = torch.split(batch.ids[0], list(batch.lengths))
        ids = pad_sequence(list(rows), batch_first=True)
        lengths = torch.tensor(batch.lengths, device=ids.device)
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        layers = self(Batch(ids=ids, mask=mask, letters=batch.letters)).layers
        return Encoded(layers=tuple(layer[mask][None] for layer in layers), mask=batch.mask, lengths=batch.lengths)

    def begin(self, num_rows: int, max_length: int) -> Recurrent:
        num_directions = 2 * self.config.num_layers  # the forward one of each layer first
        weight = self.tokens.projection.bias
        return Recurrent(
            {
                "hidden": weight.new_zeros(num_rows, num_directions, self.config.width),
                "cell": weight.new_zeros(num_rows, num_directions, self.config.cell_width),
            }
        )

    def summarize(self, encoded: Encoded) -> Tensor:
        # Each direction where it has read the whole row.
        width = self.config.width
        return torch.cat([encoded.last()[:, :width], encoded.first()[:, width:]], 1)

    def stages(self) -> list[nn.Module]:
        return [self.tokens, *self.layers]


def spell(words: Sequence[str], max_characters: int) -> Tensor:
    """The letters of words, as bytes between marks, cut to fit, (N, C)."""
    spelling = torch.full((len(words), max_characters), _REST, dtype=torch.int16)
    for number, word in enumerate(words):
        letters = [_BEGIN, *word.encode(errors="replace")[: max_characters - 2], _END]
        spelling[number, : len(letters)] = torch.tensor(letters, dtype=torch.int16)
    return spelling


def _numbered(vocab_size: int, max_characters: int) -> Tensor:
    """Spellings of words that nobody has named yet: their numbers."""
    num_digits = len(str(vocab_size))
    digits = torch.arange(vocab_size)[:, None] // 10 ** torch.arange(num_digits - 1, -1, -1) % 10 + ord("0")
    spelling = torch.full((vocab_size, max_characters), _REST, dtype=torch.int16)
    spelling[:, 0], spelling[:, num_digits + 1] = _BEGIN, _END
    spelling[:, 1 : num_digits + 1] = digits
    return spelling


def _reversal(lengths: Tensor, length: int) -> Tensor:
    """Where each token goes if rows are turned about and padding stays, (T, B); the same leads back."""
    places = torch.arange(length, device=lengths.device)[:, None]
    return torch.where(places < lengths, lengths - 1 - places, places)


def _joined(sides: Sequence[Tensor], order: Tensor | None) -> Tensor:
    """Both directions of each word side by side, (B, T, 2 D), in the order of the text if `order` leads back to it."""
    left, right = sides
    if order is not None:
        right = right.gather(0, order.expand_as(right))
    return torch.cat([left, right], -1).transpose(0, 1)
