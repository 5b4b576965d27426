"""How near translations come to those of people: BLEU (Papineni et al., 2002), as sacrebleu has it (Post, 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.figures import Figure
from polyseme.text.parallel import Parallel


def score_translations(path: Path, translate: Callable[[Sequence[str]], list[str]]) -> Figure:
    """BLEU of the translations of a table with the columns source and target, on the text as it is written."""
    bleu = _bleu()
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a table with the columns source and target")
    sources, targets = zip(*Parallel(path).rows(), strict=True)
    value = bleu(translate(sources), [list(targets)]).score
    return Figure(name=path.stem, measure="bleu", value=value, num_found=len(sources), num_items=len(sources))


def _bleu() -> Any:
    try:
        from sacrebleu import corpus_bleu
    except ImportError:
        raise ConfigError("BLEU is computed by sacrebleu, which is not installed; pip install sacrebleu") from None
    return corpus_bleu
