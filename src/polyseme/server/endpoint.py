"""Endpoints and resources: a path, its schemas and the function that answers it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import to_json

from polyseme.server.continuous_batching import GenerationScheduler
from polyseme.server.errors import ApiError
from polyseme.server.metrics import Metrics
from polyseme.server.model_registry import ModelRegistry, ServedModel
from polyseme.server.run_registry import RunRegistry
from polyseme.server.scheduler import BatchScheduler, RunBatch
from polyseme.server.schemas.common import RequestBody, ResponseBody

Item = TypeVar("Item")


@dataclass(kw_only=True)
class Service:
    """What endpoints work with: models, runs, and the thread that runs the models."""

    models: ModelRegistry
    runs: RunRegistry
    scheduler: BatchScheduler
    metrics: Metrics
    requires_key: bool
    stopping: bool = False
    generation: dict[str, GenerationScheduler] = field(default_factory=dict)  # by model name

    async def run_batched(self, served: ServedModel, name: Hashable, run: RunBatch, items: Sequence[Any]) -> list[Any]:
        """Run a function of a model on items, in batches with items of other requests of the same name."""
        sizes = [estimate_tokens(item) for item in items]
        return await self.scheduler.submit((served.name, name), run, items, sizes)

    def generation_scheduler(self, served: ServedModel) -> GenerationScheduler:
        """The generation scheduler of a model; made at its first request."""
        if served.name not in self.generation:
            self.generation[served.name] = GenerationScheduler(served.model, self.metrics)
            self.scheduler.generators = list(self.generation.values())
        return self.generation[served.name]


@dataclass(frozen=True)
class Endpoint:
    """POST /v1/NAME, which runs a model; the function has the same name."""

    function: Callable[[Service, ServedModel, Any], Awaitable[bytes | AsyncIterator[bytes]]]
    request: type[RequestBody]
    response: type[ResponseBody]
    streams: bool = False  # whether it can answer with server-sent events

    @property
    def name(self) -> str:
        """Its name in the list of endpoints that a model supports, and in metrics."""
        return self.function.__name__

    @property
    def path(self) -> str:
        return f"/v1/{self.name}"

    async def answer(self, service: Service, request: RequestBody) -> bytes | AsyncIterator[bytes]:
        """The response of the model that the request names: JSON, or server-sent events."""
        return await self.function(service, service.models.find(request.model, self.name), request)


@dataclass(frozen=True, kw_only=True)
class HttpResponse:
    """Status, headers and body of a GET response."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A GET resource; `{name}` at the end of its path matches the rest of the path."""

    path: str
    function: Callable[[Service, str, Mapping[bytes, bytes]], HttpResponse]  # service, name, request headers
    response: Any = None  # type of its JSON
    content_type: str = "application/json"
    tag: str = ""  # resources without one are not in the OpenAPI document
    blocking: bool = False  # whether it reads files, and so runs in a thread
    not_ready: bool = False  # whether it has the same response with status 503
    exists: Callable[[str], bool] = lambda name: True  # False for a name that is unknown with any method

    @property
    def prefix(self) -> str | None:
        """What precedes the name; None if it has none."""
        prefix, brace, _ = self.path.partition("{")
        return prefix if brace else None


def estimate_tokens(item: Any) -> int:
    """Approximate number of tokens of an item: in most scripts a token has about three bytes."""
    if isinstance(item, str):
        return len(item.encode("utf-8", "replace")) // 3 + 2
    if isinstance(item, list | tuple):
        return sum(map(estimate_tokens, item))
    return estimate_tokens(list(item.values())) if isinstance(item, dict) else 1


def as_list(value: Item | list[Item]) -> list[Item]:
    """A single value as a list of one."""
    return value if isinstance(value, list) else [value]


def encode_json(content: Any, *, nulls: bool = False) -> bytes:
    """Strict JSON: NaN and infinity are an error or, with `nulls`, null."""
    try:
        body = to_json(content, inf_nan_mode="null" if nulls else "constants")
        has_constants = b"NaN" in body or b"Infinity" in body  # or they occur in a text
        if has_constants and body != to_json(content, inf_nan_mode="null"):
            raise ApiError(422, "non_finite", "the model returned non-finite numbers; use another model")
    except ValueError:
        message = "the response has text that is not valid Unicode; rename the directory of the model or run"
        raise ApiError(422, "invalid_unicode", message) from None
    return body


def encode_rows(served: ServedModel, rows: Iterable[Mapping[str, Any]], **fields: Any) -> bytes:
    """JSON with a row for each item of a request, in their order."""
    data = [{"index": index, **row} for index, row in enumerate(rows)]
    return encode_json({"model": served.name, **fields, "data": data})


def json_response(content: Any, status: int = 200) -> HttpResponse:
    """A GET response of JSON."""
    return HttpResponse(body=encode_json(content), status=status)
