"""Base classes and field types of requests and responses; the OpenAPI document is generated from them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MAX_CHARACTERS = 20_000
"""Of one text; longer texts are sent in parts."""

MAX_TEXTS = 2048
"""Of one request, as in OpenAI's API."""

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
ShortText = Annotated[str, Field(max_length=2_000)]
NonEmptyText = Annotated[str, Field(min_length=1, max_length=2_000)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
TextPairs = Annotated[
    list[Annotated[list[Text], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=1024)
]
TopK = Annotated[int, Field(ge=1, le=100)]
Probability = Annotated[float, Field(ge=0, le=1.000001)]


class RequestBody(BaseModel):
    """A closed request: an unknown field is an error, not a default."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    model: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="A name from /v1/models; optional if the server has one model."
    )


class ResponseBody(BaseModel):
    """A response."""

    model_config = ConfigDict(allow_inf_nan=False)


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
