"""What probes find: figures worked out by hand, layers made so that only one of them knows, and every family."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from polyseme.errors import ConfigError, DataError
from polyseme.inside import kept as keeping
from polyseme.inside.asked import Asked, Labels, read_asked
from polyseme.inside.kept import Kept, Places, batches, keep_layers, pieces, tokens_of
from polyseme.inside.layer_worth import Trial, centre_of_gravity, divergence, expected_layer, gains, summarize
from polyseme.inside.probe import Probe, ProbeConfig, Split, Study, pool, probe_layers
from polyseme.models import FAMILIES
from polyseme.objectives import Together
from polyseme.pretrained import Pretrained
from polyseme.text.edges import Sentence, Target, read_sentences
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.recipe import Recipe

# ------------------------------------------------------------------------------------------------- figures


def test_figures_by_hand():
    shares = [0.1, 0.2, 0.3, 0.4]
    assert centre_of_gravity(shares) == pytest.approx(0.2 + 0.6 + 1.2)
    assert divergence(shares) == pytest.approx(sum(s * math.log(4 * s) for s in shares))
    assert divergence([0.25] * 4) == 0 and divergence([0, 1, 0, 0]) == pytest.approx(math.log(4))
    scores = [0.5, 0.7, 0.75, 0.8]
    assert gains(scores) == pytest.approx([0.2, 0.05, 0.05])
    assert expected_layer(scores) == pytest.approx((1 * 0.2 + 2 * 0.05 + 3 * 0.05) / 0.3)
    assert expected_layer([0.5, 0.9, 0.7]) == pytest.approx((0.4 - 2 * 0.2) / 0.2)  # a loss pulls downwards
    assert expected_layer(scores, least=0.31) is None
    assert expected_layer([0.5, 0.5]) is expected_layer([0.5, 0.4]) is expected_layer([0.5]) is None


def facts(**changes):
    told = {"model": "m", "family": "bert", "task": "pos", "measure": "accuracy", "num_labels": 3, "majority": 0.4}
    return {**told, "num_train": 10, "num_items": 5, **changes}


def test_seeds_are_summed_up():
    first = Trial(shares=[0.5, 0.5], scale=1.0, scores=[0.6, 0.8], uniform=0.7)
    second = Trial(shares=[0.1, 0.9], scale=2.0, scores=[0.6, 1.0], uniform=0.9)
    found = summarize([first, second], **facts())
    assert found.gravity.mean == pytest.approx(0.7) and found.gravity.deviation == pytest.approx(0.4 / math.sqrt(2))
    assert found.score.mean == pytest.approx(0.9) and found.uniform.mean == pytest.approx(0.8)
    assert [share.mean for share in found.shares] == pytest.approx([0.3, 0.7])
    assert found.gains[0].mean == pytest.approx(0.3) and found.expected_layer.mean == 1
    assert found.num_seeds == 2 and found.scale.mean == 1.5
    told = found.describe()
    assert told["layers"][1] == {
        "layer": 1,
        "weight": {"mean": 0.7, "deviation": 0.282843},
        "score": {"mean": 0.9, "deviation": 0.141421},
        "gain": {"mean": 0.3, "deviation": 0.141421},
    }
    assert summarize([first], **facts(num_items=1)).expected_layer is None  # 0.2 is less than √(0.8 · 0.2 / 1)
    alone = summarize([first], **facts())
    assert alone.gravity.deviation is None and alone.describe()["score"] == {"mean": 0.8, "deviation": None}


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


def written(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def told(sentence, kind):
    return [
        (*(sentence.text[slice(*span)] for span in target.spans), *target.labels) for target in sentence.targets[kind]
    ]


def test_conllu(tmp_path):
    first, second = read_sentences(written(tmp_path, "some.conllu", CONLLU))
    assert first.text == "Dogs don't #" and second.text == "银行关门"
    assert told(first, "pos") == [("Dogs", "NOUN"), ("do", "AUX"), ("n't", "PART"), ("#", "SYM")]
    assert told(first, "dependencies") == [("n't", "Dogs", "nsubj"), ("n't", "do", "aux"), ("n't", "#", "punct")]
    assert told(second, "dependencies") == [("关门", "银行", "nsubj")]
    assert list(read_sentences(tmp_path / "some.conllu", ["POS"])[0].targets) == ["pos"]


def test_labelled_files(tmp_path):
    tags = written(tmp_path, "tags.conll", "彭\tB-name\n小\tI-name\n来\tO\n\nyes\tO\n")
    assert told(read_sentences(tags)[0], "tag") == [("彭", "B-name"), ("小", "I-name"), ("来", "O")]
    assert told(read_sentences(tags, ["pos"])[1], "pos") == [("yes", "O")]
    texts = written(tmp_path, "texts.tsv", "review\tlabel\nall of it\tgood\n")
    assert told(read_sentences(texts, columns={"text": "review"})[0], "classify") == [("all of it", "good")]


def test_edges(tmp_path):
    lines = """{"text": " Ann  met Bo", "targets": [{"span1": [0, 1], "span2": [1, 3], "label": "met"}]}
{"text": ["a", "b"], "targets": [{"span1": [0, 2], "span2": [0, 1], "label": ["x", "y"]},
""".replace("},\n", '}, {"span1": [0, 1], "span2": [1, 2], "label": []}]}\n')
    first, second = read_sentences(written(tmp_path, "edges.jsonl", lines))
    assert told(first, "edges") == [("Ann", "met Bo", "met")]
    assert told(second, "edges") == [("a b", "a", "x", "y"), ("a", "b")]


WRONG = {
    "columns": ("a.conllu", "1\tDogs\tNOUN\n", (), r"line 1: not the columns of CoNLL-U \(3 of 10\); write"),
    "numbers": ("a.conllu", CONLLU.replace("\n4\t", "\n5\t"), (), r"line 7: words are not numbered one by one \('5'\)"),
    "heads": ("a.conllu", CONLLU.replace("\t3\tpunct", "\t9\tpunct"), (), r"no head .*'9' 'punct'.*say --task pos"),
    "parts": ("a.conllu", CONLLU.replace("SYM", "_"), (), r"line 7: a word has no part of speech; fill column 4"),
    "empty": ("a.conllu", "# nothing\n", (), "holds no sentences"),
    "kind": ("a.conllu", CONLLU, ["po"], "'po' is nothing to probe for; did you mean pos"),
    "two ways": ("a.conll", "a\tb\n", ["tag", "pos"], "is read in one way; say one of tag, pos"),
    "no spans": ("a.tsv", "text_a\ttext_b\tlabel\na\tb\tc\n", (), "of the form pair, which has no spans"),
    "no targets": ("a.jsonl", '{"text": "a b"}\n', ["edges"], "line 1: no list of targets; write"),
    "no label": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 1]}]}\n', (), "without span1 or label"),
    "no span": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 2], "label": "x"}]}\n', (), r"\[0, 2\]\); write"),
    "no word": ("a.jsonl", '{"text": "a", "targets": [{"span1": [0, 1], "label": [{}]}]}\n', (), "neither a word nor"),
    "no text": ("a.jsonl", '{"text": 3, "targets": []}\n', (), "neither a text nor a list"),
    "spans": (
        "a.jsonl",
        '{"text": "a", "targets": [{"span1": [0, 1], "label": 1}, {"span1": [0, 1], "span2": [0, 1], "label": 2}]}\n',
        (),
        "some targets have one span and some two",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_told_in_a_line(tmp_path, case):
    name, text, kinds, message = WRONG[case]
    with pytest.raises((DataError, ConfigError), match=message) as error:
        read_sentences(written(tmp_path, name, text), kinds)
    assert "\n" not in str(error.value)


def test_columns_are_of_tables(tmp_path):
    with pytest.raises(ConfigError, match="there are no columns to name"):
        read_sentences(written(tmp_path, "a.conllu", CONLLU), columns={"tag": "4"})


def test_what_is_held_out(tmp_path):
    path = written(tmp_path, "tags.conll", "\n\n".join(f"w{number}\t{number % 3}" for number in range(40)))
    asked = read_asked(path, most=100, seed=0)
    texts = [sentence.text for part in (asked.train, asked.dev) for sentence in part]
    assert len(asked.train) == 36 and len(asked.dev) == 4 and len({*texts}) == 40
    assert asked == read_asked(path, most=100, seed=0) != read_asked(path, most=100, seed=1)
    few = read_asked(path, most=5, seed=0)
    assert few.train == asked.train[:5] and few.dev == asked.dev[:4]
    given = read_asked(path, path, ["pos"], most=100, seed=0, name="mine")
    assert len(given.train) == len(given.dev) == 40 and given.names == {"pos": "mine"}
    with pytest.raises(DataError, match="tag asks nothing of 0 sentences; give more"):
        read_asked(written(tmp_path, "one.conll", "a\tb\n"), most=5, seed=0)
    both = read_asked(written(tmp_path, "some.conllu", CONLLU), most=5, seed=0, name="mine")
    assert both.names == {"pos": "mine pos", "dependencies": "mine dependencies"}


def test_spans_have_to_be_as_many(tmp_path):
    one = '{"text": "a b", "targets": [{"span1": [0, 1], "label": "x"}]}\n'
    two = one.replace('"label"', '"span2": [1, 2], "label"')
    with pytest.raises(DataError, match="targets have not as many spans"):
        read_asked(written(tmp_path, "one.jsonl", one), written(tmp_path, "two.jsonl", two), most=5, seed=0)


# ------------------------------------------------------------------------------------------------- spans to tokens

TEXTS = ["the king met the queen by the bank, 他在苹果公司上班。" * 3]


def tokens_of_words(kind, specials, text, words):
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=specials, min_count=1), TEXTS, vocab_size=400)
    tokens = tokenizer.encode(text)
    # As `reading` has them: special tokens are empty, and stand where their neighbours do.
    offsets = [(len(text),) * 2 if n and a == b == 0 else (a, b) for n, (a, b) in enumerate(tokens.offsets)]
    spans = [(text.index(word), text.index(word) + len(word)) for word in words]
    first, behind = pieces(offsets, spans)
    return [tokens.tokens[a:b] for a, b in zip(first, behind, strict=True)]


def test_words_of_pieces():
    found = tokens_of_words("wordpiece", "bert", "the kingbank, 苹果", ["the", "kingbank", ",", "苹果", "果"])
    assert [found[0], found[2], found[3], found[4]] == [["the"], [","], ["苹", "果"], ["果"]]
    assert "".join(piece.removeprefix("##") for piece in found[1]) == "kingbank"


def test_words_of_bytes():
    text = "the king, 苹果 上"
    found = tokens_of_words("byte-bpe", "gpt2", text, ["the", "king", ",", "苹果", "果"])
    assert found[:3] == [["the"], ["Ġking"], [","]]
    decoder = Tokenizer.train(TokenizerConfig(kind="byte-bpe", specials="gpt2", min_count=1), TEXTS, vocab_size=400)
    written = [decoder.decode([decoder.id(token) for token in tokens]) for tokens in found[3:]]
    assert written[0].strip() == "苹果" and "果" in written[1]


def test_what_the_tokenizer_passes_over_has_no_tokens():
    offsets = [(0, 0), (0, 3), (6, 9), (9, 9)]
    first, behind = pieces(offsets, [(0, 3), (4, 5), (6, 9), (0, 9), (9, 12)])
    assert (behind - first).tolist() == [1, 0, 1, 2, 0]
    assert first[[0, 2, 3]].tolist() == [1, 2, 1]
    assert [part.tolist() for part in pieces(offsets, [])] == [[], []]


# ------------------------------------------------------------------------------------------------- what is kept


class Made:
    """A model whose tokens are words, and whose layers a function makes of these."""

    folder, family = Path("made"), "made"

    def __init__(self, widths, layers):
        self.encoder = SimpleNamespace(widths=widths)
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


def asked_words(label, num_sentences=100, *, two=False, seed=0):
    """Sentences of words such as w7, each with its label."""
    chance = np.random.default_rng(seed)
    sentences = []
    for _ in range(num_sentences):
        words = [f"w{number}" for number in chance.integers(0, 40, 6)]
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        spans = [(end - len(word), end) for word, end in zip(words, ends.tolist(), strict=True)]
        pairs = [(n, (n + 1) % len(words)) for n in range(len(words))] if two else [(n,) for n in range(len(words))]
        targets = [
            Target(spans=tuple(spans[n] for n in pair), labels=label(*(words[n] for n in pair))) for pair in pairs
        ]
        sentences.append(Sentence(text=" ".join(words), targets={"tag": targets}))
    middle = num_sentences // 2
    return Asked(train=sentences[:middle], dev=sentences[middle:], names={"tag": "tag"})


def parity(word):
    return (str(int(word[1:]) % 3),)


def noise(layer, width=12):
    def vector(word):
        return np.random.default_rng([layer, *word.encode()]).normal(size=width)

    return vector


def blind(layer, width=12):
    """Vectors that do not tell words apart."""
    chance = np.random.default_rng(layer)
    return lambda word: chance.normal(size=width)


def knowing(layer, width=12):
    def vector(word):
        found = blind(layer, width)(word)
        if word:
            found[int(word[1:]) % 3] += 5
        return found

    return vector


def probed(model, asked, **settings):
    config = ProbeConfig(**{"epochs": 6, **settings})
    return [step.found for step in probe_layers(model, asked, config) if step.found]


@pytest.mark.parametrize("best", [0, 1, 3])
def test_the_layer_that_knows_is_found(best):
    layers = [knowing(n) if n == best else blind(n) for n in range(4)]
    (found,) = probed(Made((12,) * 4, layers), asked_words(parity), mix_rate=0.1, rate=5e-3)
    shares = [share.mean for share in found.shares]
    assert int(np.argmax(shares)) == best and shares[best] > 0.6
    assert found.gravity.mean == pytest.approx(best, abs=0.6)
    assert found.score.mean > 0.9 > 0.6 > found.majority
    assert [score.mean > 0.8 for score in found.scores] == [n >= best for n in range(4)]
    if best:
        assert found.expected_layer.mean == pytest.approx(best, abs=0.3)
    assert sum(shares) == pytest.approx(1) and found.divergence.mean > 0.3
    assert (found.num_train, found.num_items, found.num_labels) == (50 * 6, 50 * 6, 3)


def test_two_spans_are_told_apart():
    """The label is that of the second span alone, which a probe that mistook one for the other would miss."""
    asked = asked_words(lambda _, second: parity(second), two=True)
    (found,) = probed(Made((12, 12), [blind(0), knowing(1)]), asked, mix_rate=0.1, rate=5e-3)
    assert found.score.mean > 0.9 and found.expected_layer.mean == pytest.approx(1)


def test_layers_of_other_widths():
    model = Made((7, 12, 20), [blind(0, 7), knowing(1, 12), blind(2, 20)])
    (found,) = probed(model, asked_words(parity), mix_rate=0.1, rate=5e-3)
    assert found.score.mean > 0.8 and found.scores[0].mean < 0.6 and found.num_layers == 3


def test_large_numbers_are_worth_no_more():
    asked = asked_words(parity)
    (plain,) = probed(Made((12,) * 2, [knowing(0), knowing(1)]), asked)
    large = Made((12,) * 2, [knowing(0), lambda word: 1000 * knowing(1)(word) + 3])
    (found,) = probed(large, asked)
    assert [share.mean for share in found.shares] == pytest.approx([share.mean for share in plain.shares], abs=0.02)


def test_the_encoder_runs_once_and_what_is_kept_is_even():
    model, asked = Made((12,) * 3, [noise(n) for n in range(3)]), asked_words(parity)
    probed(model, asked, seeds=2, epochs=1)
    assert len(model.texts) == 100
    kept, places = keep_layers(model, [*asked.train, *asked.dev], 50)
    assert [len(layer) for layer in kept.layers] == [100 * 6] * 3 and len(places) == 100
    learnt = kept.layers[1][: 50 * 6].float()
    assert abs(float(learnt.mean())) < 1e-3 and float(learnt.std()) == pytest.approx(1, abs=1e-2)
    one = [float(x) for x in noise(1)(asked.dev[0].text.split()[2])]
    again = kept.take(torch.tensor([50 * 6 + 2]), 2)[1][0].tolist()
    assert np.corrcoef(one, again)[0, 1] > 0.999


def test_only_tokens_in_spans_are_kept():
    targets = [Target(spans=((3, 8),), labels=("a",)), Target(spans=((12, 14),), labels=("b",))]
    sentence = Sentence(text="w1 w2 w3 w4 w5", targets={"tag": targets, "other": targets[:1]})
    kept, (places,) = keep_layers(Made((12,), [noise(0)]), [sentence], 1)
    assert len(kept.layers[0]) == 3
    assert places["tag"].first.tolist() == [[0], [2]] and places["tag"].length.tolist() == [[2], [1]]
    assert places["other"].first.tolist() == [[0]]


def test_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(keeping, "available_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=r"the layers of 100 sentences take .* kB; say --most \d+"):
        probed(Made((12,) * 3, [noise(n) for n in range(3)]), asked_words(parity))


def test_tokens_of_a_batch():
    places = Places(first=torch.tensor([[5, 0], [2, 9], [7, 0]]), length=torch.tensor([[2, 1], [1, 2], [1, 0]]))
    tokens, lengths = tokens_of(places, torch.tensor([1, 2, 0]))
    assert tokens.tolist() == [2, 7, 5, 6, 9, 10, 0] and lengths.tolist() == [[1, 2], [1, 0], [2, 1]]
    groups = batches(places, [0, 1, 2], most=2, most_tokens=100)
    assert [group.tolist() for group in groups] == [[0, 1], [2]]
    assert [group.tolist() for group in batches(places, [2, 1, 0], most=9, most_tokens=4)] == [[2, 1], [0]]


# ------------------------------------------------------------------------------------------------- probes


def test_pooling_by_hand():
    attend = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(attend.weight, 1.0)
    tokens = torch.tensor([[1.0, 0.0], [0.0, 3.0], [5.0, 5.0]])
    pooled = pool(tokens, attend, torch.tensor([2, 0, 1]))
    a, b = math.exp(1), math.exp(3)
    torch.testing.assert_close(pooled, torch.tensor([[a / (a + b), 3 * b / (a + b)], [0, 0], [5, 5]]))
    large = pool(1e4 * tokens, attend, torch.tensor([2, 0, 1]))
    assert large.isfinite().all()


def test_a_probe_reads_a_mix():
    torch.manual_seed(0)
    probe = Probe([4, 4], 4, num_spans=1, num_labels=3, width=4)
    layers, lengths = [torch.randn(5, 4), torch.randn(5, 4)], torch.tensor([[2], [3]])
    alone = Probe([4], 4, num_spans=1, num_labels=3, width=4)
    alone.load_state_dict({**probe.state_dict(), "mix.weight": torch.zeros(1, 1)})
    torch.testing.assert_close(probe(layers, lengths), alone([(layers[0] + layers[1]) / 2], lengths))


def test_each_span_has_its_own_tokens_and_parameters():
    torch.manual_seed(0)
    probe = Probe([4], 4, num_spans=2, num_labels=3, width=4)
    tokens, lengths = torch.randn(7, 4), torch.tensor([[1, 2], [1, 3]])
    spans = [
        pool(project(part), attend, length)
        for project, attend, part, length in zip(
            probe.project, probe.attend, (tokens[:2], tokens[2:]), lengths.T, strict=True
        )
    ]
    torch.testing.assert_close(probe([tokens], lengths), probe.classify(torch.cat(spans, -1)))


def study(**settings):
    asked, model = asked_words(parity), Made((12,) * 2, [noise(0), knowing(1)])
    kept, places = keep_layers(model, [*asked.train, *asked.dev], 50)
    parts = [
        Split(places=keeping.join(some, "tag"), targets=Asked.targets(sentences, "tag"))
        for some, sentences in ((places[:50], asked.train), (places[50:], asked.dev))
    ]
    return Study(kept, *parts, task="tag", config=ProbeConfig(epochs=2, **settings))


def test_even_weights_stay_even():
    one = study(mix_rate=0.1)
    even = one.learn(2, seed=0, even=True)
    assert even.mix.shares.tolist() == [[0.5, 0.5]] and even.mix.scale.item() != 1
    assert one.learn(2, seed=0).mix.shares.tolist() != [[0.5, 0.5]]


def test_the_seed_is_all_that_matters():
    model, asked = Made((12,) * 2, [noise(0), knowing(1)]), asked_words(parity)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first = probed(model, asked, seed=3, epochs=2)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(6)
    assert probed(model, asked, seed=3, epochs=2) == first != probed(model, asked, seed=4, epochs=2)
    both = probed(model, asked, seed=3, seeds=2, epochs=2)[0]
    (other,) = probed(model, asked, seed=4, epochs=2)
    assert both.scale.mean == pytest.approx((first[0].scale.mean + other.scale.mean) / 2)
    assert both.num_seeds == 2 and both.gravity.deviation is not None


def test_progress_is_told():
    steps = list(probe_layers(Made((12,) * 2, [noise(0), noise(1)]), asked_words(parity), ProbeConfig(seeds=2)))
    assert [step.done for step in steps] == list(range(7)) and {step.total for step in steps} == {6}
    assert [bool(step.found) for step in steps] == [False] * 6 + [True]


# ------------------------------------------------------------------------------------------------- labels


def test_scores_by_hand():
    labels = Labels.of([("a",), ("b",), ("b",)], "x")
    assert labels.measure == "accuracy"
    answers = torch.tensor([[True, False], [False, True], [True, False]])
    assert labels.score(answers, [("a",), ("a",), ("new",)]) == pytest.approx(1 / 3)
    assert labels.majority(labels.table([("a",), ("b",), ("b",)]), [("b",), ("a",)]) == 0.5


def test_what_is_nothing_earns_nothing():
    labels = Labels.of([("O",), ("B-x",), ("I-x",)], "x")
    assert labels.measure == "f1" and labels.names == ["B-x", "I-x", "O"]
    gold = [("O",), ("B-x",), ("I-x",), ("O",)]
    answers = labels.table([("O",), ("B-x",), ("O",), ("B-x",)])
    assert labels.score(answers, gold) == pytest.approx(2 * 1 / (2 + 2))
    assert labels.majority(labels.table([("O",), ("O",), ("B-x",)]), gold) == 0


def test_several_labels():
    labels = Labels.of([("a", "b"), (), ("b",)], "x")
    assert labels.several and labels.measure == "f1"
    answers = labels.answers(torch.tensor([[2.0, -1.0], [0.5, 0.5]]))
    assert answers.tolist() == [[True, False], [True, True]]
    assert labels.score(answers, [("a", "b"), ("b", "new")]) == pytest.approx(2 * 2 / (3 + 4))
    assert labels.majority(labels.table([("a", "b"), (), ("b",)]), [("b",), ()]) == pytest.approx(2 / 3)
    asked = asked_words(lambda word: ("even", "low")[int(word[1:]) % 2 :] if int(word[1:]) < 30 else ())
    (found,) = probed(Made((12,), [noise(0)]), asked, rate=1e-2, epochs=10)
    assert found.measure == "f1" and found.score.mean > 0.8


def test_nothing_to_learn():
    with pytest.raises(DataError, match="x: every target is 'a', so there is nothing to learn"):
        Labels.of([("a",), ("a",)], "x")
    with pytest.raises(DataError, match="no target has a label"):
        Labels.of([(), ()], "x")


# ------------------------------------------------------------------------------------------------- every family

SMALL = ["model.vocab_size=400", "model.max_length=64", "data.length=32", "tokenizer.min_count=1"]
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
    encoder.spell(tokenizer)
    return Pretrained(
        folder=Path("runs") / family,
        family=family,
        encoder=encoder.eval(),
        objective=Together({}),
        tokenizer=tokenizer,
        recipe=None,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family, documents, tmp_path):
    model = tiny(family, documents)
    path = written(tmp_path, "some.conllu", 12 * LABELLED)
    found = model.probe(path, epochs=1, width=8)
    assert [each.task for each in found] == ["pos", "dependencies"]
    for each in found:
        assert each.model == each.family == family and each.num_layers == len(model.encoder.widths)
        assert sum(share.mean for share in each.shares) == pytest.approx(1)
        assert len(each.gains) == each.num_layers - 1 and 0 <= each.score.mean <= 1
    if model.encoder.context == "none":
        assert found[0].num_layers == 1 and found[0].uniform == found[0].score and found[0].gravity.mean == 0
        assert found[0].expected_layer is None
    assert model.probe(path, task="pos", epochs=1, width=8, dev=path)[0].num_items == 48


def test_one_hot_words_can_be_learnt(documents, tmp_path):
    """Every word has a part of speech, so a place of its own is enough; no vector as long as the vocabulary is kept."""
    model = tiny("onehot", documents)
    (found,) = model.probe(written(tmp_path, "some.conllu", 60 * LABELLED), task="pos", rate=1e-2)
    assert found.score.mean == 1
    sentences = read_sentences(tmp_path / "some.conllu", ["pos"])
    kept, _ = keep_layers(model, sentences, 60)
    assert kept.widths == (4,) and kept.layers[0].dim() == 1
    assert kept.take(torch.tensor([0, 1]), 1)[0].sum(1).tolist() == [1, 1]


def test_a_setting_that_is_wrong(documents, tmp_path):
    model = tiny("bert", documents)
    with pytest.raises(ConfigError, match=r"probe\.epoch: no such setting; did you mean probe\.epochs"):
        model.probe(written(tmp_path, "some.conllu", LABELLED), epoch=3)


def test_kept_layers_of_long_texts(documents):
    """A text longer than the model is read in pieces, and its spans are found in all of them."""
    model = tiny("bert", documents)
    text = " ".join(["bank"] * 150)
    target = Target(spans=((0, len(text)),), labels=("x",))
    kept, (places,) = keep_layers(model, [Sentence(text=text, targets={"classify": [target]})], 1)
    assert len(kept.layers[0]) == int(places["classify"].length) >= 150
    assert isinstance(kept, Kept) and len(kept.layers) == len(model.encoder.widths)
