"""Special-token templates: which tokens are added around one text or a pair of texts."""

from collections.abc import Mapping
from dataclasses import dataclass

import tokenizers
from tokenizers import processors

from polyseme.tokenization.training import call_library


@dataclass(frozen=True)
class Template:
    """The special tokens before, between and after texts."""

    added: list[list[tuple[int, int]]]  # ids and segments before, between and after the texts
    segments: list[int]  # of each text

    @property
    def num_specials(self) -> int:
        return sum(map(len, self.added))

    @classmethod
    def none(cls, pair: bool) -> "Template":
        """A template without special tokens."""
        return cls([[], [], []] if pair else [[], []], [0, 1] if pair else [0])

    @classmethod
    def probe(cls, backend: tokenizers.Tokenizer, *, pair: bool) -> "Template":
        """The template of any tokenizer.json, found by encoding an example."""
        encoding = call_library(backend.encode, "a", "a") if pair else call_library(backend.encode, "a")
        template = cls.none(pair)
        gap = 0
        for id, segment, sequence in zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True):
            if sequence is None:
                template.added[gap].append((id, segment))
            else:
                gap = sequence + 1
                template.segments[sequence] = segment
        return template


def build_post_processor(
    backend: tokenizers.Tokenizer, roles: Mapping[str, str], style: str
) -> processors.TemplateProcessing:
    """The template of BERT, or of RoBERTa and others: no segments and two separators in a pair."""
    start, separator = roles["start"], roles["separator"]
    second, between = (1, separator) if style == "bert" else (0, f"{separator} {separator}")
    return processors.TemplateProcessing(
        single=f"{start} $A {separator}",
        pair=f"{start} $A {between} $B:{second} {separator}:{second}",
        special_tokens=[(token, backend.token_to_id(token)) for token in (start, separator)],
    )
