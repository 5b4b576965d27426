"""Every language representation from one-hot vectors to GPT-2, on your own text, side by side.

import polyseme as ps
ps.pretrain("bert", corpus="text/", out="runs/bert", size="small", budget="10m")
model = ps.load("runs/bert")
model.fill("The [MASK] barked.")
ps.compare(corpus="text/", families=["skipgram", "bert", "gpt2"], budget="5m", out="report/")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyseme.comparison.race import compare
    from polyseme.errors import CheckpointError, ConfigError, DataError, PolysemeError, TrainingError
    from polyseme.making import adapt, finetune, pretrain
    from polyseme.opening import load
    from polyseme.pretrained import Pretrained
    from polyseme.tensors import Batch

_HOMES = {
    "Batch": "tensors",
    "CheckpointError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "PolysemeError": "errors",
    "Pretrained": "pretrained",
    "TrainingError": "errors",
    "adapt": "making",
    "compare": "comparison.race",
    "load": "opening",
    "finetune": "making",
    "pretrain": "making",
}

__all__ = [  # noqa: RUF022
    "pretrain",
    "adapt",
    "finetune",
    "compare",
    "load",
    "Pretrained",
    "Batch",
    "PolysemeError",
    "ConfigError",
    "DataError",
    "CheckpointError",
    "TrainingError",
]


def __getattr__(name: str) -> Any:
    # Each name is fetched when it is first asked for, so that `polyseme --help` does not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'polyseme' has no attribute {name!r}")
    return getattr(import_module(f"polyseme.{_HOMES[name]}"), name)
