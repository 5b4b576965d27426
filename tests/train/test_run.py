"""What a run does when things go wrong, and what its plan promises."""

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
from polyseme.models import FAMILIES
from polyseme.train.learner import Step
from polyseme.train.plan import SIZES, Budget, PlanConfig, choose_size, decays, rate_at, shortening
from polyseme.train.recipe import RECIPE, Recipe
from polyseme.train.run import HISTORY, LOCK, Run, check_unused, read_history


@pytest.fixture
def create(tmp_path, one_workshop):
    opened = []

    def make(name="run", recipe=None):
        opened.append(Run.create(tmp_path / name, recipe or one_workshop.recipe, one_workshop.tokenizer))
        return opened[-1]

    yield make
    for run in opened:
        run.close()


def step(number, loss=2.0):
    return Step(number=number, tokens=256 * number, seconds=0.5 * number, rate=1e-3, losses={"next_token": loss})


# --- the directory


def test_a_run_in_use_is_refused_by_the_name_of_its_process(create, tmp_path, one_workshop):
    run = create()
    for enter in (
        lambda: Run.open(run.folder, one_workshop.recipe),
        lambda: create(),
        lambda: check_unused(run.folder),
    ):
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()};"):
            enter()
    run.close()
    Run.open(run.folder, one_workshop.recipe).close()


def test_another_process_is_refused_too(create):
    run = create()
    code = f"""
from pathlib import Path
from polyseme.errors import CheckpointError
from polyseme.train.run import check_unused
try:
    check_unused(Path({str(run.folder)!r}))
except CheckpointError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"in use by process {os.getpid()};" in said


def test_a_lock_that_nobody_holds_is_taken_over(create, one_workshop):
    run = create()
    run.close()
    (run.folder / LOCK).write_text("99999999")
    again = Run.open(run.folder, one_workshop.recipe)
    assert (run.folder / LOCK).read_text() == str(os.getpid())
    with (run.folder / LOCK).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    again.close()


def test_a_run_starts_only_where_nothing_is(create, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="is not empty"):
        create("full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    with pytest.raises(CheckpointError, match="is a file"):
        create("full/thesis.txt")
    with pytest.raises(CheckpointError, match="no folder to write in"):
        create("full/thesis.txt/run")
    (tmp_path / "empty").mkdir()
    run = create("empty")
    run.close()
    with pytest.raises(CheckpointError, match="holds a run already; go on with it by --resume"):
        create("empty")


def test_no_run_to_go_on_with(tmp_path, one_workshop):
    with pytest.raises(CheckpointError, match="does not exist"):
        Run.open(tmp_path / "nothing", one_workshop.recipe)
    with pytest.raises(CheckpointError, match="not the directory of a run"):
        Recipe.load(tmp_path)


@pytest.mark.parametrize("num_files", range(4))
def test_what_an_early_kill_left_is_accepted(create, tmp_path, one_workshop, num_files):
    """Killed while the run was made: after the lock, after each of the tokenizer's files, in the middle of one."""
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
        [LOCK, RECIPE, "tokenizer.json", "tokenizer_config.json"]
    )
    assert Recipe.load(folder) == one_workshop.recipe


def test_the_recipe_is_written_last(create, tmp_path, monkeypatch):
    monkeypatch.setattr(Recipe, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CheckpointError, match="No space left on device"):
        create()
    monkeypatch.undo()
    create()


def test_leavings_of_a_killed_save_are_removed(create, one_workshop):
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
    Run.open(run.folder, one_workshop.recipe).close()
    assert not any(path.exists() for path in leavings)
    assert (run.folder / "notes.txt").exists()


# --- the history


class Nothing:
    total = 20

    def restore(self, state):
        pass


def test_rows_after_the_checkpoint_are_forgotten(create, one_workshop):
    run = create()
    learner = one_workshop.learner()
    steps = learner.steps()
    for number in range(1, 9):
        run.record(next(steps))
        if number == 5:
            run.save(learner, 5)
    steps.close()
    assert [row["step"] for row in read_history(run.folder)] == list(range(1, 9))
    run.close()
    again = Run.open(run.folder, one_workshop.recipe)
    resumed = one_workshop.learner()
    assert again.restore(resumed) == 5 == resumed.done
    assert [row["step"] for row in read_history(run.folder)] == [1, 2, 3, 4, 5]
    for progress in resumed.steps():
        again.record(progress)
    assert [row["step"] for row in read_history(run.folder)] == list(range(1, 21))
    again.close()


