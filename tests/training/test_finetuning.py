"""Fine-tuning runs: outputs, resuming, early stopping, and errors in data files."""

import copy
import dataclasses
import json
import random
import shutil
from contextlib import ExitStack
from xml.etree import ElementTree

import pytest
import torch

import polyseme as ps
from polyseme import CheckpointError, ConfigError, DataError
from polyseme.api import open_base_model
from polyseme.datasets.labelled_files import read_examples
from polyseme.tasks import TASKS
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.training.finetuning import LABELS, SCORES, FineTuningSession
from polyseme.training.labelled_data import name_tasks
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe, epochs_for, plan_finetuning, tokens_read
from polyseme.training.storage.checkpoint import load_checkpoint
from polyseme.training.storage.history import read_history
from polyseme.training.storage.run_dir import CHECKPOINTS
from polyseme.training.sweep import CURVE, parse_label_counts, plan_sweep, summarize

TINY = [
    "model.vocab_size=400",
    "model.width=32",
    "model.max_length=48",
    "data.sequence_length=32",
    "training.batch_tokens=256",
]
TINY += ["training.threads=1"]
FAST = (
    "training.learning_rate=5e-3",
    "data.batch_size=8",
    "finetuning.width=16",
    "training.threads=1",
    "model.dropout=0",
)


