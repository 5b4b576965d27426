"""Components of tokenizer.json: closed schemas of fields, and the choice between them by type."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError, create_model, model_validator

from polyseme.config import plain_message
from polyseme.errors import DataError

_MAX_FIELDS = 32  # of a component

Text = Annotated[str, Field(max_length=1000)]
ShortText = Annotated[str, Field(max_length=64)]
Count = Annotated[int, Field(ge=0, lt=1 << 31)]

Fields = Mapping[str, Any]
"""The type of each field, or a pair of its type and its default."""


class Component(BaseModel):
    """Base class of the parts of a tokenizer file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, values: Any) -> Any:
        """Reject a thousand unknown fields at once; an error for each takes a kilobyte."""
        if isinstance(values, dict) and len(values) > _MAX_FIELDS:
            raise ValueError(f"has {len(values):,} fields")
        return values


class Sequence(Component):
    """Components that are applied one after the other."""

    steps: list[Any]


def one_of(components: Mapping[str, Fields | type[Component]], *, sequence: str = "") -> GetPydanticSchema:
    """The discriminated union of components, by their type.

    With `sequence`, the name of a field, it includes sequences of these components, nested or not.
    """
    models = [
        _build_model(name, fields, Component) if isinstance(fields, Mapping) else _build_model(name, {}, fields)
        for name, fields in components.items()
    ]
    if sequence:
        models.append(_build_model("Sequence", {"steps": ("list[Step]", Field(alias=sequence))}, Sequence))
    step = Annotated[reduce(or_, models), Field(discriminator="type")]  # type: ignore[valid-type]
    models[-1].model_rebuild(_types_namespace={"Step": step})  # a sequence may contain sequences
    return GetPydanticSchema(lambda _, build_schema: build_schema(step))


def _build_model(name: str, fields: Fields, base: type[Component]) -> type[Component]:
    pairs = {field: value if isinstance(value, tuple) else (value, ...) for field, value in fields.items()}
    definitions: dict[str, Any] = {"type": (Literal[name], ...), **pairs}
    return create_model(name, __base__=base, **definitions)


def flatten(component: Component | None) -> Iterator[Any]:
    """The steps of nested sequences, in order."""
    if isinstance(component, Sequence):
        for step in component.steps:
            yield from flatten(step)
    elif component is not None:
        yield component


def check_component(component: type[Component], values: Mapping[str, Any]) -> None:
    """Raise a DataError with the first value that a component does not allow."""
    try:
        component.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:120]
        reason = plain_message(first["msg"])[:200]
        raise DataError(f"{place}: {reason}" if place else reason) from None
