"""Resuming a run with the same options, with another budget, and with options that differ."""

import shutil

import pytest

import polyseme as ps
from polyseme.api import open_adaptation, open_finetuning, open_pretraining, plan_finetuning_runs
from polyseme.errors import CheckpointError, ConfigError
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.resources import Throughput
from polyseme.training.storage.history import read_history
from polyseme.training.storage.manifest import find_changes
from polyseme.training.sweep import SUMMARY

SIZES = ("model.width=32", "data.sequence_length=32")
SETTINGS = ("model.vocab_size=400", "training.batch_tokens=256", "training.threads=1", "training.save_every=5")


def settings_of(family):
    sizes = {"svd": SIZES[1:], "glove": SIZES[1:], "transformer": ("model.width=32", "training.batch_tokens=128")}
    return (*sizes.get(family, SIZES), *SETTINGS[: 1 if family == "transformer" else 2], *SETTINGS[2:])


@pytest.fixture(scope="module")
def sources(documents, corpus_file, tmp_path_factory):
    """The corpus of a family: text, or a table of sentences and their words in reverse order."""
    pairs = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    sentences = [sentence for document in documents for sentence in document.split(". ")]
    rows = [f"{sentence}\t{' '.join(reversed(sentence.split()))}" for sentence in sentences]
    pairs.write_text("\n".join(["source\ttarget", *rows]) + "\n", encoding="utf-8")
    return lambda family: pairs if family == "transformer" else corpus_file


@pytest.fixture(scope="module")
def finished(sources, tmp_path_factory):
    """Finished runs of twenty steps, as a function of the family; copy them."""
    place = tmp_path_factory.mktemp("finished")

    def run(family):
        if not (place / family).exists():
            settings = settings_of(family)
            ps.pretrain(
                family, corpus=sources(family), size="tiny", budget="20steps", settings=settings, out=place / family
            )
        return place / family

    return run


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return lambda family="bert", name="run": shutil.copytree(finished(family), tmp_path / name)


def steps_of(folder):
    return [row["step"] for row in read_history(folder)]


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def break_off(session, step):
    """Train until a step, and end as a killed process does: without saving."""
    for progress in session.steps():
        if progress.step.number == step:
            break
    session.run.close()


@pytest.mark.parametrize("family", ["bert", "elmo", "skipgram", "glove", "svd", "transformer"])
def test_a_longer_budget_extends_a_finished_run(run, family):
    """The schedules are those of the longer budget, and the extended run survives a kill bit for bit."""
    whole, broken = run(family, "whole"), run(family, "broken")
    before = weights(whole)
    ps.pretrain(family, out=whole, budget="40steps", resume=True)
    config = Recipe.load(whole).training
    assert (config.steps, config.budget, config.extended_at) == (40, "40steps", 20)
    assert steps_of(whole) == list(range(1, 41)) and weights(whole) != before and not find_changes(whole)
    if family in ("bert", "elmo", "transformer"):
        learning_rates = {row["step"]: row["learning_rate"] for row in read_history(whole)}
        assert learning_rates[21] > 3 * learning_rates[20]

    break_off(open_pretraining(family, out=broken, budget="40steps", resume=True), 27)
    assert weights(broken) == before and not find_changes(broken), "the model remains valid until there is a new one"
    assert ps.load(broken).recipe.training.steps == 40
    ps.pretrain(family, out=broken, resume=True)
    assert steps_of(broken) == list(range(1, 41)) and weights(broken) == weights(whole)


def test_learning_rates_after_an_extension_are_those_of_the_longer_run(run, corpus_file, tmp_path):
    extended = run()
    ps.pretrain("bert", out=extended, budget="40steps", resume=True)
    options = {"corpus": corpus_file, "size": "tiny", "settings": settings_of("bert"), "budget": "40steps"}
    ps.pretrain("bert", out=tmp_path / "long", **options)
    after_extension, longer = (
        [row["learning_rate"] for row in read_history(folder)] for folder in (extended, tmp_path / "long")
    )
    assert after_extension[20:] == longer[20:] and after_extension[:20] != longer[:20]


def test_an_interrupted_run_is_extended_from_its_checkpoint(corpus_file, tmp_path, caplog):
    options = {"corpus": corpus_file, "size": "tiny", "settings": settings_of("bert")}
    folders = [tmp_path / name for name in ("once", "twice")]
    for folder in folders:
        break_off(open_pretraining("bert", out=folder, budget="20steps", **options), 13)
    for budget in ("30steps", None):
        session = open_pretraining("bert", out=folders[1], resume=True, budget=budget)
        assert session.resumed_at == 10 == session.recipe.training.extended_at
        break_off(session, 14)
    caplog.clear()
    for folder in folders:
        ps.pretrain("bert", out=folder, budget="30steps", resume=True)
        assert steps_of(folder) == list(range(1, 31))
    assert weights(folders[0]) == weights(folders[1]) and not caplog.records


