"""HTTP errors: a status, a code for programs, and one line that ends with what to do.

An error response never repeats content of the request but the name of an unknown field, if that is an identifier: the
rest may be hostile, and logs and web pages display such lines.
"""

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from polyseme.config import plain_message
from polyseme.errors import PolysemeError

CLOSE = {"connection": "close"}
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII | re.IGNORECASE)
# What to use instead of endpoints of OpenAI that cannot be had here.
_UNAVAILABLE = dict.fromkeys(
    ("/v1/chat/completions", "/v1/responses"), "the models are not trained for dialogue; use /v1/completions"
)
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


def unknown_path(path: str) -> ApiError:
    """The error for a path that is unknown with every method."""
    return ApiError(404, "unknown_url", _UNAVAILABLE.get(path, "unknown endpoint; see /docs"))


def validation_error(error: ValidationError) -> ApiError:
    """The error for a request body that does not match its schema; it names the field, never the value."""
    errors = error.errors(include_url=False, include_context=False)
    first = errors[0]
    if first["type"] == "json_invalid":
        return ApiError(400, "invalid_json", "the body is not valid JSON; send one JSON object in UTF-8")
    field = _name(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        name = f": {field}" if len(first["loc"]) == 1 and field else ""
        return ApiError(422, "unknown_field", f"unknown field{name}; remove it, or see /docs", param=field or None)
    of_field = [one for one in errors if one["loc"][:1] == first["loc"][:1]]
    if first["type"] == "missing":
        message = "is required"
    elif field in ("input", "prompt") and any(map(_is_token_id, of_field)):
        message = "token ids are not supported; send text"
    else:
        message = _describe(of_field)
    return ApiError(422, "invalid_value", f"{field or 'the body'}: {message}; see /docs", param=field or None)


def _name(part: object) -> str:
    """A field name that can be repeated in a response, or nothing."""
    return part if isinstance(part, str) and _FIELD_NAME.fullmatch(part) else ""


def _describe(errors: Sequence[ErrorDetails]) -> str:
    """What is wrong with a field: of several types that it may have, the one that the value is closest to."""
    closest = [one for one in errors if not one["type"].endswith("_type") or _is_item(one)]
    messages = [plain_message(one["msg"]) for one in closest[:1] or errors]
    return " or ".join(dict.fromkeys(messages)).replace(" or should be ", " or ")


def _is_item(error: ErrorDetails) -> bool:
    """Whether an error is about an item of a list."""
    return any(isinstance(part, int) for part in error["loc"])


def _is_token_id(error: ErrorDetails) -> bool:
    return _is_item(error) and error["type"] == "string_type" and isinstance(error["input"], int | list)


def library_error(error: PolysemeError) -> ApiError:
    """The error for input that the library rejects; its message may quote the input, so it is not repeated."""
    name = type(error).__name__
    return ApiError(422, "invalid_input", f"the model cannot process this input ({name}); change the texts")
