"""Fine-tuning as a run: what it keeps, how it goes on, when it stops, and what it says of wrong files."""

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
from polyseme.making import name_tasks, open_base
from polyseme.tasks.layout import Layout
from polyseme.text.forms import TASKS
from polyseme.text.labelled import read_examples
from polyseme.train.checkpoint import load_checkpoint
from polyseme.train.finetuning import LABELS, SCORES, Finetuning
from polyseme.train.run import CHECKPOINTS, read_history
from polyseme.train.trials import CURVE, plan_trials, read_labels, summarize
from polyseme.train.tuning_recipe import TuningRecipe, epochs_for, plan_tuning, tokens_read

TINY = ["model.vocab_size=400", "model.width=32", "model.max_length=48", "data.length=32", "plan.batch_tokens=256"]
TINY += ["plan.threads=1"]
FAST = ("plan.rate=5e-3", "data.num_rows=8", "tuning.width=16", "plan.threads=1", "model.dropout=0")


def write_rows(path, rows):
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts about rivers and money, to learn from and to measure on, and the same words with tags."""
    folder, chance = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, number in (("train", 64), ("dev", 32)):
        rows, sentences = [("text", "label")], []
        for _ in range(number):
            wet = chance.random() < 0.5
            words = chance.choices(["old", "new", "every", "barn", "mill", "year"], k=3)
            words.insert(chance.randint(0, 3), "river" if wet else "money")
            rows.append((" ".join(words), "nature" if wet else "bank"))
            sentences.append("\n".join(f"{w}\t{'B-N' if w == 'river' else 'O'}" for w in words))
        write_rows(folder / f"{name}.tsv", rows)
        (folder / f"{name}.conll").write_text("\n\n".join(sentences) + "\n")
    return folder


@pytest.fixture(scope="module")
def models(corpus_file, tmp_path_factory):
    """A masked, a causal and a static model of the little documents."""
    place = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        for family in ("bert", "gpt2"):
            ps.pretrain(family, corpus=corpus_file, out=place / family, size="tiny", budget="20steps", settings=TINY)
    return place


@pytest.fixture
def begin():
    """Start runs, whose directories are let go in the end."""
    with ExitStack() as begun:

        def start(model, files, out, *settings, task="classify", ending="tsv", seed=0, budget="12steps", **rest):
            base = open_base(model)
            kinds, train, dev = name_tasks(task, files / f"train.{ending}", files / f"dev.{ending}", {})
            data, tuning = {"train": train, "dev": dev, **rest.pop("data", {})}, {"patience": 0, **rest}
            plan = {"seed": seed, "budget": budget}
            values = plan_tuning(base, kinds, (*FAST, *settings), data=data, tuning=tuning, plan=plan)
            training = Finetuning.start(values, out, base)
            begun.callback(training.run.close)
            return training

        yield start


def learn(training, number=None):
    for done, _ in enumerate(training.steps(), start=1):
        if done == number:
            break
    return training


def weights_of(training):
    return {**training.encoder.state_dict(), **training.tuning.state_dict()}


def test_a_model_learns_is_written_and_says_the_same_again(models, files, tmp_path):
    model = ps.finetune(
        models / "bert", train=files / "train.tsv", dev=files / "dev.tsv", out=tmp_path / "out", settings=FAST
    )
    scores = json.loads((tmp_path / "out" / SCORES).read_text())
    assert scores["dev"]["accuracy"] > 0.9
    assert model.score_task(files / "dev.tsv") == pytest.approx(
        {k: v for k, v in scores["dev"].items() if k != "merit"}
    )
    assert [answer.label for answer in model.predict(["the old river", "new money"])] == ["nature", "bank"]
    assert json.loads((tmp_path / "out" / LABELS).read_text())["classify"]["labels"] == ["bank", "nature"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "bank", "1": "nature"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert "fine-tuned" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(("family", "ending", "method"), [("bert", "tsv", "full"), ("gpt2", "conll", "mix")])
def test_resume_is_exact(begin, models, files, tmp_path, family, ending, method):
    task = "classify" if ending == "tsv" else "tag"
    whole = learn(begin(models / family, files, tmp_path / "whole", task=task, ending=ending, method=method))
    broken = learn(begin(models / family, files, tmp_path / "broken", task=task, ending=ending, method=method), 5)
    assert broken.pause()
    resumed = Finetuning.resume(tmp_path / "broken")
    assert resumed.resumed_at == 5
    learn(resumed)
    for name, weight in weights_of(whole).items():
        assert torch.equal(weight, weights_of(resumed)[name]), name
    assert resumed.looks == whole.looks
    whole.finish()
    resumed.finish()
    said = [json.loads((tmp_path / name / SCORES).read_text()) for name in ("whole", "broken")]
    assert said[0] == said[1]


def test_a_model_may_go_once_its_run_has_begun(begin, models, files, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "base")
    training = begin(tmp_path / "base", files, tmp_path / "out")
    before = copy.deepcopy(weights_of(training))
    training.run.close()
    shutil.rmtree(tmp_path / "base")
    again = Finetuning.resume(tmp_path / "out")
    assert again.resumed_at == 0
    assert all(torch.equal(weight, weights_of(again)[name]) for name, weight in before.items())
    again.run.close()


def test_the_best_weights_are_kept(begin, models, files, tmp_path, monkeypatch):
    training = begin(models / "bert", files, tmp_path / "out", "plan.evaluate_every=3")
    merits = iter([0.5, 0.9, 0.6, 0.7])
    monkeypatch.setattr(training, "evaluate", lambda: {"merit": next(merits)})
    kept = None
    for progress in training.steps():
        if progress.step.number == 6:
            kept = copy.deepcopy(weights_of(training))
    training.finish()
    assert json.loads((tmp_path / "out" / SCORES).read_text())["step"] == 6
    assert all(torch.equal(weight, weights_of(training)[name]) for name, weight in kept.items())


def test_it_stops_where_nothing_is_gained(begin, models, files, tmp_path, monkeypatch):
    training = begin(models / "bert", files, tmp_path / "out", "plan.evaluate_every=2", patience=2)
    merits = iter([0.5, 0.9, 0.6, 0.9, 1.0])
    monkeypatch.setattr(training, "evaluate", lambda: {"merit": next(merits)})
    assert [progress.step.number for progress in training.steps()] == list(range(1, 9))
    training.run.close()
    again = Finetuning.resume(tmp_path / "out")
    assert again.looks == [0.5, 0.9, 0.6, 0.9]
    assert not list(again.steps())  # nor does it go on later
    again.run.close()


def test_chance_instead_of_the_model(begin, models, files, tmp_path):
    trained, fresh = (
        begin(models / "bert", files, tmp_path / start, start=start).encoder.state_dict()
        for start in ("model", "chance")
    )
    known = ps.load(models / "bert").encoder.state_dict()
    assert all(torch.equal(weight, trained[name]) for name, weight in known.items())
    assert not torch.equal(known["tokens.weight"], fresh["tokens.weight"])


def test_balanced_weights(begin, models, files, tmp_path):
    write_rows(tmp_path / "train.tsv", [("text", "label"), *[("a", "x")] * 3, ("b", "y")])
    write_rows(tmp_path / "dev.tsv", [("text", "label"), ("a", "x")])
    training = begin(models / "bert", tmp_path, tmp_path / "out", "task.weights=balanced")
    assert training.recipe.tasks["classify"].weights == pytest.approx((4 / 6, 2.0))


def test_unfreezing_is_not_cut_short(begin, models, files, tmp_path, monkeypatch):
    settings = "plan.evaluate_every=1", "plan.unfreeze=3"
    training = begin(models / "bert", files, tmp_path / "out", *settings, method="gradual", patience=1)
    monkeypatch.setattr(training, "evaluate", lambda: {"merit": 0.5})
    learn(training)
    assert training.learner.done == 3 * (training.learner.num_stages - 1) + 1


@pytest.mark.parametrize(("ending", "opened"), [("tsv", "SequenceClassification"), ("conll", "TokenClassification")])
def test_transformers_says_the_same(models, files, tmp_path, ending, opened):
    transformers = pytest.importorskip("transformers")
    given = {"train": files / f"train.{ending}", "budget": "3epochs", "settings": FAST}
    model = ps.finetune(models / "bert", out=tmp_path / "out", **given)
    theirs = getattr(transformers, f"AutoModelFor{opened}").from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    text = "the old bank by the river lends money"
    with torch.no_grad():
        chances = theirs(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0]
    answer = model.predict([text])[0]
    if ending == "tsv":
        assert {theirs.config.id2label[n]: p.item() for n, p in enumerate(chances)} == pytest.approx(
            answer.probabilities
        )
    else:
        firsts = [tokenizer(text).char_to_token(word.start) for word in answer.words]
        assert [theirs.config.id2label[chances[place].argmax().item()] for place in firsts] == list(answer.tags)
        assert chances[firsts].amax(-1).tolist() == pytest.approx([word.probability for word in answer.words])


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_two_texts_apart(models, family, tmp_path):
    """A model that has read little reads each text in a row of its own, whatever the other is."""
    rows = [("text_a", "text_b", "score"), ("the old river", "the river", "4"), ("new money", "the old mill", "1")]
    train = write_rows(tmp_path / "train.tsv", rows)
    given = {"train": train, "out": tmp_path / "out", "task": "similarity", "budget": "2steps", "settings": FAST}
    model = ps.finetune(models / family, **given)
    again = ps.load(tmp_path / "out")
    assert model.tokenizer.vocab_size == ps.load(models / family).tokenizer.vocab_size, "there is nothing to mark"
    assert model.recipe.model.dropout == 0, "or the same text would be two"
    pairs = [("the old river", "the river"), ("new money", "every barn")]
    answers = [[answer.score for answer in one.predict(pairs)] for one in (model, again)]
    assert answers[0] == pytest.approx(answers[1]) and answers[0][0] != pytest.approx(answers[0][1])
    layout = Layout(again.encoder, again.tokenizer, max_length=48)
    for item in again.tasks["similarity"].items(layout, read_examples(train, TASKS["similarity"])):
        assert len(item.rows) == 2
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == []


def test_who_reads_two_texts_apart(models, tmp_path):
    shutil.copytree(models / "bert", tmp_path / "model")
    base = open_base(tmp_path / "model")

    def chosen(*kinds, base=base, **said):
        values = plan_tuning(base, {kind: kind for kind in kinds}, data={}, tuning=said, plan={})
        return values["tuning"].get("texts", "together")

    assert chosen("pair") == chosen("similarity", "choice") == "apart", "it has read little"
    assert (
        chosen("pair", "tag") == chosen("span") == chosen("classify") == chosen("pair", texts="together") == "together"
    )
    assert chosen("pair", base=open_base(models / "gpt2")) == "apart"
    grown = dataclasses.replace(base.recipe, plan=base.recipe.plan.replace(steps=10**7))
    assert tokens_read(base.recipe) == 20 * 256 and tokens_read(grown) == 10**7 * 256
    old, others = dataclasses.replace(base, recipe=grown), dataclasses.replace(base, recipe=None)
    assert chosen("pair", base=old) == chosen("pair", base=others) == chosen("similarity", base=others) == "together"
    (tmp_path / "model" / "modules.json").write_text("[]")
    assert chosen("similarity", base=others) == "apart" and chosen("pair", base=others) == "together"
    further = dataclasses.replace(base.recipe, plan=base.recipe.plan.replace(base=str(tmp_path / "model"), steps=5))
    assert tokens_read(further) == 25 * 256
    lost = dataclasses.replace(further, plan=further.plan.replace(base=str(tmp_path / "gone")))
    assert tokens_read(lost) == float("inf")


def test_rates_go_by_what_starts_from_nothing(models, corpus_file, tmp_path):
    """Vectors without context have networks above them; a network that has learnt bears less."""
    ps.pretrain("svd", corpus=corpus_file, out=tmp_path / "svd", size="tiny", settings=["plan.threads=1"])

    def rate(model, method="full"):
        given = {"data": {}, "tuning": {"method": method}, "plan": {}}
        return plan_tuning(open_base(model), {"tag": "tag"}, **given)["plan"]["rate"]

    assert rate(tmp_path / "svd") == rate(tmp_path / "svd", "frozen") == rate(models / "bert", "frozen") == 5e-3
    assert rate(models / "bert") < 5e-3


def test_what_cannot_be_read_apart(begin, models, files, tmp_path):
    with pytest.raises(ConfigError, match="not about texts that are compared"):
        begin(models / "bert", files, tmp_path / "a", "tuning.texts=apart")


def test_some_labels(begin, models, files, tmp_path):
    few = begin(models / "bert", files, tmp_path / "few", data={"num_labels": 8})
    more = begin(models / "bert", files, tmp_path / "more", data={"num_labels": 16})
    other = begin(models / "bert", files, tmp_path / "other", data={"num_labels": 8}, seed=1)
    rows = [{example.row for example in training.sets.train["classify"]} for training in (few, more, other)]
    assert [len(some) for some in rows] == [8, 16, 8]
    assert rows[0] < rows[1] and rows[0] != rows[2]
    assert few.recipe.tasks["classify"].labels == ("bank", "nature")


def test_several_tasks_on_one_model(models, files, tmp_path):
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
    with pytest.raises(ConfigError, match="several tasks; name one of topic, entities"):
        model.predict(["the river"])
    with pytest.raises(ConfigError, match="did you mean topic"):
        model.predict(["the river"], task="topics")
    assert not json.loads((tmp_path / "out" / "config.json").read_text())["architectures"]


def test_several_tasks_that_are_called_by_their_kinds(models, files, tmp_path):
    given = {"classify": files / "train.tsv", "tag": files / "train.conll"}
    model = ps.finetune(models / "bert", train=given, out=tmp_path / "out", budget="4epochs", settings=FAST)
    labels = {name: task.head.output.weight.shape[0] for name, task in model.tasks.items()}
    assert labels == {"classify": 2, "tag": 2}
    assert not torch.equal(model.tasks["classify"].head.output.weight, model.tasks["tag"].head.output.weight)
    assert model.score_task(files / "dev.tsv", task="classify")["accuracy"] > 0.8


def test_answers_do_not_depend_on_the_batch(models, files, tmp_path):
    model = ps.finetune(
        models / "gpt2", train=files / "train.tsv", out=tmp_path / "out", budget="2steps", settings=FAST
    )
    texts = ["river", "the old mill by the river " * 3, "money money", "a", "the spring of the watch broke on a Monday"]
    together = model.predict(texts)
    for text, answer in zip(texts, together, strict=True):
        assert model.predict([text])[0].probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_budgets(begin, models, files, tmp_path):
    assert [begin(models / "bert", files, tmp_path / b, budget=b).total for b in ("2epochs", "7steps")] == [16, 7]
    assert begin(models / "bert", files, tmp_path / "time", budget="2s").total >= 1
    assert [epochs_for(number) for number in (100, 1000, 100_000)] == [30, 24, 3]


def test_trials(models, files, tmp_path):
    trials = plan_trials(tmp_path / "curve", read_labels("8, all"), range(2))
    assert [str(trial.folder.relative_to(tmp_path / "curve")) for trial in trials] == [
        "labels-8/seed-0",
        "labels-8/seed-1",
        "labels-all/seed-0",
        "labels-all/seed-1",
    ]
    for number, trial in enumerate(trials):
        trial.folder.mkdir(parents=True)
        assert not trial.done
        (trial.folder / SCORES).write_text(json.dumps({"step": 1, "examples": 64, "dev": {"merit": number / 4}}))
        assert trial.done
    few, whole = summarize(tmp_path / "curve", trials)
    assert (few.num_labels, few.mean, whole.num_labels, whole.mean) == (8, 0.125, 0, 0.625)
    assert few.deviation == pytest.approx(0.25 / 2**0.5)
    drawn = ElementTree.parse(tmp_path / "curve" / CURVE).getroot()
    said = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"8", "64", "labels", "curve"} <= set(said)
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}circle"))) == 2
    assert plan_trials(tmp_path, [0], [3])[0].folder == tmp_path
    with pytest.raises(ConfigError, match="100,300,all"):
        read_labels("10,many")


def test_the_recipe_is_whole(begin, models, files, tmp_path):
    training = begin(models / "bert", files, tmp_path / "out", "task.weights=[1.0, 2.0]")
    recipe = TuningRecipe.load(tmp_path / "out")
    assert recipe == training.recipe
    assert recipe.tasks["classify"].weights == (1.0, 2.0)
    assert recipe.plan.steps == 12 and recipe.plan.base.endswith("bert")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("text", "label"), ("a", "x"), ("b", "x")], r"every row has the label 'x'.*add rows"),
        ([("text", "label"), ("", "x"), ("b", "y")], r"bad\.tsv, line 2: the column 'text' is empty"),
        ([("review", "label"), ("a", "x"), ("b", "y")], r"bad\.tsv.*no column 'text'"),
    ],
)
def test_wrong_files(models, files, tmp_path, rows, message):
    write_rows(tmp_path / "bad.tsv", rows)
    with pytest.raises(DataError, match=message):
        ps.finetune(models / "bert", task="classify", train=tmp_path / "bad.tsv", out=tmp_path / "out", settings=FAST)
    assert not (tmp_path / "out").exists()


def test_a_label_that_is_only_in_the_dev_file(models, files, tmp_path):
    dev = write_rows(tmp_path / "dev.tsv", [("text", "label"), ("a river", "natur")])
    with pytest.raises(DataError, match=r"dev\.tsv, line 2: .*has no label 'natur'.*did you mean nature"):
        ps.finetune(models / "bert", train=files / "train.tsv", dev=dev, out=tmp_path / "out")


def test_answers_that_are_kept_secret(models, tmp_path):
    def write(name, answer):
        asked = {"id": "a", "question": "where is it", "answers": [{"text": answer, "answer_start": 4}]}
        squad = {"data": [{"paragraphs": [{"context": "the old mill", "qas": [asked]}]}]}
        (tmp_path / name).write_text(json.dumps(squad))
        return tmp_path / name

    train, dev = write("train.json", "old mill"), write("dev.json", "")
    with pytest.raises(DataError, match=r"dev\.json: none of its 1 questions has an answer.*kept secret.*held back"):
        ps.finetune(models / "bert", train=train, dev=dev, out=tmp_path / "out")


def test_other_mistakes(begin, models, files, tmp_path):
    train = files / "train.tsv"
    with pytest.raises(ConfigError, match="only its dropout"):
        begin(models / "bert", files, tmp_path / "a", "model.width=64")
    with pytest.raises(ConfigError, match="only pretraining is fitted to a time"):
        begin(models / "bert", files, tmp_path / "a", "plan.processor_seconds=9")
    with pytest.raises(ConfigError, match=r"tuning\.method"):
        begin(models / "bert", files, tmp_path / "b", method="half")
    with pytest.raises(ConfigError, match="by name"):
        ps.finetune(models / "bert", train={"a": train}, dev=train, out=tmp_path / "c")
    with pytest.raises(ConfigError, match="no task"):
        ps.finetune(models / "bert", task="clasify", train=train, out=tmp_path / "d")
    with pytest.raises(ConfigError, match="is not fine-tuned; say polyseme finetune"):
        ps.load(models / "bert").predict(["a"])
    learn(begin(models / "bert", files, tmp_path / "e"), 2).run.close()
    with pytest.raises(CheckpointError, match="finetune --resume"):
        ps.load(tmp_path / "e")
    with pytest.raises(CheckpointError, match="holds a run of polyseme finetune; use that command"):
        ps.pretrain("bert", corpus="town", out=tmp_path / "e", resume=True)
    with pytest.raises(CheckpointError, match="holds a run of polyseme pretrain or adapt; use that"):
        ps.finetune("any", train=train, out=models / "bert", resume=True)
    shutil.rmtree(tmp_path / "e" / CHECKPOINTS)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        Finetuning.resume(tmp_path / "e")


def test_files_that_change_under_a_run(begin, models, files, tmp_path):
    shutil.copy(files / "train.tsv", tmp_path)
    shutil.copy(files / "dev.tsv", tmp_path)
    learn(begin(models / "bert", tmp_path, tmp_path / "out"), 2).run.close()
    (tmp_path / "train.tsv").write_text((tmp_path / "train.tsv").read_text() + "more\tbank\n")
    with pytest.raises(DataError, match="have changed since it began"):
        Finetuning.resume(tmp_path / "out")


def test_a_tuned_model_is_tuned_again_but_not_adapted(models, files, corpus_file, tmp_path):
    first = ps.finetune(models / "gpt2", train=files / "train.tsv", out=tmp_path / "a", budget="2steps", settings=FAST)
    second = ps.finetune(first.folder, train=files / "train.conll", out=tmp_path / "b", budget="2steps", settings=FAST)
    assert list(second.tasks) == ["tag"]
    assert second.encoder.config.vocab_size == first.encoder.config.vocab_size  # the marks are there already
    with pytest.raises(ConfigError, match="is fine-tuned; adapt the model it came from"):
        ps.adapt(first.folder, corpus=corpus_file, out=tmp_path / "c")


def test_history(begin, models, files, tmp_path):
    learn(begin(models / "bert", files, tmp_path / "out", "plan.evaluate_every=4")).finish()
    looks = [row for row in read_history(tmp_path / "out") if "dev" in row]
    assert [row["step"] for row in looks] == [4, 8, 12]
    assert {"accuracy", "macro_f1", "matthews", "merit"} == set(looks[0]["dev"])
    best = load_checkpoint(tmp_path / "out" / CHECKPOINTS, best=True)
    assert -best[1]["dev_loss"] == max(row["dev"]["merit"] for row in looks)
