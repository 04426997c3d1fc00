"""The common settings of all checks: a severity, and a map of them by name, as in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from kinesis_assets.dagster.settings.settings_base import Settings, map_schema
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

Severity = Literal["WARN", "ERROR"]

SCANNING = frozenset({"no_duplicates"})
"""The checks that read rows, and are evaluated only when somebody executes them."""

OFF = "off"
"""The value of a check that is not defined. YAML reads it without quotes as false."""

SEVERITY = "Severity of the check's failure in Dagster."
"""The description of the severity of every check."""


class CheckSettings(Settings):
    """The settings of every check.

    Attributes:
        severity: Severity of its failure.
    """

    severity: Severity = Field(default="ERROR", description=SEVERITY, examples=["ERROR"])

    @classmethod
    def summary(cls) -> str:
        """Return what the check claims, in one line."""
        return (cls.__doc__ or "").splitlines()[0]


class NamedChecks(Settings):
    """The checks of a table by name: each field is one. None is a check that is not defined.

    Raises:
        InvalidInput: A setting is unknown or invalid.
    """

    @field_validator("*", mode="before")
    @classmethod
    def _parse(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        kind = cls._kind(name)
        if value is None or isinstance(value, kind):
            return value
        if value is False or value == OFF:
            return None
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} must be off or a map of its settings, not {repr(value)[:80]}")
        try:
            return kind(**value)
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error}") from None

    @property
    def defined(self) -> Iterator[tuple[str, CheckSettings]]:
        """The name and the settings of each check that is defined."""
        for name in type(self).model_fields:
            check = getattr(self, name)
            if check is not None:
                yield name, check

    @property
    def reading_no_rows(self) -> list[str]:
        """The names of the checks that are defined and evaluated without being executed."""
        return [name for name, _ in self.defined if name not in SCANNING]

    def scan_is_requested(self, selected: Collection[str], *, materializes: bool) -> bool:
        """Return whether a run is to evaluate the checks that read rows.

        A selection of assets includes all their checks. So in a run that materializes the table, only a
        selection without the other checks is a request.

        Args:
            selected: The names of the table's checks in the run's selection.
            materializes: Whether the run materializes the table.
        """
        if not SCANNING.intersection(selected):
            return False
        return not materializes or (SCANNING.issuperset(selected) and any(self.reading_no_rows))

    @classmethod
    def parse(cls, checks: Mapping[str, Any]) -> Self:
        """Return the checks of a map, as in YAML. A check that is not in it has its defaults.

        Raises:
            InvalidInput: A setting is unknown or invalid.
        """
        try:
            return cls(**checks)
        except InvalidInput as error:
            raise InvalidInput(f"checks: {error}") from None

    def without(self, names: Iterable[str], reason: str) -> Self:
        """Return these checks without some that the table cannot have.

        Args:
            names: The names of these checks.
            reason: When a table can have them, for the error.

        Raises:
            InvalidInput: One of them was given.
        """
        names = list(names)
        for name in names:
            if name in self.model_fields_set and getattr(self, name) is not None:
                raise InvalidInput(f"checks: {name}: {reason}; remove it")
        return self.model_copy(update=dict.fromkeys(names))

    @classmethod
    def map_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of the map, without references, so that it can be a part of any other."""
        checks: dict[str, Any] = {}
        for name in cls.model_fields:
            kind = cls._kind(name)
            checks[name] = {
                "description": kind.summary(),
                "anyOf": [map_schema(kind), {"enum": [OFF, False]}],
            }
        return {"type": "object", "properties": checks, "additionalProperties": False}

    @classmethod
    def _kind(cls, name: str) -> type[CheckSettings]:
        """Return the class of a check's settings, of which the default is an instance."""
        return type(cls.model_fields[name].default)
