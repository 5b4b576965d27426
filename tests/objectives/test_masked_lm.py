"""Masked language modelling with whole words, n-grams and units, for several languages and tokenizers."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from polyseme.batch import IGNORED
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import ConfigError
from polyseme.families import build_objective
from polyseme.models.bert import Bert, BertConfig
from polyseme.objectives.masked_lm import MaskedLmConfig, _join_words, _select
from polyseme.objectives.sources import TokenSource
from polyseme.step_schedule import StepSchedule
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.masking_units import WORD, MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer

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


class MaskingSetup:
    """A token store with units, and masked language models on it."""

    def __init__(self, texts, entities=(), kind="wordpiece", specials="bert", vocab_size=300):
        config = TokenizerConfig(kind=kind, specials=specials, min_count=1)
        self.tokenizer = Tokenizer.train(config, texts, vocab_size=vocab_size)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write("\n".join(entities))
            file.flush()
            units = MaskingUnits(MaskingUnitsConfig(entities=file.name))
        self.store = TokenStore.from_documents(texts, self.tokenizer, units)
        sizes = {"width": 8, "num_layers": 1, "num_heads": 1, "max_length": 128}
        self.encoder = Bert(BertConfig(vocab_size=self.tokenizer.vocab_size, **sizes))

    def objective(self, **settings):
        return build_objective(MaskedLmConfig(**settings), self.encoder, self.tokenizer.specials)

    def rows(self, num_steps=20, length=128, **settings):
        """Original ids, units, masked ids and labels of the batches."""
        objective, source = self.objective(**settings), TokenSource(self.store, length, 16)
        for step in range(num_steps):
            plain = objective.draw_batch(source, seed=0, step=step)
            batch = objective.add_targets(plain, source, seed=0, step=step)
            assert bool((batch.units == plain.units).all())
            yield plain.ids.numpy(), plain.units.numpy(), batch.ids.numpy(), batch.labels["masked_lm"].numpy()


def check_masking(setup, masking, rows):
    """No unit is masked in part; 15 % are masked, 80 % by [MASK], 10 % by a random token, 10 % unchanged."""
    mask = setup.tokenizer.specials.mask
    num_masked = num_tokens = 0
    actions = np.zeros(3)
    for plain, units, inputs, labels in rows:
        masked = labels != IGNORED
        joined = (units if masking == "unit" else units & WORD) > 0
        assert not (joined & (masked != np.roll(masked, 1, axis=1)))[:, 1:].any()
        assert (labels[masked] == plain[masked]).all() and (inputs[~masked] == plain[~masked]).all()
        num_masked, num_tokens = num_masked + masked.sum(), num_tokens + masked.size
        unchanged = inputs[masked] == plain[masked]
        by_mask = inputs[masked] == mask
        actions += by_mask.sum(), unchanged.sum(), (~unchanged & ~by_mask).sum()
    assert num_masked / num_tokens == pytest.approx(0.15, abs=0.003)
    # A random token may be a special one, in whose place the original stays, or the original itself.
    same = 0.1 * (len(set(vars(setup.tokenizer.specials).values())) + 1) / setup.tokenizer.vocab_size
    expected = np.array([0.8, 0.1 + same, 0.1 - same]) * actions.sum()
    assert chisquare(actions, expected).pvalue > 1e-3, actions / actions.sum()


@pytest.fixture(scope="module", params=["chinese", "english", "entities"])
def setup(request):
    texts = {"chinese": CHINESE, "english": ENGLISH}.get(request.param, [*CHINESE, *ENGLISH])
    return MaskingSetup(texts, ENTITIES if request.param == "entities" else (), vocab_size=350)


@pytest.mark.parametrize("pairs", ["none", "next", "order"])
@pytest.mark.parametrize("masking", MASKINGS)
def test_units_are_masked_as_a_whole(setup, masking, pairs):
    check_masking(setup, masking, setup.rows(num_steps=40, masking=masking, pairs=pairs))


@pytest.mark.parametrize(
    ("kind", "specials"), [("char", "bert"), ("byte-bpe", "roberta"), ("unigram", "bert"), ("bpe", "bert")]
)
def test_units_are_masked_as_a_whole_with_any_tokenizer(kind, specials):
    setup = MaskingSetup([*CHINESE, *ENGLISH], ENTITIES, kind=kind, specials=specials, vocab_size=500)
    check_masking(setup, "unit", setup.rows(num_steps=40, masking="unit", pairs="none"))


def test_chinese_words_are_masked_as_a_whole():
    setup = MaskingSetup([SENTENCE] * 40)
    decode = setup.tokenizer.decode
    seen = set()
    for plain, _, _, labels in setup.rows(masking="unit", pairs="none", mask_probability=0.2, length=20):
        for row, masked in zip(plain, labels != IGNORED, strict=True):
            runs = itertools.groupby(zip(row.tolist(), masked.tolist(), strict=True), key=lambda token: token[1])
            seen |= {decode([id for id, _ in run]).replace(" ", "") for selected, run in runs if selected}
    assert {"使用", "语言", "模型", "预测", "一个", "概率"} <= seen
    assert not {"语", "言", "模", "型", "预", "测", "概", "率"} & seen


@pytest.mark.slow
def test_wikipedia_words_are_masked_as_a_whole():
    shared = Path(__file__).parents[2].parent / "shared" / "data" / "corpora" / "zhwiki-small.train.txt"
    if not shared.is_file():
        pytest.skip("needs the Wikipedia samples")
    with shared.open(encoding="utf-8") as file:
        lines = [line.strip() for line in itertools.islice(file, 10_000) if line.strip()]
    setup = MaskingSetup(lines, vocab_size=6000)
    num_steps = setup.store.num_tokens // (16 * 128)
    check_masking(setup, "unit", setup.rows(num_steps=num_steps, masking="unit", pairs="none"))


def test_entities_are_masked_with_all_their_words():
    setup = MaskingSetup([*CHINESE, *ENGLISH], ENTITIES, vocab_size=600)
    found = {masking: set() for masking in ("word", "unit")}
    for masking, seen in found.items():
        for plain, _, _, labels in setup.rows(masking=masking, pairs="none"):
            for row, masked in zip(plain, labels != IGNORED, strict=True):
                text = setup.tokenizer.decode(np.where(masked, setup.tokenizer.specials.mask, row), skip_specials=False)
                seen |= {part for part in ("new [MASK]", "[MASK] york") if part in text}
    assert found == {"word": {"new [MASK]", "[MASK] york"}, "unit": set()}


@st.composite
def units_and_keys(draw):
    """Where units begin, which tokens are maskable, and sort keys."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 30)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    begins = generator.random(shape) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    begins[:, 0] = True
    return begins, generator.random(shape) < 0.9, generator.random(shape, dtype=np.float32)


