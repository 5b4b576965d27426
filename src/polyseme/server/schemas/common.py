"""Base classes of requests and responses; the OpenAPI document is generated from them."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Row = TypeVar("Row")


class RequestBody(BaseModel):
    """A closed request: an unknown field is an error, not a default."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    model: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="A name from /v1/models; optional if the server has one model."
    )


class ResponseBody(BaseModel):
    """A response."""

    model_config = ConfigDict(allow_inf_nan=False)


class RowsResponse(ResponseBody, Generic[Row]):
    """A response of a model with several rows, usually one per text."""

    model: str
    data: list[Row]


class IndexedRow(ResponseBody):
    """A row about the text or pair of this index."""

    index: int


class TextSpan(ResponseBody):
    """A part of a text, from one character to before another."""

    text: str
    start: int
    end: int


class ErrorDetail(ResponseBody):
    """What went wrong and what to do about it."""

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorResponse(ResponseBody):
    """An error in OpenAI's format."""

    error: ErrorDetail


def example(**values: Any) -> ConfigDict:
    """Model configuration of a request with an example."""
    return ConfigDict(json_schema_extra={"examples": [values]})
