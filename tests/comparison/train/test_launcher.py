"""The commands that train the families of a comparison."""

from polyseme.comparison.config import TrainingRun
from polyseme.comparison.train.launcher import Job
from polyseme.training.recipes.recipe import RECIPE


def test_a_run_resumes_with_the_options_that_it_was_started_with(tmp_path):
    """A plan may change, because times are measured again; a run that was started keeps its own."""
    arguments = ["pretrain", "bert", "--budget", "500steps", "--out", str(tmp_path / "bert")]
    job = Job(run=TrainingRun("bert"), arguments=arguments, folder=tmp_path / "bert", log=tmp_path / "bert.log")
    assert job.resume_arguments == [*arguments, "--resume"]
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / RECIPE).write_text("")
    assert job.resume_arguments == ["pretrain", "bert", "--out", str(tmp_path / "bert"), "--resume"]
    assert job.command == f"polyseme pretrain bert --budget 500steps --out {tmp_path / 'bert'}"
