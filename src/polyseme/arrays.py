"""Array types, one definition each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
AnyFloats = NDArray[np.floating[Any]]
Ids = NDArray[np.int64]  # of tokens, rows or positions, as PyTorch indexes with
Integers = NDArray[np.integer[Any]]  # ids, offsets and counts of any width
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
CodeUnits = NDArray[np.uint16]  # of UTF-16
Strings = NDArray[np.str_]
