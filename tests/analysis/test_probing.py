"""Probing: statistics by hand, synthetic layers of which one is informative, and every family."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyseme.analysis import span_activations
from polyseme.analysis.probe_data import LabelSet, ProbeDataset, read_probe_dataset
from polyseme.analysis.probing import (
    Probe,
    ProbeConfig,
    SeedResult,
    TaskProbes,
    attention_pool,
    expected_layer,
    probe_layers,
    summarize,
)
from polyseme.analysis.span_activations import ActivationCache, cache_layers, spans_to_tokens, token_indices
from polyseme.datasets.edge_probing import ProbingSentence, SpanTarget, read_sentences
from polyseme.errors import ConfigError, DataError
from polyseme.families import FAMILIES
from polyseme.objectives.joint import JointObjective
from polyseme.pretrained import Pretrained
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

# ------------------------------------------------------------------------------------------------- statistics


def test_layer_statistics_by_hand():
    weights, scores = [0.1, 0.2, 0.3, 0.4], [0.5, 0.7, 0.75, 0.8]
    found = summarize_weights(weights, scores)
    assert found.centre_of_gravity.mean == pytest.approx(0.2 + 0.6 + 1.2)
    assert found.kl_from_uniform.mean == pytest.approx(sum(s * math.log(4 * s) for s in weights))
    assert summarize_weights([0.25] * 4, scores).kl_from_uniform.mean == 0
    assert summarize_weights([0, 1, 0, 0], scores).kl_from_uniform.mean == pytest.approx(math.log(4))
    assert [gain.mean for gain in found.gains] == pytest.approx([0.2, 0.05, 0.05])
    assert expected_layer(scores) == pytest.approx((1 * 0.2 + 2 * 0.05 + 3 * 0.05) / 0.3)
    assert expected_layer([0.5, 0.9, 0.7]) == pytest.approx((0.4 - 2 * 0.2) / 0.2)  # a negative gain lowers it
    assert expected_layer(scores, min_gain=0.31) is None
    assert expected_layer([0.5, 0.5]) is expected_layer([0.5, 0.4]) is expected_layer([0.5]) is None


def fields(num_dev=5):
    task = {"model": "m", "family": "bert", "task": "pos", "metric": "accuracy", "num_labels": 3}
    return {**task, "majority_baseline": 0.4, "num_train": 10, "num_dev": num_dev}


def summarize_weights(weights, scores):
    return summarize([SeedResult(layer_weights=weights, scale=1.0, scores=scores, uniform_score=0.7)], **fields())


def test_summary_over_seeds():
    first = SeedResult(layer_weights=[0.5, 0.5], scale=1.0, scores=[0.6, 0.8], uniform_score=0.7)
    second = SeedResult(layer_weights=[0.1, 0.9], scale=2.0, scores=[0.6, 1.0], uniform_score=0.9)
    found = summarize([first, second], **fields())
    assert found.centre_of_gravity.mean == pytest.approx(0.7) and found.centre_of_gravity.std == pytest.approx(
        0.4 / math.sqrt(2)
    )
    assert found.score.mean == pytest.approx(0.9) and found.uniform_score.mean == pytest.approx(0.8)
    assert [weight.mean for weight in found.layer_weights] == pytest.approx([0.3, 0.7])
    assert found.gains[0].mean == pytest.approx(0.3) and found.expected_layer.mean == 1
    assert found.num_seeds == 2 and found.scale.mean == 1.5
    described = found.describe()
    assert described["layers"][1] == {
        "layer": 1,
        "weight": {"mean": 0.7, "std": 0.282843},
        "score": {"mean": 0.9, "std": 0.141421},
        "gain": {"mean": 0.3, "std": 0.141421},
    }
    assert summarize([first], **fields(num_dev=1)).expected_layer is None  # 0.2 is less than √(0.8 · 0.2 / 1)
    alone = summarize([first], **fields())
    assert alone.centre_of_gravity.std is None and alone.describe()["score"] == {"mean": 0.8, "std": None}


# ------------------------------------------------------------------------------------------------- files

CONLLU = """# sent_id = 1
1\tDogs\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t3\taux\t_\tSpaceAfter=No
3\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_
3.1\teat\teat\tVERB\t_\t_\t_\t_\t_\t_
4\t#\t#\tSYM\t_\t_\t3\tpunct\t_\t_

