"""A loaded model: contextual vectors, masked-token prediction, generation, translation, scoring and prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.batch import Batch, split_packed
from polyseme.config import suggest_name
from polyseme.datasets.labelled_files import parse_examples, read_examples
from polyseme.datasets.records import Example
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.batching import Window, assign_oov_ids, encode_packed, tokenize_window_ids, tokenize_windows
from polyseme.inference.beam_search import BeamSearchConfig, cross_attention, translate_ids
from polyseme.inference.capabilities import Capability, LikelihoodScale, capabilities_of, likelihood_scale
from polyseme.inference.detokenizer import Detokenizer
from polyseme.inference.embedding_space import AnalogyMethod, EmbeddingSpace, Neighbour
from polyseme.inference.generation import GenerationConfig, LanguageModel, batch_prompts, generate_batch, generate_ids
from polyseme.inference.likelihood import score_continuations, score_texts
from polyseme.inference.pseudo_likelihood import score_pseudo_likelihood
from polyseme.inference.scores import Score
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.objectives.translation import Translation
from polyseme.tasks import TASKS, FineTuningObjective, Task
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tokenization.config import SpecialTokens
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.finetune_recipe import FineTuningRecipe
from polyseme.training.recipe import Recipe
from polyseme.training.storage.model_dir import (
    write_model,
)

Head = TypeVar("Head", bound=Objective)

Pool = Literal["mean", "first", "last", "max"]

# From tokens (1, T, D) to windows, and from windows to texts, given the first window of each; means are sums until
# the end.
_POOLS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[..., NDArray[np.float32]]]] = {
    "mean": (lambda tokens: tokens.sum(1), np.add.reduceat),
    "first": (lambda tokens: tokens[:, 0], lambda windows, firsts: windows[firsts]),
    "last": (lambda tokens: tokens[:, -1], lambda windows, firsts: windows[np.append(firsts[1:], len(windows)) - 1]),
    "max": (lambda tokens: tokens.amax(1), np.maximum.reduceat),
}

_PREDICT_BATCH_SIZE = 64
_MIN_LENGTH = 4  # two special tokens, a token to read and one to predict


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The tokens of a text, their character offsets, and their vectors in every layer."""

    tokens: list[str]
    offsets: list[tuple[int, int]]  # (0, 0) or empty for special tokens
    layers: list[NDArray[np.float32]]  # each (T, D)


