"""ELMo: a bidirectional LSTM language model over character-based word vectors (Peters et al., 2018).

What is unusual: a character CNN replaces the embedding table, so that no word is out of vocabulary; the two directions
share only this CNN and the softmax; and tasks use all layers, by a trained scalar mix (`layers/scalar_mix.py`). Layer 0
is the word vector, twice.
"""

from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.batch import Batch, Encoded, RecurrentState, State
from polyseme.layers.dropout import Dropout
from polyseme.layers.projected_lstm import ProjectedLstm
from polyseme.models.base import Encoder, ModelConfig, encode_padded, reversed_positions
from polyseme.tokenization.tokenizer import Tokenizer

_NUM_CHARACTERS = 261  # 256 bytes and the following markers, as in bilm-tf
_SENTENCE_START, _SENTENCE_END, _WORD_START, _WORD_END, _PADDING = range(256, _NUM_CHARACTERS)
_WORDS_PER_CHUNK = 2048
_WORD_MULTIPLE, _CHARACTER_MULTIPLE = 128, 8  # shapes are rounded up to these


class ElmoConfig(ModelConfig):
    """Sizes of an ELMo; the defaults are those of the paper."""

    vocab_size: int = Field(793_471, ge=1)  # words that can be predicted
    width: int = Field(512, ge=1)  # of the word vectors and of each direction of a layer
    cell_width: int = Field(4096, ge=1)  # of the LSTM cells
    num_layers: int = Field(2, ge=1)
    character_width: int = Field(16, ge=1)
    filters: tuple[tuple[int, int], ...] = Field(  # (width in characters, number of filters)
        ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)), min_length=1, max_length=50
    )
    num_highways: int = Field(2, ge=0, le=50)
    max_characters: int = Field(50, ge=12, le=1000)  # of a word, with its start and end markers
    cell_clip: float = Field(3.0, gt=0)
    projection_clip: float = Field(3.0, gt=0)  # of the layer outputs
    residual: bool = True  # residual connections around all layers but the first
    dropout: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _check_filters(self) -> Self:
        for width, number in self.filters:
            if not 1 <= width <= self.max_characters or number < 1:
                raise ValueError(
                    f"filters: [{width}, {number}] is not a pair of width and number; use [[1, 32], [2, 64]]"
                )
        return self

    def token_characters(self, tokenizer: Tokenizer) -> Tensor:
        """Character ids of all tokens, (V, C); the start and the end of a sentence have characters of their own."""
        characters = character_ids([tokenizer.token(id) for id in range(tokenizer.vocab_size)], self.max_characters)
        for id, marker in ((tokenizer.specials.start, _SENTENCE_START), (tokenizer.specials.end, _SENTENCE_END)):
            if id is not None:
                characters[id] = _PADDING
                characters[id, :3] = torch.tensor([_WORD_START, marker, _WORD_END])
        return characters


