"""Served models and the state of the server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from polyseme.server.schemas.common import ResponseBody


class ModelInfo(ResponseBody):
    """Properties of a model."""

    family: str
    context: Literal["none", "left", "right", "both"]
    parameters: int
    layers: int = Field(description="With the embedding layer.")
    max_length: int
    endpoints: list[str] = Field(description="Endpoints that the model supports, without /v1/.")
    tasks: dict[str, str] = Field(description="Kind of each fine-tuned task by name.")
    labels: dict[str, list[str]]
    directory: str


class ModelEntry(ResponseBody):
    """A model in OpenAI's format, with its properties."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    polyseme: ModelInfo


class ModelList(ResponseBody):
    """All loaded models."""

    object: Literal["list"]
    data: list[ModelEntry]


class HealthResponse(ResponseBody):
    """The process is alive."""

    status: Literal["ok"]


class ReadyResponse(ResponseBody):
    """Whether requests are accepted; a server with an API key reports counts instead of names."""

    status: Literal["ready", "stopping", "no_models"]
    models: list[str] | int
    problems: dict[str, str] | int