1\t银行\t_\tNOUN\t_\t_\t2\tnsubj\t_\tSpaceAfter=No
2\t关门\t_\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
"""


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_held_out_sentences(tmp_path):
    path = write(tmp_path, "tags.conll", "\n\n".join(f"w{number}\t{number % 3}" for number in range(40)))
    dataset = read_probe_dataset(path, max_sentences=100, seed=0)
    texts = [sentence.text for split in (dataset.train, dataset.dev) for sentence in split]
    assert len(dataset.train) == 36 and len(dataset.dev) == 4 and len({*texts}) == 40
    assert (
        dataset
        == read_probe_dataset(path, max_sentences=100, seed=0)
        != read_probe_dataset(path, max_sentences=100, seed=1)
    )
    few = read_probe_dataset(path, max_sentences=5, seed=0)
    assert few.train == dataset.train[:5] and few.dev == dataset.dev[:4]
    with_dev = read_probe_dataset(path, path, ["pos"], max_sentences=100, seed=0, name="mine")
    assert len(with_dev.train) == len(with_dev.dev) == 40 and with_dev.task_names == {"pos": "mine"}
    with pytest.raises(DataError, match="0 sentences contain no target of tag"):
        read_probe_dataset(write(tmp_path, "one.conll", "a\tb\n"), max_sentences=5, seed=0)
    both = read_probe_dataset(write(tmp_path, "some.conllu", CONLLU), max_sentences=5, seed=0, name="mine")
    assert both.task_names == {"pos": "mine pos", "dependencies": "mine dependencies"}


def test_number_of_spans_must_match(tmp_path):
    one = '{"text": "a b", "targets": [{"span1": [0, 1], "label": "x"}]}\n'
    two = one.replace('"label"', '"span2": [1, 2], "label"')
    with pytest.raises(DataError, match="number of spans per target differs"):
        read_probe_dataset(
            write(tmp_path, "one.jsonl", one), write(tmp_path, "two.jsonl", two), max_sentences=5, seed=0
        )


# ------------------------------------------------------------------------------------------------- spans to tokens

TEXTS = ["the king met the queen by the bank, 他在苹果公司上班。" * 3]


def tokens_of_words(kind, specials, text, words):
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=specials, min_count=1), TEXTS, vocab_size=400)
    tokens = tokenizer.encode(text)
    # As in encodings, special tokens are empty spans at the position of their neighbour.
    offsets = [(len(text),) * 2 if n and a == b == 0 else (a, b) for n, (a, b) in enumerate(tokens.offsets)]
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    first, end = spans_to_tokens(offsets, spans)
    return [tokens.tokens[a:b] for a, b in zip(first, end, strict=True)]


def test_spans_of_wordpieces():
    found = tokens_of_words("wordpiece", "bert", "the kingbank, 苹果", ["the", "kingbank", ",", "苹果", "果"])
    assert [found[0], found[2], found[3], found[4]] == [["the"], [","], ["苹", "果"], ["果"]]
    assert "".join(token.removeprefix("##") for token in found[1]) == "kingbank"


def test_spans_of_byte_tokens():
    text = "the king, 苹果 上"
    found = tokens_of_words("byte-bpe", "gpt2", text, ["the", "king", ",", "苹果", "果"])
    assert found[:3] == [["the"], ["Ġking"], [","]]
    decoder = Tokenizer.train(TokenizerConfig(kind="byte-bpe", specials="gpt2", min_count=1), TEXTS, vocab_size=400)
    decoded = [decoder.decode([decoder.id(token) for token in tokens]) for tokens in found[3:]]
    assert decoded[0].strip() == "苹果" and "果" in decoded[1]


def test_dropped_characters_have_no_tokens():
    offsets = [(0, 0), (0, 3), (6, 9), (9, 9)]
    first, end = spans_to_tokens(offsets, [(0, 3), (4, 5), (6, 9), (0, 9), (9, 12)])
    assert (end - first).tolist() == [1, 0, 1, 2, 0]
    assert first[[0, 2, 3]].tolist() == [1, 2, 1]
    assert [part.tolist() for part in spans_to_tokens(offsets, [])] == [[], []]


# ------------------------------------------------------------------------------------------------- cached activations


class SyntheticModel:
    """A model with words as tokens and a function of the word per layer."""

    folder, family = Path("synthetic"), "synthetic"

    def __init__(self, widths, layers):
        self.encoder = SimpleNamespace(widths=widths, tokens=torch.nn.Embedding(1, 1))
        self.layers = layers
        self.texts = []

    def encode(self, texts):
        self.texts += texts
        return [self.read(text) for text in texts]

    def read(self, text):
        words = text.split(" ")
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        offsets = [(0, 0), *((end - len(word), end) for word, end in zip(words, ends.tolist(), strict=True))]
        layers = [np.array([layer(word) for word in ["", *words]], np.float32) for layer in self.layers]
        return SimpleNamespace(offsets=offsets, layers=layers)


def dataset_of(label, num_sentences=100, *, two=False, seed=0):
    """Sentences of words such as w7, each with a label."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(num_sentences):
        words = [f"w{number}" for number in rng.integers(0, 40, 6)]
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        spans = [(end - len(word), end) for word, end in zip(words, ends.tolist(), strict=True)]
        pairs = [(n, (n + 1) % len(words)) for n in range(len(words))] if two else [(n,) for n in range(len(words))]
        targets = [
            SpanTarget(spans=tuple(spans[n] for n in pair), labels=label(*(words[n] for n in pair))) for pair in pairs
        ]
        sentences.append(ProbingSentence(text=" ".join(words), targets={"tag": targets}))
    middle = num_sentences // 2
    return ProbeDataset(train=sentences[:middle], dev=sentences[middle:], task_names={"tag": "tag"})


