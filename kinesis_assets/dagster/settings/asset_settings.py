"""The settings of an asset in Dagster, which streams and derived tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from kinesis_assets.dagster.settings.freshness import FreshnessField
from kinesis_assets.dagster.settings.settings_base import Settings, Texts, valid
from kinesis_assets.errors import InvalidInput

_OF_ASSET = " for asset 'AssetKey(['table'])'"


def _accepted_as(name: str) -> Callable[[Any], None]:
    """Return a parser of a field that Dagster's own specification of an asset has too."""

    def check(value: Any) -> None:
        import dagster as dg  # noqa: PLC0415  # the command line has the settings before it needs Dagster

        given: dict[str, Any] = {name: value or None}
        reason = None
        try:
            dg.AssetSpec("table", **given)
        except Exception as error:  # noqa: BLE001  # Dagster raises errors of many classes
            reason = " ".join(str(error).replace(_OF_ASSET, "").split())
        if reason is not None:
            raise InvalidInput(f"{name}: {reason}")

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
    kinds: Annotated[Texts, valid(_accepted_as("kinds"))] = Field(
        default=("pyspark", "deltalake"),
        description="Kinds of the table's asset, which Dagster shows as icons.",
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
