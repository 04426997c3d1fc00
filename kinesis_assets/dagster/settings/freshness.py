"""Freshness policies: how old the latest materialization of an asset may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from kinesis_assets.dagster.settings.settings_base import UNIT, SchemaFrom, Settings, map_schema, valid
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    import dagster as dg


class Freshness(Settings):
    """The windows of a freshness policy."""

    fail_after_seconds: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="Age of the latest materialization from which the asset fails its freshness policy.",
        examples=[3600],
        json_schema_extra={UNIT: "seconds"},
    )
    warn_after_seconds: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Age from which Dagster warns. It must be less than that of a failure.",
        examples=[1800],
        json_schema_extra={UNIT: "seconds"},
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.warn_after_seconds is not None and self.warn_after_seconds >= self.fail_after_seconds:
            raise InvalidInput("warn_after_seconds must be less than fail_after_seconds")
        return self


def policy_of(freshness: Mapping[str, Any] | None) -> dg.FreshnessPolicy | None:
    """Return the freshness policy of the setting `freshness`; None without one.

    Raises:
        InvalidInput: A setting is unknown or invalid.
    """
    windows = _parsed(freshness)
    if windows is None:
        return None
    import dagster as dg  # noqa: PLC0415  # the command line loads the settings without Dagster

    warn = windows.warn_after_seconds
    return dg.FreshnessPolicy.time_window(
        fail_window=timedelta(seconds=windows.fail_after_seconds),
        warn_window=None if warn is None else timedelta(seconds=warn),
    )


def _parsed(freshness: Mapping[str, Any] | None) -> Freshness | None:
    if freshness is None:
        return None
    try:
        return Freshness(**freshness)
    except InvalidInput as error:
        raise InvalidInput(f"freshness: {error}") from None


def _schema() -> dict[str, Any]:
    return {"anyOf": [map_schema(Freshness), {"type": "null"}]}


FreshnessField = Annotated[Mapping[str, Any] | None, valid(_parsed), SchemaFrom(_schema)]
"""The type of the setting `freshness`: a map that `policy_of` accepts."""
