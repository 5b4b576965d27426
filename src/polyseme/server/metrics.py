"""Metrics for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Request counts and latencies by endpoint, batch sizes and gauges."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["endpoint", "status"]
        self.requests = Counter("polyseme_requests", "Completed requests.", labels, registry=self.registry)
        self.seconds = Histogram(
            "polyseme_request_seconds", "Request latency.", ["endpoint"], buckets=_SECONDS, registry=self.registry
        )
        self.items = Histogram("polyseme_batch_items", "Texts per batch.", buckets=_SIZES, registry=self.registry)
        self.batch_seconds = Histogram(
            "polyseme_batch_seconds", "Time per batch.", buckets=_SECONDS, registry=self.registry
        )
        self.tokens = Counter("polyseme_batch_tokens", "Estimated tokens in batches.", registry=self.registry)
        self.generated_tokens = Counter("polyseme_tokens_generated", "Generated tokens.", registry=self.registry)
        self._requests: dict[tuple[str, int], Counter] = {}  # looking up labels takes longer than counting
        self._seconds: dict[str, Histogram] = {}

    def add_gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge that is evaluated when metrics are read."""
        Gauge(f"polyseme_{name}", description, registry=self.registry).set_function(value)

    def observe_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; status 0 means that its client disconnected."""
        key = (endpoint, status)
        if key not in self._requests:
            self._requests[key] = self.requests.labels(endpoint, str(status or "disconnected"))
            self._seconds[endpoint] = self.seconds.labels(endpoint)
        self._requests[key].inc()
        self._seconds[endpoint].observe(seconds)

    def observe_batch(self, num_items: int, num_tokens: int, seconds: float) -> None:
        """Count a batch."""
        self.items.observe(num_items)
        self.batch_seconds.observe(seconds)
        self.tokens.inc(num_tokens)

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
