"""How the server is: alive, ready, and what it has done."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Response

from polyseme.serve.calls import encoded
from polyseme.serve.guard import Guard
from polyseme.serve.schema import Ready


def add(app: FastAPI, guard: Guard) -> None:
    """Add the addresses that watch over a server asks."""
    models, metrics, worker = guard.service.models, guard.metrics, guard.service.worker
    metrics.gauge("requests_admitted", "Requests that are being answered.", lambda: guard.num_admitted)
    metrics.gauge("requests_waiting", "Requests that wait for a batch.", lambda: worker.num_waiting)
    writers = guard.service.writers
    metrics.gauge("texts_writing", "Texts that are being written.", lambda: sum(w.num_open for w in writers.values()))
    metrics.gauge("tokens_written", "Tokens that were written.", lambda: sum(w.num_tokens for w in writers.values()))
    metrics.gauge("models", "Models that are served.", lambda: len(models.open_ones))

    @app.get("/health", tags=["status"])
    async def health() -> dict[str, str]:
        """Say that the process lives."""
        return {"status": "ok"}

    @app.get(
        "/ready", tags=["status"], response_model=Ready, responses={503: {"model": Ready, "description": "Not ready."}}
    )
    async def ready() -> Response:
        """Say whether requests are answered, and which directories are not served and why."""
        served = len(models.open_ones)
        problems = {one.name: one.problem for one in models.all if one.problem}
        status = "stopping" if guard.stopping else "ready" if served else "nothing is served"
        content: dict[str, Any] = {
            "status": status,
            "models": [one.name for one in models.open_ones],
            "problems": problems,
        }
        if guard.key:  # whoever has none learns no names
            content = {"status": status, "models": served, "problems": len(problems)}
        code = 200 if status == "ready" else 503
        return Response(encoded(content), code, {"content-type": "application/json"})

    @app.get("/metrics", tags=["status"])
    async def show() -> Response:
        """Counts for Prometheus."""
        return Response(metrics.show(), headers={"content-type": metrics.content_type})
