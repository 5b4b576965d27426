"""Settings: frozen, typed, and closed, so that a typing error is an error and not a default."""

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from polyseme.errors import ConfigError


class Config(BaseModel):
    """A group of settings; it stands beside what it configures."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, group: str) -> Self:
        """Check `values`; the first thing wrong is named as `group.setting`."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{group} is a group of settings; say {group}.setting = value")
        unknown = [name for name in values if name not in cls.model_fields]
        if unknown:
            raise ConfigError(f"{group}.{unknown[0]}: no such setting{nearest(unknown[0], cls.model_fields, group)}")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join([group, *map(str, first["loc"])])
            raise ConfigError(f"{place}: {_plain(first['msg'])} (it was {first['input']!r:.60})") from None

    def digest(self) -> str:
        """A short name for exactly these settings."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> Self:
        """A checked copy with some settings changed."""
        return type(self).model_validate({**self.model_dump(), **changes})


def nearest(name: str, known: Iterable[str], group: str = "") -> str:
    """The end of a message about a wrong name: the nearest right one, or all of them."""
    known = list(known)
    prefix = f"{group}." if group else ""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return f"; there are {', '.join(sorted(known))}" if known else ""


def _plain(message: str) -> str:
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[0].lower() + message[1:]