def reference(begins, maskable, keys, budgets):
    """Select units one by one in the order of their keys, skipping those that exceed the budget."""
    selected = np.zeros_like(begins)
    for row in range(len(begins)):
        bounds = [*np.flatnonzero(begins[row]).tolist(), begins.shape[1]]
        budget = budgets[row, 0]
        for start, end in sorted(itertools.pairwise(bounds), key=lambda unit: keys[row, unit[0]]):
            if maskable[row, start:end].all() and end - start <= budget:
                selected[row, start:end] = True
                budget -= end - start
    return selected


@given(units_and_keys(), st.integers(1, 12))
def test_selection_equals_the_reference(arrays, budget):
    budgets = budget + np.arange(len(arrays[0]))[:, None]
    assert np.array_equal(_select(*arrays, budgets), reference(*arrays, budgets))


@given(units_and_keys(), st.integers(0, 100))
def test_ngrams_have_one_to_three_words(arrays, seed):
    begins, maskable, _ = arrays
    ngrams = _join_words(begins, maskable, np.random.default_rng(seed))
    assert ngrams[:, 0].all() and not (ngrams & ~begins).any()
    for row in range(len(ngrams)):
        words = np.flatnonzero(begins[row])
        assert np.diff(np.flatnonzero([*ngrams[row][words], True])).max() <= 3


