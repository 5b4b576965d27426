"""What is hidden together is hidden whole, in every language and with every tokenizer."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from polyseme.course import Course
from polyseme.errors import ConfigError
from polyseme.models.bert import Bert, BertConfig
from polyseme.objectives import Source, build_objective
from polyseme.objectives.masked import MaskedConfig, _choose, _join
from polyseme.tensors import IGNORED
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import WORD, Units, UnitsConfig
from polyseme.text.vocabulary import TokenizerConfig

SENTENCE = "使用语言模型来预测下一个词的概率。"
CHINESE = [
    f"{SENTENCE}数学是研究数量、结构、变化以及空间等概念的一门学科。数学家拓展这些概念，为了公式化新的猜想。",
    "他在苹果公司上班，每天早上吃一个苹果。河边的银行昨天关门了，人们在岸上等着。杜鹃在杜鹃花旁边唱歌。",
    "北京大学创办于一八九八年，是中国近代第一所国立大学。学生们在图书馆里讨论自然语言处理的历史与未来。",
] * 20
ENGLISH = [
    "Anarchism is a political philosophy that advocates stateless societies, often defined as voluntary institutions.",
    "The committee unanimously recommended international cooperation; representatives of New York disagreed strongly.",
    "Photosynthesis transforms electromagnetic radiation into carbohydrates, which microorganisms decompose again.",
] * 20
ENTITIES = ["北京大学", "自然语言处理", "苹果公司", "New York", "political philosophy"]
MASKINGS = ["word", "ngram", "unit"]


class Asked:
    """Text, and what is asked of it."""

    def __init__(self, texts, entities=(), kind="wordpiece", specials="bert", vocab_size=300):
        config = TokenizerConfig(kind=kind, specials=specials, min_count=1)
        self.tokenizer = Tokenizer.train(config, texts, vocab_size=vocab_size)
        units = Units(UnitsConfig())
        units.entities = type(units.entities)(entities)
        self.store = Store.from_documents(texts, self.tokenizer, units)
        sizes = {"width": 8, "num_layers": 1, "num_heads": 1, "max_length": 128}
        self.encoder = Bert(BertConfig(vocab_size=self.tokenizer.vocab_size, **sizes))

    def objective(self, **settings):
        return build_objective(MaskedConfig(**settings), self.encoder, self.tokenizer.specials)

    def rows(self, num_steps=20, length=128, **settings):
        """Rows as drawn, with the units that go on, the rows as shown, and the answers."""
        objective, source = self.objective(**settings), Source(self.store, length, 16)
        for step in range(num_steps):
            plain = objective.draw(source, seed=0, step=step)
            batch = objective.label(plain, source, seed=0, step=step)
            assert bool((batch.units == plain.units).all())
            yield plain.ids.numpy(), plain.units.numpy(), batch.ids.numpy(), batch.labels["masked"].numpy()


def check(asked, masking, rows):
    """No unit is hidden in part, 15 % are hidden, and of these 80 % by the mask, 10 % by another and 10 % not."""
    mask = asked.tokenizer.specials.mask
    num_hidden = num_tokens = 0
    fates = np.zeros(3)
    for plain, units, shown, labels in rows:
        hidden = labels != IGNORED
        joined = (units if masking == "unit" else units & WORD) > 0
        assert not (joined & (hidden != np.roll(hidden, 1, axis=1)))[:, 1:].any()
        assert (labels[hidden] == plain[hidden]).all() and (shown[~hidden] == plain[~hidden]).all()
        num_hidden, num_tokens = num_hidden + hidden.sum(), num_tokens + hidden.size
        kept = shown[hidden] == plain[hidden]
        masked = shown[hidden] == mask
        fates += masked.sum(), kept.sum(), (~kept & ~masked).sum()
    assert num_hidden / num_tokens == pytest.approx(0.15, abs=0.003)
    # Another token is now and then by chance a special one, in whose place the token stays, or the token itself.
    same = 0.1 * (len(set(vars(asked.tokenizer.specials).values())) + 1) / asked.tokenizer.vocab_size
    expected = np.array([0.8, 0.1 + same, 0.1 - same]) * fates.sum()
    assert chisquare(fates, expected).pvalue > 1e-3, fates / fates.sum()


@pytest.fixture(scope="module", params=["chinese", "english", "entities"])
def asked(request):
    texts = {"chinese": CHINESE, "english": ENGLISH}.get(request.param, [*CHINESE, *ENGLISH])
    return Asked(texts, ENTITIES if request.param == "entities" else (), vocab_size=350)


@pytest.mark.parametrize("pairs", ["none", "next", "order"])
@pytest.mark.parametrize("masking", MASKINGS)
def test_nothing_is_hidden_in_part(asked, masking, pairs):
    check(asked, masking, asked.rows(num_steps=40, masking=masking, pairs=pairs))


@pytest.mark.parametrize(
    ("kind", "specials"), [("char", "bert"), ("byte-bpe", "roberta"), ("unigram", "bert"), ("bpe", "bert")]
)
def test_nothing_is_hidden_in_part_with_any_tokenizer(kind, specials):
    asked = Asked([*CHINESE, *ENGLISH], ENTITIES, kind=kind, specials=specials, vocab_size=500)
    check(asked, "unit", asked.rows(num_steps=40, masking="unit", pairs="none"))


def test_words_of_chinese_are_hidden_whole():
    asked = Asked([SENTENCE] * 40)
    decode = asked.tokenizer.decode
    seen = set()
    for plain, _, _, labels in asked.rows(masking="unit", pairs="none", rate=0.2, length=20):
        for row, hidden in zip(plain, labels != IGNORED, strict=True):
            runs = itertools.groupby(zip(row.tolist(), hidden.tolist(), strict=True), key=lambda token: token[1])
            seen |= {decode([id for id, _ in run]).replace(" ", "") for chosen, run in runs if chosen}
    assert {"使用", "语言", "模型", "预测", "一个", "概率"} <= seen
    assert not {"语", "言", "模", "型", "预", "测", "概", "率"} & seen


@pytest.mark.slow
def test_words_of_wikipedia_are_hidden_whole():
    shared = Path(__file__).parents[2].parent / "shared" / "data" / "corpora" / "zhwiki-small.train.txt"
    if not shared.is_file():
        pytest.skip("the Wikipedia samples are not at hand")
    with shared.open(encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, 10_000) if line.strip()]
    asked = Asked(lines, vocab_size=6000)
    num_steps = asked.store.num_tokens // (16 * 128)
    check(asked, "unit", asked.rows(num_steps=num_steps, masking="unit", pairs="none"))


def test_an_entity_is_hidden_with_all_its_words():
    asked = Asked([*CHINESE, *ENGLISH], ENTITIES, vocab_size=600)
    found = {masking: set() for masking in ("word", "unit")}
    for masking, seen in found.items():
        for plain, _, _, labels in asked.rows(masking=masking, pairs="none"):
            for row, hidden in zip(plain, labels != IGNORED, strict=True):
                text = asked.tokenizer.decode(np.where(hidden, asked.tokenizer.specials.mask, row), skip_specials=False)
                seen |= {part for part in ("new [MASK]", "[MASK] york") if part in text}
    assert found == {"word": {"new [MASK]", "[MASK] york"}, "unit": set()}


@st.composite
def groups(draw):
    """Rows of groups, tokens that may be chosen, and lots."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 30)))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    begins = chance.random(shape) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    begins[:, 0] = True
    return begins, chance.random(shape) < 0.9, chance.random(shape, dtype=np.float32)


