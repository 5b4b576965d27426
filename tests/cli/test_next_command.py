"""The command that ends the output of a training run: in the language and the vocabulary of the model, and it runs."""

import re
import shlex

import pytest

import polyseme as ps
from polyseme.corpora.scripts import is_chinese

CHINESE = "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。"
ENGLISH = "the old bank by the river lends money to every farmer. a bat slept in the barn. she lit a match."
PARALLEL = "the old bank lends money.\t银行借钱。\na bat slept in the barn.\t蝙蝠睡觉。"
TINY = ["model.vocab_size=300", "training.batch_tokens=64", "data.sequence_length=16", "training.threads=1"]


@pytest.fixture
def corpora(tmp_path):
    texts = {"en": ENGLISH, "zh": CHINESE}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n\n".join([text] * 20), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "\n".join([PARALLEL] * 20), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("family", "corpus", "verb"),
    [
        ("bert", "en.txt", "fill"),
        ("bert", "zh.txt", "fill"),
        ("ernie", "zh.txt", "fill"),
        ("roberta", "zh.txt", "fill"),  # byte-level
        ("gpt2", "zh.txt", "generate"),
        ("elmo", "en.txt", "generate"),
        ("skipgram", "en.txt", "neighbours"),
        ("skipgram", "zh.txt", "neighbours"),
        ("transformer", "pairs.tsv", "translate"),
    ],
)
def test_the_command_fits_the_model(polyseme, corpora, family, corpus, verb):
    settings = [*TINY, *(["tokenizer.min_count=1"] if family == "skipgram" else [])]
    settings = [word for setting in settings for word in ("--set", setting)]
    options = ["--corpus", corpora / corpus, "--size", "tiny", "--budget", "2steps", "--out", corpora / "run"]
    ended = polyseme("pretrain", family, *options, *settings)
    assert ended.code == 0, ended.err
    _, program, *words = shlex.split(ended.err.splitlines()[-1])
    assert program == "polyseme" and words[0] == verb
    text = words[-1]
    assert is_chinese(text.replace("[MASK]", "")) == (corpus == "zh.txt")
    assert verb != "fill" or "[MASK]" in text
    tokenizer = ps.load(corpora / "run").tokenizer
    assert tokenizer.specials.unknown not in tokenizer.encode(text.replace("[MASK]", "")).ids
    assert polyseme(*words).code == 0
    card = (corpora / "run" / "README.md").read_text(encoding="utf-8")
    assert shlex.join(["polyseme", *words]) in card and f"model.{verb}({text!r})" in card


def test_a_corpus_that_was_deleted(polyseme, corpora):
    from polyseme.training.usage_example import find_usage_example

    corpus = corpora / "en.txt"
    ps.pretrain("bert", corpus=corpus, size="tiny", budget="2steps", out=corpora / "run", settings=TINY)
    model = ps.load(corpora / "run")
    corpus.unlink()
    assert find_usage_example(model.recipe, model.tokenizer).text == "TEXT WITH [MASK]"


def test_fill_without_a_mask_shows_where_to_write_it(polyseme, corpora):
    ps.pretrain("bert", corpus=corpora / "zh.txt", size="tiny", budget="2steps", out=corpora / "run", settings=TINY)
    ended = polyseme("fill", corpora / "run", "他在银行上班。")
    assert ended.code == 2 and ended.err.count("\n") == 1
    example = ended.err.rpartition(": ")[2].strip()
    assert example == "他在[MASK][MASK]上班。"  # a word, not a character
    assert polyseme("fill", corpora / "run", example).code == 0


def test_hints_of_other_commands_name_no_words(polyseme, bert, gpt2, tmp_path):
    """They may be in another language than the model."""
    for words in (["fill", bert, "the [MASK] bank"], ["generate", gpt2, "the", "--max-tokens", "2"]):
        hint = polyseme(*words).err.splitlines()[-1]
        assert (
            hint.startswith("next: ") and re.search(r"--file FILE", hint) and "'" not in hint.replace(str(words[1]), "")
        )
    exported = polyseme("export", bert, "--to", "glove", "--out", tmp_path / "vectors.txt")
    assert exported.err.splitlines()[-1] == f"next: polyseme neighbours {tmp_path / 'vectors.txt'} WORD"
