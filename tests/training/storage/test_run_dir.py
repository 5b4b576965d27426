"""Run directories, failures during training, schedules, budgets and recipes."""

import contextlib
import copy
import dataclasses
import fcntl
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme import CheckpointError, ConfigError, TrainingError
from polyseme.families import FAMILIES
from polyseme.training.optimization.budget import SIZES, Budget, choose_size
from polyseme.training.optimization.gradient_learner import Step
from polyseme.training.optimization.lr_schedules import learning_rate_at, length_divisor
from polyseme.training.optimization.optimizer_config import TrainingConfig, has_weight_decay
from polyseme.training.recipes.recipe import RECIPE, Recipe
from polyseme.training.storage.history import HISTORY, read_history
from polyseme.training.storage.manifest import MANIFEST
from polyseme.training.storage.run_dir import LOCK, RunDirectory, check_unused


@pytest.fixture
def create(tmp_path, any_tiny):
    opened = []

    def make(name="run", recipe=None):
        opened.append(RunDirectory.create(tmp_path / name, recipe or any_tiny.recipe, any_tiny.tokenizer))
        return opened[-1]

    yield make
    for run in opened:
        run.close()


def step(number, loss=2.0):
    return Step(
        number=number, tokens=256 * number, seconds=0.5 * number, learning_rate=1e-3, losses={"causal_lm": loss}
    )


# --- the directory


def test_locked_run_names_its_process(create, tmp_path, any_tiny):
    run = create()
    for enter in (
        lambda: RunDirectory.open(run.folder, any_tiny.recipe),
        lambda: create(),
        lambda: check_unused(run.folder),
    ):
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()};"):
            enter()
    run.close()
    RunDirectory.open(run.folder, any_tiny.recipe).close()


def test_other_process_cannot_open_a_locked_run(create):
    run = create()
    code = f"""
from pathlib import Path
from polyseme.errors import CheckpointError
from polyseme.training.storage.run_dir import check_unused
try:
    check_unused(Path({str(run.folder)!r}))
except CheckpointError as error:
    print(error)
"""
    stderr = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"in use by process {os.getpid()};" in stderr


def test_stale_lock_is_taken_over(create, any_tiny):
    run = create()
    run.close()
    (run.folder / LOCK).write_text("99999999")
    again = RunDirectory.open(run.folder, any_tiny.recipe)
    assert (run.folder / LOCK).read_text() == str(os.getpid())
    with (run.folder / LOCK).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    again.close()


