"""The application: FastAPI for the addresses and the OpenAPI document, behind the guard."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.params import Path as InPath
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from polyseme.serve import completions, docs, looking, status, tasks, texts
from polyseme.serve.calls import Call, Service, encoded
from polyseme.serve.errors import CallError
from polyseme.serve.guard import Guard, Limits
from polyseme.serve.metrics import Metrics
from polyseme.serve.runs import Runs
from polyseme.serve.schema import ModelEntry, ModelList, Problems
from polyseme.serve.schema_tasks import Report, Run, RunDetails
from polyseme.serve.web import Web, unchanged

_GROUPS: tuple[Any, ...] = (texts, completions, tasks, looking)
CALLS: Mapping[str, Call] = {call.path: call for module in _GROUPS for call in module.CALLS}

# A report brings its own program, which reaches nothing: not even us.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-popups; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_PLAIN = {
    "/metrics": {"text/plain": {"schema": {"type": "string"}}},
    "/v1/reports/{name}": {"text/html": {"schema": {"type": "string"}}},
}
_PROBLEMS = {
    400: "The request is not as HTTP or JSON has it.",
    401: "The key is missing or wrong.",
    404: "There is no such model.",
    405: "Another method is needed.",
    408: "The request did not come in.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not go by this name.",
    422: "A value is wrong, or the model cannot do this.",
    429: "Too many requests are waiting.",
    431: "The header lines are too large.",
    503: "The server stops.",
    504: "It took too long.",
}
_PROBLEMS_OF_PAGES = (400, 401, 404, 405, 408, 421, 422, 431)


def build(
    service: Service,
    *,
    hosts: frozenset[str] | None = None,
    key: str = "",
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    reports: Mapping[str, Path] | None = None,
    web: Web | None = None,
) -> Guard:
    """The whole application over some models."""
    metrics = metrics or Metrics()
    app = FastAPI(title="Polyseme", version=version("polyseme"), openapi_url=None, docs_url=None, redoc_url=None)
    guard = Guard(app=app, service=service, calls=CALLS, metrics=metrics, key=key, limits=limits or Limits())
    if hosts is not None:
        guard.hosts = hosts
    web, runs = web or Web(), Runs(service.models, dict(reports or {}))
    for call in CALLS.values():
        _describe(app, call)
    status.add(app, guard)

    @app.get("/v1/models", response_model=ModelList, tags=["models"])
    async def models() -> Response:
        """List the models that are served, and what each can do."""
        entries = [served.entry.model_dump() for served in service.models.open_ones]
        return _json({"object": "list", "data": entries})

    @app.get("/v1/models/{model:path}", response_model=ModelEntry, tags=["models"])
    async def model(model: Annotated[str, InPath(max_length=500)]) -> Response:
        """Say what one model is and can do."""
        return _json(service.models.named(model).entry.model_dump())

    @app.get("/v1/runs", response_model=list[Run], tags=["runs"])
    def all_runs() -> Response:
        """List the runs among what is served, and how far each is."""
        return _json(runs.all())

    @app.get("/v1/runs/{name:path}", response_model=RunDetails, tags=["runs"])
    def one_run(name: Annotated[str, InPath(max_length=500)]) -> Response:
        """Show how a run has learnt so far."""
        return _json(runs.details(name))

    @app.get("/v1/reports", response_model=list[Report], tags=["runs"])
    async def all_reports() -> Response:
        """List the reports of comparisons that were given."""
        return _json([{"name": name} for name in runs.reports])

    @app.get("/v1/reports/{name:path}", tags=["runs"], response_class=HTMLResponse)
    def one_report(name: Annotated[str, InPath(max_length=500)]) -> Response:
        """Show a report, as a page that stands alone."""
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": _REPORT_POLICY}
        return Response(runs.report(name), headers=headers)

    @app.get("/docs", include_in_schema=False)
    async def calls(request: Request) -> Response:
        text = docs.docs_page(document(app), f"http://{request.headers['host']}")
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": docs.POLICY}
        return Response(text, headers=headers)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(document(app))

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        file = web.find(path)
        if file is None:
            raise CallError(404, "not_found", "there is nothing at this address; see /docs")
        if unchanged(request.headers.get("if-none-match", ""), file.tag):
            return Response(status_code=304, headers={**file.headers})
        return Response(file.content, headers=file.headers)

    @app.exception_handler(CallError)
    async def refuse(request: Request, refusal: CallError) -> Response:
        return Response(refusal.body(), refusal.status, {"content-type": "application/json", **refusal.headers})

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        codes = {404: "there is nothing at this address; see /docs", 405: "this address is not asked in this way"}
        refusal = CallError(error.status_code, "http", codes.get(error.status_code, "this cannot be done"))
        headers = {"content-type": "application/json", **(error.headers or {})}
        return Response(refusal.body(), refusal.status, headers)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        refusal = CallError(422, "invalid_value", "a part of the address makes no sense; see /docs")
        return Response(refusal.body(), refusal.status, {"content-type": "application/json"})

    return guard


def _json(content: Any) -> Response:
    return Response(encoded(content), headers={"content-type": "application/json"})


def _describe(app: FastAPI, call: Call) -> None:
    """Put a call into the document; the guard has answered it before this is reached."""

    async def never() -> None:
        raise AssertionError

    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{call.asked.__name__}"}}
    extra: Any = call.asked.model_config.get("json_schema_extra", {})
    content["example"] = extra["examples"][0]
    more: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/json": content}}}
    app.add_api_route(
        call.path,
        never,
        methods=["POST"],
        response_model=call.answer,
        summary=call.summary.splitlines()[0],
        operation_id=call.name,
        tags=["calls"],
        openapi_extra=more,
    )


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_DESCRIPTION)
        schemas = made["components"]["schemas"]
        for call in CALLS.values():
            schema = call.asked.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[call.asked.__name__] = schema
        problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problems"}}}
        for path, methods in made["paths"].items():
            for method, call in methods.items():
                call["responses"].pop("422", None)
                for code in _PROBLEMS if method == "post" else _PROBLEMS_OF_PAGES:
                    call["responses"].setdefault(str(code), {"description": _PROBLEMS[code], "content": problem})
                call["responses"]["200"]["content"] = _PLAIN.get(path) or call["responses"]["200"]["content"]
        schemas.update(Problems.model_json_schema(ref_template="#/components/schemas/{model}").pop("$defs"))
        schemas["Problems"] = Problems.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas["Problems"].pop("$defs", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        completing = made["paths"]["/v1/completions"]["post"]["responses"]["200"]["content"]
        completing["text/event-stream"] = {"schema": {"type": "string"}}
        app.openapi_schema = made
    return app.openapi_schema


_DESCRIPTION = (
    "Every model is named by its directory. /v1/models, /v1/embeddings and /v1/completions are those of OpenAI, "
    "so that its clients work; the others are ours. A model that cannot do a call says so."
)