def test_a_lost_checkpoint_of_the_extension_is_reported(run, caplog):
    """The steps before it would be trained with the schedules of the longer budget."""
    folder = run()
    break_off(open_pretraining("bert", out=folder, budget="40steps", resume=True), 21)
    shutil.rmtree(folder / "checkpoints" / "0000020")
    open_pretraining("bert", out=folder, resume=True).run.close()
    assert "will not be bit for bit the same" in caplog.text


def test_a_budget_may_be_shortened_to_the_steps_that_are_done(corpus_file, tmp_path):
    options = {"corpus": corpus_file, "size": "tiny", "settings": settings_of("bert"), "out": tmp_path / "run"}
    break_off(open_pretraining("bert", budget="20steps", **options), 13)
    with pytest.raises(ConfigError, match=r"already been trained for 10 steps, more than --budget 9steps \(9 steps\)"):
        ps.pretrain("bert", out=tmp_path / "run", budget="9steps", resume=True)
    ps.pretrain("bert", out=tmp_path / "run", budget="12steps", resume=True)
    assert steps_of(tmp_path / "run") == list(range(1, 13))


def test_units_of_budgets(run):
    """A number of epochs or tokens is converted to steps; a time can only replace a time."""
    folder = run()
    tokens = 20 * 256
    for budget in ("20steps", "20 steps", f"{tokens}tokens"):
        before = (folder / "recipe.toml").read_bytes()
        session = open_pretraining("bert", out=folder, budget=budget, resume=True)
        assert session.total_steps == 20 and not session.previous_budget
        session.run.close()
        assert (folder / "recipe.toml").read_bytes() == before
    with pytest.raises(ConfigError, match="20steps, which is not a time; give the new --budget in steps, tokens or"):
        ps.pretrain("bert", out=folder, budget="10m", resume=True)
    session = open_pretraining("bert", out=folder, budget="6ktokens", resume=True)
    assert session.total_steps == 23 and session.previous_budget == "20steps"
    session.run.close()
    session = open_pretraining("bert", out=folder, settings=["training.budget=40epochs"], resume=True)
    assert session.total_steps > 23 and session.recipe.training.budget == "40epochs"
    session.run.close()


def test_a_longer_time_has_more_steps_in_proportion(corpus_file, tmp_path, monkeypatch):
    measured = Throughput(0.5, 0.0, spent=0.0)
    monkeypatch.setattr(PretrainingSession, "_measure_throughput", lambda session: measured)
    options = {"corpus": corpus_file, "size": "tiny", "settings": settings_of("bert"), "out": tmp_path / "run"}
    break_off(open_pretraining("bert", budget="10s", **options), 6)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match=r"more than --budget 2s \(4 steps\)"):
        ps.pretrain("bert", out=tmp_path / "run", budget="2s", resume=True)
    ps.pretrain("bert", out=tmp_path / "run", budget="15 seconds", resume=True)
    assert Recipe.load(tmp_path / "run").training.steps == 30


def test_budgets_that_cannot_change(corpus_file, tmp_path):
    brown = {"corpus": corpus_file, "size": "tiny", "settings": ["objective.method=brown", "model.width=4"]}
    ps.pretrain("wordclass", out=tmp_path / "brown", budget="3steps", **brown)
    with pytest.raises(ConfigError, match="depends on its number of steps from the start; omit --budget"):
        ps.pretrain("wordclass", out=tmp_path / "brown", budget="6steps", resume=True)
    adapted = (*settings_of("bert"), "training.processor_seconds=1000")
    options = {"corpus": corpus_file, "size": "tiny", "budget": "20steps", "settings": adapted}
    break_off(open_pretraining("bert", out=tmp_path / "adapted", **options), 6)
    with pytest.raises(ConfigError, match=r"training\.processor_seconds; omit --budget until it has finished"):
        ps.pretrain("bert", out=tmp_path / "adapted", budget="40steps", resume=True)


