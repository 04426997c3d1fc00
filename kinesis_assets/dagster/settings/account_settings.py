"""The settings of the streams of an account: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from dagster.components import DefsStateConfigArgs
from pydantic import Field, model_validator

from kinesis_assets.dagster.settings.settings_base import Settings, Texts, valid
from kinesis_assets.dagster.settings.stream_settings import SharedSettings, StreamSettings
from kinesis_assets.dagster.settings.yaml_model import overrides_model
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    StreamOverrides = Mapping[str, Any]
else:
    StreamOverrides = overrides_model(StreamSettings, without={"stream", "region_name"})

_STREAM = "{stream}"


def table_of(template: str, stream: str) -> str:
    """Return the path or URI of a stream's table."""
    table = template.replace(_STREAM, stream)
    if _STREAM not in template or {*"{}"} & {*table}:
        raise InvalidInput(f"table: {_STREAM} must be in it, as the only part in braces")
    if {".", ".."} & {*table.split("/")} - {*template.split("/")}:
        raise InvalidInput(
            f"table: stream {stream} would have the table {table}; exclude it, or change table"
        )
    TableFolder.at(table)
    return table


def _check_state(state: DefsStateConfigArgs) -> None:
    if state.management_type.value == "LEGACY_CODE_SERVER_SNAPSHOTS":
        raise InvalidInput(
            "defs_state: LEGACY_CODE_SERVER_SNAPSHOTS remembers no stream, so that one which is missing in a "
            "list would lose its assets; use LOCAL_FILESYSTEM or VERSIONED_STATE_STORAGE"
        )


class StreamSelection(Settings):
    """Which streams of an account have assets, and in what they differ."""

    stream_names: Texts = Field(
        default=("*",),
        min_length=1,
        description="Patterns of the names of the streams, with the wildcards *, ? and [...]. By default all "
        "streams of the account in this region.",
        examples=[["orders-*", "clicks"]],
    )
    stream_tags: Mapping[str, str] = Field(
        default={},
        description="Tags in AWS that the streams must have too, with their values.",
        examples=[{"team": "shop"}],
    )
    exclude: Texts = Field(
        default=(),
        description="Patterns of the names of streams that have no assets.",
        examples=[["*-test"]],
    )
    table: Annotated[str, valid(lambda template: table_of(template, "stream"))] = Field(
        description="Path or URI (s3://, file://) of each stream's Delta table, "
        "with {stream} for the stream's name.",
        examples=["s3://my-lake/{stream}_raw"],
    )
    streams: Mapping[str, StreamOverrides] = Field(
        default={},
        description="By the name of a stream, its own values of these settings.",
        examples=[{"orders": {"start": "LATEST", "table": "s3://my-lake/orders"}}],
    )
    defs_state: Annotated[DefsStateConfigArgs, valid(_check_state)] = Field(
        default=DefsStateConfigArgs.local_filesystem(),
        description="Where Dagster stores the list of streams. `dg utils refresh-defs-state` refreshes it.",
        examples=[{"management_type": "VERSIONED_STATE_STORAGE"}],
    )


class AccountSettings(SharedSettings, StreamSelection):
    """All settings of an account: the fields of the YAML of `KinesisAccountComponent`."""

    @model_validator(mode="after")
    def _check_catalog(self) -> Self:
        """Replace the check of `TableInFormat`, which is made of each stream: it may have its own catalog."""
        if "name" in self.catalog:
            raise InvalidInput("catalog: name: all streams would have one entry; give it in streams")
        return self
