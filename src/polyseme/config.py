"""Settings: frozen, typed and closed, so that a misspelled name is an error and not a default."""

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from polyseme.errors import ConfigError


class Config(BaseModel):
    """Base class of a group of settings, defined beside what it configures."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, group: str) -> Self:
        """Validate `values`; the error names the first wrong setting as `group.setting`."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{group} is a group of settings; write {group}.setting = value")
        for name in values:
            if name not in cls.model_fields:
                raise ConfigError(f"unknown setting {group}.{name:.60}{suggest_name(name, cls.model_fields, group)}")
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            setting = ".".join([group, *map(str, first["loc"])])
            value = f" (it was {first['input']!r:.60})" if first["loc"] else ""
            raise ConfigError(f"{setting}: {plain_message(first['msg'])}{value}") from None

    def digest(self) -> str:
        """A short hash of all settings."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some settings changed."""
        return type(self).model_validate({**self.model_dump(), **changes})


def did_you_mean(name: str, known: Iterable[str], group: str = "") -> str:
    """The end of an error message: the closest known name, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    prefix = f"{group}." if group else ""
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def suggest_name(name: str, known: Iterable[str], group: str = "") -> str:
    """The end of an error message: the closest known name, or all of them."""
    known = list(known)
    choices = f"; choose one of {', '.join(sorted(known))}" if known else ""
    return did_you_mean(name, known, group) or choices


def plain_message(message: str) -> str:
    """A validation message of pydantic in our words."""
    message = message.removeprefix("Value error, ").replace(" after validation", "")
    message = re.sub("^(Input|List|Tuple|Set|Dictionary|String) (?=should )", "", message)
    return message[0].lower() + message[1:]
