"""Which characters count as Chinese: one definition per purpose, each the inside of a regular expression's [...]."""

import re

IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""CJK ideographs of one UTF-16 unit; BERT's normalizer splits these off as tokens of their own."""

ALL_IDEOGRAPHS = f"{IDEOGRAPHS}\U00020000-\U0003ffff"
"""Rare ideographs as well, which take two UTF-16 units."""

SEGMENTED_IDEOGRAPHS = f"々〇{ALL_IDEOGRAPHS}"
"""Runs of these go to a word segmenter; the iteration mark and the zero are parts of words."""

UNIFIED_IDEOGRAPHS = "\u3400-\u4db5\u4e00-\u9fa5"
"""Assigned since Unicode 3.0: every library splits text at these alike, whatever version of Unicode it follows."""

STABLE_IDEOGRAPHS = f"{UNIFIED_IDEOGRAPHS}\uf900-\ufa2d"
"""Alphabetic since Unicode 3.0, compatibility ideographs included, which BERT's normalizer may rewrite."""

CMRC_IDEOGRAPHS = "\u4e00-\u9fa5"
"""Tokens of their own in the evaluation script of CMRC 2018, whose scores must be comparable."""

HIRAGANA = "\u3040-\u309f"
KANA = "\u3040-\u30ff"
SOUTHEAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer, written without spaces between words."""

UNSPACED = f"{SEGMENTED_IDEOGRAPHS}{KANA}{SOUTHEAST_ASIAN}"
"""All scripts written without spaces, in which a word may be inside a longer run of characters."""

WIDE = f"\u3000-\u303f\uff01-\uff60{IDEOGRAPHS}"
"""Ideographs and full-width punctuation, beside which a decoder writes no space."""

EAST_ASIAN = f"\u3000-\u30ff\uff00-\uffef{IDEOGRAPHS}"
"""Chinese and Japanese text and punctuation, which a prompt continues without a space."""

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")


def is_chinese(text: str) -> bool:
    """Whether more than a third of the characters of a text are ideographs."""
    return len(_IDEOGRAPH.findall(text)) > len(text) / 3