def test_ngram_lengths_have_probability_proportional_to_1_over_n():
    begins = np.ones((200, 300), dtype=bool)
    ngrams = _join_words(begins, begins, np.random.default_rng(0))[:, :-3]
    lengths = np.concatenate([np.diff(np.flatnonzero(row)) for row in ngrams])
    counts = np.bincount(lengths, minlength=4)[1:]
    assert chisquare(counts, np.array([6, 3, 2]) / 11 * counts.sum()).pvalue > 1e-3


def test_masking_is_dynamic():
    setup = MaskingSetup(ENGLISH)
    for masking in ("token", "word"):
        objective = setup.objective(masking=masking, pairs="none")
        source = TokenSource(setup.store, 32, 4)
        batch = objective.draw_batch(source, seed=0, step=0)
        masks = [objective.add_targets(batch, source, seed=0, step=step).labels["masked_lm"] for step in (0, 500, 500)]
        assert not bool((masks[0] == masks[1]).all()) and bool((masks[1] == masks[2]).all())


def test_a_sequence_gets_another_mask_in_every_epoch():
    """With one sequence, every step is an epoch and reads the same tokens."""
    setup = MaskingSetup(ENGLISH[:3])
    source = TokenSource(setup.store, setup.store.num_tokens + 2, 1)
    objective = setup.objective(masking="word", pairs="none")
    rows = [objective.batch(source, seed=0, step=step).labels["masked_lm"] for step in range(6)]
    assert len({tuple(row.flatten().tolist()) for row in rows}) == 6


@pytest.mark.parametrize(
    ("stages", "steps"),
    [
        ([("token", 0), ("word", 20), ("unit", 40)], {0: "token", 19: "token", 20: "word", 39: "word", 40: "unit"}),
        ([("token", 0), ("word", 0.25), ("unit", 0.5)], {24: "token", 25: "word", 49: "word", 50: "unit", 99: "unit"}),
        ([], {0: "ngram", 99: "ngram"}),
    ],
)
def test_masking_stages_switch_at_their_steps(stages, steps):
    setup = MaskingSetup([*CHINESE, *ENGLISH], ENTITIES)
    source = TokenSource(setup.store, 64, 4, schedule=StepSchedule(steps=100))
    staged = setup.objective(stages=stages, masking="token" if stages else "ngram", pairs="none")
    for step, masking in steps.items():
        plain = setup.objective(masking=masking, pairs="none")
        assert staged.batch(source, seed=0, step=step).ids.equal(plain.batch(source, seed=0, step=step).ids)
    assert MaskedLmConfig(stages=stages).uses_units == bool(stages)


def test_validation_masks_single_tokens():
    setup = MaskingSetup(ENGLISH)
    source = TokenSource(setup.store, 64, 4, validation=True)
    batches = [setup.objective(masking=masking).batch(source, seed=0, step=0) for masking in ("token", "unit")]
    assert batches[0].ids.equal(batches[1].ids)


@pytest.mark.parametrize(
    "stages", [[["token", 5]], [["token", 0], ["word", 0]], [["token", 0], ["word", 0.5], ["unit", 9]]]
)
def test_stages_must_be_increasing(stages):
    with pytest.raises(ConfigError, match="objective: stages"):
        MaskedLmConfig.parse({"stages": stages}, group="objective")
    with pytest.raises(ConfigError, match="stages replace masking"):
        MaskedLmConfig.parse({"stages": [["word", 0]], "masking": "unit"}, group="objective")
