"""What a server has done, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counts by call and status."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["call", "status"]
        self.requests = Counter("polyseme_requests", "Requests that were answered.", labels, registry=self.registry)
        self.seconds = Histogram(
            "polyseme_request_seconds", "Time to answer.", ["call"], buckets=_SECONDS, registry=self.registry
        )
        self.items = Histogram("polyseme_batch_items", "Texts of a batch.", buckets=_SIZES, registry=self.registry)
        self.batch_seconds = Histogram(
            "polyseme_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=self.registry
        )
        self.tokens = Counter("polyseme_tokens_read", "Tokens of batches, about.", registry=self.registry)
        self._requests: dict[tuple[str, int], Counter] = {}  # looking labels up takes longer than counting
        self._seconds: dict[str, Histogram] = {}

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a value as it is when it is asked for."""
        Gauge(f"polyseme_{name}", text, registry=self.registry).set_function(value)

    def request(self, call: str, status: int, seconds: float) -> None:
        """A request was answered; status 0: its client left."""
        key = (call, status)
        if key not in self._requests:
            self._requests[key] = self.requests.labels(call, str(status or "left"))
            self._seconds[call] = self.seconds.labels(call)
        self._requests[key].inc()
        self._seconds[call].observe(seconds)

    def batch(self, num_items: int, num_tokens: int, seconds: float) -> None:
        """A batch was worked on."""
        self.items.observe(num_items)
        self.batch_seconds.observe(seconds)
        self.tokens.inc(num_tokens)

    def show(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self.registry)