def test_run_needs_an_empty_directory(create, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="is not empty"):
        create("full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    with pytest.raises(CheckpointError, match="is a file"):
        create("full/thesis.txt")
    with pytest.raises(CheckpointError, match="not writable"):
        create("full/thesis.txt/run")
    (tmp_path / "empty").mkdir()
    run = create("empty")
    run.close()
    with pytest.raises(CheckpointError, match="already has a run; continue it with --resume"):
        create("empty")


def test_resume_without_a_run(tmp_path, any_tiny):
    with pytest.raises(CheckpointError, match="does not exist"):
        RunDirectory.open(tmp_path / "nothing", any_tiny.recipe)
    with pytest.raises(CheckpointError, match="give the directory of a run"):
        Recipe.load(tmp_path)


@pytest.mark.parametrize("num_files", range(4))
def test_start_after_an_early_kill(create, tmp_path, any_tiny, num_files):
    """Killed while the run was created: after the lock, after each of the tokenizer's files, in the middle of one."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in [LOCK, "tokenizer.json", "tokenizer_config.json"][:num_files]:
        (folder / name).write_text("4711")
        (folder / f".{name}.4711.part").write_text("half")
        (folder / ".tmpAb3dE9").write_text("half, by safetensors")
    if num_files == 0:
        (folder / f".{LOCK}.4711.part").write_text("half")
    else:
        (folder / ".tmpAb3dE9").unlink()
    create()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [LOCK, RECIPE, MANIFEST, "tokenizer.json", "tokenizer_config.json"]
    )
    assert Recipe.load(folder) == any_tiny.recipe


def test_the_recipe_is_written_last(create, tmp_path, monkeypatch):
    monkeypatch.setattr(Recipe, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CheckpointError, match="No space left on device"):
        create()
    monkeypatch.undo()
    create()


def test_partial_checkpoints_are_removed(create, any_tiny):
    run = create()
    run.close()
    leavings = [
        run.folder / "checkpoints" / ".0000005.1.part",
        run.folder / ".model.safetensors.part",
        run.folder / ".tmpAb3dE9",
    ]
    leavings[0].mkdir(parents=True)
    (leavings[0] / "weights.safetensors").write_text("half")
    leavings[1].write_text("half")
    leavings[2].write_text("half")
    (run.folder / "notes.txt").write_text("mine")
    RunDirectory.open(run.folder, any_tiny.recipe).close()
    assert not any(path.exists() for path in leavings)
    assert (run.folder / "notes.txt").exists()


# --- the history


class Nothing:
    total = 20

    def restore(self, state):
        pass


def test_history_after_the_checkpoint_is_removed(create, any_tiny):
    run = create()
    learner = any_tiny.learner()
    steps = learner.steps()
    for number in range(1, 9):
        run.record(next(steps))
        if number == 5:
            run.save(learner, 5)
    steps.close()
    assert [row["step"] for row in read_history(run.folder)] == list(range(1, 9))
    run.close()
    again = RunDirectory.open(run.folder, any_tiny.recipe)
    resumed = any_tiny.learner()
    assert again.restore(resumed) == 5 == resumed.steps_done
    assert [row["step"] for row in read_history(run.folder)] == [1, 2, 3, 4, 5]
    for progress in resumed.steps():
        again.record(progress)
    assert [row["step"] for row in read_history(run.folder)] == list(range(1, 21))
    again.close()


def test_history_without_a_checkpoint_is_removed(create):
    run = create()
    run.record(step(1))
    assert run.restore(Nothing()) == 0
    assert read_history(run.folder) == []


@pytest.mark.parametrize("end", ['{"step": 3, "tok', "{", "\0\0\0", '{"step": 3}', "[1, 2", "7", "\udcff"])
def test_truncated_history_row(create, end):
    run = create()
    for number in (1, 2):
        run.record(step(number))
    with (run.folder / HISTORY).open("ab") as file:
        file.write(end.encode("utf-8", "surrogateescape"))
    assert [row["step"] for row in read_history(run.folder)] == [1, 2]
    run.record(step(3))  # runs into the torn row
    run.record(step(4))
    assert [row["step"] for row in read_history(run.folder)][-1] == 4


def test_history_rows_have_means_since_the_last_row(create, any_tiny):
    recipe = dataclasses.replace(any_tiny.recipe, training=any_tiny.recipe.training.replace(steps=400))
    run = create(recipe=recipe)
    for number, loss in enumerate([1.0, 3.0, 5.0, 7.0], start=1):
        run.record(step(number, loss), dev={"causal_lm": 9.0} if number == 3 else None)
    rows = read_history(run.folder)
    assert [(row["step"], row["causal_lm"]) for row in rows] == [(2, 2.0), (3, 5.0), (4, 7.0)]
    assert [row.get("dev") for row in rows] == [None, {"causal_lm": 9.0}, None]
    assert rows[0]["tokens"] == 512 and rows[0]["seconds"] == 1.0 and rows[0]["tokens_per_second"] == 512


def test_mean_of_a_loss_of_some_steps(create, any_tiny):
    recipe = dataclasses.replace(any_tiny.recipe, training=any_tiny.recipe.training.replace(steps=600))
    run = create(recipe=recipe)
    for number, losses in enumerate([{"one": 1.0}, {"other": 5.0}, {"one": 2.0}], start=1):
        run.record(dataclasses.replace(step(number), losses=losses))
    (row,) = read_history(run.folder)
    assert (row["one"], row["other"]) == (1.5, 5.0)


def test_skipped_steps_do_not_count_in_means(create, any_tiny):
    recipe = dataclasses.replace(any_tiny.recipe, training=any_tiny.recipe.training.replace(steps=400))
    run = create(recipe=recipe)
    for number, loss in enumerate([1.0, math.nan, math.nan, math.nan], start=1):
        run.record(dataclasses.replace(step(number, loss), skipped=math.isnan(loss)))
    rows = [json.loads(line, parse_constant=pytest.fail) for line in (run.folder / HISTORY).read_text().splitlines()]
    assert [row.get("causal_lm") for row in rows] == [1.0, None]


def test_full_disk_does_not_end_a_run(create, caplog):
    run = create()
    (run.folder / HISTORY).mkdir()  # nothing can be appended to it
    run.record(step(1))
    assert "step 1 was not added to the history" in caplog.text


def test_checkpoint_interval(create, any_tiny, monkeypatch):
    run = create()  # training.save_every = 5
    assert [number for number in range(1, 12) if run.due(step(number))] == [5, 10]
    clock = [100.0]
    monkeypatch.setattr("polyseme.training.storage.run_dir.time.monotonic", lambda: clock[0])
    recipe = dataclasses.replace(any_tiny.recipe, training=any_tiny.recipe.training.replace(save_every=0))
    run = create("other", recipe)
    assert not run.due(step(5))
    clock[0] += 61
    assert run.due(step(6))


# --- numbers that go bad


def spoil(learner, bad, value=math.nan):
    """Make the losses, and with them the gradient, non-finite at some calls."""
    real, calls = learner.objective.forward, []

    def forward(encoder, batch, state=None):
        outcome = real(encoder, batch, state)
        calls.append(batch)
        if len(calls) in bad:
            losses = {name: loss * value for name, loss in outcome.losses.items()}
            return dataclasses.replace(outcome, losses=losses)
        return outcome

    learner.objective.forward = forward


def weights_of(learner):
    return {name: weight.detach().clone() for name, weight in learner.weights.items()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_three_bad_steps_in_a_row_are_skipped(tiny, caplog, value):
    learner = tiny.learner()
    spoil(learner, {2, 3, 4, 6}, value)
    steps = learner.steps()
    skipped, moved = [], []
    for _ in range(7):
        before, moments = weights_of(learner), copy.deepcopy(learner.state().tensors["optimizer"])
        progress = next(steps)
        skipped.append(progress.skipped)
        moved.append(not same(before, weights_of(learner)))
        if progress.skipped:
            assert same(moments, learner.state().tensors["optimizer"]), "the moments stay as they were, too"
    steps.close()
    assert skipped == [False, True, True, True, False, True, False]
    assert moved == [not bad for bad in skipped]
    assert caplog.text.count("skipped: non-finite gradient (first ids of the batch: [") == 4
    assert learner.steps_done == 7


def test_fourth_bad_step_ends_the_run(tiny, caplog, tmp_path):
    learner = tiny.learner()
    spoil(learner, {3, 4, 5, 6})
    steps = learner.steps()
    for _ in range(2):
        next(steps)
    before = weights_of(learner)
    for _ in range(3):
        assert next(steps).skipped
    with pytest.raises(TrainingError, match=r"4 steps in a row, at step 6; the last checkpoint is valid"):
        next(steps)
    assert same(before, weights_of(learner))
    assert TrainingError.exit_code == 1


def test_bad_steps_are_counted_across_a_resume(tiny, caplog):
    learner = tiny.learner()
    spoil(learner, {2, 3, 4})
    steps = learner.steps()
    for _ in range(4):
        next(steps)
    steps.close()
    resumed = tiny.learner()
    resumed.restore(copy.deepcopy(learner.state()))
    spoil(resumed, {1})
    with pytest.raises(TrainingError):
        next(resumed.steps())


# --- memory that runs out


def limit_memory(learner, most, error):
    """Raise an error for more than a few rows."""
    real = learner.objective.forward

    def forward(encoder, batch, state=None):
        if len(batch.ids) > most:
            raise error
        return real(encoder, batch, state)

    learner.objective.forward = forward


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("no"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")],
)
def test_out_of_memory_halves_micro_batches_but_keeps_the_update(tiny, caplog, error):
    plain, limited = tiny.learner(), tiny.learner()
    limit_memory(limited, 3, error)
    assert plain.micro_batch_tokens == 8 * 32
    for _ in range(3):
        expected, found = next(plain.steps()), next(limited.steps())
        assert found.losses == pytest.approx(expected.losses, rel=1e-5)
        assert found.tokens == expected.tokens
    assert limited.micro_batch_tokens == 2 * 32
    assert [record.getMessage() for record in caplog.records] == [
        "out of memory; continuing with micro-batches of 128 tokens",
        "out of memory; continuing with micro-batches of 64 tokens",
    ]
    # Adam divides by the root of the second moment, so the gradients are compared, and the weights more loosely.
    for name, moment in plain.state().tensors["optimizer"].items():
        torch.testing.assert_close(limited.state().tensors["optimizer"][name], moment, atol=1e-6, rtol=1e-4)
    for name, weight in plain.weights.items():
        torch.testing.assert_close(limited.weights[name], weight, atol=1e-4, rtol=0)


def test_out_of_memory_discards_partial_gradients(any_tiny, caplog):
    """The first micro-batch succeeds before the second fails: its gradient must not be counted twice."""
    plain, limited = any_tiny.learner(), any_tiny.learner()
    batch = plain.objective.batch(plain.source, seed=0, step=0)
    plain._accumulate_gradient(batch)
    limited.micro_batch_tokens = 4 * 32
    real, calls = limited.objective.forward, []

    def forward(encoder, rows, state=None):
        calls.append(len(rows.ids))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no")
        return real(encoder, rows, state)

    limited.objective.forward = forward
    limited._accumulate_gradient(batch)
    assert calls == [4, 4, 2, 2, 2, 2]
    for name, weight in plain.weights.items():
        torch.testing.assert_close(limited.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_out_of_memory_with_a_single_sequence(any_tiny, caplog):
    learner = any_tiny.learner()
    limit_memory(learner, 0, torch.OutOfMemoryError("no"))
    with pytest.raises(ConfigError, match=r"with a single sequence; reduce model\.width"):
        next(learner.steps())


def test_other_errors_are_raised(any_tiny):
    learner = any_tiny.learner()
    limit_memory(learner, 0, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        next(learner.steps())


# --- schedules, budgets, recipes

configs = st.builds(
    TrainingConfig,
    steps=st.integers(1, 1000),
    learning_rate=st.floats(1e-8, 10),
    lr_schedule=st.sampled_from(["constant", "linear", "cosine", "trapezoid"]),
    warmup_fraction=st.floats(0, 0.95),
    cooldown_fraction=st.floats(0.01, 1),
)


@given(config=configs, fraction=st.floats(0, 1))
def test_learning_rate_is_positive_and_at_most_the_maximum(config, fraction):
    step = min(config.steps - 1, int(fraction * config.steps))
    assert 0 < learning_rate_at(config, step) <= config.learning_rate * (1 + 1e-12)


@given(config=configs)
@settings(max_examples=60)
def test_learning_rate_rises_once_and_then_falls(config):
    learning_rates = [learning_rate_at(config, step) for step in range(config.steps)]
    warm = [step for step in range(config.steps) if step + 1 < config.warmup_fraction * config.steps]
    if config.lr_schedule != "trapezoid" or config.warmup_fraction + config.cooldown_fraction <= 1:
        assert all(learning_rates[step] <= learning_rates[step + 1] * (1 + 1e-9) for step in warm[:-1])
        assert all(
            now >= later * (1 - 1e-9)
            for now, later in zip(learning_rates[len(warm) :], learning_rates[len(warm) + 1 :], strict=False)
        )
    if warm:
        assert learning_rates[0] == pytest.approx(config.learning_rate / (config.warmup_fraction * config.steps))
    if config.warmup_fraction == 0 and config.lr_schedule != "trapezoid":
        assert learning_rates[0] == pytest.approx(config.learning_rate)


@given(
    config=configs.filter(
        lambda config: (
            config.lr_schedule != "constant"
            and config.steps * min(1 - config.warmup_fraction, config.cooldown_fraction) > 200
        )
    )
)
@settings(max_examples=60)
def test_learning_rate_ends_near_zero(config):
    assert learning_rate_at(config, config.steps - 1) < 0.01 * config.learning_rate


def test_learning_rates_by_hand():
    config = TrainingConfig(steps=10, learning_rate=1.0, warmup_fraction=0.4, lr_schedule="linear")
    assert [learning_rate_at(config, step) for step in range(10)] == pytest.approx(
        [0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    )
    assert learning_rate_at(config.replace(lr_schedule="constant"), 9) == 1
    cosine = config.replace(lr_schedule="cosine", warmup_fraction=0.0)
    assert [learning_rate_at(cosine, step) for step in (0, 5)] == pytest.approx([1.0, 0.5])
    trapezoid = config.replace(lr_schedule="trapezoid", warmup_fraction=0.0, cooldown_fraction=0.5)
    assert [learning_rate_at(trapezoid, step) for step in (0, 4, 5, 9)] == pytest.approx([1, 1, 1, 0.2])


@given(amount=st.integers(1, 10**12), unit=st.sampled_from(["s", "m", "h"]), space=st.sampled_from(["", " "]))
def test_time_budgets(amount, unit, space):
    budget = Budget.parse(f"{amount}{space}{unit}")
    assert budget == Budget(amount * {"s": 1, "m": 60, "h": 3600}[unit], "seconds")
    assert budget.steps(tokens_per_step=10, tokens_per_epoch=100) is None


@given(
    amount=st.integers(1, 10**9),
    scale=st.sampled_from(["", "k", "M", "G"]),
    unit=st.sampled_from(["step", "token", "epoch"]),
    plural=st.sampled_from(["", "s"]),
    per_step=st.integers(1, 10**6),
    per_epoch=st.integers(1, 10**12),
)
def test_step_token_and_epoch_budgets(amount, scale, unit, plural, per_step, per_epoch):
    budget = Budget.parse(f"{amount}{scale}{unit}{plural}")
    whole = amount * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[scale]
    assert budget == Budget(whole, f"{unit}s")
    steps = budget.steps(tokens_per_step=per_step, tokens_per_epoch=per_epoch)
    exact = {"step": whole, "token": whole / per_step, "epoch": whole * per_epoch / per_step}[unit]
    assert steps >= 1 and (steps == 1 or abs(steps - exact) <= 0.5 + 1e-9 * exact)


@given(amount=st.decimals(min_value="0.001", max_value="99999", places=3))
def test_fractional_budgets(amount):
    assert Budget.parse(f"{amount}m").amount == pytest.approx(float(amount) * 60)


@pytest.mark.parametrize(
    "text", ["", "10", "m", "0s", "0.0m", "-5m", "5 parsecs", "1e3s", "5ms", "5mm", "nans", "infs", "9" * 400 + "s"]
)
def test_invalid_budgets(text):
    with pytest.raises(ConfigError, match="is not a budget; use 90s, 10m, 2h"):
        Budget.parse(text)
    with pytest.raises(ConfigError, match=r"training\.budget: .* is not a budget"):
        TrainingConfig.parse({"budget": text}, group="training")


@given(text=st.text(max_size=12))
def test_budgets_parse_or_raise_config_errors(text):
    with contextlib.suppress(ConfigError):
        assert Budget.parse(text).amount > 0


def test_parameters_with_weight_decay(tiny):
    learner = tiny.learner()
    by_name = {name: has_weight_decay(name, weight.dim()) for name, weight in learner.weights.items()}
    assert {name.rpartition(".")[2] for name, yes in by_name.items() if yes} == {"weight"}
    assert not any(yes for name, yes in by_name.items() if "norm" in name)
    assert by_name["tokens.weight"] and by_name["blocks.0.attention.output.weight"]
    assert not has_weight_decay("masked_lm.bias", 1) and not has_weight_decay("a.bias", 2)
    pulled, free = learner.optimizer.param_groups
    assert pulled["weight_decay"] > 0 == free["weight_decay"]
    assert len(pulled["params"]) == sum(by_name.values()) and len(free["params"]) == len(by_name) - sum(
        by_name.values()
    )


def test_recipe_round_trip(tmp_path, tiny):
    tiny.recipe.save(tmp_path)
    assert Recipe.load(tmp_path) == tiny.recipe
    assert Recipe.load(tmp_path).digest() == tiny.recipe.digest()
    assert json.loads(json.dumps(tiny.recipe.dump()))["family"] == tiny.family


def test_sequence_length_grows_in_three_stages():
    config = TrainingConfig(steps=10, short_sequence_fraction=0.8)
    assert [length_divisor(config, step) for step in range(10)] == [4] * 4 + [2] * 4 + [1] * 2
    assert {length_divisor(TrainingConfig(steps=10), step) for step in range(10)} == {1}


@pytest.mark.parametrize(
    ("budget", "num_bytes", "cores", "size"),
    [
        ("30s", 10**8, 2, "tiny"),
        ("5m", 10**8, 2, "small"),
        ("5m", 10**5, 2, "tiny"),
        (None, 10**8, 2, "small"),
        ("2h", 10**8, 2, "medium"),
        ("30m", 10**8, 16, "medium"),
        ("2h", 10**7, 2, "small"),
        ("500h", 10**10, 2, "base"),
        ("3epochs", 10**8, 2, "medium"),
    ],
)
def test_size_depends_on_time_and_text(budget, num_bytes, cores, size):
    assert choose_size(budget, num_bytes=num_bytes, cores=cores) == size


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.hf_mapping])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_every_size_has_both_recipes(family, recipe):
    for size in SIZES:
        made = Recipe.preset(family, size, recipe=recipe)
        assert (made.training.initialization == recipe) and (made.model.dropout == 0) == (recipe == "fast")
