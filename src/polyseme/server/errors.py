"""HTTP errors: a status, a code for programs, and one line that ends with what to do.

An error response never repeats content of the request: it may be hostile, and logs and web pages display such lines.
"""

from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import to_json

from polyseme.config import plain_message
from polyseme.errors import PolysemeError

CLOSE = {"connection": "close"}
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """A request that is refused or has failed."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param, self.headers = status, code, message, param, headers

    def body(self) -> bytes:
        """The error as JSON in OpenAI's format."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        error = {"message": self.message, "type": kind, "code": self.code, "param": self.param}
        return to_json({"error": error})


def internal_error() -> ApiError:
    """The error for a bug in the server."""
    return ApiError(500, "internal_error", "the server failed; see its log, and try again")


def validation_error(error: ValidationError) -> ApiError:
    """The error for a request body that does not match its schema; it names the field, never the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ApiError(400, "invalid_json", "the body is not valid JSON; send one JSON object in UTF-8")
    path = [str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
    if first["type"] == "extra_forbidden":
        parent = ".".join(path[:-1])
        return ApiError(422, "unknown_field", f"{parent or 'the body'} has an unknown field; see /docs")
    field = ".".join(path[:1])
    message = "is required" if first["type"] == "missing" else plain_message(first["msg"])
    return ApiError(422, "invalid_value", f"{field or 'the body'}: {message}; see /docs", param=field or None)


def library_error(error: PolysemeError) -> ApiError:
    """The error for input that the library rejects; its message may quote the input, so it is not repeated."""
    name = type(error).__name__
    return ApiError(422, "invalid_input", f"the model cannot process this input ({name}); change the texts")
