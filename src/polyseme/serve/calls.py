"""What a call is: a path, what it is asked, what it answers, and the function between the two."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import to_json

from polyseme.errors import PolysemeError
from polyseme.serve.batching import Worker
from polyseme.serve.errors import CallError
from polyseme.serve.models import Models, Served
from polyseme.serve.schema import Answer, Asked
from polyseme.serve.writing import Writer

Run = Callable[[Served, Sequence[Any]], Sequence[Any]]
Item = TypeVar("Item")


@dataclass(kw_only=True)
class Service:
    """All that calls need: the models, and the thread in which they work."""

    models: Models
    worker: Worker
    writers: dict[str, Writer] = field(default_factory=dict)

    async def work(
        self, served: Served, name: Hashable, run: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]
    ) -> list[Any]:
        """What a model makes of items, together with those of other requests of the same name."""
        sizes = [num_tokens(item) for item in items]
        return await self.worker.do((served.name, name), run, items, sizes)

    def writer(self, served: Served) -> Writer:
        """Who writes with a model."""
        if served.name not in self.writers:
            self.writers[served.name] = Writer(served.model)
            self.worker.writers = list(self.writers.values())
        return self.writers[served.name]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of the API."""

    path: str
    asked: type[Asked]
    answer: type[Answer]
    function: Callable[[Service, Any], Awaitable[bytes | AsyncIterator[bytes]]]

    @property
    def name(self) -> str:
        """As it is known in lists of what a model can do."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def summary(self) -> str:
        """What it does."""
        return (self.function.__doc__ or "").strip()


def num_tokens(item: Any) -> int:
    """About how many tokens an item has: letters of all scripts take about three bytes a token, or fewer."""
    if isinstance(item, str):
        return len(item.encode("utf-8", "replace")) // 3 + 2
    if isinstance(item, list | tuple):
        return sum(map(num_tokens, item))
    return num_tokens(list(item.values())) if isinstance(item, dict) else 1


def listed(given: Item | list[Item]) -> list[Item]:
    """One or several as several."""
    return given if isinstance(given, list) else [given]


def encoded(answer: Any) -> bytes:
    """JSON without anything that JSON does not have."""
    try:
        return to_json(answer)
    except ValueError:
        raise CallError(
            422, "not_finite", "the model answers with numbers that are not finite; use another one"
        ) from None


def refused(error: PolysemeError) -> CallError:
    """A mistake that the library found, without the words in which it may repeat what it was given."""
    return CallError(422, "unusable", f"the model cannot use this request ({type(error).__name__}); change the texts")
