"""Responses of GET resources: served models, training runs and the state of the server."""

from typing import Any, Literal

from pydantic import Field

from polyseme.server.schemas.common import ResponseBody


class ModelInfo(ResponseBody):
    """Properties of a model."""

    family: str
    context: Literal["none", "left", "right", "both"]
    parameters: int
    layers: int = Field(description="Without the embedding layer, which is layer 0 of embeddings.")
    max_length: int
    endpoints: list[str] = Field(description="Endpoints that the model supports, without /v1/.")
    tasks: dict[str, str] = Field(description="Kind of each fine-tuned task by name.")
    labels: dict[str, list[str]]
    directory: str = Field(description="Relative to the working directory of the server, or only the name.")


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


class RunSummary(ResponseBody):
    """A training run and its progress."""

    name: str
    family: str | None
    total_steps: int | None = Field(description="Null if it is not known yet.")
    steps_done: int
    training: bool
    metrics: list[str]


class RunDetails(ResponseBody):
    """The training history of a run."""

    name: str
    history: list[dict[str, Any]]
    scores: dict[str, Any] | None
    probe_charts: dict[str, str] = Field(description="SVG files that `polyseme probe` wrote, by file name.")


class ReportEntry(ResponseBody):
    """A comparison report."""

    name: str