def parity(word):
    return (str(int(word[1:]) % 3),)


def random_layer(layer, width=12):
    def vector(word):
        return np.random.default_rng([layer, *word.encode()]).normal(size=width)

    return vector


def uninformative(layer, width=12):
    """Random vectors that do not depend on the word."""
    rng = np.random.default_rng(layer)
    return lambda word: rng.normal(size=width)


def informative(layer, width=12):
    def vector(word):
        values = uninformative(layer, width)(word)
        if word:
            values[int(word[1:]) % 3] += 5
        return values

    return vector


def probe(model, dataset, **settings):
    config = ProbeConfig(**{"epochs": 6, **settings})
    return [step.result for step in probe_layers(model, dataset, config) if step.result]


@pytest.mark.parametrize("best", [0, 1, 3])
def test_informative_layer_is_found(best):
    layers = [informative(n) if n == best else uninformative(n) for n in range(4)]
    (found,) = probe(SyntheticModel((12,) * 4, layers), dataset_of(parity), mix_learning_rate=0.1, learning_rate=5e-3)
    weights = [weight.mean for weight in found.layer_weights]
    assert int(np.argmax(weights)) == best and weights[best] > 0.6
    assert found.centre_of_gravity.mean == pytest.approx(best, abs=0.6)
    assert found.score.mean > 0.9 > 0.6 > found.majority_baseline
    assert [score.mean > 0.8 for score in found.scores] == [n >= best for n in range(4)]
    if best:
        assert found.expected_layer.mean == pytest.approx(best, abs=0.3)
    assert sum(weights) == pytest.approx(1) and found.kl_from_uniform.mean > 0.3
    assert (found.num_train, found.num_dev, found.num_labels) == (50 * 6, 50 * 6, 3)


def test_two_spans_are_distinguished():
    """The label depends on the second span only."""
    dataset = dataset_of(lambda _, second: parity(second), two=True)
    (found,) = probe(
        SyntheticModel((12, 12), [uninformative(0), informative(1)]), dataset, mix_learning_rate=0.1, learning_rate=5e-3
    )
    assert found.score.mean > 0.9 and found.expected_layer.mean == pytest.approx(1)


