"""What a request is refused with: a status, a code for programs, and a line that says what to do.

Nothing of what was sent stands in an answer that refuses it: it may be hostile, and logs and pages show such lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import to_json

_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class CallError(Exception):
    """A request that is not answered as it wishes."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """As OpenAI has it."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        error = {"message": self.message, "type": kind, "code": self.code, "param": self.param}
        return to_json({"error": error})


def not_as_described(error: ValidationError) -> CallError:
    """What is wrong with a body, by the place alone."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return CallError(400, "invalid_json", "the body is not JSON; send one JSON object in UTF-8")
    known = [str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
    if first["type"] == "extra_forbidden":
        where = ".".join(known[:-1])
        return CallError(422, "unknown_field", f"{where or 'the body'} has a field that is not known; see /docs")
    place = ".".join(known[:1])
    message = "is missing" if first["type"] == "missing" else _plain(first["msg"])
    return CallError(422, "invalid_value", f"{place or 'the body'}: {message}; see /docs", param=place or None)


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[0].lower() + message[1:]
