"""The application: the tables of endpoints and resources, behind the gateway."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from polyseme.server import docs_page
from polyseme.server.endpoint import Endpoint, HttpResponse, Resource, Service, encode_json, json_response
from polyseme.server.endpoints import analysis, completions, embeddings, fill_mask, likelihood, tasks
from polyseme.server.errors import unknown_path
from polyseme.server.gateway import Gateway, Headers, Limits
from polyseme.server.metrics import Metrics
from polyseme.server.openapi import openapi_document
from polyseme.server.schemas import resources as schemas
from polyseme.server.static_files import StaticFiles, matches_etag

ENDPOINTS: Mapping[str, Endpoint] = {
    endpoint.path: endpoint
    for module in (embeddings, fill_mask, likelihood, completions, tasks, analysis)
    for endpoint in module.ENDPOINTS
}

STATIC_FILES = StaticFiles()

# A report runs its own scripts in an opaque origin, without access to the server.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-popups; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_HTML = "text/html; charset=utf-8"


def build_app(service: Service, *, allowed_hosts: frozenset[str], key: str, limits: Limits) -> Gateway:
    """The ASGI application of a service."""
    gateway = Gateway(service, ENDPOINTS, RESOURCES, allowed_hosts, key, limits)
    add_gauge, schedulers = service.metrics.add_gauge, service.generation.values()
    add_gauge("requests_admitted", "Requests in progress.", lambda: gateway.num_admitted)
    add_gauge("requests_waiting", "Requests that wait for a batch.", lambda: service.scheduler.num_waiting)
    add_gauge(
        "generations_active", "Texts that are being generated.", lambda: sum(s.num_unfinished for s in schedulers)
    )
    add_gauge("models", "Loaded models.", lambda: len(service.models.loaded))
    return gateway


def list_models(service: Service, name: str, headers: Headers) -> HttpResponse:
    """List the loaded models and the endpoints that each supports."""
    entries = [served.entry.model_dump() for served in service.models.loaded]
    return json_response({"object": "list", "data": entries})


def get_model(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Describe one model."""
    return json_response(service.models.get(name).entry.model_dump())


def list_runs(service: Service, name: str, headers: Headers) -> HttpResponse:
    """List the training runs among the served directories, with their progress."""
    return json_response(service.runs.summaries())


def get_run(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Return the training history of a run."""
    return HttpResponse(body=encode_json(service.runs.details(name), nulls=True))


def list_reports(service: Service, name: str, headers: Headers) -> HttpResponse:
    """List the comparison reports."""
    return json_response([{"name": name} for name in service.runs.reports])


def get_report(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Return a comparison report as a stand-alone page."""
    response_headers = {"content-type": _HTML, "content-security-policy": _REPORT_POLICY}
    return HttpResponse(body=service.runs.report(name), headers=response_headers)


def health(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Report that the process is alive."""
    return json_response({"status": "ok"})


def ready(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Report whether requests are accepted, and why directories are not loaded."""
    loaded = [one.name for one in service.models.loaded]
    problems = {one.name: one.public_problem for one in service.models.models if one.problem}
    status = "stopping" if service.stopping else "ready" if loaded else "no_models"
    content: dict[str, Any] = {"status": status, "models": loaded, "problems": problems}
    if service.requires_key:  # this resource needs no key, so it gives no names
        content = {"status": status, "models": len(loaded), "problems": len(problems)}
    return json_response(content, 200 if status == "ready" else 503)


def metrics(service: Service, name: str, headers: Headers) -> HttpResponse:
    """Return metrics in the text format of Prometheus."""
    return HttpResponse(body=service.metrics.render(), headers={"content-type": Metrics.content_type})


@cache
def _document() -> dict[str, Any]:
    return openapi_document(ENDPOINTS.values(), RESOURCES)


def _openapi(service: Service, name: str, headers: Headers) -> HttpResponse:
    return json_response(_document())


def _docs(service: Service, name: str, headers: Headers) -> HttpResponse:
    models: dict[str, str] | None = None
    if not service.requires_key:  # this resource needs no key, so it gives no names with one
        models = {f"/v1/{one}": served.name for served in reversed(service.models.loaded) for one in served.endpoints}
    text = docs_page.docs_page(_document(), f"http://{headers[b'host'].decode('latin-1')}", models)
    response_headers = {"content-type": _HTML, "content-security-policy": docs_page.POLICY}
    return HttpResponse(body=text.encode(), headers=response_headers)


def _static_file(service: Service, name: str, headers: Headers) -> HttpResponse:
    file = STATIC_FILES.find(name)
    if file is None:
        raise unknown_path(f"/{name}")
    if matches_etag(headers.get(b"if-none-match", b"").decode("latin-1"), file.headers["etag"]):
        return HttpResponse(body=b"", status=304, headers=file.headers)
    return file


RESOURCES = (
    Resource(path="/health", tag="status", response=schemas.HealthResponse, function=health),
    Resource(path="/ready", tag="status", response=schemas.ReadyResponse, function=ready, not_ready=True),
    Resource(path="/metrics", tag="status", content_type="text/plain", function=metrics),
    Resource(path="/v1/models", tag="models", response=schemas.ModelList, function=list_models),
    Resource(path="/v1/models/{name}", tag="models", response=schemas.ModelEntry, function=get_model),
    Resource(path="/v1/runs", tag="runs", response=list[schemas.RunSummary], function=list_runs, blocking=True),
    Resource(path="/v1/runs/{name}", tag="runs", response=schemas.RunDetails, function=get_run, blocking=True),
    Resource(path="/v1/reports", tag="runs", response=list[schemas.ReportEntry], function=list_reports),
    Resource(path="/v1/reports/{name}", tag="runs", content_type="text/html", function=get_report, blocking=True),
    Resource(path="/docs", function=_docs),
    Resource(path="/openapi.json", function=_openapi),
    Resource(path="/{path}", function=_static_file, exists=lambda name: STATIC_FILES.find(name) is not None),
)
