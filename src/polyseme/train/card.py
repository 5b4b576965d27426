"""The model card: what a stranger has to know of a model directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polyseme.files import write_file
from polyseme.models.base import Encoder
from polyseme.text.store import Store
from polyseme.train.recipe import Recipe
from polyseme.train.run import read_history
from polyseme.train.tuning_recipe import TuningRecipe

_FIGURES = {
    "masked": "nats a masked token",
    "masked_accuracy": "masked tokens guessed right",
    "next": "nats a pair (does B follow A?)",
    "next_accuracy": "pairs judged right",
    "next_token": "nats a token",
    "next_token_accuracy": "next tokens guessed right",
    "translation": "nats a token of a translation",
    "translation_accuracy": "such tokens guessed right",
    "forwards": "nats a word, given those before it",
    "forwards_accuracy": "words guessed right from those before them",
    "forwards_perplexity": "perplexity, given the words before",
    "backwards": "nats a word, given those behind it",
    "backwards_accuracy": "words guessed right from those behind them",
    "backwards_perplexity": "perplexity, given the words behind",
    "bits_per_character": "bits a character",
}


def write_card(folder: Path, recipe: Recipe, store: Store, encoder: Encoder, command: str) -> None:
    """Write README.md from what the run recorded."""
    rows = read_history(folder)
    last = rows[-1] if rows else {}
    dev: dict[str, float] = next((row["dev"] for row in reversed(rows) if "dev" in row), {})
    parameters = sum(weight.numel() for weight in encoder.parameters())
    scores = "\n".join(f"| {_described(name)} | {value:.4f} |" for name, value in dev.items())
    architecture = ", ".join(f"{name} {value}" for name, value in recipe.model.model_dump().items())
    measured = (
        f"## Measured on the dev text\n\n| figure | value |\n|---|---|\n{scores}\n"
        if dev
        else "No dev text was given.\n"
    )
    base = recipe.plan.base
    begun = f"Adapted by Polyseme from `{Path(base).name}` (`{base}`)" if base else "Pretrained by Polyseme"
    opens = (
        f"It opens with `transformers` too: `AutoModel.from_pretrained({str(folder)!r})`.\n" if encoder.foreign else ""
    )
    write_file(
        folder / "README.md",
        f"""# {folder.name}: {recipe.family}, {parameters:,} parameters

{begun} on {store.num_words:,} words ({store.num_documents:,} documents, {store.num_tokens:,} tokens) of
{", ".join(f"`{Path(path).name}`" for path in recipe.data.corpus)}: {last.get("tokens", 0):,} tokens seen in
{last.get("step", 0):,} steps and {last.get("seconds", 0):.0f} seconds of learning
(budget {recipe.plan.budget}, seed {recipe.plan.seed}).

Sizes: {architecture}.

{measured}
## Use

```python
import polyseme as ps
model = ps.load({str(folder)!r})
```

{opens}
{f"## Made by{chr(10)}{chr(10)}```{chr(10)}{command}{chr(10)}```{chr(10)}" if command else ""}
Every setting is in `recipe.toml`, every figure in `history.jsonl`. The model knows what that text says and nothing
else, errors and prejudices included.
""",
    )


def write_tuned_card(
    folder: Path,
    recipe: TuningRecipe,
    encoder: Encoder,
    scores: Mapping[str, float],
    layers: Mapping[str, Sequence[float]],
    command: str,
) -> None:
    """Write README.md of a fine-tuned model."""
    rows = read_history(folder)
    last = rows[-1] if rows else {}
    parameters = sum(weight.numel() for weight in encoder.parameters())
    found = "\n".join(f"| {name.replace('_', ' ')} | {value:.4f} |" for name, value in scores.items())
    measured = f"| figure | value |\n|---|---|\n{found}\n" if scores else "No dev set was given.\n"
    measured += "".join(
        f"\nWhat each layer is worth to `{name}`, from layer 0 upwards: {', '.join(map(str, shares))}.\n"
        for name, shares in layers.items()
    )
    base, start = recipe.plan.base, recipe.tuning.start
    begun = f"from `{Path(base).name}` (`{base}`)" if start == "model" else f"from chance, with the sizes of `{base}`"
    tasks = "\n".join(
        f"- `{name}`: {task.kind}, learnt from `{Path(recipe.data.train[name]).name}`"
        + (f", with the labels {', '.join(map(str, labels[:50]))}" if (labels := getattr(task, "labels", ())) else "")
        for name, task in recipe.tasks.items()
    )
    write_file(
        folder / "README.md",
        f"""# {folder.name}: {recipe.family}, {parameters:,} parameters, fine-tuned

Fine-tuned by Polyseme {begun} in {last.get("step", 0):,} steps and {last.get("seconds", 0):.0f} seconds of learning
(method {recipe.tuning.method}, budget {recipe.plan.budget}, seed {recipe.plan.seed}).

{tasks}

## Measured on the dev set

{measured}
## Use

```python
import polyseme as ps
model = ps.load({str(folder)!r})
model.predict([...])
```

{f"## Made by{chr(10)}{chr(10)}```{chr(10)}{command}{chr(10)}```{chr(10)}" if command else ""}
Every setting is in `recipe.toml`, every figure in `history.jsonl`. The dev set was used to choose the weights, so a
test set that it has not seen tells more.
""",
    )


def _described(figure: str) -> str:
    name, _, language = figure.rpartition("_")
    return _FIGURES.get(figure) or (f"{_FIGURES[name]}, {language}" if name in _FIGURES else figure)