def test_the_same_options_are_accepted(run, corpus_file, tmp_path, monkeypatch):
    """As they were given, however the run has rewritten them, or equal to what it has."""
    folder = run()
    assert Recipe.load(folder).model.vocab_size < 400, "the corpus has fewer pieces"
    monkeypatch.chdir(corpus_file.parent)
    for options in (
        {"corpus": corpus_file, "size": "tiny", "budget": "20steps", "settings": settings_of("bert")},
        {"corpus": corpus_file.name, "size": "auto", "seed": 0, "masking": "token", "recipe": "fast"},
        {"settings": [" model.width = 32", "training.beta1=0.9"]},
    ):
        session = open_pretraining("bert", out=folder, resume=True, **options)
        assert session.resumed_at == 20 and not list(session.steps())
        session.finish()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": "other.txt"}, r"with --corpus \S+corpus\.txt, not \S+other\.txt; omit --corpus"),
        ({"corpus": "en=corpus.txt"}, "omit --corpus to resume it, or choose another --out"),
        ({"dev": ["other.txt"]}, "without --dev; omit --dev to resume it, or choose another --out"),
        ({"target": ["other.txt"]}, "without --target"),
        ({"size": "small"}, "with --size tiny, not small"),
        ({"recipe": "paper"}, "with --recipe fast, not paper"),
        ({"seed": 1}, "with --seed 0, not 1"),
        ({"masking": "word"}, "with --masking token, not word"),
        ({"column": "body"}, "with --column text, not body"),
        ({"settings": ["model.vocab_size=300"]}, r"with --set model\.vocab_size=400, not 300; omit --set model\.vocab"),
        ({"settings": ["training.beta1=0.5"]}, r"with --set training\.beta1=0\.9, not 0\.5"),
        ({"settings": ["objective.stages=[]", "objective.pairs=order"]}, r"--set objective\.pairs=next, not order"),
        ({"settings": ["training.bta1=0.5"]}, r"unknown setting training\.bta1; did you mean training\.beta1\?"),
        ({"settings": ["command.size=base"]}, r"command\.size is not a setting; give --size"),
        ({"settings": ["wide"]}, r"write group\.setting=value"),
        ({"budget": "soon"}, "is not a budget"),
    ],
    ids=str,
)
def test_other_options_are_refused(run, corpus_file, monkeypatch, options, message):
    monkeypatch.chdir(corpus_file.parent)
    folder = run()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=message):
        open_pretraining("bert", out=folder, resume=True, **options)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_model_or_command_is_refused(run, corpus_file, tmp_path):
    base, other = run(), run(name="other")
    adapted = tmp_path / "adapted"
    break_off(open_adaptation(base, out=adapted, corpus=corpus_file, budget="6steps", new_words=1), 2)
    for options, message in (
        ({"new_words": 2}, "with --new-words 1, not 2"),
        ({"corpus": [corpus_file, corpus_file]}, "omit --corpus"),
        ({"seed": 5}, "with --seed 0, not 5"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_adaptation(base, out=adapted, resume=True, **options)
    for begin, message in (
        (lambda: ps.adapt(other, out=adapted, resume=True), f"is a run of polyseme adapt {base}; resume it with"),
        (lambda: ps.pretrain("bert", out=adapted, resume=True), "is a run of polyseme adapt"),
        (lambda: ps.pretrain("gpt2", out=base, resume=True), "is a run of polyseme pretrain bert; resume it with that"),
        (lambda: ps.adapt(other, out=base, resume=True), "is a run of polyseme pretrain bert"),
        (lambda: ps.finetune(other, out=base, resume=True), "is a run of polyseme pretrain or adapt"),
    ):
        with pytest.raises((ConfigError, CheckpointError), match=message):
            begin()
    ps.adapt(base, out=adapted, new_words=1, budget="8steps", resume=True)
    assert steps_of(adapted) == list(range(1, 9)) and Recipe.load(adapted).training.steps == 8


# --- fine-tuning

FAST = ("data.batch_size=8", "training.threads=1", "training.save_every=3", "model.dropout=0")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Labelled texts, train and dev."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, number in (("train", 8), ("dev", 4)):
        rows = "the old river\tnature\nnew money here\tbank\n" * number
        (folder / f"{name}.tsv").write_text(f"text\tlabel\n{rows}")
    return folder


@pytest.fixture
def begin(run, files, tmp_path):
    """Start or resume fine-tuning runs, from one base model."""
    base = run(name="base")

    def opened(out="tuned", *, labels="all", seeds=1, seed=0, resume=False, model=base, **options):
        runs = plan_finetuning_runs(tmp_path / out, labels=labels, seeds=seeds, seed=seed)
        if not resume:
            options = {"train": files / "train.tsv", "dev": files / "dev.tsv", "settings": FAST, **options}
        return open_finetuning(model, runs, resume=resume, **options)

    return opened


def finish(runs):
    """Train all runs, and return their number."""
    return len([(list(session.steps()), session.finish()) for session in runs])


def test_a_longer_budget_extends_a_finetuned_model(begin, tmp_path, monkeypatch):
    """Also one that had stopped early; and while it is being extended, it is not taken for finished."""
    monkeypatch.setattr("polyseme.training.finetuning._MIN_STEPS", 0)
    for name in ("whole", "broken"):
        assert finish(begin(name, budget="20steps")) == 1
        assert steps_of(tmp_path / name)[-1] < 20, "it stopped early, because all answers were right"
        assert finish(begin(name, resume=True)) == 0, "nothing is left to do"
    before = weights(tmp_path / "whole")
    assert finish(begin("whole", resume=True, budget="40steps")) == 1
    last = steps_of(tmp_path / "whole")[-1]
    assert 20 < last <= 40

    (session,) = begin("broken", resume=True, budget="40steps")
    break_off(session, last - 3)
    assert weights(tmp_path / "broken") == before and not find_changes(tmp_path / "broken")
    assert ps.load(tmp_path / "broken").predict(["the old river"])[0].label in ("bank", "nature")
    assert finish(begin("broken", resume=True)) == 1
    for file in ("model.safetensors", "scores.json"):
        whole, broken = ((tmp_path / name / file).read_bytes() for name in ("whole", "broken"))
        assert whole == broken
    assert steps_of(tmp_path / "broken") == steps_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": "dev.tsv"}, r"with --train classify=\S+train\.tsv, not classify=\S+dev\.tsv; omit --train"),
        ({"train": {"topic": "train.tsv"}}, "not topic="),
        ({"dev": "train.tsv"}, r"with --dev classify=\S+dev\.tsv, not classify=\S+train\.tsv"),
        ({"task": "pair"}, "with --task classify=classify, not classify=pair"),
        ({"method": "mix"}, "with --method full, not mix"),
        ({"unlabelled": "dev.tsv"}, "without --unlabelled"),
        ({"labels": 4}, "with --labels all, not 4"),
        ({"seed": 2}, "with --seed 0, not 2"),
        ({"columns": {"text": "review"}}, "without --column; omit --column"),
        ({"settings": ["task.weights=[1.0, 2.0]"]}, r"with --set task\.weights="),
        ({"settings": ["data.batch_size=16"]}, r"with --set data\.batch_size=8, not 16"),
        ({"seeds": 2}, "is a single run; omit --seeds"),
        ({"model": "elsewhere"}, r"is a run of polyseme finetune \S+base; resume it with that command"),
    ],
    ids=str,
)
def test_other_options_of_finetuning_are_refused(begin, files, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(files)
    (session,) = begin(budget="6steps")
    break_off(session, 4)
    options = {"model": tmp_path / "base", "out": tmp_path / "tuned", "resume": True, **options}
    for budget in (None, "9steps"):
        with pytest.raises((ConfigError, CheckpointError), match=message):
            ps.finetune(**options, budget=budget)


def test_the_same_options_of_finetuning_are_accepted(begin, files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    settings = (*FAST, "task.weights=balanced")
    (session,) = begin(budget="4steps", settings=settings)
    break_off(session, 3)
    same = {"train": "train.tsv", "dev": {"classify": "dev.tsv"}, "task": "classify", "settings": settings[2:]}
    ps.finetune(tmp_path / "base", out=tmp_path / "tuned", resume=True, **same, budget="4steps")
    assert steps_of(tmp_path / "tuned") == list(range(5))


def test_a_sweep_skips_finished_runs_and_extends_all(run, files, tmp_path):
    sweep = {"out": tmp_path / "sweep", "labels": "4, all", "seeds": 2}
    options = {"train": files / "train.tsv", "dev": files / "dev.tsv", "budget": "4steps"}
    options |= {"settings": (*FAST, "finetuning.patience=0")}
    base = run(name="base")
    ps.finetune(base, **sweep, **options)
    folders = sorted((tmp_path / "sweep").glob("labels-*/seed-*"))
    written = [(folder / "model.safetensors").stat().st_mtime_ns for folder in folders]
    shutil.rmtree(folders[1])
    ps.finetune(base, **sweep, **options, resume=True)
    again = [(folder / "model.safetensors").stat().st_mtime_ns for folder in folders]
    assert [after == before for before, after in zip(written, again, strict=True)] == [True, False, True, True]

    with pytest.raises(ConfigError, match="with --method full, not mix"):
        ps.finetune(base, **sweep, method="mix", resume=True)
    ps.finetune(base, **sweep, budget="6steps", resume=True)
    assert len(folders) == 4 and all(steps_of(folder) == list(range(7)) for folder in folders)
    assert (tmp_path / "sweep" / SUMMARY).exists()
