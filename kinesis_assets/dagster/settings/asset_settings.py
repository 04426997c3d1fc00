"""The settings of an asset in Dagster: group, owners and tags, key prefix, and freshness policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field, model_validator

from kinesis_assets.dagster.settings.settings_base import (
    UNIT,
    SchemaFrom,
    Settings,
    Texts,
    map_schema,
    naming,
    valid,
)
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.stream import NAME

if TYPE_CHECKING:
    import dagster as dg


_SHORTEST_WINDOW = 60
"""Seconds; Dagster refuses shorter windows."""

_LONGEST_WINDOW = 1_000_000_000
"""Seconds, 31 years; Dagster's API has none above 68 years."""


class Freshness(Settings):
    """The windows of a freshness policy."""

    fail_after_seconds: float = Field(
        ge=_SHORTEST_WINDOW,
        le=_LONGEST_WINDOW,
        allow_inf_nan=False,
        description="Age of the latest materialization from which the asset fails its freshness policy.",
        examples=[3600],
        json_schema_extra={UNIT: "seconds"},
    )
    warn_after_seconds: float | None = Field(
        default=None,
        ge=_SHORTEST_WINDOW,
        le=_LONGEST_WINDOW,
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
    """Return the freshness policy of the setting `freshness`; None without one."""
    if freshness is None:
        return None
    import dagster as dg  # noqa: PLC0415  # the command line loads the settings without Dagster

    windows = _parsed(freshness)
    warn = windows.warn_after_seconds
    return dg.FreshnessPolicy.time_window(
        fail_window=timedelta(seconds=windows.fail_after_seconds),
        warn_window=None if warn is None else timedelta(seconds=warn),
    )


def _parsed(freshness: Mapping[str, Any]) -> Freshness:
    with naming("freshness"):
        return Freshness(**freshness)


FreshnessField = Annotated[
    Mapping[str, Any] | None,
    valid(_parsed),
    SchemaFrom(lambda: {"anyOf": [map_schema(Freshness), {"type": "null"}]}),
]


_OF_ASSET = " for asset 'AssetKey(['table'])'"


def _accepted_as(name: str) -> Callable[[Any], None]:
    """Return a parser of a field that Dagster's own specification of an asset has too."""

    def check(value: Any) -> None:
        import dagster as dg  # noqa: PLC0415  # the command line has the settings before it needs Dagster

        given: dict[str, Any] = {name: value or None}
        try:
            dg.AssetSpec("table", **given)
        except Exception as error:  # noqa: BLE001  # Dagster raises errors of many classes
            reason = " ".join(str(error).replace(_OF_ASSET, "").split())
            raise InvalidInput(f"{name}: {reason}") from None

    return check


class AssetSettings(Settings):
    """How Dagster shows an asset and finds it."""

    group_name: Annotated[str | None, valid(_accepted_as("group_name"))] = Field(
        default=None,
        description="Asset group in Dagster. By default it has the name of the stream.",
        examples=["sales"],
    )
    owners: Annotated[Texts, valid(_accepted_as("owners"))] = Field(
        default=(),
        description="Owners of the asset: email addresses, and teams as team:name.",
        examples=[["team:sales", "ada@example.com"]],
    )
    tags: Annotated[Mapping[str, str], valid(_accepted_as("tags"))] = Field(
        default={},
        description="Tags of the asset.",
        examples=[{"domain": "sales"}],
    )
    kinds: Annotated[Texts | None, valid(_accepted_as("kinds"))] = Field(
        default=None,
        description="Kinds of the table's asset, which Dagster shows as icons. By default pyspark and the "
        "format of the table: deltalake or iceberg.",
        examples=[["deltalake", "bronze"]],
    )
    freshness: FreshnessField = Field(
        default=None,
        description="Freshness policy of the asset, by the age of its latest materialization. For a raw "
        "table, the check of its lag says more, see docs/checks.md.",
        examples=[{"fail_after_seconds": 3600, "warn_after_seconds": 1800}],
    )


class DescribedAsset(Settings):
    """The description of an asset."""

    description: str | None = Field(
        default=None,
        description="Description of the table's asset, in Markdown. By default it names the source and "
        "the table.",
        examples=["Orders of the web shop, as the checkout sends them."],
    )


KEY_PREFIX: Final = ("kinesis",)
"""The prefix of a stream whose settings have none."""


def prefix_of(key_prefix: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts of the setting `key_prefix`. A text is a single part."""
    parts = (key_prefix,) if isinstance(key_prefix, str) else tuple(key_prefix)
    if not parts:
        raise InvalidInput("key_prefix: give at least one part")
    for part in parts:
        if not NAME.fullmatch(part):
            raise InvalidInput(
                f"key_prefix: invalid part {part[:80]!r}: give a list of parts, each of 1 to 128 letters, "
                "digits, '_', '.' or '-'"
            )
    return parts


KeyPrefix = Annotated[str | Sequence[str], valid(prefix_of)]