def reference(begins, choosable, lot, rooms):
    """Groups one after the other, in the order of their lots; those that do not fit are passed over."""
    chosen = np.zeros_like(begins)
    for row in range(len(begins)):
        bounds = [*np.flatnonzero(begins[row]).tolist(), begins.shape[1]]
        room = rooms[row, 0]
        for start, end in sorted(itertools.pairwise(bounds), key=lambda group: lot[row, group[0]]):
            if choosable[row, start:end].all() and end - start <= room:
                chosen[row, start:end] = True
                room -= end - start
    return chosen


@given(groups(), st.integers(1, 12))
def test_groups_are_chosen_in_the_order_of_their_lots(drawn, room):
    rooms = room + np.arange(len(drawn[0]))[:, None]
    assert np.array_equal(_choose(*drawn, rooms), reference(*drawn, rooms))


@given(groups(), st.integers(0, 100))
def test_runs_are_of_one_to_three_words(drawn, seed):
    begins, choosable, _ = drawn
    runs = _join(begins, choosable, np.random.default_rng(seed))
    assert runs[:, 0].all() and not (runs & ~begins).any()
    for row in range(len(runs)):
        words = np.flatnonzero(begins[row])
        assert np.diff(np.flatnonzero([*runs[row][words], True])).max() <= 3