class Highway(nn.Module):
    """Highway layer: gates each dimension between a ReLU layer and its input (Srivastava et al., 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)  # the gate; mostly closed at first
        for linear in (self.transform, self.carry):
            nn.init.normal_(linear.weight, std=width**-0.5)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, F.relu(self.transform(x)), torch.sigmoid(self.carry(x)))


class CharacterCnn(nn.Module):
    """Character CNN that computes word vectors; replaces the embedding table of other families (section 3.1)."""

    vocabulary: Tensor  # (V, C), character ids of all words

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = config.vocab_size, config.width
        self.register_buffer("vocabulary", _placeholder_words(config.vocab_size, config.max_characters))
        self.characters = nn.Embedding(_NUM_CHARACTERS, config.character_width)
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

    def forward(self, ids: Tensor, oov_characters: Tensor | None = None) -> Tensor:
        """Compute word vectors (…, D), each distinct word once; ids from V on are rows of `oov_characters`."""
        words, indices = torch.unique(ids, return_inverse=True)
        if oov_characters is None:
            characters = self.vocabulary[words]
        else:
            known = words[words < len(self.vocabulary)]  # `unique` sorts
            oov = oov_characters[words[len(known) :] - len(self.vocabulary)]
            characters = torch.cat([self.vocabulary[known], oov])
        return F.embedding(indices, self.encode(characters))

    def encode(self, characters: Tensor) -> Tensor:
        """Compute the vectors (N, D) of words given by their characters (N, C)."""
        # Padding beyond the longest word and the widest filter cannot change a maximum. Shapes are rounded up, because
        # torch's convolution prepares and caches a primitive for each new one.
        num_words, longest = len(characters), int((characters != _PADDING).sum(1).max()) + self.widest
        characters = F.pad(characters, (0, 0, 0, -num_words % _WORD_MULTIPLE), value=_PADDING)
        characters = characters[:, : longest + -longest % _CHARACTER_MULTIPLE]
        embedded = self.characters(characters.long()).transpose(1, 2)  # (N, width, C)
        # ReLU after the maximum, as in bilm-tf.
        x = F.relu(torch.cat([filters(embedded).amax(-1) for filters in self.filters], 1))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)[:num_words]  # type: ignore[no-any-return]

    @property
    def weight(self) -> Tensor:
        """Vectors of all words, (V, D), computed on every access."""
        with torch.no_grad():
            return torch.cat([self.encode(chunk) for chunk in torch.split(self.vocabulary, _WORDS_PER_CHUNK)])


class Elmo(Encoder):
    """Bidirectional LSTM over a character CNN."""

    Config = ElmoConfig
    context = "both"
    unlimited_length = True
    uses_characters = True
    tokens: CharacterCnn  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.widths = (2 * config.width,) * (config.num_layers + 1)
        self.tokens = CharacterCnn(config)
        sizes, clips = (config.width, config.cell_width, config.width), (config.cell_clip, config.projection_clip)
        self.layers = nn.ModuleList(
            nn.ModuleList(ProjectedLstm(*sizes, *clips) for _ in ("forward", "backward"))
            for _ in range(config.num_layers)
        )
        self.drop = Dropout(config.dropout)

    def set_tokenizer(self, tokenizer: Tokenizer) -> None:
        self.tokens.vocabulary[: tokenizer.vocab_size] = self.config.token_characters(tokenizer)

    def oov_characters(self, words: Sequence[str]) -> Tensor:
        return character_ids(words, self.config.max_characters)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        if batch.packed_lengths is not None:
            return encode_padded(self, batch)
        previous = state or RecurrentState(batch.initial_state)
        before = previous.recurrent_state or self.new_state(len(batch.ids), 0).recurrent_state
        lengths = batch.mask.sum(1)
        order = None
        if batch.backward_ids is None:
            left = self.tokens(batch.ids, batch.oov_characters).transpose(0, 1)  # (T, B, D)
            order = reversed_positions(batch.mask).T[..., None]
            right = left.gather(0, order.expand_as(left))
        else:
            left, right = self.tokens(torch.stack([batch.ids, batch.backward_ids])).transpose(1, 2)

        rows, ends = torch.arange(len(lengths), device=lengths.device), (lengths - 1).clamp_min(0)
        inputs = [left, right]
        layers = [_concatenate(inputs, order)]
        hidden, cell = [], []
        for number, directions in enumerate(self.layers):
            for direction, lstm in enumerate(directions.children()):
                index = 2 * number + direction
                x = self.drop(inputs[direction])
                y, cells = lstm(x, before["hidden"][:, index], before["cell"][:, index])
                hidden.append(y[ends, rows])
                cell.append(cells[ends, rows])
                inputs[direction] = y + x if number and self.config.residual else y
            layers.append(_concatenate(inputs, order))
        layers[-1] = self.drop(layers[-1])
        after = {"hidden": torch.stack(hidden, 1), "cell": torch.stack(cell, 1)}
        state = RecurrentState(after, previous.length + len(left))
        return Encoded(layers=tuple(layers), mask=batch.mask, state=state)

    def new_state(self, num_rows: int, max_length: int) -> RecurrentState:
        widths = {"hidden": self.config.width, "cell": self.config.cell_width}
        num_directions = 2 * self.config.num_layers  # forward, then backward of each layer
        new_zeros = self.tokens.projection.bias.new_zeros
        return RecurrentState({name: new_zeros(num_rows, num_directions, width) for name, width in widths.items()})

    def pool(self, encoded: Encoded) -> Tensor:
        # Each direction at the token where it has read the whole sequence.
        width = self.config.width
        return torch.cat([encoded.last()[:, :width], encoded.first()[:, width:]], 1)

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens, *self.layers]


def character_ids(words: Sequence[str], max_characters: int) -> Tensor:
    """UTF-8 bytes of words between a start and an end marker, truncated and padded, (N, C)."""
    characters = torch.full((len(words), max_characters), _PADDING, dtype=torch.int16)
    for number, word in enumerate(words):
        ids = [_WORD_START, *word.encode(errors="replace")[: max_characters - 2], _WORD_END]
        characters[number, : len(ids)] = torch.tensor(ids, dtype=torch.int16)
    return characters


def _placeholder_words(vocab_size: int, max_characters: int) -> Tensor:
    """Character ids of decimal numbers, in place of words until a tokenizer is set."""
    num_digits = len(str(vocab_size))
    digits = torch.arange(vocab_size)[:, None] // 10 ** torch.arange(num_digits - 1, -1, -1) % 10 + ord("0")
    characters = torch.full((vocab_size, max_characters), _PADDING, dtype=torch.int16)
    characters[:, 0], characters[:, num_digits + 1] = _WORD_START, _WORD_END
    characters[:, 1 : num_digits + 1] = digits
    return characters


def _concatenate(directions: Sequence[Tensor], order: Tensor | None) -> Tensor:
    """Concatenate both directions, (B, T, 2 D), restoring the text order of the backward one by `order`."""
    left, right = directions
    if order is not None:
        right = right.gather(0, order.expand_as(right))
    return torch.cat([left, right], -1).transpose(0, 1)
