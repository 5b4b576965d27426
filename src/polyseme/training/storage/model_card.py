"""The model card: README.md of a model directory."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyseme.datasets.token_store import TokenStore
from polyseme.models.base import Encoder
from polyseme.system.atomic_io import write_file
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.history import read_history
from polyseme.training.usage_example import UsageExample

_EVALUATION = "Evaluation on dev data"
_METRICS = {
    "masked_lm": "masked-token loss (nats/token)",
    "masked_lm_accuracy": "masked-token accuracy",
    "next_sentence": "next-sentence loss (nats/pair)",
    "next_sentence_accuracy": "next-sentence accuracy",
    "sentence_order": "sentence-order loss (nats/pair)",
    "sentence_order_accuracy": "sentence-order accuracy",
    "causal_lm": "language-model loss (nats/token)",
    "causal_lm_accuracy": "next-token accuracy",
    "translation": "translation loss (nats/token)",
    "translation_accuracy": "translation token accuracy",
    "forward": "forward language-model loss (nats/token)",
    "forward_accuracy": "forward next-token accuracy",
    "forward_perplexity": "forward perplexity",
    "backward": "backward language-model loss (nats/token)",
    "backward_accuracy": "backward next-token accuracy",
    "backward_perplexity": "backward perplexity",
    "bits_per_character": "bits per character",
}


def write_card(
    folder: Path, recipe: Recipe, store: TokenStore, encoder: Encoder, example: UsageExample, command: str
) -> None:
    """Write the card of a pretrained or adapted model, from its recipe and history."""
    rows = read_history(folder)
    last = rows[-1] if rows else {}
    dev: dict[str, float] = next((row["dev"] for row in reversed(rows) if "dev" in row), {})
    base = recipe.training.base_model
    origin = f"Adapted with Polyseme from `{Path(base).name}` (`{base}`)" if base else "Pretrained with Polyseme"
    sizes = ", ".join(f"{name} {value}" for name, value in encoder.config.model_dump().items())
    _write(
        folder,
        encoder,
        recipe.family,
        f"""{origin} on {", ".join(f"`{Path(path).name}`" for path in recipe.data.corpus)}
({store.num_words:,} words in {store.num_documents:,} documents, {store.num_tokens:,} tokens).

Training: {last.get("tokens", 0):,} tokens in {last.get("step", 0):,} steps and {last.get("seconds", 0):.0f} seconds
(budget {recipe.training.budget}, seed {recipe.training.seed}).

Model: {sizes}.""",
        call=f"model.{example.verb}({example.text!r})",
        command=f"polyseme {example.verb} {shlex.quote(str(folder))} {shlex.quote(example.text)}",
        sections={
            _EVALUATION: _table({_metric_name(name): value for name, value in dev.items()}) or "No dev text was given.",
            "Command": _code(command),
            "Limitations": "The model reflects its training text, including its errors and biases.",
        },
    )


def write_finetuned_card(
    folder: Path,
    recipe: FineTuningRecipe,
    encoder: Encoder,
    scores: Mapping[str, float],
    layers: Mapping[str, Sequence[float]],
    command: str,
) -> None:
    """Write the card of a fine-tuned model, from its recipe, dev scores and layer weights."""
    rows = read_history(folder)
    last = rows[-1] if rows else {}
    base = recipe.training.base_model
    pretrained = recipe.finetuning.initialization == "pretrained"
    origin = f"`{Path(base).name}` (`{base}`)" if pretrained else f"random weights, with the architecture of `{base}`"
    tasks = "\n".join(_describe_task(name, config, recipe) for name, config in recipe.tasks.items())
    evaluation = _table({name.replace("_", " "): value for name, value in scores.items()}) or "No dev set was given."
    for name, weights in layers.items():
        evaluation += f"\n\nLayer weights of `{name}`, from layer 0 upwards: {', '.join(map(str, weights))}."
    limitations = "Checkpoints were selected on the dev set, so that scores on an unseen test set may be lower."
    _write(
        folder,
        encoder,
        f"{recipe.family}, fine-tuned",
        f"""Fine-tuned with Polyseme from {origin}.

Training: {last.get("step", 0):,} steps in {last.get("seconds", 0):.0f} seconds (method {recipe.finetuning.method},
budget {recipe.training.budget}, seed {recipe.training.seed}).

{tasks}""",
        call="model.predict([...])",
        command=f"polyseme predict {shlex.quote(str(folder))} FILE",
        sections={
            _EVALUATION: evaluation,
            "Command": _code(command),
            "Limitations": limitations,
        },
    )


def _write(
    folder: Path, encoder: Encoder, title: str, description: str, *, call: str, command: str, sections: dict[str, str]
) -> None:
    parameters = sum(weight.numel() for weight in encoder.parameters())
    example = f"import polyseme as ps\n\nmodel = ps.load({str(folder)!r})\n{call}"
    usage = f"{_code(example, 'python')}\n\n{_code(command)}"
    if encoder.hf_mapping:
        usage += f"\n\nIt is also a transformers checkpoint: `AutoModel.from_pretrained({str(folder)!r})`."
    parts = [f"# {folder.name}: {title}, {parameters:,} parameters", description]
    parts += [f"## {name}\n\n{text}" for name, text in {"Usage": usage, **sections}.items() if text]
    parts.append("All settings are in `recipe.toml`, all metrics in `history.jsonl`.")
    write_file(folder / "README.md", "\n\n".join(parts) + "\n")


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```" if text else ""


def _describe_task(name: str, config: Any, recipe: FineTuningRecipe) -> str:
    labels = getattr(config, "labels", ())
    described = f"- `{name}`: {config.kind}, trained on `{Path(recipe.data.train[name]).name}`"
    return described + (f", labels {', '.join(map(str, labels[:50]))}" if labels else "")


def _table(metrics: Mapping[str, float]) -> str:
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in metrics.items())
    return f"| metric | value |\n|---|---|\n{rows}" if rows else ""


def _metric_name(metric: str) -> str:
    name, _, language = metric.rpartition("_")
    return _METRICS.get(metric) or (f"{_METRICS[name]}, {language}" if name in _METRICS else metric)
