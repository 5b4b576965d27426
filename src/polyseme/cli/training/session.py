"""What pretrain, adapt and finetune share: a training session with a progress bar."""

import shlex
from typing import TYPE_CHECKING, Any

from polyseme.cli.console import report, suggest
from polyseme.cli.progress import TrainingBar
from polyseme.system.formatting import format_count, format_number_of

if TYPE_CHECKING:
    from polyseme.training.pretraining import PretrainingSession
    from polyseme.training.session import TrainingSession
    from polyseme.training.tfidf import TfidfSession


def run_session(session: "TrainingSession | TfidfSession", *command: str) -> int:
    """Train with a progress bar until the end or the first signal; return the exit code."""
    from polyseme.system.signals import graceful_shutdown

    saved = True
    with graceful_shutdown() as shutdown, TrainingBar(session.total_steps, first=session.resumed_at) as bar:
        for progress in session.steps():
            bar.update(progress, session.total_steps)
            if shutdown.signal:
                saved = session.pause()
                break
    if shutdown.signal:
        outcome = "and saved" if saved else "but could not be saved; the last checkpoint remains"
        report(f"stopped at step {progress.step.number:,} {outcome}; resume with:")
        report(f"  {shlex.join(['polyseme', *command, '--out', str(session.folder), '--resume'])}")
        return 128 + shutdown.signal
    session.finish()
    return 0


def describe_resumption(session: "TrainingSession") -> str:
    """The step at which a run resumes, and its budget if that has changed."""
    line = f"resuming at step {session.resumed_at:,} of {session.total_steps:,}"
    if not session.previous_budget:
        return line
    return f"{line}; the budget is now {session.recipe.training.budget} instead of {session.previous_budget}"


def run_pretraining(session: "PretrainingSession", *command: str) -> int:
    """Run a pretraining session; print its size before, and the next command to try after it."""
    from polyseme.training.usage_example import find_usage_example

    _describe(session)
    code = run_session(session, *command)
    if not code:
        report_saved(session.folder, session.encoder)
        example = find_usage_example(session.recipe, session.tokenizer)
        suggest(f"{example.verb} {{}} {{}}", session.folder, example.text)
    return code


def _describe(session: "PretrainingSession") -> None:
    """Print the size of the corpus, of the model and of the training."""
    store, recipe = session.source.store, session.recipe
    if session.resumed_at:
        report(describe_resumption(session))
        return
    parameters = sum(weight.numel() for weight in session.encoder.parameters())
    report(
        f"{format_number_of(store.num_words, 'word')} in {format_number_of(store.num_documents, 'document')}, "
        f"{format_number_of(store.num_tokens, 'token')}; {recipe.family} with {format_count(parameters)} parameters, "
        f"{format_number_of(session.total_steps, 'step')} of "
        f"{format_number_of(session.source.num_rows * session.source.length, 'token')}"
    )
    if store.num_unknown > 0.01 * store.num_tokens:
        remedy = "lower tokenizer.min_count" if recipe.tokenizer.kind == "word" else "raise model.vocab_size"
        remedy = "the tokenizer lacks their characters" if recipe.training.base_model else f"{remedy} to cover more"
        report(f"{store.num_unknown / store.num_tokens:.1%} of the tokens are out of vocabulary; {remedy}")


def report_saved(folder: Any, encoder: Any) -> None:
    """Print that a model directory was written, and whether transformers loads it."""
    report(f"Saved {folder}{' (loadable with transformers)' if encoder.hf_mapping else ''}.")