def test_without_a_checkpoint_all_rows_are_forgotten(create):
    run = create()
    run.record(step(1))
    assert run.restore(Nothing()) == 0
    assert read_history(run.folder) == []


@pytest.mark.parametrize("end", ['{"step": 3, "tok', "{", "\0\0\0", '{"step": 3}', "[1, 2", "7", "\udcff"])
def test_a_row_that_was_cut_short(create, end):
    run = create()
    for number in (1, 2):
        run.record(step(number))
    with (run.folder / HISTORY).open("ab") as file:
        file.write(end.encode("utf-8", "surrogateescape"))
    assert [row["step"] for row in read_history(run.folder)] == [1, 2]
    run.record(step(3))  # runs into the torn row
    run.record(step(4))
    assert [row["step"] for row in read_history(run.folder)][-1] == 4


def test_a_row_holds_the_means_since_the_row_before(create, one_workshop):
    recipe = dataclasses.replace(one_workshop.recipe, plan=one_workshop.recipe.plan.replace(steps=400))
    run = create(recipe=recipe)
    for number, loss in enumerate([1.0, 3.0, 5.0, 7.0], start=1):
        run.record(step(number, loss), dev={"next_token": 9.0} if number == 3 else None)
    rows = read_history(run.folder)
    assert [(row["step"], row["next_token"]) for row in rows] == [(2, 2.0), (3, 5.0), (4, 7.0)]
    assert [row.get("dev") for row in rows] == [None, {"next_token": 9.0}, None]
    assert rows[0]["tokens"] == 512 and rows[0]["seconds"] == 1.0 and rows[0]["tokens_per_second"] == 512


def test_a_loss_that_is_not_in_every_step_is_the_mean_of_those_it_was_in(create, one_workshop):
    recipe = dataclasses.replace(one_workshop.recipe, plan=one_workshop.recipe.plan.replace(steps=600))
    run = create(recipe=recipe)
    for number, losses in enumerate([{"one": 1.0}, {"other": 5.0}, {"one": 2.0}], start=1):
        run.record(dataclasses.replace(step(number), losses=losses))
    (row,) = read_history(run.folder)
    assert (row["one"], row["other"]) == (1.5, 5.0)


def test_a_skipped_step_leaves_no_trace_in_the_means(create, one_workshop):
    recipe = dataclasses.replace(one_workshop.recipe, plan=one_workshop.recipe.plan.replace(steps=400))
    run = create(recipe=recipe)
    for number, loss in enumerate([1.0, math.nan, math.nan, math.nan], start=1):
        run.record(dataclasses.replace(step(number, loss), skipped=math.isnan(loss)))
    rows = [json.loads(line, parse_constant=pytest.fail) for line in (run.folder / HISTORY).read_text().splitlines()]
    assert [row.get("next_token") for row in rows] == [1.0, None]


def test_a_full_disk_does_not_end_a_run_over_a_row(create, caplog):
    run = create()
    (run.folder / HISTORY).mkdir()  # nothing can be appended to it
    run.record(step(1))
    assert "step 1 was not recorded" in caplog.text


def test_when_a_checkpoint_is_due(create, one_workshop, monkeypatch):
    run = create()  # plan.save_every = 5
    assert [number for number in range(1, 12) if run.due(step(number))] == [5, 10]
    clock = [100.0]
    monkeypatch.setattr("polyseme.train.run.time.monotonic", lambda: clock[0])
    recipe = dataclasses.replace(one_workshop.recipe, plan=one_workshop.recipe.plan.replace(save_every=0))
    run = create("other", recipe)
    assert not run.due(step(5))
    clock[0] += 61
    assert run.due(step(6))


# --- numbers that go bad


def spoil(learner, bad, value=math.nan):
    """Make the losses, and with them the gradient, not finite at some calls."""
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
def test_three_bad_steps_in_a_row_are_skipped(workshop, caplog, value):
    learner = workshop.learner()
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
    assert caplog.text.count("the gradient is not finite; skipped (its batch begins [") == 4
    assert learner.done == 7


def test_the_fourth_ends_the_run(workshop, caplog, tmp_path):
    learner = workshop.learner()
    spoil(learner, {3, 4, 5, 6})
    steps = learner.steps()
    for _ in range(2):
        next(steps)
    before = weights_of(learner)
    for _ in range(3):
        assert next(steps).skipped
    with pytest.raises(TrainingError, match=r"4 steps in a row, at step 6; the last good checkpoint is kept"):
        next(steps)
    assert same(before, weights_of(learner))
    assert TrainingError.exit_code == 1


