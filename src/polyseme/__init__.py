"""Language representations from one-hot vectors to GPT-2: pretrain, analyse, compare and serve them on your own text.

import polyseme as ps
ps.pretrain("bert", corpus="text/", out="runs/bert", size="small", budget="10m")
model = ps.load("runs/bert")
model.fill("The [MASK] barked.")
ps.compare(corpus="text/", families=["skipgram", "bert", "gpt2"], budget="5m", out="report/")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyseme.api import adapt, estimate_pretraining, finetune, pretrain
    from polyseme.batch import Batch
    from polyseme.comparison.compare import compare
    from polyseme.errors import CheckpointError, ConfigError, DataError, PolysemeError, TrainingError
    from polyseme.loading import load
    from polyseme.pretrained import Pretrained

_HOMES = {
    "Batch": "batch",
    "CheckpointError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "PolysemeError": "errors",
    "Pretrained": "pretrained",
    "TrainingError": "errors",
    "adapt": "api",
    "compare": "comparison.compare",
    "estimate_pretraining": "api",
    "load": "loading",
    "finetune": "api",
    "pretrain": "api",
}

__all__ = [  # noqa: RUF022
    "pretrain",
    "adapt",
    "finetune",
    "compare",
    "load",
    "estimate_pretraining",
    "Pretrained",
    "Batch",
    "PolysemeError",
    "ConfigError",
    "DataError",
    "CheckpointError",
    "TrainingError",
]


def __getattr__(name: str) -> Any:
    # Names are imported on first use, so that `polyseme --help` does not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'polyseme' has no attribute {name!r}")
    return getattr(import_module(f"polyseme.{_HOMES[name]}"), name)
