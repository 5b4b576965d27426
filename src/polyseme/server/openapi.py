"""The OpenAPI document, generated from the tables of endpoints and resources."""

from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from polyseme.server.endpoint import Endpoint, Resource
from polyseme.server.schemas.common import ErrorResponse

_DESCRIPTION = (
    "Models are named by their directories. /v1/models, /v1/embeddings and /v1/completions follow OpenAI's API, so "
    "that its clients work unchanged; the other endpoints are specific to Polyseme. The error for an endpoint that a "
    "model does not support lists those it supports."
)
_ERRORS = {
    400: "Invalid HTTP or JSON.",
    401: "Missing or wrong API key.",
    404: "Unknown model, run, report or path.",
    405: "Wrong HTTP method.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not JSON in UTF-8.",
    421: "Unknown Host header.",
    422: "Invalid value, or an endpoint that the model does not support.",
    429: "Too many requests are waiting.",
    431: "The headers are too large.",
    503: "The server is shutting down.",
    504: "The request took too long.",
}
_GET_ERRORS = (400, 401, 404, 405, 408, 421, 422, 431)
_NAME_PARAMETER = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 500}}


def openapi_document(endpoints: Iterable[Endpoint], resources: Iterable[Resource]) -> dict[str, Any]:
    """Describe every endpoint and every tagged resource."""
    endpoints, resources = list(endpoints), [one for one in resources if one.tag]
    requests = [endpoint.request for endpoint in endpoints]
    answers = [ErrorResponse, *(endpoint.response for endpoint in endpoints), *(one.response for one in resources)]
    types = [*((kind, "validation") for kind in requests), *((kind, "serialization") for kind in answers if kind)]
    adapters: list[Any] = [(kind, mode, TypeAdapter(kind)) for kind, mode in types]
    found, shared = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")
    schemas = {kind: schema for (kind, _), schema in found.items()}
    errors = {"application/json": {"schema": schemas[ErrorResponse]}}

    def responses(content: dict[str, Any], codes: Iterable[int]) -> dict[str, Any]:
        described = {str(code): {"description": _ERRORS[code], "content": errors} for code in codes}
        return {"200": {"description": "Success.", "content": content}, **described}

    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        extra: Any = endpoint.request.model_config.get("json_schema_extra", {})
        body = {"schema": schemas[endpoint.request], "example": extra["examples"][0]}
        content = {"application/json": {"schema": schemas[endpoint.response]}}
        if endpoint.streams:
            content["text/event-stream"] = {"schema": {"type": "string"}}
        paths[endpoint.path] = {
            "post": {
                **_describe(endpoint.function, "endpoints"),
                "requestBody": {"required": True, "content": {"application/json": body}},
                "responses": responses(content, _ERRORS),
            }
        }
    for resource in resources:
        schema = schemas[resource.response] if resource.response else {"type": "string"}
        content = {resource.content_type: {"schema": schema}}
        operation: dict[str, Any] = {
            **_describe(resource.function, resource.tag),
            "responses": responses(content, _GET_ERRORS),
        }
        if resource.prefix:
            operation["parameters"] = [_NAME_PARAMETER]
        if resource.not_ready:
            operation["responses"]["503"] = {"description": "Not ready.", "content": content}
        paths[resource.path] = {"get": operation}
    info = {"title": "Polyseme", "version": version("polyseme"), "description": _DESCRIPTION}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": shared.get("$defs", {})}}


def _describe(function: Callable[..., Any], tag: str) -> dict[str, Any]:
    summary = (function.__doc__ or "").strip().splitlines()[0]
    return {"summary": summary, "operationId": function.__name__, "tags": [tag]}