def test_bad_steps_are_counted_across_a_resume(workshop, caplog):
    learner = workshop.learner()
    spoil(learner, {2, 3, 4})
    steps = learner.steps()
    for _ in range(4):
        next(steps)
    steps.close()
    resumed = workshop.learner()
    resumed.restore(copy.deepcopy(learner.state()))
    spoil(resumed, {1})
    with pytest.raises(TrainingError):
        next(resumed.steps())


# --- memory that runs out


def cramp(learner, most, error):
    """Leave room for a few rows only."""
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
def test_memory_that_runs_out_changes_the_pieces_and_not_the_update(workshop, caplog, error):
    plain, cramped = workshop.learner(), workshop.learner()
    cramp(cramped, 3, error)
    assert plain.micro_tokens == 8 * 32
    for _ in range(3):
        expected, found = next(plain.steps()), next(cramped.steps())
        assert found.losses == pytest.approx(expected.losses, rel=1e-5)
        assert found.tokens == expected.tokens
    assert cramped.micro_tokens == 2 * 32
    assert [record.getMessage() for record in caplog.records] == [
        "memory ran out; going on with 128 tokens at a time, the same batch",
        "memory ran out; going on with 64 tokens at a time, the same batch",
    ]
    # Adam divides by the root of the second moment, so the gradients are compared, and the weights more loosely.
    for name, moment in plain.state().tensors["optimizer"].items():
        torch.testing.assert_close(cramped.state().tensors["optimizer"][name], moment, atol=1e-6, rtol=1e-4)
    for name, weight in plain.weights.items():
        torch.testing.assert_close(cramped.weights[name], weight, atol=1e-4, rtol=0)


