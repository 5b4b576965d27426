"""A trained model in the hand: `load` a directory and use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.config import nearest
from polyseme.errors import CheckpointError, ConfigError
from polyseme.evaluate.asking import AskConfig, ask
from polyseme.evaluate.figures import Figure
from polyseme.evaluate.suites import SuiteConfig, run_suite
from polyseme.files import whole_folder, write_file
from polyseme.generation import Sampling, generate_ids, generate_together, together
from polyseme.inside.asked import read_asked
from polyseme.inside.attention import Attention, attend
from polyseme.inside.layer_worth import Probed
from polyseme.inside.neighbours import Method, Neighbour, Space
from polyseme.inside.probe import ProbeConfig, probe_layers
from polyseme.inside.senses import Senses, SensesConfig, find_occurrences, look_at
from polyseme.interchange.directories import EXPORTS
from polyseme.interchange.onnx import GRAPHS, Parity, export_graph
from polyseme.interchange.word_vectors import VECTOR_FORMATS, write_vectors
from polyseme.models.base import Encoder
from polyseme.models.directory import (
    CONFIG,
    write_model,
)
from polyseme.objectives import Objective, Together
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.objectives.translation import Translation
from polyseme.reading import Row, encode_packs, name_unknown, read, read_ids
from polyseme.scoring import Score, continuations, likelihoods, pseudo_likelihoods
from polyseme.tasks import Task, Tuning
from polyseme.tasks.layout import Layout
from polyseme.tensors import Batch, runs
from polyseme.text.corpus import Corpus
from polyseme.text.forms import TASKS as FORMS
from polyseme.text.labelled import examples_of, read_examples
from polyseme.text.records import Example
from polyseme.text.samples import sample_text
from polyseme.text.sentences import split_sentences
from polyseme.text.tokenizer import Specials, Tokenizer
from polyseme.train.recipe import Recipe
from polyseme.train.run import check_unused
from polyseme.train.tuning_recipe import TuningRecipe
from polyseme.translating import Beam, attention, translate_ids

Head = TypeVar("Head", bound=Objective)
Pool = Literal["mean", "first", "last", "max"]
# From tokens (rows, T, D) to rows, and from rows to texts, given the first row of each; a mean is a sum until the end.
_POOLS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[..., NDArray[np.float32]]]] = {
    "mean": (lambda tokens: tokens.sum(1), np.add.reduceat),
    "first": (lambda tokens: tokens[:, 0], lambda rows, firsts: rows[firsts]),
    "last": (lambda tokens: tokens[:, -1], lambda rows, firsts: rows[np.append(firsts[1:], len(rows)) - 1]),
    "max": (lambda tokens: tokens.amax(1), np.maximum.reduceat),
}

_PREDICTED_ROWS = 64  # that are read at once
_FEWEST = 4  # tokens that make a row: two special ones, one to look at and one to guess


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """A text as a model sees it: tokens, where they stand in the text, and every layer."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    layers: list[NDArray[np.float32]]  # each (T, D)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A token for a blank."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """A translation, and where the model looked while it wrote each token of it."""

    translation: str
    source: list[str]
    target: list[str]
    weights: NDArray[np.float32]  # (target, source)


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """An encoder, the heads it was trained with, its tokenizer where there is one, its recipe where we wrote it."""

    folder: Path
    family: str
    encoder: Encoder
    objective: Together
    tokenizer: Tokenizer | None
    recipe: Recipe | TuningRecipe | None

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Every layer of every token; a text longer than the model is read in pieces."""
        rows = read(self._tokenizer, texts, self.encoder.config.max_length)
        layers: dict[int, list[NDArray[np.float32]]] = {}
        for group, encoded in encode_packs(self.encoder, *self._ids(texts, rows)):
            ends = np.cumsum([len(rows[number].ids) for number in group])[:-1]
            cut = [np.split(layer[0].cpu().numpy(), ends) for layer in encoded.layers]
            layers |= {number: parts for number, *parts in zip(group, *cut, strict=True)}
        return [
            Encoding(
                tokens=[token for number in mine for token in rows[number].tokens],
                offsets=[offset for number in mine for offset in rows[number].offsets],
                layers=[np.concatenate(parts) for parts in zip(*(layers[number] for number in mine), strict=True)],
            )
            for mine in _of_texts(rows, len(texts))
        ]

    def embed(self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1) -> NDArray[np.float32]:
        """One vector a text, (N, D), pooled over its tokens, special ones included."""
        return self.embed_counted(texts, pool=pool, layer=layer)[0]

    def embed_counted(
        self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1
    ) -> tuple[NDArray[np.float32], list[int]]:
        """The same, and the number of tokens of each text."""
        num_layers = len(self.encoder.widths)
        if not -num_layers <= layer < num_layers:
            raise ConfigError(f"there is no layer {layer}; the layers are 0 (the embedding) to {num_layers - 1}")
        if pool not in _POOLS:
            raise ConfigError(f"{pool!r} is no way to pool; say {', '.join(_POOLS)}")
        rows, counts, letters = self._read_ids(texts)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        firsts = np.cumsum([0, *counts])[:-1]  # row of each text
        of_row, of_text = _POOLS[pool]
        vectors = np.empty((len(rows), self.encoder.widths[layer]), dtype=np.float32)
        for group, encoded in encode_packs(self.encoder, rows, letters):
            pooled = [of_row(run) for run in runs(encoded.layers[layer][0], lengths[group].tolist())]
            vectors[group] = torch.cat(pooled).cpu().numpy()
        vectors, totals = of_text(vectors, firsts), np.add.reduceat(lengths, firsts)
        if pool == "mean":
            vectors /= totals[:, None]
        return vectors, totals.tolist()

    def fill(self, text: str, *, top: int = 5) -> list[list[Guess]]:
        """The likeliest tokens for each blank, written [MASK]."""
        tokenizer, masked = self._tokenizer, self._head(MaskedTokens, "fill blanks")
        ids = tokenizer.encode(text.replace("[MASK]", tokenizer.token(masked.mask))).ids
        blanks = [place for place, id in enumerate(ids) if id == masked.mask]
        if not blanks:
            raise ConfigError("there is no blank to fill; write [MASK] where the word is missing")
        limit = self.encoder.config.max_length
        starts = [max(0, min(place - limit // 2, len(ids) - limit)) for place in blanks]  # of the stretch around each
        guesses = []
        for start in dict.fromkeys(starts):
            places = [place - start for place, other in zip(blanks, starts, strict=True) if other == start]
            with torch.inference_mode():
                encoded = self.encoder(Batch.of(torch.tensor([ids[start : start + limit]], device=self._device)))
                chances = masked.logits(self.encoder, encoded.layers[-1][0, places]).softmax(-1)  # (blanks, V)
                best = chances.topk(min(max(1, top), chances.shape[-1]))
            guesses += [
                [Guess(token=tokenizer.token(id), probability=p) for p, id in zip(values, indices, strict=True)]
                for values, indices in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
        return guesses

    @overload
    def generate(self, prompt: str = "", **sampling: Any) -> str: ...

    @overload
    def generate(self, prompt: Sequence[str], **sampling: Any) -> list[str]: ...

    def generate(self, prompt: str | Sequence[str] = "", **sampling: Any) -> str | list[str]:
        """What the model writes after `prompt`, or after each of several; the settings are those of `Sampling`."""
        if isinstance(prompt, str):
            return "".join(self.stream(prompt, **sampling))
        settings = Sampling.parse(sampling, group="generate")
        tokenizer, head = self._tokenizer, self._head(NextToken, "generate")
        prompts = [self.prompt_ids(text) for text in prompt]
        written: list[list[int]] = [[] for _ in prompts]
        for group in together([len(ids) for ids in prompts], settings.max_tokens):
            rows = [prompts[number] for number in group]
            end, num_kept = tokenizer.specials.end, len(tokenizer.null)
            for tokens in generate_together(self.encoder, head, rows, settings, end, num_kept=num_kept):
                for number, token in zip(group, tokens, strict=True):
                    written[number] += [] if token is None else [token]
                if settings.stop and all(_stopped(tokenizer.decode(written[n]), settings.stop) for n in group):
                    break
        return [
            "".join(self._pieces(tokenizer, ids, iter(new), settings.stop))
            for ids, new in zip(prompts, written, strict=True)
        ]

    def stream(self, prompt: str = "", **sampling: Any) -> Iterator[str]:
        """The same while it is written, in pieces of whole characters."""
        settings = Sampling.parse(sampling, group="generate")  # here and not below, so that a mistake shows at once
        tokenizer, head = self._tokenizer, self._head(NextToken, "generate")
        ids = self.prompt_ids(prompt)
        num_kept = len(tokenizer.null)
        new = generate_ids(self.encoder, head, ids, settings, tokenizer.specials.end, num_kept=num_kept)
        return self._pieces(tokenizer, ids, new, settings.stop)

    def prompt_ids(self, text: str) -> list[int]:
        """The tokens to go on from, given a prompt."""
        self._check_forward()
        ids = self._tokenizer.encode(text, specials=False).ids
        ids = self._tokenizer.frame[0] + ids if ids else self._tokenizer.opening
        if not ids:
            raise ConfigError("there is nothing to go on from; give a prompt")
        return ids

    def _check_forward(self) -> None:
        if self.encoder.context == "right":
            raise ConfigError(f"{self.folder} reads from the end, so it cannot write on; use a forward model")

    @staticmethod
    def _pieces(tokenizer: Tokenizer, prompt: Sequence[int], ids: Iterator[int], stops: Sequence[str]) -> Iterator[str]:
        written = list(prompt[-1:])  # with some tokenizers only this says whether a space comes first
        start = len(tokenizer.decode(written))
        shown = text = ""
        for id in ids:
            written.append(id)
            text = tokenizer.decode(written)[start:]
            cuts = [text.find(stop) for stop in stops if stop in text]
            if cuts:
                yield text[len(shown) : min(cuts)]
                return
            # A character of several bytes and the beginning of a stop are held back until they are whole.
            safe = text.rstrip("\ufffd")
            safe = safe[: len(safe) - max((_overlap(safe, stop) for stop in stops), default=0)]
            if len(safe) > len(shown):
                yield safe[len(shown) :]
                shown = safe
        yield text[len(shown) :]

    def translate(self, texts: Sequence[str], **beam: Any) -> list[str]:
        """The translation of each text, by the settings of `Beam`; a text longer than the model is read in pieces."""
        rows, found = self._translate(texts, beam)
        decode = self._tokenizer.decode
        return [" ".join(decode(found[number]).strip() for number in mine) for mine in _of_texts(rows, len(texts))]

    def align(self, texts: Sequence[str], **beam: Any) -> list[Alignment]:
        """The same with the weights of attention; of a text longer than the model, its first piece."""
        rows, found = self._translate(texts, beam)
        tokenizer, head = self._tokenizer, self._head(Translation, "translate")
        return [
            Alignment(
                translation=tokenizer.decode(found[number]).strip(),
                source=rows[number].tokens,
                target=[tokenizer.token(id) for id in found[number]],
                weights=attention(self.encoder, head, rows[number].ids, found[number]).cpu().numpy(),
            )
            for number, *_ in _of_texts(rows, len(texts))
        ]

    def _translate(self, texts: Sequence[str], beam: Mapping[str, Any]) -> tuple[list[Row], list[list[int]]]:
        settings, head = Beam.parse(beam, group="translate"), self._head(Translation, "translate")
        rows = read(self._tokenizer, texts, self.encoder.config.max_length)
        return rows, translate_ids(self.encoder, head, [row.ids for row in rows], settings)

    def score(self, texts: Sequence[str], *, after: Sequence[str] | None = None, top: int | None = None) -> list[Score]:
        """How likely each text is; masked models by pseudo-likelihood, which says so.

        With `after`, how likely each is to follow another text; the space between them is part of the one that follows.
        With `top`, how likely each token is, and so many that might have stood there.
        """
        if after is not None:
            head = self._head(NextToken, "go on from a text")
            self._check_forward()
            return continuations(self.encoder, head, self._tokenizer, after, texts)
        if any(isinstance(part, NextToken) for part in self.objective.parts):
            return likelihoods(self.encoder, self._head(NextToken, "score text"), self._tokenizer, texts, top=top)
        masked = self._head(MaskedTokens, "score text")
        return pseudo_likelihoods(self.encoder, masked, self._tokenizer, texts, top=top)

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """What it was fine-tuned for, by name."""
        return self.objective.tasks if isinstance(self.objective, Tuning) else {}

    def form(self, task: str | None = None) -> type[Example]:
        """What examples of a task look like; a model that was fine-tuned for one task needs no name."""
        chosen = self._task(task)
        assert isinstance(self.recipe, TuningRecipe)
        return FORMS[self.recipe.tasks[chosen.name].kind]

    def predict(self, rows: Sequence[Any], *, task: str | None = None) -> list[Any]:
        """The answers of a fine-tuned model to examples, or to rows of plain values."""
        chosen = self._task(task)
        examples = examples_of(self.form(task), rows)
        if not examples:
            return []
        return chosen.predict(self.encoder, chosen.read(self._layout, examples, num_rows=_PREDICTED_ROWS))

    def score_task(
        self, data: str | Path, *, task: str | None = None, columns: Mapping[str, str] | None = None
    ) -> dict[str, float]:
        """How far its answers to a labelled file are right."""
        chosen, examples = self._task(task), read_examples(data, self.form(task), columns=columns)
        return chosen.score(self.predict(examples, task=task), examples)

    def _task(self, name: str | None) -> Task[Any, Any]:
        tasks = self.tasks
        if not tasks:
            raise ConfigError(
                f"{self.folder} is not fine-tuned; say polyseme finetune {self.folder} --train FILE first"
            )
        if name is None and len(tasks) > 1:
            raise ConfigError(f"{self.folder} knows several tasks; name one of {', '.join(tasks)}")
        name = name or next(iter(tasks))
        if name not in tasks:
            raise ConfigError(f"{self.folder} knows no task {name!r}{nearest(name, tasks)}")
        return tasks[name]

    @cached_property
    def _layout(self) -> Layout:
        assert isinstance(self.recipe, TuningRecipe)
        return Layout(self.encoder, self._tokenizer, max_length=self.recipe.data.length)

    def neighbours(self, word: str, *, top: int = 10) -> list[Neighbour]:
        """The words nearest to a word in layer 0, by cosine."""
        return self.space.neighbours(word, top=top)

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 10, method: Method = "3cosadd"
    ) -> list[Neighbour]:
        """What is to `third` as `second` to `first`, in layer 0, by 3CosAdd or 3CosMul (Levy and Goldberg, 2014)."""
        return self.space.analogy(first, second, third, top=top, method=method)

    def attention(self, text: str, pair: str | None = None) -> Attention:
        """Where the tokens of a text, or of two in one frame, look in every head; a notebook shows it."""
        head = next((part for part in self.objective.parts if isinstance(part, Translation)), None)
        names = {"model": str(self.folder), "family": self.family}
        return attend(self.encoder, self._tokenizer, text, pair, head=head, **names)

    def senses(
        self,
        word: str,
        texts: str | Path | Sequence[Any],
        *,
        against: str | Path | Sequence[Any] | None = None,
        **settings: Any,
    ) -> Senses:
        """Every occurrence of a word in every layer, and how its senses separate, by the settings of `SensesConfig`.

        `texts` is a file, or a list of texts, of pairs of a text and a sense, or of rows; so is `against`, whose senses
        are then told by the nearest occurrence in `texts`, and else each by all others.
        """
        told = SensesConfig.parse(settings, group="senses")
        return look_at(self, find_occurrences(word, texts, told, against=against), told, name=self.folder.name)

    def probe(
        self,
        data: str | Path,
        *,
        task: str | Sequence[str] = (),
        dev: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> list[Probed]:
        """Which layers tasks read; these are `pos`, `dependencies`, `tag`, `classify`, `edges`, or as the file tells.

        The settings are those of `ProbeConfig`.
        """
        config = ProbeConfig.parse(settings, group="probe")
        kinds = [task] if isinstance(task, str) else task
        asked = read_asked(data, dev, kinds, columns=columns, most=config.most, seed=config.seed)
        return [step.found for step in probe_layers(self, asked, config) if step.found]

    def evaluate(self, data: str | Path, *, suite: str = "words", **settings: Any) -> list[Figure]:
        """How well the model does on sets that others have made; the settings are those of `SuiteConfig`.

        `likelihood` of the documents of a corpus; `words` in layer 0 and `minimal-pairs`, from a file or a folder of
        them; `senses` of words, from a folder; `prompts`: questions in words; `translate`: sentences of a table, with
        their translations.
        """
        return run_suite(self, Path(data), suite, SuiteConfig.parse(settings, group="evaluate"))

    def ask(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """The answers to questions that are put in words, by the settings of `AskConfig`, after examples or none."""
        return [reply.answer for reply in ask(self, texts, AskConfig.parse(settings, group="ask"))]

    def save(self, folder: str | Path) -> None:
        """Write a model directory, which transformers opens too."""
        if not self.encoder.reads_letters and not isinstance(self.encoder.tokens.weight, Tensor):
            raise ConfigError("weights in bytes cannot be saved; load the model with float32 weights")
        folder, specials = Path(folder), self.tokenizer.specials if self.tokenizer else Specials()
        extra = {"pad_token_id": specials.pad}
        if self.encoder.context == "left":
            extra |= {"bos_token_id": specials.end, "eos_token_id": specials.end}
        extra = {name: id for name, id in extra.items() if id is not None}
        write_model(folder, family=self.family, encoder=self.encoder, heads=self.objective, extra=extra)
        if self.tokenizer:
            self.tokenizer.save(folder, max_length=self.encoder.config.max_length)

    def export(
        self, path: str | Path, *, to: str = "onnx", texts: Sequence[str] | None = None
    ) -> tuple[Path, Parity | None]:
        """Write a model for other programs, and say where.

        As a folder with a graph that onnxruntime runs, in floats or in bytes, and how near its vectors are to ours on
        `texts`, or on sentences of a sample; or as a file of word vectors, those of layer 0 without special tokens;
        or as a folder of weights by the names of its authors' program.
        """
        if to in VECTOR_FORMATS:
            return self._export_vectors(Path(path), to), None
        if to in EXPORTS:
            return self._export_weights(Path(path), to), None
        if to not in GRAPHS:
            known = ", ".join([*GRAPHS, *VECTOR_FORMATS, *EXPORTS])
            raise ConfigError(f"{to!r} is nothing to export to; say one of {known}")
        folder = Path(path)
        check_unused(folder)
        documents = Corpus(*sample_text("docstrings").dev) if texts is None else ()
        sentences = (sentence for document in documents for sentence in split_sentences(document))
        rows, _ = read_ids(self._tokenizer, texts or list(islice(sentences, 100)), self.encoder.config.max_length)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with whole_folder(folder) as beside:
                graph, parity = export_graph(self.encoder, beside, to, rows)
                self._tokenizer.save(beside, max_length=self.encoder.config.max_length)
                write_file(beside / CONFIG, (self.folder / CONFIG).read_bytes())
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be written ({error.strerror}); choose another one") from None
        return folder / graph.name, parity

    def _export_weights(self, folder: Path, to: str) -> Path:
        family, write = EXPORTS[to]
        if self.family != family:
            raise ConfigError(f"only {family} can be exported to {to}; this is a {self.family}")
        check_unused(folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with whole_folder(folder) as beside:
                written = write(self.encoder, self.objective, beside, self._tokenizer)
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be written ({error.strerror}); choose another one") from None
        return folder / written.name

    def _export_vectors(self, path: Path, to: str) -> Path:
        if path.exists():
            raise ConfigError(f"{path} is there already; choose another --out")
        vectors, vocabulary = self.space.vectors.cpu().numpy(), self._tokenizer.backend.get_vocab()
        if not vectors.shape[1]:
            raise ConfigError(f"a {self.family} has no numbers to export; choose another model")
        words = sorted(
            vocabulary.keys() - map(self._tokenizer.token, self._tokenizer.special_ids), key=vocabulary.__getitem__
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_vectors(path, words, vectors[[vocabulary[word] for word in words]], to)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be written ({error.strerror}); choose another one") from None
        return path

    def _ids(self, texts: Sequence[str], rows: Sequence[Row]) -> tuple[list[NDArray[np.int64]], Tensor | None]:
        """The ids of rows, and the letters of words that the vocabulary lacks, where these can be read."""
        if not self.encoder.reads_letters:
            return [np.array(row.ids) for row in rows], None
        ids, words = name_unknown(self._tokenizer, texts, rows, self.encoder.config.vocab_size)
        return ids, self.encoder.letters(words)

    def _read_ids(self, texts: Sequence[str]) -> tuple[list[NDArray[np.int64]], list[int], Tensor | None]:
        """The same of texts, and the number of rows of each."""
        limit = self.encoder.config.max_length
        if not self.encoder.reads_letters:
            return *read_ids(self._tokenizer, texts, limit), None
        rows = read(self._tokenizer, texts, limit)
        ids, letters = self._ids(texts, rows)
        return ids, [len(mine) for mine in _of_texts(rows, len(texts))], letters

    def _head(self, kind: type[Head], verb: str) -> Head:
        for part in self.objective.parts:
            if isinstance(part, kind):
                return part
        others: dict[type[Objective], str] = {MaskedTokens: "a masked", Translation: "a translating"}
        wanted = others.get(kind, "a left-to-right")
        raise ConfigError(
            f"{self.folder} cannot {verb}: that needs {wanted} model, and this {self.family} has no such head"
        )

    @property
    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise CheckpointError(f"{self.folder} has no tokenizer files, so it cannot read text; use model.encoder")
        if self.encoder.config.max_length < _FEWEST:
            raise CheckpointError(
                f"{self.folder} reads {self.encoder.config.max_length} tokens at once, too few for text"
            )
        return self.tokenizer

    @cached_property
    def space(self) -> Space:
        """The words that it knows, by their vectors in layer 0."""
        return Space(self.encoder, self._tokenizer)

    @property
    def _device(self) -> torch.device:
        return self.encoder.device


def _of_texts(rows: Sequence[Row], num_texts: int) -> list[list[int]]:
    """Which rows each text was cut into."""
    mine: list[list[int]] = [[] for _ in range(num_texts)]
    for number, row in enumerate(rows):
        mine[row.text].append(number)
    return mine


def _stopped(text: str, stops: Sequence[str]) -> bool:
    return any(stop in text for stop in stops)


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
