"""What looking inside asks of `Pretrained`, which stands below in the line of packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polyseme.models.base import Encoder


class Encoding(Protocol):
    """A text as a model sees it."""

    @property
    def tokens(self) -> list[str]: ...

    @property
    def offsets(self) -> list[tuple[int, int]]: ...

    @property
    def layers(self) -> list[NDArray[np.float32]]: ...


class Model(Protocol):
    """A model that shows its layers."""

    @property
    def folder(self) -> Path: ...

    @property
    def family(self) -> str: ...

    @property
    def encoder(self) -> Encoder: ...

    def encode(self, texts: Sequence[str]) -> Sequence[Encoding]: ...