def test_memory_that_runs_out_half_way_leaves_nothing_of_the_first_try(one_workshop, caplog):
    """The first piece went through before the second failed: its gradient must not be counted twice."""
    plain, cramped = one_workshop.learner(), one_workshop.learner()
    batch = plain.objective.batch(plain.source, seed=0, step=0)
    plain._gradient(batch)
    cramped.micro_tokens = 4 * 32
    real, calls = cramped.objective.forward, []

    def forward(encoder, rows, state=None):
        calls.append(len(rows.ids))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no")
        return real(encoder, rows, state)

    cramped.objective.forward = forward
    cramped._gradient(batch)
    assert calls == [4, 4, 2, 2, 2, 2]
    for name, weight in plain.weights.items():
        torch.testing.assert_close(cramped.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_memory_for_not_even_one_row(one_workshop, caplog):
    learner = one_workshop.learner()
    cramp(learner, 0, torch.OutOfMemoryError("no"))
    with pytest.raises(ConfigError, match=r"with a single row; make model\.width"):
        next(learner.steps())


def test_other_errors_are_not_taken_for_a_lack_of_memory(one_workshop):
    learner = one_workshop.learner()
    cramp(learner, 0, RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        next(learner.steps())


# --- the plan

plans = st.builds(
    PlanConfig,
    steps=st.integers(1, 1000),
    rate=st.floats(1e-8, 10),
    schedule=st.sampled_from(["constant", "linear", "cosine", "trapezoid"]),
    warmup=st.floats(0, 0.95),
    cooldown=st.floats(0.01, 1),
)


@given(plan=plans, share=st.floats(0, 1))
def test_the_rate_is_never_negative_nor_above_the_highest(plan, share):
    step = min(plan.steps - 1, int(share * plan.steps))
    assert 0 < rate_at(plan, step) <= plan.rate * (1 + 1e-12)


@given(plan=plans)
@settings(max_examples=60)
def test_the_rate_rises_and_then_never_rises_again(plan):
    rates = [rate_at(plan, step) for step in range(plan.steps)]
    warm = [step for step in range(plan.steps) if step + 1 < plan.warmup * plan.steps]
    if plan.schedule != "trapezoid" or plan.warmup + plan.cooldown <= 1:
        assert all(rates[step] <= rates[step + 1] * (1 + 1e-9) for step in warm[:-1])
        assert all(
            now >= later * (1 - 1e-9) for now, later in zip(rates[len(warm) :], rates[len(warm) + 1 :], strict=False)
        )
    if warm:
        assert rates[0] == pytest.approx(plan.rate / (plan.warmup * plan.steps))
    if plan.warmup == 0 and plan.schedule != "trapezoid":
        assert rates[0] == pytest.approx(plan.rate)


@given(
    plan=plans.filter(
        lambda plan: plan.schedule != "constant" and plan.steps * min(1 - plan.warmup, plan.cooldown) > 200
    )
)
@settings(max_examples=60)
def test_the_rate_ends_near_nothing(plan):
    assert rate_at(plan, plan.steps - 1) < 0.01 * plan.rate


def test_a_plan_by_hand():
    plan = PlanConfig(steps=10, rate=1.0, warmup=0.4, schedule="linear")
    assert [rate_at(plan, step) for step in range(10)] == pytest.approx(
        [0.25, 0.5, 0.75, 1, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    )
    assert rate_at(plan.replace(schedule="constant"), 9) == 1
    cosine = plan.replace(schedule="cosine", warmup=0.0)
    assert [rate_at(cosine, step) for step in (0, 5)] == pytest.approx([1.0, 0.5])
    trapezoid = plan.replace(schedule="trapezoid", warmup=0.0, cooldown=0.5)
    assert [rate_at(trapezoid, step) for step in (0, 4, 5, 9)] == pytest.approx([1, 1, 1, 0.2])


@given(amount=st.integers(1, 10**12), unit=st.sampled_from(["s", "m", "h"]), space=st.sampled_from(["", " "]))
def test_budgets_of_time(amount, unit, space):
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
def test_budgets_of_work(amount, scale, unit, plural, per_step, per_epoch):
    budget = Budget.parse(f"{amount}{scale}{unit}{plural}")
    whole = amount * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[scale]
    assert budget == Budget(whole, f"{unit}s")
    steps = budget.steps(tokens_per_step=per_step, tokens_per_epoch=per_epoch)
    exact = {"step": whole, "token": whole / per_step, "epoch": whole * per_epoch / per_step}[unit]
    assert steps >= 1 and (steps == 1 or abs(steps - exact) <= 0.5 + 1e-9 * exact)


@given(amount=st.decimals(min_value="0.001", max_value="99999", places=3))
def test_budgets_may_be_fractions(amount):
    assert Budget.parse(f"{amount}m").amount == pytest.approx(float(amount) * 60)


@pytest.mark.parametrize(
    "text", ["", "10", "m", "0s", "0.0m", "-5m", "5 parsecs", "1e3s", "5ms", "5mm", "nans", "infs", "9" * 400 + "s"]
)
def test_budgets_that_are_none(text):
    with pytest.raises(ConfigError, match="is no budget; say 90s, 10m, 2h"):
        Budget.parse(text)
    with pytest.raises(ConfigError, match=r"plan\.budget: .* is no budget"):
        PlanConfig.parse({"budget": text}, group="plan")


@given(text=st.text(max_size=12))
def test_no_budget_raises_anything_else(text):
    with contextlib.suppress(ConfigError):
        assert Budget.parse(text).amount > 0


def test_what_decays(workshop):
    learner = workshop.learner()
    by_name = {name: decays(name, weight.dim()) for name, weight in learner.weights.items()}
    assert {name.rpartition(".")[2] for name, yes in by_name.items() if yes} == {"weight"}
    assert not any(yes for name, yes in by_name.items() if "norm" in name)
    assert by_name["tokens.weight"] and by_name["blocks.0.attention.output.weight"]
    assert not decays("masked.bias", 1) and not decays("a.bias", 2)
    pulled, free = learner.optimizer.param_groups
    assert pulled["weight_decay"] > 0 == free["weight_decay"]
    assert len(pulled["params"]) == sum(by_name.values()) and len(free["params"]) == len(by_name) - sum(
        by_name.values()
    )


def test_a_recipe_comes_back_from_its_file(tmp_path, workshop):
    workshop.recipe.save(tmp_path)
    assert Recipe.load(tmp_path) == workshop.recipe
    assert Recipe.load(tmp_path).digest() == workshop.recipe.digest()
    assert json.loads(json.dumps(workshop.recipe.dump()))["family"] == workshop.family


def test_rows_grow_in_three_stages():
    plan = PlanConfig(steps=10, short_rows=0.8)
    assert [shortening(plan, step) for step in range(10)] == [4] * 4 + [2] * 4 + [1] * 2
    assert {shortening(PlanConfig(steps=10), step) for step in range(10)} == {1}


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
def test_the_size_follows_time_and_text(budget, num_bytes, cores, size):
    assert choose_size(budget, num_bytes=num_bytes, cores=cores) == size


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.foreign])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_every_size_has_both_recipes(family, recipe):
    for size in SIZES:
        made = Recipe.preset(family, size, recipe=recipe)
        assert (made.plan.start == recipe) and (made.model.dropout == 0) == (recipe == "fast")
