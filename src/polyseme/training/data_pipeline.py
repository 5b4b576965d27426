"""From corpora to training data: corpus, tokenizer, token store, token source."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyseme.corpora.corpus import Corpus, DialogueCorpus, MultilingualCorpus, ParallelCorpus, group_by_language
from polyseme.datasets.builtin import SAMPLES, absolute_path, is_sample, sample_text
from polyseme.datasets.token_store import TokenStore, build_or_load_store
from polyseme.errors import ConfigError, DataError
from polyseme.objectives.sources import TokenSource
from polyseme.system.cache import load_or_build
from polyseme.system.hardware import num_cores
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenizedText
from polyseme.tokenization.masking_units import MaskingUnits
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import CACHE_VERSION
from polyseme.training.optimization.budget import SIZES, choose_size
from polyseme.training.recipes.recipe import TEXTS, DataConfig, Recipe

Paths = str | Path | Sequence[str | Path]
Texts = Paths | Mapping[str, Paths]  # by language

_SAMPLE_CHARACTERS = 2_000_000


def sized_recipe(family: str, size: str, overrides: Iterable[str] = (), **changes: Any) -> Recipe:
    """Build the preset of a size; `auto` chooses the size by the budget and the amount of text."""
    if size == "auto":
        corpus, _ = open_corpora(Recipe.preset(family, SIZES[0], overrides, **changes))
        size = choose_size(changes.get("training", {}).get("budget"), num_bytes=corpus.num_bytes, cores=num_cores())
    return Recipe.preset(family, size, overrides, **changes)


def open_corpora(recipe: Recipe) -> tuple[Corpus, Corpus | None]:
    """Open the training corpus and the validation corpus; a built-in sample has both."""
    data = recipe.data
    if not data.corpus:
        raise ConfigError(f"no text to train on; give --corpus a path or a sample: {', '.join(SAMPLES)}")
    if recipe.objective.uses_parallel_text:
        pairs = ParallelCorpus(*data.corpus, targets=data.target, column=data.column)
        return pairs, ParallelCorpus(*data.dev, targets=data.dev_target, column=data.column) if data.dev else None
    if data.target or data.dev_target:
        raise ConfigError(f"data.target: {recipe.family} is not a translation model; remove the setting")
    train, dev = group_by_language(data.corpus), group_by_language(data.dev)
    for language, paths in train.items():
        if len(paths) == 1 and is_sample(paths[0]):
            text = sample_text(paths[0])
            train[language] = list(map(str, text.train))
            if not data.dev:
                dev[language] = list(map(str, text.dev))
    kind = DialogueCorpus if recipe.objective.uses_dialogues else Corpus
    return _open(kind, train, data.column), _open(kind, dev, data.column) if dev else None


def _open(kind: type[Corpus], paths: Mapping[str, Sequence[str]], column: str) -> Corpus:
    parts = {language: kind(*named, column=column) for language, named in paths.items()}
    return MultilingualCorpus(parts) if len(parts) > 1 else next(iter(parts.values()))


def build_dev_stores(corpus: Corpus | None, tokenizer: Tokenizer) -> dict[str, TokenStore]:
    """Build the stores of the validation text: the whole as "", and each language of a multilingual one by its name."""
    parts = zip(corpus.language_names, corpus.languages, strict=True) if isinstance(corpus, MultilingualCorpus) else ()
    return {language: build_or_load_store(part, tokenizer) for language, part in [("", corpus), *parts] if part}


def train_tokenizer(recipe: Recipe, corpus: Corpus, pretokenized: PretokenizedText | None = None) -> Tokenizer:
    """Train a tokenizer on a corpus, or load it from the cache where text and settings are the same."""
    key = f"{CACHE_VERSION}-{corpus.fingerprint()[:24]}-{recipe.tokenizer.digest()}-{recipe.model.vocab_size}"
    texts: Iterable[str] = corpus
    if isinstance(corpus, MultilingualCorpus):
        key += f"-{recipe.data.language_sampling:g}"
        texts, pretokenized = corpus.resampled(recipe.data.language_sampling, recipe.tokenizer.sample_bytes), None
    if recipe.data.first_token != "none":
        key += f"-{recipe.data.first_token}"
    return load_or_build(
        "tokenizers",
        key,
        load=Tokenizer.load,
        build=lambda folder: train_tokenizer_uncached(recipe, texts, pretokenized).save(folder),
    )


def train_tokenizer_uncached(
    recipe: Recipe, texts: Iterable[str], pretokenized: PretokenizedText | None = None
) -> Tokenizer:
    """Train a tokenizer on texts, without the cache."""
    num_added = int(recipe.data.first_token == "null")
    vocab_size = recipe.model.vocab_size - num_added
    tokenizer = Tokenizer.train(recipe.tokenizer, texts, vocab_size=vocab_size, pretokenized=pretokenized)
    return tokenizer.with_null() if num_added else tokenizer


def build_masking_units(recipe: Recipe, texts: Corpus | Sequence[str]) -> MaskingUnits | None:
    """Build the finder of words, phrases and entities, if the objective masks whole units."""
    return MaskingUnits(recipe.data, texts) if recipe.objective.uses_units else None


def reopen_store(out: Path, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer) -> TokenStore:
    """Open the token store of a run, and check that its text is unchanged."""
    store = build_or_load_store(corpus, tokenizer, build_masking_units(recipe, corpus))
    if store.fingerprint != recipe.data.fingerprint:
        raise DataError(f"the text of {out} has changed since the run started; restore it, or start a new run")
    return store


def token_source(recipe: Recipe, tokenizer: Tokenizer, store: TokenStore) -> TokenSource:
    """Return the training sequences of a recipe."""
    length = recipe.data.sequence_length
    step_tokens = store.num_tokens if recipe.objective.full_batch else recipe.training.batch_tokens
    num_rows = max(1, step_tokens // length)
    return TokenSource(
        store,
        length,
        num_rows,
        language_sampling=recipe.data.language_sampling,
        prefix_ids=tuple(tokenizer.null_prefix),
    )


def list_paths(texts: Texts) -> list[str]:
    """The paths of texts as a recipe has them, with the language as a prefix: en=PATH."""
    if isinstance(texts, Mapping):
        return [f"{name}={path}" for name, of_name in texts.items() for path in list_paths(of_name)]
    return [str(texts)] if isinstance(texts, str | Path) else [str(path) for path in texts]


def absolute_paths(data: DataConfig) -> dict[str, Any]:
    """All paths of a recipe as absolute ones, by setting; names of built-in samples stay as they are."""
    files = {name: absolute_path(getattr(data, name)) for name in ("lexicon", "entities")}
    return {name: tuple(map(absolute_path, getattr(data, name))) for name in TEXTS} | files


def first_documents(corpus: Corpus) -> list[str]:
    """Return the first documents of each language, as a sample for measurements."""
    documents = []
    for part in corpus.languages:
        characters = 0
        for document in part:
            documents.append(document)
            characters += len(document)
            if characters > _SAMPLE_CHARACTERS / len(corpus.languages):
                break
    return documents