@dataclass(frozen=True, kw_only=True)
class MaskPrediction:
    """A candidate for a masked token."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """A translation with the cross-attention weights of its tokens."""

    translation: str
    source: list[str]
    target: list[str]
    weights: NDArray[np.float32]  # (target, source)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """An encoder with the heads that it was trained with, and its tokenizer and recipe where there are any."""

    folder: Path
    family: str
    encoder: Encoder
    objective: JointObjective
    tokenizer: Tokenizer | None
    recipe: Recipe | FineTuningRecipe | None

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """What the model can do: embed, neighbours, senses, fill, score, generate, translate, attention, predict."""
        return capabilities_of(self.encoder, self.objective, self.tokenizer)

    @property
    def likelihood_scale(self) -> LikelihoodScale | None:
        """How `score` works here: causal, bidirectional or masked; scores on different scales cannot be compared."""
        return likelihood_scale(self.objective)

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return every layer of every token.

        Args:
            texts: Texts of any length; those longer than the model are encoded in consecutive windows.

        Returns:
            An `Encoding` per text: tokens, character offsets, and an array (tokens, width) per layer. Layer 0 is the
            embedding, without context.

        Example:
            >>> model = ps.load("runs/bert")
            >>> encoding = model.encode(["the bank of the river"])[0]
            >>> dict(zip(encoding.tokens, encoding.layers[-1]))["bank"].shape
            (128,)
        """
        windows = tokenize_windows(self.require_tokenizer(), texts, self.encoder.config.max_length)
        layers: dict[int, list[NDArray[np.float32]]] = {}
        for group, encoded in encode_packed(self.encoder, *self._window_ids(texts, windows)):
            ends = np.cumsum([len(windows[index].ids) for index in group])[:-1]
            parts = [np.split(layer[0].cpu().numpy(), ends) for layer in encoded.layers]
            layers |= {index: of_window for index, *of_window in zip(group, *parts, strict=True)}
        return [
            Encoding(
                tokens=[token for index in indices for token in windows[index].tokens],
                offsets=[offset for index in indices for offset in windows[index].offsets],
                layers=[np.concatenate(parts) for parts in zip(*(layers[index] for index in indices), strict=True)],
            )
            for indices in _windows_of_texts(windows, len(texts))
        ]

    def embed(self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1) -> NDArray[np.float32]:
        """Return one vector per text.

        Args:
            texts: Texts of any length.
            pool: How token vectors are pooled, special tokens included: "mean", "first", "last" or "max".
            layer: The layer to read, from 0 (the embedding) to the number of layers; negative numbers count from the
                top.

        Returns:
            An array (texts, width).

        Example:
            >>> model = ps.load("runs/bert")
            >>> model.embed(["a sentence", "another one"]).shape
            (2, 128)
        """
        return self.embed_with_counts(texts, pool=pool, layer=layer)[0]

    def embed_with_counts(
        self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1
    ) -> tuple[NDArray[np.float32], list[int]]:
        """Return the vectors of `embed` and the number of tokens of each text."""
        num_layers = len(self.encoder.widths)
        if not -num_layers <= layer < num_layers:
            raise ConfigError(f"layer {layer} does not exist; choose 0 (the embedding) to {num_layers - 1}")
        if pool not in _POOLS:
            raise ConfigError(f"{pool!r} is not a pooling method{suggest_name(pool, _POOLS)}")
        windows, counts, characters = self._tokenize(texts)
        lengths = np.array([len(window) for window in windows], dtype=np.int64)
        firsts = np.cumsum([0, *counts])[:-1]  # window of each text
        pool_window, pool_text = _POOLS[pool]
        vectors = np.empty((len(windows), self.encoder.widths[layer]), dtype=np.float32)
        for group, encoded in encode_packed(self.encoder, windows, characters):
            pooled = [pool_window(run) for run in split_packed(encoded.layers[layer][0], lengths[group].tolist())]
            vectors[group] = torch.cat(pooled).cpu().numpy()
        vectors, totals = pool_text(vectors, firsts), np.add.reduceat(lengths, firsts)
        if pool == "mean":
            vectors /= totals[:, None]
        return vectors, totals.tolist()

    def fill(self, text: str, *, top: int = 5) -> list[list[MaskPrediction]]:
        """Predict the masked tokens of a text.

        Args:
            text: A text with one or more `[MASK]`.
            top: Number of candidates for each.

        Returns:
            For each `[MASK]`, the most probable tokens with their probabilities, the best first.

        Example:
            >>> model = ps.load("runs/bert")
            >>> [candidate.token for candidate in model.fill("The [MASK] barked.")[0]]
            ['dog', 'cat', 'man', 'boy', 'horse']
        """
        tokenizer, head = self.require_tokenizer(), self._find_head(MaskedLm, "fill")
        ids = tokenizer.encode(text.replace("[MASK]", tokenizer.token(head.mask))).ids
        masks = [position for position, id in enumerate(ids) if id == head.mask]
        if not masks:
            raise ConfigError("the text has no [MASK]; write [MASK] for each token to predict")
        limit = self.encoder.config.max_length
        starts = [max(0, min(position - limit // 2, len(ids) - limit)) for position in masks]  # window around each
        predictions = []
        for start in dict.fromkeys(starts):
            positions = [position - start for position, other in zip(masks, starts, strict=True) if other == start]
            with torch.inference_mode():
                window = torch.tensor([ids[start : start + limit]], device=self.encoder.device)
                encoded = self.encoder(Batch.of(window))
                probabilities = head.logits(self.encoder, encoded.layers[-1][0, positions]).softmax(-1)  # (masks, V)
                best = probabilities.topk(min(max(1, top), probabilities.shape[-1]))
            predictions += [
                [
                    MaskPrediction(token=tokenizer.token(id), probability=probability)
                    for probability, id in zip(values, indices, strict=True)
                ]
                for values, indices in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
        return predictions

    @overload
    def generate(self, prompt: str = "", **options: Any) -> str: ...

    @overload
    def generate(self, prompt: Sequence[str], **options: Any) -> list[str]: ...

    def generate(self, prompt: str | Sequence[str] = "", **options: Any) -> str | list[str]:
        """Generate text after a prompt, or after each of several, which are decoded in batches.

        Args:
            prompt: A text or a list of texts; "" starts a new document where the family can.
            max_tokens: Maximum number of new tokens (50).
            temperature: 0 decodes greedily (the default); 1 samples from the distribution of the model.
            top_k: Sample among the k most probable tokens; 0 for all.
            top_p: Nucleus sampling: the most probable tokens with this total probability (Holtzman et al., 2020).
            repetition_penalty: Above 1, tokens that occurred before become less probable (Keskar et al., 2019).
            seed: Seed of the sampling.
            stop: Strings that end the text; they are not part of it.

        Returns:
            The generated text without the prompt; a list where a list of prompts is given.

        Example:
            >>> model = ps.load("runs/gpt2")
            >>> text = model.generate("The function returns", max_tokens=20, temperature=0.8, top_p=0.95)
        """
        if isinstance(prompt, str):
            return "".join(self.stream(prompt, **options))
        config, model = GenerationConfig.parse(options, group="generate"), self.language_model
        prompts = [self.prompt_ids(text) for text in prompt]
        texts = ["" for _ in prompts]
        for group in batch_prompts([len(ids) for ids in prompts], config.max_tokens):
            detokenizers = [Detokenizer(self.require_tokenizer(), prompts[index], config.stop) for index in group]
            for tokens in generate_batch(model, [prompts[index] for index in group], config):
                for index, detokenizer, token in zip(group, detokenizers, tokens, strict=True):
                    if token is not None and not detokenizer.stopped:
                        texts[index] += "".join(piece.text for piece in detokenizer.add(token))
                if all(detokenizer.stopped for detokenizer in detokenizers):
                    break
            for index, detokenizer in zip(group, detokenizers, strict=True):
                if not detokenizer.stopped:
                    texts[index] += "".join(piece.text for piece in detokenizer.flush())
        return texts

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """Generate text after a prompt and yield it as it is generated, in whole characters.

        Args:
            prompt: A text; "" starts a new document where the family can.
            **options: Those of `generate`.

        Returns:
            An iterator over pieces of the text.

        Example:
            >>> model = ps.load("runs/gpt2")
            >>> for piece in model.stream("Once", max_tokens=20):
            ...     print(piece, end="", flush=True)
        """
        config = GenerationConfig.parse(options, group="generate")  # not in the generator: errors are raised here
        ids, model = self.prompt_ids(prompt), self.language_model
        return Detokenizer(self.require_tokenizer(), ids, config.stop).stream(generate_ids(model, ids, config))

    @property
    def language_model(self) -> LanguageModel:
        """The encoder, head and special tokens that text generation needs."""
        tokenizer, head = self.require_tokenizer(), self._find_head(CausalLm, "generate")
        return LanguageModel(
            encoder=self.encoder, head=head, end=tokenizer.specials.end, prefix_length=len(tokenizer.null_prefix)
        )

    def prompt_ids(self, text: str) -> list[int]:
        """The token ids of a prompt for generation, with the special tokens that the model expects before it."""
        self._require_left_to_right()
        tokenizer = self.require_tokenizer()
        ids = tokenizer.encode(text, specials=False).ids
        ids = tokenizer.special_template[0] + ids if ids else tokenizer.generation_prefix
        if not ids:
            raise ConfigError(f"{self.folder} cannot generate from an empty prompt; give one")
        return ids

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """Translate texts by beam search.

        Args:
            texts: Texts in the source language; those longer than the model are translated window by window.
            beam_size: Number of hypotheses (4); 1 decodes greedily.
            length_penalty: Exponent of the length normalisation of Wu et al. (2016); 0.6 as in Vaswani et al. (2017).
            max_extra: Tokens by which a translation may be longer than its source (50).

        Returns:
            A translation per text.

        Example:
            >>> model = ps.load("runs/en-de")
            >>> translation, = model.translate(["A man is sleeping."], beam_size=8)
        """
        windows, found = self._translate(texts, options)
        decode = self.require_tokenizer().decode
        return [
            " ".join(decode(found[index]).strip() for index in indices)
            for indices in _windows_of_texts(windows, len(texts))
        ]

    def align(self, texts: Sequence[str], **options: Any) -> list[Alignment]:
        """Translate texts and return the cross-attention weights as a soft word alignment (Bahdanau et al., 2015).

        Args:
            texts: Texts in the source language; of those longer than the model, the first window is translated.
            **options: Those of `translate`.

        Returns:
            An `Alignment` per text: the translation, source and target tokens, and weights (target, source).

        Example:
            >>> model = ps.load("runs/en-de")
            >>> alignment = model.align(["A man is sleeping."])[0]
            >>> alignment.weights.shape == (len(alignment.target), len(alignment.source))
            True
        """
        windows, found = self._translate(texts, options)
        tokenizer, head = self.require_tokenizer(), self._find_head(Translation, "translate")
        return [
            Alignment(
                translation=tokenizer.decode(found[index]).strip(),
                source=windows[index].tokens,
                target=[tokenizer.token(id) for id in found[index]],
                weights=cross_attention(self.encoder, head, windows[index].ids, found[index]).cpu().numpy(),
            )
            for index, *_ in _windows_of_texts(windows, len(texts))
        ]

    def _translate(self, texts: Sequence[str], options: Mapping[str, Any]) -> tuple[list[Window], list[list[int]]]:
        config, head = BeamSearchConfig.parse(options, group="translate"), self._find_head(Translation, "translate")
        windows = tokenize_windows(self.require_tokenizer(), texts, self.encoder.config.max_length)
        return windows, translate_ids(self.encoder, head, [window.ids for window in windows], config)

    def score(self, texts: Sequence[str], *, after: Sequence[str] | None = None, top: int | None = None) -> list[Score]:
        """Score texts by their log-likelihood.

        Masked language models are scored by pseudo-likelihood: each token is masked in turn (Salazar et al., 2020). The
        two cannot be compared; `Score.kind` names which it is. OOV words are charged for their spelling.

        Args:
            texts: Texts of any length; long ones are read in overlapping windows.
            after: A context for each text; then the likelihood of the text as its continuation. The space between the
                two belongs to the text.
            top: Also score each token, and list this many alternatives to it.

        Returns:
            A `Score` per text, in nats; `bits_per_character`, `perplexity` and `word_perplexity` derive from it.

        Example:
            >>> model = ps.load("runs/gpt2")
            >>> good, bad = model.score(["The cat sat on the mat.", "Mat the on sat cat the."])
            >>> good.bits_per_character < bad.bits_per_character
            True
        """
        tokenizer = self.require_tokenizer()
        if after is not None:
            head = self._find_head(CausalLm, "score continuations")
            self._require_left_to_right()
            return score_continuations(self.encoder, head, tokenizer, after, texts)
        if self.likelihood_scale == "masked":
            masked = self._find_head(MaskedLm, "score")
            return score_pseudo_likelihood(self.encoder, masked, tokenizer, texts, top=top)
        return score_texts(self.encoder, self._find_head(CausalLm, "score"), tokenizer, texts, top=top)

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """The tasks that the model was fine-tuned for, by name."""
        return self.objective.tasks if isinstance(self.objective, FineTuningObjective) else {}

    def example_type(self, task: str | None = None) -> type[Example]:
        """The fields of the examples of a task; the name may be omitted where there is one task."""
        name = self._find_task(task).name
        assert isinstance(self.recipe, FineTuningRecipe)
        return TASKS[self.recipe.tasks[name].kind].Example

    def predict(self, rows: Sequence[Any], *, task: str | None = None) -> list[Any]:
        """Predict with a fine-tuned model.

        Args:
            rows: Texts, tuples, dicts or examples with the input fields of the task, such as `{"text": …}` or
                `{"text_a": …, "text_b": …}`; labels are ignored.
            task: Name of the task, where the model was fine-tuned for several.

        Returns:
            A prediction per row; its fields depend on the task (label and probabilities, score, tags, span …).

        Example:
            >>> model = ps.load("runs/bert-reviews")
            >>> model.predict(["A wonderful film."])[0].label
            'positive'
        """
        chosen = self._find_task(task)
        examples = parse_examples(self.example_type(task), rows)
        if not examples:
            return []
        return chosen.predict(self.encoder, chosen.read(self._layout, examples, num_rows=_PREDICT_BATCH_SIZE))

    def score_task(
        self, data: str | Path, *, task: str | None = None, columns: Mapping[str, str] | None = None
    ) -> dict[str, float]:
        """Evaluate a fine-tuned model on a labelled file.

        Args:
            data: A labelled file in any of the formats that `finetune` reads.
            task: Name of the task, where the model was fine-tuned for several.
            columns: Columns under other names, such as `{"text": "review"}`.

        Returns:
            The metrics of the task by name, such as accuracy and macro F1.

        Example:
            >>> model = ps.load("runs/bert-reviews")
            >>> accuracy = model.score_task("test.tsv")["accuracy"]
        """
        chosen, examples = self._find_task(task), read_examples(data, self.example_type(task), columns=columns)
        return chosen.score(self.predict(examples, task=task), examples)

    def _find_task(self, name: str | None) -> Task[Any, Any]:
        tasks = self.tasks
        if not tasks:
            raise ConfigError(
                f"{self.folder} is not fine-tuned; run polyseme finetune {self.folder} --train FILE first"
            )
        if name is None and len(tasks) > 1:
            raise ConfigError(f"{self.folder} has several tasks; choose one of {', '.join(tasks)}")
        name = name or next(iter(tasks))
        if name not in tasks:
            raise ConfigError(f"{self.folder} has no task {name!r}{suggest_name(name, tasks)}")
        return tasks[name]

    @cached_property
    def _layout(self) -> InputFormatter:
        assert isinstance(self.recipe, FineTuningRecipe)
        return InputFormatter(self.encoder, self.require_tokenizer(), max_length=self.recipe.data.sequence_length)

    def neighbours(self, word: str, *, top: int = 10) -> list[Neighbour]:
        """Find the nearest neighbours of a word in the embedding (layer 0, without context).

        Args:
            word: A word that is a single token.
            top: Number of neighbours.

        Returns:
            Words with their cosine similarity, the nearest first.

        Example:
            >>> model = ps.load("runs/skipgram")
            >>> [neighbour.word for neighbour in model.neighbours("bank", top=3)]
            ['banks', 'lender', 'river']
        """
        return self.space.neighbours(word, top=top)

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 10, method: AnalogyMethod = "3cosadd"
    ) -> list[Neighbour]:
        """Solve an analogy in the embedding: `first` is to `second` as `third` is to …

        Args:
            first: Such as "man".
            second: Such as "king".
            third: Such as "woman".
            top: Number of answers.
            method: "3cosadd" (Mikolov et al., 2013) or "3cosmul" (Levy and Goldberg, 2014).

        Returns:
            Words with their scores, the best first; the three words are excluded.

        Example:
            >>> model = ps.load("runs/skipgram")
            >>> answers = model.analogy("man", "king", "woman")
        """
        return self.space.analogy(first, second, third, top=top, method=method)

    @cached_property
    def space(self) -> EmbeddingSpace:
        """The vectors of the vocabulary in layer 0."""
        return EmbeddingSpace(self.encoder, self.require_tokenizer())

    def save(self, folder: str | Path) -> None:
        """Write a model directory, which transformers opens too where it knows the family.

        Args:
            folder: A new or empty directory.

        Example:
            >>> ps.load("vectors.bin").save("models/vectors")
        """
        if not self.encoder.uses_characters and not isinstance(self.encoder.tokens.weight, Tensor):
            raise ConfigError('int8 weights cannot be saved; load the model with weights="float32"')
        folder, specials = Path(folder), self.tokenizer.specials if self.tokenizer else SpecialTokens()
        extra = {"pad_token_id": specials.pad}
        if self.encoder.context == "left":
            extra |= {"bos_token_id": specials.end, "eos_token_id": specials.end}
        extra = {name: id for name, id in extra.items() if id is not None}
        write_model(folder, family=self.family, encoder=self.encoder, heads=self.objective, extra=extra)
        if self.tokenizer:
            self.tokenizer.save(folder, max_length=self.encoder.config.max_length)

    def require_tokenizer(self) -> Tokenizer:
        """The tokenizer, or an error where the model cannot read text."""
        if self.tokenizer is None:
            raise CheckpointError(f"{self.folder} has no tokenizer files and cannot read text; use model.encoder")
        if self.encoder.config.max_length < _MIN_LENGTH:
            raise CheckpointError(
                f"{self.folder} has a maximum length of {self.encoder.config.max_length} tokens, too short for text; "
                "use model.encoder"
            )
        return self.tokenizer

    def _window_ids(
        self, texts: Sequence[str], windows: Sequence[Window]
    ) -> tuple[list[NDArray[np.int64]], Tensor | None]:
        """The ids of windows, and the characters of OOV words where the encoder reads characters."""
        if not self.encoder.uses_characters:
            return [np.array(window.ids) for window in windows], None
        ids, words = assign_oov_ids(self.require_tokenizer(), texts, windows, self.encoder.config.vocab_size)
        return ids, self.encoder.oov_characters(words)

    def _tokenize(self, texts: Sequence[str]) -> tuple[list[NDArray[np.int64]], list[int], Tensor | None]:
        """The ids of the windows of texts, the number of windows of each, and the characters of OOV words."""
        tokenizer, limit = self.require_tokenizer(), self.encoder.config.max_length
        if not self.encoder.uses_characters:
            return *tokenize_window_ids(tokenizer, texts, limit), None
        windows = tokenize_windows(tokenizer, texts, limit)
        ids, characters = self._window_ids(texts, windows)
        return ids, [len(indices) for indices in _windows_of_texts(windows, len(texts))], characters

    def _find_head(self, kind: type[Head], verb: str) -> Head:
        for part in self.objective.parts:
            if isinstance(part, kind):
                return part
        heads: dict[type[Objective], str] = {MaskedLm: "masked language model", Translation: "translation"}
        wanted = heads.get(kind, "causal language model")
        raise ConfigError(f"{self.folder} is a {self.family} and cannot {verb}; use a model with a {wanted} head")

    def _require_left_to_right(self) -> None:
        if self.encoder.context == "right":
            raise ConfigError(f"{self.folder} is a backward language model and cannot generate; use a forward one")


def _windows_of_texts(windows: Sequence[Window], num_texts: int) -> list[list[int]]:
    """The indices of the windows of each text."""
    indices: list[list[int]] = [[] for _ in range(num_texts)]
    for index, window in enumerate(windows):
        indices[window.text].append(index)
    return indices
