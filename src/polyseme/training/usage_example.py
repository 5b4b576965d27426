"""What to try with a pretrained model: a command with a text of its own corpus, in its language and vocabulary."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from polyseme.errors import PolysemeError
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.words import MASK, find_word, find_words, mask_word
from polyseme.training.data_pipeline import open_corpora
from polyseme.training.recipes.recipe import Recipe

# Verbs of a model by its objective; the others have word vectors.
_VERBS = {
    "masked_lm": "fill",
    "translation": "translate",
    **dict.fromkeys(("causal_lm", "feedforward_lm", "bidirectional_lm", "awd_lm", "ngram"), "generate"),
}
_PLACEHOLDERS = {"fill": f"TEXT WITH {MASK}", "translate": "TEXT", "generate": "PROMPT", "neighbours": "WORD"}
_MAX_WORDS, _PROMPT_WORDS = 20, 3  # of a text, of a prompt
_NUM_DOCUMENTS = 50  # that are searched
_SPECIAL = frozenset("'\"\\`$!~*[]{}<>|\0")  # in a shell or in a text with masks


@dataclass(frozen=True, kw_only=True)
class UsageExample:
    """A command of the command line, which is also a method of the model, and the text to call it with."""

    verb: str
    text: str


def find_usage_example(recipe: Recipe, tokenizer: Tokenizer) -> UsageExample:
    """Choose a command by the objective, and a text from the corpus; without a suitable one, a placeholder."""
    verb = _VERBS.get(recipe.objective.kind, "neighbours")
    texts = (_adapt(text, verb, tokenizer) for text in _short_texts(recipe, tokenizer))
    return UsageExample(verb=verb, text=next(filter(None, texts), _PLACEHOLDERS[verb]))


def _short_texts(recipe: Recipe, tokenizer: Tokenizer) -> Iterator[str]:
    """Sentences of the corpus, or the beginnings of long ones, without OOV words."""
    try:
        corpus, _ = open_corpora(recipe)
        for document in islice(corpus, _NUM_DOCUMENTS):
            sentences = corpus.split_document(document)
            for sentence in sentences[:1] if recipe.objective.uses_parallel_text else sentences:
                text = " ".join(sentence.split())
                words = find_words(text)[:_MAX_WORDS]
                text = text[: words[-1][1]] if len(words) > _PROMPT_WORDS and _SPECIAL.isdisjoint(text) else ""
                if text and tokenizer.specials.unknown not in tokenizer.encode(text).ids:
                    yield text
    except (PolysemeError, OSError):  # the corpus was moved or deleted since the run started
        return


def _adapt(text: str, verb: str, tokenizer: Tokenizer) -> str | None:
    """What a verb is called with: the text with a masked word, its beginning, or one of its words."""
    if verb == "fill":
        return mask_word(text, tokenizer)
    if verb == "generate":
        return text[: find_words(text)[_PROMPT_WORDS - 1][1]]
    if verb == "neighbours":
        words = (text[start:end] for start, end in find_words(text))
        known = (word for word in words if word.isalpha() and find_word(tokenizer, word) is not None)
        return max(known, key=lambda word: (not any(map(str.isnumeric, word)), len(word)), default=None)
    return text
