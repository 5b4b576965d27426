"""Options under the names that other tools use, with the option of this program that does the same."""

from collections.abc import Collection

from polyseme.training.recipes.settings_of_other_tools import find_setting

# Names with their advice. The first option that the command has is suggested; "--x: advice" applies to commands with
# the option --x.
_TABLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("epochs num-epochs n-epochs num-train-epochs max-epochs", ("--budget 3epochs",)),
    ("steps max-steps num-steps train-steps max-train-steps iterations", ("--budget 500steps",)),
    ("time minutes max-time duration", ("--budget 10m",)),
    (
        "batch-size train-batch-size per-device-train-batch-size per-gpu-train-batch-size",
        ("--train: --set data.batch_size=32", "--set training.batch_tokens=4096 (in tokens)"),
    ),
    ("model-size scale", ("--size small",)),
    ("output output-dir output-file out-dir save-dir save-path", ("--out PATH",)),
    (
        "train-file train-data training-file data dataset data-path input text-file",
        ("--train FILE", "--corpus FILE", "--data FILE", "--file FILE"),
    ),
    ("validation-file valid-file eval-file dev-file valid validation eval", ("--dev FILE",)),
    ("test-file", ("--data FILE",)),
    ("resume-from-checkpoint checkpoint continue", ("--resume, with the --out of the run",)),
    ("task-name task-type", ("--task NAME",)),
    ("text-column", ("--train: --column text=NAME", "--column NAME")),
    ("label-column", ("--train: --column label=NAME",)),
    ("topk top-k topn num-results", ("--top 5",)),
    ("max-new-tokens num-tokens max-length", ("--max-tokens 50",)),
    ("format output-format", ("--to FORMAT", "--json")),
    ("random-state", ("--seed 0",)),
)
_ADVICE = {name: advice for names, advice in _TABLE for name in names.split()}


def advise(name: str, known: Collection[str]) -> str:
    """What to write instead of an unknown option, given the options of the command; empty if nothing is known."""
    name = name.lstrip("-").replace("_", "-").lower()
    for advice in _ADVICE.get(name, ()):
        condition, colon, text = advice.partition(": ")
        if (condition if colon else advice.split()[0].rstrip(",")) in known:
            return text if colon else advice
    setting = find_setting(name.replace("-", "_")) if "--set" in known else None
    return f"--set {setting}=VALUE" if setting else ""
