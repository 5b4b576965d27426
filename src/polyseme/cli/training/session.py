"""What pretrain, adapt and finetune share: a training session with a progress bar."""

import shlex
from typing import TYPE_CHECKING, Any

from polyseme.cli.console import report, suggest
from polyseme.cli.progress import TrainingBar
from polyseme.system.formatting import format_count

if TYPE_CHECKING:
    from polyseme.api import OpenedRun
    from polyseme.training.pretraining import PretrainingSession

# The command to try with a new model: the first that it is capable of.
_NEXT = {
    "fill": "fill {} 'The [MASK] is here.'",
    "translate": "translate {} 'The man is here.'",
    "generate": "generate {} 'The'",
    "score": "score {} 'The end.'",
    "neighbours": "neighbours {} the",
}


def run_session(opened: "OpenedRun[Any]", *command: str) -> int:
    """Train with a progress bar until the end or the first signal; return the exit code."""
    from polyseme.system.signals import graceful_shutdown

    session, saved = opened.session, True
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
    opened.finish()
    return 0


def describe_pretraining(session: "PretrainingSession") -> None:
    """Print the size of the corpus, of the model and of the training."""
    store, recipe = session.source.store, session.recipe
    if session.resumed_at:
        report(f"resuming at step {session.resumed_at:,} of {session.total_steps:,}")
        return
    parameters = sum(weight.numel() for weight in session.encoder.parameters())
    report(
        f"{store.num_words:,} words in {store.num_documents:,} documents, {store.num_tokens:,} tokens; "
        f"{recipe.family} with {format_count(parameters)} parameters, {session.total_steps:,} steps of "
        f"{session.source.num_rows * session.source.length:,} tokens"
    )
    if store.num_unknown > 0.01 * store.num_tokens:
        remedy = "lower tokenizer.min_count" if recipe.tokenizer.kind == "word" else "raise model.vocab_size"
        remedy = "the tokenizer lacks their characters" if recipe.training.base_model else f"{remedy} to cover more"
        report(f"{store.num_unknown / store.num_tokens:.1%} of the tokens are out of vocabulary; {remedy}")


def conclude_pretraining(session: "PretrainingSession") -> None:
    """Print where the model is, and the next command to try."""
    from polyseme.inference.capabilities import capabilities_of

    report_saved(session.folder, session.encoder)
    capabilities = capabilities_of(session.encoder, session.objective, session.tokenizer)
    suggest(next(command for name, command in _NEXT.items() if name in capabilities), session.folder)


def report_saved(folder: Any, encoder: Any) -> None:
    """Print that a model directory was written, and whether transformers loads it."""
    report(f"Saved {folder}{' (loadable with transformers)' if encoder.hf_mapping else ''}.")