def test_layers_of_other_widths():
    model = SyntheticModel((7, 12, 20), [uninformative(0, 7), informative(1, 12), uninformative(2, 20)])
    (found,) = probe(model, dataset_of(parity), mix_learning_rate=0.1, learning_rate=5e-3)
    assert found.score.mean > 0.8 and found.scores[0].mean < 0.6 and found.num_layers == 3


def test_scale_of_layers_does_not_matter():
    dataset = dataset_of(parity)
    (plain,) = probe(SyntheticModel((12,) * 2, [informative(0), informative(1)]), dataset)
    large = SyntheticModel((12,) * 2, [informative(0), lambda word: 1000 * informative(1)(word) + 3])
    (found,) = probe(large, dataset)
    assert [weight.mean for weight in found.layer_weights] == pytest.approx(
        [weight.mean for weight in plain.layer_weights], abs=0.02
    )


def test_encoder_runs_once_and_layers_are_standardized():
    model, dataset = SyntheticModel((12,) * 3, [random_layer(n) for n in range(3)]), dataset_of(parity)
    probe(model, dataset, seeds=2, epochs=1)
    assert len(model.texts) == 100
    cache, spans = cache_layers(model, [*dataset.train, *dataset.dev], 50)
    assert [len(layer) for layer in cache.layers] == [100 * 6] * 3 and len(spans) == 100
    train = cache.layers[1][: 50 * 6].float()
    assert abs(float(train.mean())) < 1e-3 and float(train.std()) == pytest.approx(1, abs=1e-2)
    one = [float(x) for x in random_layer(1)(dataset.dev[0].text.split()[2])]
    again = cache.gather(torch.tensor([50 * 6 + 2]), 2)[1][0].tolist()
    assert np.corrcoef(one, again)[0, 1] > 0.999


def test_only_tokens_of_spans_are_cached():
    targets = [SpanTarget(spans=((3, 8),), labels=("a",)), SpanTarget(spans=((12, 14),), labels=("b",))]
    sentence = ProbingSentence(text="w1 w2 w3 w4 w5", targets={"tag": targets, "other": targets[:1]})
    cache, (spans,) = cache_layers(SyntheticModel((12,), [random_layer(0)]), [sentence], 1)
    assert len(cache.layers[0]) == 3
    assert spans["tag"].tolist() == [[[0, 2]], [[2, 1]]] and spans["other"].tolist() == [[[0, 2]]]


def test_insufficient_memory_is_reported(monkeypatch):
    monkeypatch.setattr(span_activations, "available_memory", lambda: 1000)
    with pytest.raises(
        ConfigError, match=r"the layers of 100 sentences need .* kB of memory; set max_sentences to \d+"
    ):
        probe(SyntheticModel((12,) * 3, [random_layer(n) for n in range(3)]), dataset_of(parity))


def test_tokens_of_a_batch():
    spans = torch.tensor([[[2, 1], [9, 2]], [[7, 1], [0, 0]], [[5, 2], [0, 1]]])  # of each: the first token, the length
    assert token_indices(spans).tolist() == [2, 7, 5, 6, 9, 10, 0]


# ------------------------------------------------------------------------------------------------- probes


def test_attention_pooling_by_hand():
    attend = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(attend.weight, 1.0)
    tokens = torch.tensor([[1.0, 0.0], [0.0, 3.0], [5.0, 5.0]])
    pooled = attention_pool(tokens, attend, torch.tensor([2, 0, 1]))
    a, b = math.exp(1), math.exp(3)
    torch.testing.assert_close(pooled, torch.tensor([[a / (a + b), 3 * b / (a + b)], [0, 0], [5, 5]]))
    large = attention_pool(1e4 * tokens, attend, torch.tensor([2, 0, 1]))
    assert large.isfinite().all()


def test_probe_of_a_scalar_mix():
    torch.manual_seed(0)
    probe = Probe([4, 4], 4, num_spans=1, num_labels=3, width=4)
    layers, lengths = [torch.randn(5, 4), torch.randn(5, 4)], torch.tensor([[2], [3]])
    alone = Probe([4], 4, num_spans=1, num_labels=3, width=4)
    alone.load_state_dict({**probe.state_dict(), "mix.weight": torch.zeros(1, 1)})
    torch.testing.assert_close(probe(layers, lengths), alone([(layers[0] + layers[1]) / 2], lengths))


