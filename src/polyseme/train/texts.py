"""What a training reads: its corpora, the tokenizer that they give, and the stores and rows of both."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.files import cache_folder, whole_folder
from polyseme.objectives import Source
from polyseme.text.corpus import Corpus
from polyseme.text.dialogues import Dialogues
from polyseme.text.draft import Draft
from polyseme.text.languages import Languages, by_language, split_name
from polyseme.text.parallel import Parallel
from polyseme.text.samples import SAMPLES, sample_text
from polyseme.text.store import Store, prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units
from polyseme.text.vocabulary import FORMAT
from polyseme.train.recipe import Recipe

_SOME_CHARACTERS = 2_000_000


def open_corpora(recipe: Recipe) -> tuple[Corpus, Corpus | None]:
    """The text to learn from and the text to measure on; a sample brings both."""
    data = recipe.data
    if not data.corpus:
        raise ConfigError(f"there is no text to learn from; give --corpus a path, or a sample: {', '.join(SAMPLES)}")
    if recipe.objective.uses_pairs:
        pairs = Parallel(*data.corpus, targets=data.target, column=data.column)
        return pairs, Parallel(*data.dev, targets=data.dev_target, column=data.column) if data.dev else None
    if data.target or data.dev_target:
        raise ConfigError(f"data.target: a {recipe.family} does not translate; leave it away")
    train, dev = by_language(data.corpus), by_language(data.dev)
    for language, paths in train.items():
        if len(paths) == 1 and _is_sample(paths[0]):
            text = sample_text(paths[0])
            train[language] = list(map(str, text.train))
            if not data.dev:
                dev[language] = list(map(str, text.dev))
    kind = Dialogues if recipe.objective.uses_turns else Corpus
    return _open(kind, train, data.column), _open(kind, dev, data.column) if dev else None


def _open(kind: type[Corpus], paths: Mapping[str, Sequence[str]], column: str) -> Corpus:
    parts = {language: kind(*named, column=column) for language, named in paths.items()}
    return Languages(parts) if len(parts) > 1 else next(iter(parts.values()))


def _is_sample(path: str) -> bool:
    return path in SAMPLES and not Path(path).exists()


def prepare_dev(corpus: Corpus | None, tokenizer: Tokenizer) -> dict[str, Store]:
    """The text to measure on, and that of each language if it has several; the whole has no name."""
    parts = zip(corpus.names, corpus.parts, strict=True) if isinstance(corpus, Languages) else ()
    return {language: prepare(part, tokenizer) for language, part in [("", corpus), *parts] if part}


def train_tokenizer(recipe: Recipe, corpus: Corpus, draft: Draft | None = None) -> Tokenizer:
    """Train a tokenizer on a corpus, or take the one that the same text and settings gave before."""
    key = f"{FORMAT}-{corpus.fingerprint()[:24]}-{recipe.tokenizer.digest()}-{recipe.model.vocab_size}"
    texts: Iterable[str] = corpus
    if isinstance(corpus, Languages):
        key += f"-{recipe.data.sampling:g}"
        texts, draft = corpus.drawn(recipe.data.sampling, recipe.tokenizer.sample_bytes), None
    if recipe.data.start != "none":
        key += f"-{recipe.data.start}"
    folder = cache_folder() / "tokenizers" / key
    if folder.is_dir():
        try:
            return Tokenizer.load(folder)
        except CheckpointError:
            shutil.rmtree(folder)
    tokenizer = learn_tokenizer(recipe, texts, draft)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with whole_folder(folder) as beside:
            tokenizer.save(beside)
    except FileExistsError:
        pass  # another process was quicker
    except OSError as error:
        if not folder.is_dir():
            raise DataError(f"{folder} cannot be written ({error.strerror}); make room or set POLYSEME_CACHE") from None
    return tokenizer


def learn_tokenizer(recipe: Recipe, texts: Iterable[str], draft: Draft | None = None) -> Tokenizer:
    """Train a tokenizer on texts, whatever was trained before."""
    num_added = int(recipe.data.start == "null")
    vocab_size = recipe.model.vocab_size - num_added
    tokenizer = Tokenizer.train(recipe.tokenizer, texts, vocab_size=vocab_size, draft=draft)
    return tokenizer.with_null() if num_added else tokenizer


def find_units(recipe: Recipe, texts: Corpus | Sequence[str]) -> Units | None:
    """What finds the units of a text, if they are hidden together."""
    return Units(recipe.data, texts) if recipe.objective.uses_units else None


def prepare_again(out: Path, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer) -> Store:
    """The text of a run that began before."""
    store = prepare(corpus, tokenizer, find_units(recipe, corpus))
    if store.fingerprint != recipe.data.fingerprint:
        raise DataError(f"the text of {out} has changed since it began; put it back, or start anew elsewhere")
    return store


def source_of(recipe: Recipe, tokenizer: Tokenizer, store: Store) -> Source:
    """The rows that are learnt from."""
    length = recipe.data.length
    step_tokens = store.num_tokens if recipe.objective.whole_text else recipe.plan.batch_tokens
    num_rows = max(1, step_tokens // length)
    return Source(store, length, num_rows, sampling=recipe.data.sampling, before=tuple(tokenizer.null))


def absolute(paths: Sequence[str]) -> list[str]:
    """Paths that mean the same from any folder; samples by their names."""
    absolute = []
    for language, path in map(split_name, paths):
        whole = path if _is_sample(path) else str(Path(path).absolute())
        absolute.append(f"{language}={whole}" if language else whole)
    return absolute


def some_of(corpus: Corpus) -> list[str]:
    """The first documents of each part, by which a training can be tried."""
    documents = []
    for part in corpus.parts:
        characters = 0
        for document in part:
            documents.append(document)
            characters += len(document)
            if characters > _SOME_CHARACTERS / len(corpus.parts):
                break
    return documents
