"""Documents into sentences, in Latin and Chinese, Japanese and Korean scripts and their mixes."""

import re
from collections.abc import Iterator

LONGEST = 10_000  # characters of a sentence

_WIDE = "。！？｡…"
_CLOSING = "\"'”’»)\\]}）］｝」』】》〉〕"
# Every match succeeds wherever it starts and takes in what follows, so that no text is looked at twice. It begins
# with a class and not with a choice, because only then is the search for its first character fast.
_STOP = re.compile(rf"[\n.!?{_WIDE}](?:(?<=\n)\s*|[.!?{_WIDE}]*([{_CLOSING}]*)(\s*))")
_SPACE = re.compile(r"\s")
_TEXT = re.compile(r"\S")
_ABBREVIATIONS = frozenset(
    """
    Mr Mrs Ms Dr Prof Rev Hon St Sr Jr Gen Col Lt Sgt Capt Cmdr Adm Gov Sen Rep Pres Messrs Mme Mlle Fr Mt Ft
    vs etc al cf ca viz approx ed eds vol vols no nos pp fig figs sec ch art dept univ est inc ltd co corp bros
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec e.g i.e a.m p.m Ph.D
    """.lower().split()
)


def split_sentences(document: str) -> list[str]:
    """Cut a document into sentences that join to exactly the document.

    White space stands at the front of the sentence that follows it, as byte-level tokenizers want it.
    """
    pieces: list[str] = []
    start, length = 0, len(document)
    for match in _STOP.finditer(document):
        following = match.end()
        if following == length:
            break
        begin = match.start()
        marks, end = match.span(1)  # where the stops end, and where what closes them does
        if end < 0:  # a line's end
            end = begin
            while end and document[end - 1].isspace():
                end -= 1
            if end == 0:
                continue
        else:
            last = document[marks - 1]
            if last in _WIDE:
                if last == "…" and marks - begin == 1 and document[following] < "⺀":
                    continue
            elif end == following:
                if last == "." or document[following] < "⺀":
                    continue
            elif (
                document[following].islower() or (last == "." and _abbreviated(document, begin))
            ) and "\n" not in match[2]:
                continue
        pieces.append(document[start:end])
        start = end
    if start < length:
        pieces.append(document[start:])
    if length > LONGEST:
        pieces = [part for piece in pieces for part in (_shorten(piece) if len(piece) > LONGEST else (piece,))]
    return pieces


def _abbreviated(document: str, stop: int) -> bool:
    """Whether the full stop at `stop` belongs to the word before it: Dr., U.S., J."""
    space = document.rfind(" ", max(0, stop - 8), stop)
    if space < 0 and stop > 8:
        return False
    word = document[space + 1 : stop].lstrip("(\"'“‘[")
    initial = word[-2:-1] in ("", ".") and word[-1:].isalpha() and word[-1:] != "I"
    return initial or word.lower() in _ABBREVIATIONS


def _shorten(sentence: str) -> Iterator[str]:
    """Cut what is longer than any sentence, before white space where there is any."""
    start = 0
    while len(sentence) - start > LONGEST:
        # White space alone is no piece, however long, so the count begins where it ends.
        text = _TEXT.search(sentence, start)
        if text is None:
            break
        first = text.start()
        head = sentence[first : first + LONGEST + 1]
        end = first + (len(head.rsplit(None, 1)[0].rstrip()) if _SPACE.search(head) else LONGEST)
        if _TEXT.search(sentence, end) is None:
            break
        yield sentence[start:end]
        start = end
    yield sentence[start:]