def test_spans_have_separate_parameters():
    torch.manual_seed(0)
    probe = Probe([4], 4, num_spans=2, num_labels=3, width=4)
    tokens, lengths = torch.randn(7, 4), torch.tensor([[1, 2], [1, 3]])
    spans = [
        attention_pool(project(part), attend, length)
        for project, attend, part, length in zip(
            probe.project, probe.attend, (tokens[:2], tokens[2:]), lengths.T, strict=True
        )
    ]
    torch.testing.assert_close(probe([tokens], lengths), probe.classify(torch.cat(spans, -1)))


def task_probes(**settings):
    dataset, model = dataset_of(parity), SyntheticModel((12,) * 2, [random_layer(0), informative(1)])
    cache, spans = cache_layers(model, [*dataset.train, *dataset.dev], 50)
    return TaskProbes(cache, spans, dataset, "tag", ProbeConfig(epochs=2, **settings))


def test_uniform_weights_are_fixed():
    probes = task_probes(mix_learning_rate=0.1)
    uniform = probes.train_probe(2, seed=0, uniform=True)
    assert uniform.mix.layer_weights.tolist() == [0.5, 0.5] and uniform.mix.scale.item() != 1
    assert probes.train_probe(2, seed=0).mix.layer_weights.tolist() != [0.5, 0.5]


def test_results_depend_on_the_seed_only():
    model, dataset = SyntheticModel((12,) * 2, [random_layer(0), informative(1)]), dataset_of(parity)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = probe(model, dataset, seed=3, epochs=2)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(6)
    assert probe(model, dataset, seed=3, epochs=2) == first != probe(model, dataset, seed=4, epochs=2)
    both = probe(model, dataset, seed=3, seeds=2, epochs=2)[0]
    (other,) = probe(model, dataset, seed=4, epochs=2)
    assert both.scale.mean == pytest.approx((first[0].scale.mean + other.scale.mean) / 2)
    assert both.num_seeds == 2 and both.centre_of_gravity.std is not None


def test_progress():
    steps = list(
        probe_layers(
            SyntheticModel((12,) * 2, [random_layer(0), random_layer(1)]), dataset_of(parity), ProbeConfig(seeds=2)
        )
    )
    assert [step.probes_done for step in steps] == [*range(7), 6] and {step.total_probes for step in steps} == {6}
    assert [bool(step.result) for step in steps] == [False] * 7 + [True]


# ------------------------------------------------------------------------------------------------- labels


def test_label_scores_by_hand():
    labels = LabelSet.of([("a",), ("b",), ("b",)], "x")
    assert labels.metric == "accuracy"
    predictions = torch.tensor([[True, False], [False, True], [True, False]])
    assert labels.score(predictions, [("a",), ("a",), ("new",)]) == pytest.approx(1 / 3)
    assert labels.majority_baseline(labels.to_matrix([("a",), ("b",), ("b",)]), [("b",), ("a",)]) == 0.5


def test_outside_tags_do_not_count():
    labels = LabelSet.of([("O",), ("B-x",), ("I-x",)], "x")
    assert labels.metric == "f1" and labels.names == ["B-x", "I-x", "O"]
    gold = [("O",), ("B-x",), ("I-x",), ("O",)]
    predictions = labels.to_matrix([("O",), ("B-x",), ("O",), ("B-x",)])
    assert labels.score(predictions, gold) == pytest.approx(2 * 1 / (2 + 2))
    assert labels.majority_baseline(labels.to_matrix([("O",), ("O",), ("B-x",)]), gold) == 0


