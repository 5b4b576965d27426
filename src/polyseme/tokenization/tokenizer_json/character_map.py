"""The character map of a precompiled normalizer: how SentencePiece replaces characters.

It has the size of a trie of 4-byte units, the trie, and replacements that end with NUL.
"""

import base64
import binascii
import struct
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from polyseme.arrays import Bytes

UNICODE_GROWTH = 18
"""The most characters that one becomes under NFKD and NFKC."""

_MAX_LENGTH = 2_000_000  # in base64; that of SentencePiece has 320 kB
_TRIE_BLOCK = 256  # units, addressed by the last byte


def _check(value: str) -> str:
    try:
        content = base64.b64decode(value, validate=True)
        (size,) = struct.unpack_from("<I", content)
        replacements = content[4 + size :].decode()
    except (binascii.Error, struct.error, ValueError):
        raise ValueError("not a character map in base64") from None
    if size % (4 * _TRIE_BLOCK) or 4 + size > len(content):
        raise ValueError("its trie is not as long as the character map declares")
    if max(map(len, replacements.split("\0"))) > 2 * UNICODE_GROWTH:
        raise ValueError(f"replaces a character by more than {2 * UNICODE_GROWTH}")
    units, values = np.frombuffer(content, "<u4", size // 4, 4), np.frombuffer(content, np.uint8)[4 + size :]
    if not _is_double_array(units, values):
        raise ValueError("its trie points out of the character map")
    return value


def _is_double_array(units: NDArray[np.uint32], replacements: Bytes) -> bool:
    """Whether all nodes of a double-array trie (Darts-clone) point into it, and its values at whole characters."""
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    nodes = np.flatnonzero(units < 1 << 31)  # the others are values
    children = nodes ^ offsets[nodes]
    has_value = (units[nodes] >> 8) & 1 == 1
    if (children >= len(units)).any():
        return False
    values = units[children[has_value]] & 0x7FFFFFFF
    return bool((values < len(replacements)).all()) and not (replacements[values] & 0xC0 == 0x80).any()


CharacterMap = Annotated[str, Field(max_length=_MAX_LENGTH), AfterValidator(_check)]
