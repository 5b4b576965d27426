"""N-gram models as a family: training, likelihood, generation, saving, and what they cannot do."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.baselines.ngram_reference import ReferenceNgrams

import polyseme as ps
from polyseme.baselines.ngram import Ngram, NgramConfig
from polyseme.families import build_objective
from polyseme.inference.generation import GenerationConfig, generate_batch
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history

LONG = "the spring behind the mill was dry and the new bank in town does not lend money. " * 20
TEXTS = ["the old bank by the river", "a", "", LONG, "the quagga slept.", "She lit a match!", "河边的银行昨天关门了。"]


@pytest.fixture(scope="module")
def train(corpus_file, tmp_path_factory):
    """A function that trains a model with some settings."""

    def run(*settings, **options):
        out = tmp_path_factory.mktemp("models") / "ngram"
        return ps.pretrain("ngram", corpus=corpus_file, dev=corpus_file, out=out, settings=settings, **options)

    return run


@pytest.fixture(scope="module")
def model(train):
    return train()


def reference_of(model, documents):
    tokenizer = model.tokenizer
    ids = [tokenizer.encode(document, specials=False).ids for document in documents]
    sizes = {"vocab_size": tokenizer.vocab_size, "order": model.encoder.config.order}
    return ReferenceNgrams(ids, **sizes, end=tokenizer.specials.end)


def reference_nats(reference, ids):
    """The cost of each id but the first."""
    contexts = (tuple(ids[max(0, place - reference.order + 1) : place]) for place in range(1, len(ids)))
    probabilities = (reference.probability(*pair) for pair in zip(contexts, ids[1:], strict=True))
    return -np.log([*probabilities])


@pytest.mark.parametrize(
    "settings",
    [
        ("model.max_length=64",),
        ("model.order=2", "model.max_length=16"),
        ("model.order=6", "model.max_length=40", "tokenizer.kind=char"),
        ("model.order=3", "model.max_length=40", "tokenizer.kind=bpe", "model.vocab_size=150"),
    ],
    ids=" ".join,
)
def test_scores_are_those_of_the_reference(train, documents, settings):
    """Over words, characters and subwords, Chinese by ideograph, also of texts longer than a window."""
    model = train("data.sequence_length=16", *settings)
    reference, tokenizer = reference_of(model, documents), model.tokenizer
    assert "银" in tokenizer.encode("银行", specials=False).tokens[0]
    for text, score in zip(TEXTS, model.score(TEXTS), strict=True):
        ids = [tokenizer.specials.end, *tokenizer.encode(text, specials=False).ids]
        assert score.num_tokens == len(ids) - 1
        assert score.nats - score.oov_nats == pytest.approx(reference_nats(reference, ids).sum(), rel=1e-6)


def test_oov_words_are_charged_for_their_spelling(model):
    known, unknown, literal = model.score(["the old bank", "the quagga bank", "the <unk> bank"])
    assert (known.num_oov, unknown.num_oov, literal.num_oov) == (0, 1, 0) and known.oov_nats == literal.oov_nats == 0
    assert unknown.oov_nats == pytest.approx(model.tokenizer.oov_model.nll("quagga")) and unknown.oov_nats > 10


def test_scores_of_tokens_and_continuations(model):
    text = "the old bank"
    (score,) = model.score([text], top=3)
    assert sum(token.nats for token in score.tokens) == pytest.approx(score.nats, rel=1e-6)
    for token in score.tokens:
        nats = [cost for _, cost in token.alternatives]
        assert nats == sorted(nats) and len(nats) == 3 and nats[0] <= token.nats + 1e-6
    whole, start = model.score([text, "the old"])
    (end,) = model.score([" bank"], after=["the old"])
    assert end.nats == pytest.approx(whole.nats - start.nats, rel=1e-6)


def test_greedy_generation_is_the_argmax_of_the_distribution(model):
    language_model, end = model.language_model, model.tokenizer.specials.end
    for prompt in ("the new bank", "spring", ""):
        ids = model.prompt_ids(prompt)
        generated = [token for (token,) in generate_batch(language_model, [ids], GenerationConfig(max_tokens=12))]
        for token in generated:
            context = np.array([[-1, -1, -1, -1, *ids][-4:]])
            expected = int(language_model.head.ngrams.distributions(context)[0].argmax())
            assert (end if token is None else token) == expected
            ids.append(expected)
        assert model.generate(prompt, max_tokens=12) == model.generate([prompt], max_tokens=12)[0] != ""
    prompt = "the new bank"
    greedy = prompt + model.generate(prompt, max_tokens=3)
    (score,) = model.score([greedy[len(prompt) :]], after=[prompt])
    assert score.is_greedy and not model.score([" spring"], after=[prompt])[0].is_greedy


def test_sampling(model):
    texts = [model.generate("the", temperature=1.0, max_tokens=8, seed=seed) for seed in (0, 0, 1, 2)]
    assert texts[0] == texts[1] and len(set(texts)) > 1


@pytest.mark.parametrize("budget", ["10m", "3epochs", "500steps"])
def test_training_is_one_step_whatever_the_budget(train, budget):
    model = train("model.order=2", budget=budget)
    history = (model.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(history) == 1 and '"step": 1,' in history[0] and '"bits_per_character"' in history[0]


def test_validation_loss(train, documents):
    """The dev text, here that of training, is read as a stream of documents."""
    model = train("model.order=3")
    reference, tokenizer = reference_of(model, documents), model.tokenizer
    end = tokenizer.specials.end
    texts = [[end, *tokenizer.encode(document, specials=False).ids, end] for document in documents]
    nats = np.concatenate([reference_nats(reference, text) for text in texts])
    num_tokens = min(len(nats), max(1, len(nats) // 4096) * 4096)  # whole batches
    (row,) = read_history(model.folder)
    assert row["dev"]["causal_lm"] == pytest.approx(nats[:num_tokens].mean(), rel=1e-6)


def test_resumed_run_equals_an_uninterrupted_one(corpus_file, tmp_path):
    recipe = Recipe.preset("ngram", "tiny", data={"corpus": [str(corpus_file)]}, training={"budget": "1steps"})
    weights = []
    for name, interrupted_at in (("whole", None), ("before", 0), ("after", 1)):
        session = PretrainingSession.start(recipe, tmp_path / name)
        if interrupted_at is not None:
            if interrupted_at:
                assert len(list(session.steps())) == 1
            assert session.pause()
            session = PretrainingSession.resume(tmp_path / name)
            assert session.resumed_at == interrupted_at
        list(session.steps())
        weights.append((session.finish() / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] == weights[2]


def test_saved_copy_is_the_same(model, tmp_path):
    model.save(tmp_path / "copy")
    copy = ps.load(tmp_path / "copy")
    assert copy.encoder.config == model.encoder.config
    assert [score.nats for score in copy.score(TEXTS)] == [score.nats for score in model.score(TEXTS)]


@pytest.mark.parametrize(("name", "value"), [("words", -5), ("words", 1 << 30), ("first", 1 << 30), ("first", -1)])
def test_damaged_tables_are_an_error(model, tmp_path, name, value):
    model.save(tmp_path / "copy")
    file = tmp_path / "copy" / "model.safetensors"
    weights = load_file(file)
    weights[f"causal_lm.{name}"][10] = value
    save_file(weights, file)
    with pytest.raises(ps.CheckpointError, match="damaged"):
        ps.load(tmp_path / "copy", verify=False).score(["the old bank"])


def test_capabilities(model):
    assert model.capabilities == {"score", "generate"} and model.likelihood_scale == "causal"


@pytest.mark.parametrize(
    "verb",
    [
        lambda model, data, out: model.encode(["a text"]),
        lambda model, data, out: model.embed(["a text"]),
        lambda model, data, out: model.neighbours("bank"),
        lambda model, data, out: model.analogy("the", "old", "bank"),
        lambda model, data, out: model.senses("bank", ["the old bank", "the new bank"]),
        lambda model, data, out: model.attention("a text"),
        lambda model, data, out: model.probe(data),
        lambda model, data, out: model.fill("the [MASK]"),
        lambda model, data, out: model.translate(["a text"]),
        lambda model, data, out: model.evaluate(data, suite="words"),
        lambda model, data, out: ps.finetune(model.folder, train=data, out=out),
        lambda model, data, out: ps.adapt(model.folder, corpus=data, out=out),
        lambda model, data, out: ps.load(model.folder, weights="int8"),
    ],
)
def test_verbs_that_need_vectors_are_refused_in_one_line(model, verb, tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\n" + "the old bank\tgood\nthe new bank\tbad\n" * 20, encoding="utf-8")
    with pytest.raises(ps.ConfigError, match="ngram") as error:
        verb(model, data, tmp_path / "out")
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("setting", ["model.order=1", "model.order=7", "model.num_ngrams=[3]", "model.max_length=8"])
def test_invalid_sizes(setting):
    with pytest.raises(ps.ConfigError, match="model"):
        Recipe.preset("ngram", "tiny", [setting])


def test_untrained_model_is_uniform(model):

    config = NgramConfig(vocab_size=50, order=3)
    encoder = Ngram(config)
    head = build_objective(Recipe.preset("ngram", "tiny").objective, encoder, model.tokenizer.specials).parts[0]
    hidden = torch.tensor([[-1.0, 3.0], [4.0, 49.0]])
    torch.testing.assert_close(head.logits(encoder, hidden).exp(), torch.full((2, 50), 1 / 50, dtype=torch.float64))
