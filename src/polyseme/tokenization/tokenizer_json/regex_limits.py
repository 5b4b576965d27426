"""Regular expressions of tokenizer files: a subset of Oniguruma's whose matching time is bounded.

Character classes, groups, lookarounds, alternation and repetition, as in the patterns of GPT-4, Llama and DeepSeek.
Oniguruma backtracks: where a part of a pattern does not match, it tries all other ways in which the parts before can
match. So a part that may fail must not follow a repetition of what matches in several ways, as in `(a+)+b`, nor two
unbounded repetitions, as in `\\s*\\s*b`: 4,000 spaces take it 30 seconds. Backreferences and recursion are rejected.
"""

import functools
import re
from dataclasses import dataclass, replace

from tokenizers import Regex, normalizers

_MAX_LENGTH = 4000
_MAX_DEPTH = 16  # of groups, and of character classes
_MAX_SIZE = 5000  # in characters, with counted repetitions expanded
_MAX_CHOICES = 10_000  # ways to match, unbounded repetitions aside
_SMALL_RANGE = 16  # counts of a repetition; more of them are unbounded

_ESCAPE = re.compile(
    r"\\(?:(?P<anchor>[bBAzZG])|[pP]\{\^?[\w ]{1,40}\}|x\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}"
    r"|[dDsSwWhHRnrtfvae0](?!\d)|[^\w])"
)
_GROUP = re.compile(
    r"\((?:\?(?:(?P<flags>[im]*(?:-[im]+)?\))|[im]*(?:-[im]+)?:|(?P<look><?[=!])|(?P<atomic>>))|(?!\?|\*))"
)
_QUANTIFIER = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<counts>\d{1,9}(?:,\d{0,9})?|,\d{1,9})\})(?P<mode>[?+]?)")
_POSIX_CLASS = re.compile(r"\[:\^?[a-z]{1,10}:\]")
_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_EVERYDAY = frozenset(" aeAE1中")  # characters that every text has


@dataclass(frozen=True)
class _Part:
    """What a part of a pattern matches, and what backtracking into it may cost."""

    shortest: int = 0  # match, in characters
    size: int = 0
    can_fail: bool = False
    characters: frozenset[str] = frozenset()  # of `_EVERYDAY` that it can consist of
    choices: int = 1  # number of ways to match, unbounded repetitions aside
    alternatives: bool = False
    loops: int = 0  # unbounded repetitions, one after the other
    degree: int = 0  # steps until it fails, as a power of the length of a text
    nested: bool = False  # has an unbounded repetition of what matches in several ways
    far: bool = False  # reads any number of words
    selective: bool = False  # begins with a character that few places of a text have

    def __add__(self, after: "_Part") -> "_Part":
        """Match one after the other."""
        degree = max(self.degree, after.degree + (self.loops if after.can_fail else 0))
        if after.can_fail:
            if self.nested or self.choices > _MAX_CHOICES:
                raise ValueError("repeats a group that matches in several ways before a part that may not match")
            if self.far:
                raise ValueError("searches the whole text for a part that may not match")
            if degree > 1:
                raise ValueError("has two unbounded repetitions before a part that may not match")
        if self.size + after.size > _MAX_SIZE:
            raise ValueError("repeats too often")
        return _Part(
            shortest=self.shortest + after.shortest,
            size=self.size + after.size,
            can_fail=self.can_fail or after.can_fail,
            characters=self.characters | after.characters,
            choices=min(self.choices * after.choices, _MAX_CHOICES + 1),
            alternatives=self.alternatives or after.alternatives,
            loops=self.loops + after.loops,
            degree=degree,
            nested=self.nested or after.nested,
            far=self.far or (after.far and not self.selective),
            selective=self.selective or (not self.shortest and after.selective),
        )

    def __or__(self, other: "_Part") -> "_Part":
        """Match one or the other."""
        return _Part(
            shortest=min(self.shortest, other.shortest),
            size=self.size + other.size,
            can_fail=self.can_fail and other.can_fail,
            characters=self.characters | other.characters,
            choices=self.choices + other.choices,
            alternatives=True,
            loops=max(self.loops, other.loops),
            degree=max(self.degree, other.degree),
            nested=self.nested or other.nested,
            far=self.far or other.far,
            selective=self.selective and other.selective,
        )

    def repeat(self, low: int, high: int | None) -> "_Part":
        """Match a number of times, or any number."""
        if high is not None and high < low:
            raise ValueError("has a repetition whose minimum exceeds its maximum")
        if self.size * max(low, high or 0) > _MAX_SIZE:
            raise ValueError("repeats too often")
        if low > 1:
            self + self  # the first repetition can be tried again where the second one fails
        unbounded = high is None or high - low > _SMALL_RANGE
        if unbounded and self.alternatives:
            raise ValueError("repeats alternatives without bound; write them as a character class")
        counts = [] if high is None or unbounded else range(low, high + 1)
        return replace(
            self,
            shortest=self.shortest * low,
            size=self.size * max(low, high or 0, 1),
            can_fail=self.can_fail and low > 0,
            choices=min(sum(self.choices ** min(count, 32) for count in counts) or 1, _MAX_CHOICES + 1),
            loops=1 if unbounded else self.loops * (high or 0),
            nested=self.nested or (unbounded and (self.choices > 1 or self.loops > 0)),
            far=self.far or (unbounded and " " in self.characters and len(self.characters) > 1),
            selective=self.selective and low > 0,
        )

    def atomic(self) -> "_Part":
        """Match in the first way only; unbounded repetitions still take their time whenever it is tried."""
        return replace(self, choices=1, nested=False)

    def lookaround(self, *, behind: bool) -> "_Part":
        """Match without consuming characters."""
        if self.far or (behind and self.loops):
            raise ValueError("looks arbitrarily far around")
        return _Part(size=self.size, can_fail=True, degree=max(self.degree, min(self.loops, 1)))