def test_multi_label_targets():
    labels = LabelSet.of([("a", "b"), (), ("b",)], "x")
    assert labels.multi_label and labels.metric == "f1"
    predictions = labels.predict(torch.tensor([[2.0, -1.0], [0.5, 0.5]]))
    assert predictions.tolist() == [[True, False], [True, True]]
    assert labels.score(predictions, [("a", "b"), ("b", "new")]) == pytest.approx(2 * 2 / (3 + 4))
    assert labels.majority_baseline(labels.to_matrix([("a", "b"), (), ("b",)]), [("b",), ()]) == pytest.approx(2 / 3)
    dataset = dataset_of(lambda word: ("even", "low")[int(word[1:]) % 2 :] if int(word[1:]) < 30 else ())
    (found,) = probe(SyntheticModel((12,), [random_layer(0)]), dataset, learning_rate=1e-2, epochs=10)
    assert found.metric == "f1" and found.score.mean > 0.8


def test_constant_labels_are_an_error():
    with pytest.raises(DataError, match="all targets have the label 'a'"):
        LabelSet.of([("a",), ("a",)], "x")
    with pytest.raises(DataError, match="no target has a label"):
        LabelSet.of([(), ()], "x")


# ------------------------------------------------------------------------------------------------- every family

SMALL = ["model.vocab_size=400", "model.max_length=64", "data.sequence_length=32", "tokenizer.min_count=1"]
LABELLED = """1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tbank\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tlends\t_\tVERB\t_\t_\t0\troot\t_\t_
4\t钱\t_\tNOUN\t_\t_\t3\tobj\t_\t_

"""


def tiny(family, documents):
    recipe = Recipe.preset(family, "tiny", SMALL)
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=400)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    encoder.set_tokenizer(tokenizer)
    return Pretrained(
        folder=Path("runs") / family,
        family=family,
        encoder=encoder.eval(),
        objective=JointObjective({}),
        tokenizer=tokenizer,
        recipe=None,
    )


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.has_vectors])
def test_every_family(family, documents, tmp_path):
    model = tiny(family, documents)
    path = write(tmp_path, "some.conllu", 12 * LABELLED)
    results = model.probe(path, epochs=1, width=8)
    assert [result.task for result in results] == ["pos", "dependencies"]
    for result in results:
        assert result.model == result.family == family and result.num_layers == len(model.encoder.widths)
        assert sum(weight.mean for weight in result.layer_weights) == pytest.approx(1)
        assert len(result.gains) == result.num_layers - 1 and 0 <= result.score.mean <= 1
    if model.encoder.context == "none":
        assert results[0].num_layers == 1 and results[0].uniform_score == results[0].score
        assert results[0].centre_of_gravity.mean == 0 and results[0].expected_layer is None
    assert model.probe(path, task="pos", epochs=1, width=8, dev=path)[0].num_dev == 48


def test_one_hot_model(documents, tmp_path):
    """Each word has a single part of speech, so type ids suffice; vectors of the vocabulary size are not cached."""
    model = tiny("onehot", documents)
    (found,) = model.probe(write(tmp_path, "some.conllu", 60 * LABELLED), task="pos", learning_rate=1e-2)
    assert found.score.mean == 1
    sentences = read_sentences(tmp_path / "some.conllu", ["pos"])
    cache, _ = cache_layers(model, sentences, 60)
    assert cache.widths == (4,) and cache.layers[0].dim() == 1
    assert cache.gather(torch.tensor([0, 1]), 1)[0].sum(1).tolist() == [1, 1]


def test_unknown_setting(documents, tmp_path):
    model = tiny("bert", documents)
    with pytest.raises(ConfigError, match=r"unknown setting probe\.epoch; did you mean probe\.epochs"):
        model.probe(write(tmp_path, "some.conllu", LABELLED), epoch=3)


def test_texts_longer_than_the_model(documents):
    """A long text is encoded in windows, and spans are found in all of them."""
    model = tiny("bert", documents)
    text = " ".join(["bank"] * 150)
    target = SpanTarget(spans=((0, len(text)),), labels=("x",))
    cache, (spans,) = cache_layers(model, [ProbingSentence(text=text, targets={"classify": [target]})], 1)
    assert len(cache.layers[0]) == int(spans["classify"][0, 0, 1]) >= 150
    assert isinstance(cache, ActivationCache) and len(cache.layers) == len(model.encoder.widths)
