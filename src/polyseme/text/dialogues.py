"""Dialogues: documents whose lines are what two people say, in turns; in JSON, lists of strings."""

import hashlib

from polyseme.text.corpus import Corpus


def split_turns(document: str) -> list[str]:
    """The lines of a document that say something."""
    return [line for line in document.splitlines() if line.strip()]


class Dialogues(Corpus):
    """A corpus that is read turn by turn."""

    split = staticmethod(split_turns)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"dialogues {super().fingerprint()}".encode()).hexdigest()