def shortest_match(pattern: str) -> int:
    """The length of the shortest text that a pattern matches; a ValueError if its matching time is not bounded."""
    if len(pattern) > _MAX_LENGTH:
        raise ValueError(f"has {len(pattern):,} characters, more than the allowed {_MAX_LENGTH:,}")
    part, position = _read_alternatives(pattern, 0, 0)
    if position < len(pattern):
        raise ValueError("has a parenthesis too many")
    return part.shortest


def _read_alternatives(pattern: str, position: int, depth: int) -> tuple[_Part, int]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"has groups nested more than {_MAX_DEPTH} deep")
    part, position = _read_sequence(pattern, position, depth)
    while pattern[position : position + 1] == "|":
        other, position = _read_sequence(pattern, position + 1, depth)
        part |= other
    return part, position


def _read_sequence(pattern: str, position: int, depth: int) -> tuple[_Part, int]:
    part = _Part()
    while position < len(pattern) and pattern[position] not in "|)":
        item, position = _read_item(pattern, position, depth)
        item, position = _read_quantifier(pattern, position, item)
        part += item
    return part, position


def _read_item(pattern: str, position: int, depth: int) -> tuple[_Part, int]:
    character = pattern[position]
    if character == "(":
        return _read_group(pattern, position, depth)
    if character == "[":
        end = _skip_class(pattern, position, 0)
        return _read_character(pattern[position:end]), end
    if character == "\\":
        escape = _read_escape(pattern, position)
        return _Part(can_fail=True, size=1) if escape["anchor"] else _read_character(escape[0]), escape.end()
    if _QUANTIFIER.match(pattern, position):
        raise ValueError("repeats nothing, or a repetition")
    return _Part(can_fail=True, size=1) if character in "^$" else _read_character(character), position + 1


def _read_group(pattern: str, position: int, depth: int) -> tuple[_Part, int]:
    group = _GROUP.match(pattern, position)
    if not group:
        raise ValueError("has a group that is neither plain nor a lookaround")
    if group["flags"]:
        return _Part(), group.end()
    part, end = _read_alternatives(pattern, group.end(), depth + 1)
    if pattern[end : end + 1] != ")":
        raise ValueError("has an open group")
    if group["look"]:
        part = part.lookaround(behind="<" in group["look"])
    return part.atomic() if group["atomic"] else part, end + 1


def _read_quantifier(pattern: str, position: int, item: _Part) -> tuple[_Part, int]:
    quantifier = _QUANTIFIER.match(pattern, position)
    if not quantifier:
        return item, position
    if quantifier["sign"]:
        low, high = _SIGNS[quantifier["sign"]]
    else:
        first, comma, last = quantifier["counts"].partition(",")
        low, high = int(first or 0), int(last) if last else None if comma else int(first)
        if quantifier["mode"] == "?":
            raise ValueError("repeats a repetition")
    item = item.repeat(low, high)
    if quantifier["mode"] == "+":  # possessive; after counts, Oniguruma repeats the repetition
        item = item.atomic() if quantifier["sign"] else item.repeat(1, None)
    return item, quantifier.end()


def _read_character(text: str) -> _Part:
    """A part that matches one character: a literal, an escape or a character class."""
    characters = _matched_characters(text)
    return _Part(shortest=1, size=1, can_fail=True, characters=characters, selective=not characters)


@functools.lru_cache(1024)
def _matched_characters(text: str) -> frozenset[str]:
    if len(text) == 1 and text != ".":
        return frozenset(text) & _EVERYDAY
    try:
        remove = normalizers.Replace(Regex(text), "")
    except Exception as error:  # of the library, which has no class of its own
        raise ValueError(f"has the invalid part {text:.40} ({error})") from None
    return frozenset(character for character in _EVERYDAY if not remove.normalize_str(character))


def _skip_class(pattern: str, position: int, depth: int) -> int:
    """The position after a character class, which may contain others."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"has character classes nested more than {_MAX_DEPTH} deep")
    position += 2 if pattern.startswith("[^", position) else 1
    first = True
    while position < len(pattern):
        character = pattern[position]
        if character == "]" and not first:
            return position + 1
        if posix := _POSIX_CLASS.match(pattern, position):
            position = posix.end()
        elif pattern.startswith("[:", position):
            raise ValueError("has a character class that begins with a colon")
        elif character == "[":
            position = _skip_class(pattern, position, depth + 1)
        else:
            position = _read_escape(pattern, position).end() if character == "\\" else position + 1
        first = False
    raise ValueError("has an open character class")


def _read_escape(pattern: str, position: int) -> re.Match[str]:
    escape = _ESCAPE.match(pattern, position)
    if not escape:
        raise ValueError(f"has the escape {pattern[position : position + 2]}, which is not supported")
    return escape