def test_runs_of_n_words_have_a_chance_of_one_nth():
    begins = np.ones((200, 300), dtype=bool)
    runs = _join(begins, begins, np.random.default_rng(0))[:, :-3]
    lengths = np.concatenate([np.diff(np.flatnonzero(row)) for row in runs])
    counts = np.bincount(lengths, minlength=4)[1:]
    assert chisquare(counts, np.array([6, 3, 2]) / 11 * counts.sum()).pvalue > 1e-3


def test_masks_are_drawn_afresh_in_every_epoch():
    asked = Asked(ENGLISH)
    for masking in ("token", "word"):
        objective = asked.objective(masking=masking, pairs="none")
        source = Source(asked.store, 32, 4)
        drawn = objective.draw(source, seed=0, step=0)
        masks = [objective.label(drawn, source, seed=0, step=step).labels["masked"] for step in (0, 500, 500)]
        assert not bool((masks[0] == masks[1]).all()) and bool((masks[1] == masks[2]).all())


def test_a_row_comes_again_with_another_mask():
    """Where there is one row, every epoch of one step reads the same tokens."""
    asked = Asked(ENGLISH[:3])
    source = Source(asked.store, asked.store.num_tokens + 2, 1)
    objective = asked.objective(masking="word", pairs="none")
    rows = [objective.batch(source, seed=0, step=step).labels["masked"] for step in range(6)]
    assert len({tuple(row.flatten().tolist()) for row in rows}) == 6


@pytest.mark.parametrize(
    ("stages", "steps"),
    [
        ([("token", 0), ("word", 20), ("unit", 40)], {0: "token", 19: "token", 20: "word", 39: "word", 40: "unit"}),
        ([("token", 0), ("word", 0.25), ("unit", 0.5)], {24: "token", 25: "word", 49: "word", 50: "unit", 99: "unit"}),
        ([], {0: "ngram", 99: "ngram"}),
    ],
)
def test_stages_switch_at_their_steps(stages, steps):
    asked = Asked([*CHINESE, *ENGLISH], ENTITIES)
    source = Source(asked.store, 64, 4, course=Course(steps=100))
    staged = asked.objective(stages=stages, masking="token" if stages else "ngram", pairs="none")
    for step, masking in steps.items():
        plain = asked.objective(masking=masking, pairs="none")
        assert staged.batch(source, seed=0, step=step).ids.equal(plain.batch(source, seed=0, step=step).ids)
    assert MaskedConfig(stages=stages).uses_units == bool(stages)


def test_dev_text_is_asked_token_by_token():
    asked = Asked(ENGLISH)
    source = Source(asked.store, 64, 4, measuring=True)
    batches = [asked.objective(masking=masking).batch(source, seed=0, step=0) for masking in ("token", "unit")]
    assert batches[0].ids.equal(batches[1].ids)


@pytest.mark.parametrize(
    "stages", [[["token", 5]], [["token", 0], ["word", 0]], [["token", 0], ["word", 0.5], ["unit", 9]]]
)
def test_stages_follow_each_other(stages):
    with pytest.raises(ConfigError, match=r"^objective: stages start at"):
        MaskedConfig.parse({"stages": stages}, group="objective")
    with pytest.raises(ConfigError, match=r"^objective: stages say what is hidden"):
        MaskedConfig.parse({"stages": [["word", 0]], "masking": "unit"}, group="objective")
