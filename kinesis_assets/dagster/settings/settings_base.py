"""The base of every group of settings: errors in one line, and values that are read when a run starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, ParamSpec, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticKnownError

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.schema import refusal_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


_Arguments = ParamSpec("_Arguments")
_Settings = TypeVar("_Settings", bound="Settings")
_Result = TypeVar("_Result")

UNIT: Final = "unit"
"""The key of a setting's unit in its JSON schema."""


def with_arguments_of(
    settings: Callable[_Arguments, _Settings],
) -> Callable[[Callable[[_Settings], _Result]], Callable[_Arguments, _Result]]:
    """Give a function of settings the arguments of their class, for editors and type checkers too."""

    def decorate(build: Callable[[_Settings], _Result]) -> Callable[_Arguments, _Result]:
        @wraps(build)
        def from_arguments(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            return build(settings(*args, **kwargs))

        from_arguments.__signature__ = signature(settings)  # type: ignore[attr-defined]
        return from_arguments

    return decorate


def valid(parse: Callable[[Any], object]) -> AfterValidator:
    """Validate a setting with its parser, unless it is None, and keep it as it was written."""

    def check(value: Any) -> Any:
        if value is not None:
            parse(value)
        return value

    return AfterValidator(check)


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Let the errors within a setting begin with its name."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{setting}: {error}") from None


@dataclass(frozen=True)
class SchemaFrom:
    """The JSON schema of a setting that is kept as a map, instead of that of any map.

    Attributes:
        make: Returns a new schema, because its users change it.
    """

    make: Callable[[], dict[str, Any]]

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        del core_schema, handler
        return self.make()


def map_schema(settings: type[Settings]) -> dict[str, Any]:
    """Return the JSON schema of a map of settings, without references, to be a part of any other."""
    schema = settings.model_json_schema()
    names = ("type", "properties", "required", "additionalProperties")
    return {name: schema[name] for name in names if name in schema}


def _refuse_text(value: Any) -> Any:
    # pydantic refuses it with an error of a type that Dagster does not know, and fails to report.
    if isinstance(value, str | bytes):
        raise PydanticKnownError("list_type")
    return value


Texts = Annotated[Sequence[str], BeforeValidator(_refuse_text)]
"""The type of a setting that is a list of texts. A single text is not."""


def _check_columns(names: Sequence[str], info: ValidationInfo) -> Sequence[str]:
    known = [name.lower() for name in names]
    for name in names:
        if (refusal := refusal_of(name)) is not None:
            raise InvalidInput(
                f"{info.field_name}: no column can be called {name!r}: the name {refusal}; correct it"
            )
        if known.count(name.lower()) > 1:
            raise InvalidInput(f"{info.field_name}: {name} is given twice; remove one of them")
    return names


Columns = Annotated[Texts, AfterValidator(_check_columns)]


def _check_partitions(entries: Sequence[str], info: ValidationInfo) -> Sequence[str]:
    fields = partition_fields(entries)
    _check_columns([field.column for field in fields], info)
    return [str(field) for field in fields]


Partitions = Annotated[Texts, AfterValidator(_check_partitions)]
"""The type of the setting `partition_by`. Its entries are those of `PartitionField`."""


class Settings(BaseModel):
    """Settings that raise `InvalidInput`, and may come from environment variables of a run.

    Attributes:
        read_by_runs: The settings that a run reads, so that they may be a `dg.EnvVar`; None for all.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    read_by_runs: ClassVar[frozenset[str] | None] = None

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, **settings: Any) -> None:
            reason = None
            try:
                super().__init__(**settings)
            except ValidationError as error:
                reason = reason_of(error)
            if reason is not None:  # not raised from pydantic's error, which may contain a secret
                raise InvalidInput(reason)

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_environment_variable(
        cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        """Keep a `dg.EnvVar`. Dagster replaces it when a run starts, and the value is validated then."""
        if cls.read_by_runs is not None and info.field_name not in cls.read_by_runs:
            parts = value if isinstance(value, list | tuple) else [value]
            for part in parts:
                if variable := getattr(part, "env_var_name", None):
                    raise InvalidInput(
                        f"{info.field_name}: must be known when the definitions are loaded, but Dagster "
                        f"reads a dg.EnvVar when a run starts. Give dg.EnvVar({variable!r}).get_value()"
                    )
        return value if hasattr(value, "env_var_name") else validate(value)

    def of(self, group: type[Settings]) -> dict[str, Any]:
        """Return the settings that a group declares, by name."""
        return {name: getattr(self, name) for name in group.model_fields}


def without_parser(field: FieldInfo) -> FieldInfo:
    """Return a field with the type and the bounds of a setting, but without its parser."""
    field = copy(field)
    field.metadata = [each for each in field.metadata if not isinstance(each, AfterValidator)]
    return field


_MAX_SHOWN = 80
"""The maximum number of characters of an invalid value that an error repeats."""

_BOUNDS = {
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}
"""By pydantic's type of the error, how a bound is worded."""


def reason_of(error: ValidationError, name: str | None = None) -> str:
    """Return in one line what is wrong with some settings, or with the value of the one that is named."""
    reasons: dict[str, str] = {}
    for details in error.errors():
        setting = name or ".".join(map(str, details["loc"][:1]))  # none if several do not fit together
        reasons.setdefault(setting, _reason(details, setting))  # a union has an error for each of its types
    return "; ".join(reasons.values())


def _reason(details: ErrorDetails, name: str) -> str:
    context = details.get("ctx", {})
    if isinstance(context.get("error"), InvalidInput):
        return str(context["error"])
    match details["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"unknown setting {name[:_MAX_SHOWN]}"
        case bound if bound in _BOUNDS:
            wanted = f"must be {_BOUNDS[bound].format_map(context)}"
        case _:
            wanted = details["msg"].replace("Input should be", "must be")
    return f"{name} {wanted}, not {repr(details['input'])[:_MAX_SHOWN]}"
