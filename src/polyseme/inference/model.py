"""A loaded model: contextual vectors, masked-token prediction, generation, translation, scoring and prediction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from polyseme.arrays import Floats
from polyseme.config import suggest_name
from polyseme.datasets.labelled_files import parse_examples
from polyseme.datasets.records import Example
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.beam_search import Alignment, BeamSearchConfig, align_texts, translate_texts
from polyseme.inference.capabilities import Capability, LikelihoodScale, capabilities_of, likelihood_scale
from polyseme.inference.embedding_space import AnalogyMethod, EmbeddingSpace, Neighbour
from polyseme.inference.encoding import Encoding, Pool, embed_texts, encode_texts
from polyseme.inference.fill_mask import MaskPrediction, fill_masks
from polyseme.inference.generation import GenerationConfig, LanguageModel, generate_texts, stream_texts
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
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe
from polyseme.training.recipes.recipe import Recipe

Head = TypeVar("Head", bound=Objective)

_PREDICT_BATCH_SIZE = 64
_MIN_LENGTH = 4  # two special tokens, a token to read and one to predict


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
            >>> import polyseme as ps
            >>> model = ps.load("runs/bert")
            >>> encoding = model.encode(["the bank of the river"])[0]
            >>> dict(zip(encoding.tokens, encoding.layers[-1]))["bank"].shape
            (128,)
        """
        return encode_texts(self._vector_encoder, self.require_tokenizer(), texts)

    def embed(self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1) -> Floats:
        """Return one vector per text.

        Args:
            texts: Texts of any length.
            pool: How token vectors are pooled, special tokens included: "mean", "first", "last" or "max".
            layer: The layer to read, from 0 (the embedding) to the number of layers; negative numbers count from the
                top.

        Returns:
            An array (texts, width).

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/bert")
            >>> model.embed(["a sentence", "another one"]).shape
            (2, 128)
        """
        return self.embed_with_counts(texts, pool=pool, layer=layer)[0]

    def embed_with_counts(
        self, texts: Sequence[str], *, pool: Pool = "mean", layer: int = -1
    ) -> tuple[Floats, list[int]]:
        """Return the vectors of `embed` and the number of tokens of each text."""
        return embed_texts(self._vector_encoder, self.require_tokenizer(), texts, pool=pool, layer=layer)

    def fill(self, text: str, *, top: int = 5) -> list[list[MaskPrediction]]:
        """Predict the masked tokens of a text.

        Args:
            text: A text with one or more `[MASK]`.
            top: Number of candidates for each.

        Returns:
            For each `[MASK]`, the most probable tokens with their probabilities, the best first.

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/bert")
            >>> [candidate.token for candidate in model.fill("The [MASK] barked.")[0]]
            ['dog', 'cat', 'man', 'boy', 'horse']
        """
        tokenizer, head = self.require_tokenizer(), self._find_head(MaskedLm, "fill")
        return fill_masks(self.encoder, head, tokenizer, text, top=top)

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
            >>> import polyseme as ps
            >>> model = ps.load("runs/gpt2")
            >>> text = model.generate("The function returns", max_tokens=20, temperature=0.8, top_p=0.95)
        """
        if isinstance(prompt, str):
            return "".join(self.stream(prompt, **options))
        config, model = GenerationConfig.parse(options, group="generate"), self.language_model
        return generate_texts(model, self.require_tokenizer(), [self.prompt_ids(text) for text in prompt], config)

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """Generate text after a prompt and yield it as it is generated, in whole characters.

        Args:
            prompt: A text; "" starts a new document where the family can.
            **options: Those of `generate`.

        Returns:
            An iterator over pieces of the text.

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/gpt2")
            >>> for piece in model.stream("Once", max_tokens=20):
            ...     print(piece, end="", flush=True)
        """
        config = GenerationConfig.parse(options, group="generate")  # not in the generator: errors are raised here
        prompts, model = [self.prompt_ids(prompt)], self.language_model
        return (text for _, text in stream_texts(model, self.require_tokenizer(), prompts, config) if text)

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
            >>> import polyseme as ps
            >>> model = ps.load("runs/en-de")
            >>> translation, = model.translate(["A man is sleeping."], beam_size=8)
        """
        config, head = BeamSearchConfig.parse(options, group="translate"), self._find_head(Translation, "translate")
        return translate_texts(self.encoder, head, self.require_tokenizer(), texts, config)

    def align(self, texts: Sequence[str], **options: Any) -> list[Alignment]:
        """Translate texts and return the cross-attention weights as a soft word alignment (Bahdanau et al., 2015).

        Args:
            texts: Texts in the source language; of those longer than the model, the first window is translated.
            **options: Those of `translate`.

        Returns:
            An `Alignment` per text: the translation, source and target tokens, and weights (target, source).

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/en-de")
            >>> alignment = model.align(["A man is sleeping."])[0]
            >>> alignment.weights.shape == (len(alignment.target), len(alignment.source))
            True
        """
        config, head = BeamSearchConfig.parse(options, group="translate"), self._find_head(Translation, "translate")
        return align_texts(self.encoder, head, self.require_tokenizer(), texts, config)

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
            >>> import polyseme as ps
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
            >>> import polyseme as ps
            >>> model = ps.load("runs/bert-reviews")
            >>> model.predict(["A wonderful film."])[0].label
            'positive'
        """
        chosen = self._find_task(task)
        examples = parse_examples(self.example_type(task), rows)
        if not examples:
            return []
        return chosen.predict(self.encoder, chosen.read(self._formatter, examples, num_rows=_PREDICT_BATCH_SIZE))

    def _find_task(self, name: str | None) -> Task[Any, Any]:
        tasks = self.tasks
        if not tasks:
            raise ConfigError(f"{self.folder} is not fine-tuned; run polyseme finetune {self.folder} --train FILE")
        if name is None and len(tasks) > 1:
            raise ConfigError(f"{self.folder} has several tasks; choose one of {', '.join(tasks)}")
        name = name or next(iter(tasks))
        if name not in tasks:
            raise ConfigError(f"{self.folder} has no task {name!r}{suggest_name(name, tasks)}")
        return tasks[name]

    @cached_property
    def _formatter(self) -> InputFormatter:
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
            >>> import polyseme as ps
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
            >>> import polyseme as ps
            >>> model = ps.load("runs/skipgram")
            >>> answers = model.analogy("man", "king", "woman")
        """
        return self.space.analogy(first, second, third, top=top, method=method)

    @cached_property
    def space(self) -> EmbeddingSpace:
        """The vectors of the vocabulary in layer 0."""
        return EmbeddingSpace(self._vector_encoder, self.require_tokenizer())

    @property
    def _vector_encoder(self) -> Encoder:
        """The encoder, or an error where its layers are not vectors."""
        if not self.encoder.has_vectors:
            raise ConfigError(
                f"{self.folder} is an {self.family} model, which has no vectors; use it to score and generate text"
            )
        return self.encoder

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