def write_rows(path, rows):
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Classified texts about rivers and money, train and dev, and the same words with tags."""
    folder, rng = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, number in (("train", 64), ("dev", 32)):
        rows, sentences = [("text", "label")], []
        for _ in range(number):
            wet = rng.random() < 0.5
            words = rng.choices(["old", "new", "every", "barn", "mill", "year"], k=3)
            words.insert(rng.randint(0, 3), "river" if wet else "money")
            rows.append((" ".join(words), "nature" if wet else "bank"))
            sentences.append("\n".join(f"{w}\t{'B-N' if w == 'river' else 'O'}" for w in words))
        write_rows(folder / f"{name}.tsv", rows)
        (folder / f"{name}.conll").write_text("\n\n".join(sentences) + "\n")
    return folder


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    """A masked, a causal and a static model of the small documents."""
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        for family in ("bert", "gpt2"):
            ps.pretrain(family, corpus=corpus_file, out=place / family, size="tiny", budget="20steps", settings=TINY)
    return place


@pytest.fixture
def begin():
    """Start runs that are closed after the test."""
    with ExitStack() as begun:

        def start(model, files, out, *settings, task="classify", ending="tsv", seed=0, budget="12steps", **rest):
            base = open_base_model(model)
            kinds, train, dev = name_tasks(task, files / f"train.{ending}", files / f"dev.{ending}", {})
            data, tuning = {"train": train, "dev": dev, **rest.pop("data", {})}, {"patience": 0, **rest}
            changes = {"seed": seed, "budget": budget}
            values = plan_finetuning(base, kinds, (*FAST, *settings), data=data, finetuning=tuning, training=changes)
            session = FineTuningSession.start(values, out, base)
            begun.callback(session.run.close)
            return session

        yield start


def train(session, number=None):
    for done, _ in enumerate(session.steps(), start=1):
        if done == number:
            break
    return session


def weights_of(session):
    return {**session.encoder.state_dict(), **session.objective.state_dict()}


def test_finetuned_model_reloads_with_the_same_predictions(models, files, tmp_path):
    model = ps.finetune(
        models / "bert", train=files / "train.tsv", dev=files / "dev.tsv", out=tmp_path / "out", settings=FAST
    )
    scores = json.loads((tmp_path / "out" / SCORES).read_text())
    assert scores["dev"]["accuracy"] > 0.9
    assert model.score_task(files / "dev.tsv") == pytest.approx(
        {k: v for k, v in scores["dev"].items() if k != "selection_metric"}
    )
    assert [answer.label for answer in model.predict(["every old river mill", "new money barn year"])] == [
        "nature",
        "bank",
    ]
    assert json.loads((tmp_path / "out" / LABELS).read_text())["classify"]["labels"] == ["bank", "nature"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "bank", "1": "nature"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert "fine-tuned" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(("family", "ending", "method"), [("bert", "tsv", "full"), ("gpt2", "conll", "mix")])
def test_resume_is_exact(begin, models, files, tmp_path, family, ending, method):
    task = "classify" if ending == "tsv" else "tag"
    whole = train(begin(models / family, files, tmp_path / "whole", task=task, ending=ending, method=method))
    broken = train(begin(models / family, files, tmp_path / "broken", task=task, ending=ending, method=method), 5)
    assert broken.pause()
    resumed = FineTuningSession.resume(tmp_path / "broken")
    assert resumed.resumed_at == 5
    train(resumed)
    for name, weight in weights_of(whole).items():
        assert torch.equal(weight, weights_of(resumed)[name]), name
    assert resumed.validation_scores == whole.validation_scores
    whole.finish()
    resumed.finish()
    finetuning = [json.loads((tmp_path / name / SCORES).read_text()) for name in ("whole", "broken")]
    assert finetuning[0] == finetuning[1]


def test_base_model_is_not_needed_to_resume(begin, models, files, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "base")
    session = begin(tmp_path / "base", files, tmp_path / "out")
    before = copy.deepcopy(weights_of(session))
    session.run.close()
    shutil.rmtree(tmp_path / "base")
    again = FineTuningSession.resume(tmp_path / "out")
    assert again.resumed_at == 0
    assert all(torch.equal(weight, weights_of(again)[name]) for name, weight in before.items())
    again.run.close()


def test_best_checkpoint_is_written(begin, models, files, tmp_path, monkeypatch):
    session = begin(models / "bert", files, tmp_path / "out", "training.evaluate_every=3")
    scores = iter([0.4, 0.5, 0.9, 0.6, 0.7])
    monkeypatch.setattr(session, "evaluate", lambda: {"selection_metric": next(scores)})
    best = None
    for progress in session.steps():
        if progress.step.number == 6:
            best = copy.deepcopy(weights_of(session))
    session.finish()
    assert json.loads((tmp_path / "out" / SCORES).read_text())["step"] == 6
    assert all(torch.equal(weight, weights_of(session)[name]) for name, weight in best.items())


def test_early_stopping(begin, models, files, tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.training.finetuning._MIN_STEPS", 8)
    session = begin(models / "bert", files, tmp_path / "out", "training.evaluate_every=2", patience=2)
    scores = iter([0.4, 0.5, 0.9, 0.6, 0.9, 1.0])
    monkeypatch.setattr(session, "evaluate", lambda: {"selection_metric": next(scores)})
    assert [progress.step.number for progress in session.steps()] == list(range(1, 9))
    session.run.close()
    again = FineTuningSession.resume(tmp_path / "out")
    assert again.validation_scores == [0.4, 0.5, 0.9, 0.6, 0.9]
    assert not list(again.steps())  # nor does it resume
    again.run.close()


def test_validation_at_the_start(begin, models, files, tmp_path):
    """The linear probe is validated first, and kept if training does not improve on it."""
    settings = "training.learning_rate=0.5", "training.evaluate_every=4", "finetuning.linear_path=true"
    session = begin(models / "bert", files, tmp_path / "out", *settings)
    initial = session.evaluate()["selection_metric"]
    before = copy.deepcopy(weights_of(session))
    train(session)
    assert [row["step"] for row in read_history(tmp_path / "out") if "dev" in row] == [0, 4, 8, 12]
    assert session.validation_scores[0] == initial > max(session.validation_scores[1:])
    session.finish()
    scores = json.loads((tmp_path / "out" / SCORES).read_text())
    assert scores["step"] == 0 and scores["initial"] == scores["dev"]["selection_metric"] == initial
    assert all(torch.equal(weight, weights_of(session)[name]) for name, weight in before.items())


def test_resume_before_the_first_validation_is_exact(begin, models, files, tmp_path):
    """A process that was killed between the first checkpoint and the first validation loses nothing."""
    whole = train(begin(models / "bert", files, tmp_path / "whole"))
    begin(models / "bert", files, tmp_path / "killed").run.close()
    resumed = train(FineTuningSession.resume(tmp_path / "killed"))
    assert resumed.validation_scores == whole.validation_scores and len(whole.validation_scores) == 7
    whole.finish()
    resumed.finish()
    assert (tmp_path / "killed" / SCORES).read_text() == (tmp_path / "whole" / SCORES).read_text()
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("scores", "converged"),
    [
        ([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97], False),
        ([0.5, 0.9], False),  # too few validations
        ([0.5, 0.9, 0.8, 0.9, 0.7, 0.9, 0.9], True),
        ([0.5, 0.6, 0.9, 0.9, 0.91, 0.91, 0.91], True),  # within the standard error of 32 examples
    ],
)
def test_convergence(begin, models, files, tmp_path, monkeypatch, scores, converged):
    session = begin(models / "bert", files, tmp_path / "out", f"training.num_evaluations={len(scores) - 1}")
    found = iter(scores)
    monkeypatch.setattr(session, "evaluate", lambda: {"selection_metric": next(found)})
    train(session).finish()
    assert json.loads((tmp_path / "out" / SCORES).read_text())["converged"] is converged


def test_one_epoch_does_not_converge(models, files, tmp_path, caplog):
    given = {"train": files / "train.tsv", "dev": files / "dev.tsv", "budget": "1epochs"}
    settings = (*FAST, "training.evaluate_every=4", "finetuning.head_initialization=random")
    ps.finetune(models / "bert", out=tmp_path / "out", settings=settings, **given)
    assert not json.loads((tmp_path / "out" / SCORES).read_text())["converged"]
    assert "not converged" in caplog.text


def test_convergence_without_dev_data(models, files, tmp_path, caplog):
    ps.finetune(models / "bert", train=files / "train.tsv", out=tmp_path / "out", budget="2steps", settings=FAST)
    assert json.loads((tmp_path / "out" / SCORES).read_text())["converged"] is None
    assert "not converged" not in caplog.text


def test_models_that_transformers_knows_have_no_linear_path(begin, models, files, tmp_path):
    def has_path(name, *settings, **rest):
        session = begin(models / "bert", files, tmp_path / name, *settings, **rest)
        (task,) = session.objective.tasks.values()
        return task.linear_path is not None

    assert not has_path("full") and not has_path("gradual", method="gradual")
    assert has_path("frozen", method="frozen") and has_path("chosen", "finetuning.linear_path=true")
    model = ps.finetune(
        models / "bert",
        train=files / "train.tsv",
        out=tmp_path / "out",
        budget="2steps",
        method="frozen",
        settings=FAST,
    )
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == []
    again, texts = ps.load(tmp_path / "out"), ["the old river", "new money"]
    assert [a.probabilities for a in again.predict(texts)] == [a.probabilities for a in model.predict(texts)]


def test_random_initialization(begin, models, files, tmp_path):
    trained, fresh = (
        begin(models / "bert", files, tmp_path / start, initialization=start).encoder.state_dict()
        for start in ("pretrained", "random")
    )
    known = ps.load(models / "bert").encoder.state_dict()
    assert all(torch.equal(weight, trained[name]) for name, weight in known.items())
    assert not torch.equal(known["tokens.weight"], fresh["tokens.weight"])


def test_balanced_class_weights(begin, models, files, tmp_path):
    write_rows(tmp_path / "train.tsv", [("text", "label"), *[("a", "x")] * 3, ("b", "y")])
    write_rows(tmp_path / "dev.tsv", [("text", "label"), ("a", "x")])
    session = begin(models / "bert", tmp_path, tmp_path / "out", "task.weights=balanced")
    assert session.recipe.tasks["classify"].weights == pytest.approx((4 / 6, 2.0))


def test_early_stopping_waits_for_unfreezing(begin, models, files, tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.training.finetuning._MIN_STEPS", 0)
    settings = "training.evaluate_every=1", "training.unfreeze_every=3"
    session = begin(models / "bert", files, tmp_path / "out", *settings, method="gradual", patience=1)
    monkeypatch.setattr(session, "evaluate", lambda: {"selection_metric": 0.5})
    train(session)
    assert session.learner.steps_done == 3 * (session.learner.num_groups - 1) + 1


@pytest.mark.parametrize(("ending", "opened"), [("tsv", "SequenceClassification"), ("conll", "TokenClassification")])
def test_transformers_predicts_the_same(models, files, tmp_path, ending, opened):
    transformers = pytest.importorskip("transformers")
    given = {"train": files / f"train.{ending}", "budget": "3epochs", "settings": FAST}
    model = ps.finetune(models / "bert", out=tmp_path / "out", **given)
    theirs = getattr(transformers, f"AutoModelFor{opened}").from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "the old bank by the river lends money"
    with torch.no_grad():
        probabilities = theirs(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
    answer = model.predict([text])[0]
    if ending == "tsv":
        assert {theirs.config.id2label[n]: p.item() for n, p in enumerate(probabilities)} == pytest.approx(
            answer.probabilities
        )
    else:
        firsts = [tokenizer(text).char_to_token(word.start) for word in answer.words]
        assert [theirs.config.id2label[probabilities[place].argmax().item()] for place in firsts] == list(answer.tags)
        assert probabilities[firsts].amax(-1).tolist() == pytest.approx([word.probability for word in answer.words])


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_bi_encoder(models, family, tmp_path):
    """A model with little pretraining encodes each text independently of the other."""
    rows = [("text_a", "text_b", "score"), ("the old river", "the river", "4"), ("new money", "the old mill", "1")]
    train = write_rows(tmp_path / "train.tsv", rows)
    given = {"train": train, "out": tmp_path / "out", "task": "similarity", "budget": "2steps", "settings": FAST}
    model = ps.finetune(models / family, **given)
    again = ps.load(tmp_path / "out")
    assert model.tokenizer.vocab_size == ps.load(models / family).tokenizer.vocab_size, "no delimiters are needed"
    assert model.recipe.model.dropout == 0, "dropout would make equal texts different"
    pairs = [("the old river", "the river"), ("new money", "every barn")]
    answers = [[answer.score for answer in one.predict(pairs)] for one in (model, again)]
    assert answers[0] == pytest.approx(answers[1]) and answers[0][0] != pytest.approx(answers[0][1])
    formatter = InputFormatter(again.encoder, again.tokenizer, max_length=48)
    for item in again.tasks["similarity"].instances(formatter, read_examples(train, TASKS["similarity"].Example)):
        assert len(item.rows) == 2
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == []


def test_default_of_text_pairs(models, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "model")
    base = open_base_model(tmp_path / "model")

    def chosen(*kinds, base=base, **finetuning):
        values = plan_finetuning(base, {kind: kind for kind in kinds}, data={}, finetuning=finetuning, training={})
        return values["finetuning"].get("text_pairs", "cross_encoder")

    assert chosen("pair") == chosen("similarity", "choice") == "bi_encoder", "it has read little"
    assert (
        chosen("pair", "tag")
        == chosen("span")
        == chosen("classify")
        == chosen("pair", text_pairs="cross_encoder")
        == "cross_encoder"
    )
    assert chosen("pair", base=open_base_model(models / "gpt2")) == "bi_encoder"
    grown = dataclasses.replace(base.recipe, training=base.recipe.training.replace(steps=10**7))
    assert tokens_read(base.recipe) == 20 * 256 and tokens_read(grown) == 10**7 * 256
    old, others = dataclasses.replace(base, recipe=grown), dataclasses.replace(base, recipe=None)
    assert (
        chosen("pair", base=old) == chosen("pair", base=others) == chosen("similarity", base=others) == "cross_encoder"
    )
    (tmp_path / "model" / "modules.json").write_text("[]")
    assert chosen("similarity", base=others) == "bi_encoder" and chosen("pair", base=others) == "cross_encoder"
    further = dataclasses.replace(
        base.recipe, training=base.recipe.training.replace(base_model=str(tmp_path / "model"), steps=5)
    )
    assert tokens_read(further) == 25 * 256
    lost = dataclasses.replace(further, training=further.training.replace(base_model=str(tmp_path / "gone")))
    assert tokens_read(lost) == float("inf")


def test_default_learning_rate(models, corpus_file, tmp_path):
    """Higher for randomly initialized networks above static vectors than for pretrained ones."""
    ps.pretrain("svd", corpus=corpus_file, out=tmp_path / "svd", size="tiny", settings=["training.threads=1"])

    def learning_rate(model, method="full"):
        given = {"data": {}, "finetuning": {"method": method}, "training": {}}
        return plan_finetuning(open_base_model(model), {"tag": "tag"}, **given)["training"]["learning_rate"]

    assert (
        learning_rate(tmp_path / "svd")
        == learning_rate(tmp_path / "svd", "frozen")
        == learning_rate(models / "bert", "frozen")
        == 5e-3
    )
    assert learning_rate(models / "bert") < 5e-3


def test_bi_encoder_needs_text_pairs(begin, models, files, tmp_path):
    with pytest.raises(ConfigError, match="does not compare texts"):
        begin(models / "bert", files, tmp_path / "a", "finetuning.text_pairs=bi_encoder")


def test_num_labels_samples_training_examples(begin, models, files, tmp_path):
    few = begin(models / "bert", files, tmp_path / "few", data={"num_labels": 8})
    more = begin(models / "bert", files, tmp_path / "more", data={"num_labels": 16})
    other = begin(models / "bert", files, tmp_path / "other", data={"num_labels": 8}, seed=1)
    rows = [{example.row for example in session.labelled.train["classify"]} for session in (few, more, other)]
    assert [len(some) for some in rows] == [8, 16, 8]
    assert rows[0] < rows[1] and rows[0] != rows[2]
    assert few.recipe.tasks["classify"].labels == ("bank", "nature")


def test_multitask_model(models, files, tmp_path):
    model = ps.finetune(
        models / "bert",
        task={"topic": "classify", "entities": "tag"},
        train={"topic": files / "train.tsv", "entities": files / "train.conll"},
        dev={"topic": files / "dev.tsv", "entities": files / "dev.conll"},
        out=tmp_path / "out",
        budget="8epochs",
        settings=FAST,
    )
    scores = json.loads((tmp_path / "out" / SCORES).read_text())["dev"]
    assert scores["topic_accuracy"] > 0.9 and scores["entities_f1"] > 0.9
    assert model.predict(["the river"], task="topic")[0].label == "nature"
    with pytest.raises(ConfigError, match="several tasks; choose one of topic, entities"):
        model.predict(["the river"])
    with pytest.raises(ConfigError, match="did you mean topic"):
        model.predict(["the river"], task="topics")
    assert not json.loads((tmp_path / "out" / "config.json").read_text())["architectures"]


def test_tasks_are_named_by_kind(models, files, tmp_path):
    given = {"classify": files / "train.tsv", "tag": files / "train.conll"}
    model = ps.finetune(models / "bert", train=given, out=tmp_path / "out", budget="4epochs", settings=FAST)
    labels = {name: task.head.output.weight.shape[0] for name, task in model.tasks.items()}
    assert labels == {"classify": 2, "tag": 2}
    assert not torch.equal(model.tasks["classify"].head.output.weight, model.tasks["tag"].head.output.weight)
    assert model.score_task(files / "dev.tsv", task="classify")["accuracy"] > 0.8


def test_predictions_do_not_depend_on_the_batch(models, files, tmp_path):
    model = ps.finetune(
        models / "gpt2", train=files / "train.tsv", out=tmp_path / "out", budget="2steps", settings=FAST
    )
    texts = ["river", "the old mill by the river " * 3, "money money", "a", "the spring of the watch broke on a Monday"]
    together = model.predict(texts)
    for text, answer in zip(texts, together, strict=True):
        assert model.predict([text])[0].probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_budgets(begin, models, files, tmp_path):
    assert [begin(models / "bert", files, tmp_path / b, budget=b).total_steps for b in ("2epochs", "7steps")] == [16, 7]
    assert begin(models / "bert", files, tmp_path / "time", budget="2s").total_steps >= 1
    assert [epochs_for(number) for number in (100, 1000, 100_000)] == [30, 24, 3]


def test_sweep(models, files, tmp_path):
    runs = plan_sweep(tmp_path / "curve", parse_label_counts("8, all"), range(2))
    assert [str(run.folder.relative_to(tmp_path / "curve")) for run in runs] == [
        "labels-8/seed-0",
        "labels-8/seed-1",
        "labels-all/seed-0",
        "labels-all/seed-1",
    ]
    for number, run in enumerate(runs):
        run.folder.mkdir(parents=True)
        assert not run.done
        (run.folder / SCORES).write_text(
            json.dumps({"step": 1, "examples": 64, "dev": {"selection_metric": number / 4}, "layers": {}})
        )
        assert run.done
    few, whole = summarize(tmp_path / "curve", runs)
    assert (few.num_labels, few.mean, whole.num_labels, whole.mean) == (8, 0.125, 0, 0.625)
    assert few.deviation == pytest.approx(0.25 / 2**0.5)
    drawn = ElementTree.parse(tmp_path / "curve" / CURVE).getroot()
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"8", "64", "number of labels (log)", "score on the dev set: curve"} <= set(texts)
    assert sum(path.get("class") == "mark" for path in drawn.iter("{http://www.w3.org/2000/svg}path")) == 2
    assert plan_sweep(tmp_path, [0], [3])[0].folder == tmp_path
    with pytest.raises(ConfigError, match="100,300,all"):
        parse_label_counts("10,many")


def test_recipe_is_saved_completely(begin, models, files, tmp_path):
    session = begin(models / "bert", files, tmp_path / "out", "task.weights=[1.0, 2.0]")
    recipe = FineTuningRecipe.load(tmp_path / "out")
    assert recipe == session.recipe
    assert recipe.tasks["classify"].weights == (1.0, 2.0)
    assert recipe.training.steps == 12 and recipe.training.base_model.endswith("bert")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("text", "label"), ("a", "x"), ("b", "x")], r"all rows have the label 'x'.*add rows"),
        ([("text", "label"), ("", "x"), ("b", "y")], r"bad\.tsv, line 2: column 'text' is empty"),
        ([("remark", "label"), ("a", "x"), ("b", "y")], r"bad\.tsv.*no column 'text'"),
    ],
)
def test_invalid_files(models, files, tmp_path, rows, message):
    write_rows(tmp_path / "bad.tsv", rows)
    with pytest.raises(DataError, match=message):
        ps.finetune(models / "bert", task="classify", train=tmp_path / "bad.tsv", out=tmp_path / "out", settings=FAST)
    assert not (tmp_path / "out").exists()


def test_label_that_occurs_only_in_the_dev_file(models, files, tmp_path):
    dev = write_rows(tmp_path / "dev.tsv", [("text", "label"), ("a river", "natur")])
    with pytest.raises(DataError, match=r"dev\.tsv, line 2: label 'natur' does not occur in .*did you mean nature"):
        ps.finetune(models / "bert", train=files / "train.tsv", dev=dev, out=tmp_path / "out")


def test_dev_file_without_answers(models, tmp_path):
    def write(name, answer):
        questions = {"id": "a", "question": "where is it", "answers": [{"text": answer, "answer_start": 4}]}
        squad = {"data": [{"paragraphs": [{"context": "the old mill", "qas": [questions]}]}]}
        (tmp_path / name).write_text(json.dumps(squad))
        return tmp_path / name

    train, dev = write("train.json", "old mill"), write("dev.json", "")
    with pytest.raises(DataError, match=r"dev\.json: none of its 1 questions has an answer.*hold out"):
        ps.finetune(models / "bert", train=train, dev=dev, out=tmp_path / "out")


def test_invalid_settings(begin, models, files, tmp_path):
    train_file = files / "train.tsv"
    with pytest.raises(ConfigError, match="only its dropout"):
        begin(models / "bert", files, tmp_path / "a", "model.width=64")
    with pytest.raises(ConfigError, match="only pretraining"):
        begin(models / "bert", files, tmp_path / "a", "training.processor_seconds=9")
    with pytest.raises(ConfigError, match=r"finetuning\.method"):
        begin(models / "bert", files, tmp_path / "b", method="half")
    with pytest.raises(ConfigError, match="does not name its task"):
        ps.finetune(models / "bert", train={"a": train_file}, dev=train_file, out=tmp_path / "c")
    with pytest.raises(ConfigError, match="is not a task"):
        ps.finetune(models / "bert", task="clasify", train=train_file, out=tmp_path / "d")
    with pytest.raises(ConfigError, match="is not fine-tuned; run polyseme finetune"):
        ps.load(models / "bert").predict(["a"])
    train(begin(models / "bert", files, tmp_path / "e"), 2).run.close()
    with pytest.raises(CheckpointError, match="finetune --resume"):
        ps.load(tmp_path / "e")
    with pytest.raises(CheckpointError, match="is a run of polyseme finetune"):
        ps.pretrain("bert", corpus="town", out=tmp_path / "e", resume=True)
    with pytest.raises(CheckpointError, match="is a run of polyseme pretrain or adapt"):
        ps.finetune("any", train=train_file, out=models / "bert", resume=True)
    shutil.rmtree(tmp_path / "e" / CHECKPOINTS)
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        FineTuningSession.resume(tmp_path / "e")


def test_changed_files_are_detected(begin, models, files, tmp_path):
    shutil.copy(files / "train.tsv", tmp_path)
    shutil.copy(files / "dev.tsv", tmp_path)
    train(begin(models / "bert", tmp_path, tmp_path / "out"), 2).run.close()
    (tmp_path / "train.tsv").write_text((tmp_path / "train.tsv").read_text() + "more\tbank\n")
    with pytest.raises(DataError, match="have changed since the run started"):
        FineTuningSession.resume(tmp_path / "out")


def test_finetuned_model_can_be_finetuned_but_not_adapted(models, files, corpus_file, tmp_path):
    first = ps.finetune(models / "gpt2", train=files / "train.tsv", out=tmp_path / "a", budget="2steps", settings=FAST)
    second = ps.finetune(first.folder, train=files / "train.conll", out=tmp_path / "b", budget="2steps", settings=FAST)
    assert list(second.tasks) == ["tag"]
    assert second.encoder.config.vocab_size == first.encoder.config.vocab_size  # the special tokens are there already
    with pytest.raises(ConfigError, match="is fine-tuned; adapt its base model"):
        ps.adapt(first.folder, corpus=corpus_file, out=tmp_path / "c")


def test_history(begin, models, files, tmp_path):
    train(begin(models / "bert", files, tmp_path / "out", "training.evaluate_every=4")).finish()
    validations = [row for row in read_history(tmp_path / "out") if "dev" in row]
    assert [row["step"] for row in validations] == [0, 4, 8, 12]
    assert {"accuracy", "macro_f1", "matthews", "selection_metric"} == set(validations[0]["dev"])
    best = load_checkpoint(tmp_path / "out" / CHECKPOINTS, best=True)
    assert -best[1].dev_loss == max(row["dev"]["selection_metric"] for row in validations)
