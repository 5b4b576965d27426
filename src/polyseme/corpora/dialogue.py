"""Dialogue corpora: a document is a conversation, each line a turn; in JSON, a list of strings."""

import hashlib

from polyseme.corpora.corpus import Corpus


def split_turns(document: str) -> list[str]:
    """The non-empty lines of a document."""
    return [line for line in document.splitlines() if line.strip()]


class DialogueCorpus(Corpus):
    """A corpus whose documents are split into turns."""

    split_document = staticmethod(split_turns)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"dialogues {super().fingerprint()}".encode()).hexdigest()
