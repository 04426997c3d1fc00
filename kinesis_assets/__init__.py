"""Kinesis streams as Dagster assets.

A stream is an asset, and each of its shards is a partition. A materialization runs one bounded PySpark job
over the shard's next range, and moves the shard's position in the same table commit that adds the rows.
"""

# ruff: noqa: F403, F405  # type checkers find the error classes in their module, and __all__ names each

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinesis_assets.dagster.build import build_kinesis_stream
    from kinesis_assets.dagster.components.account_component import KinesisAccountComponent
    from kinesis_assets.dagster.components.stream_component import KinesisStreamComponent
    from kinesis_assets.dagster.components.table_component import (
        KinesisRoutesComponent,
        KinesisTableComponent,
    )
    from kinesis_assets.dagster.components.yaml_component import KinesisAssetProps
    from kinesis_assets.dagster.derived.derived_asset import after_landing, derived_table, rollup
    from kinesis_assets.dagster.io_manager import ShardIOManager
    from kinesis_assets.dagster.kinesis_resource import KinesisResource
    from kinesis_assets.dagster.table_rows import new_rows, read_table
    from kinesis_assets.derive.cursor import Cursor
    from kinesis_assets.derive.new_rows import NewRows
    from kinesis_assets.derive.policy import OnDeleted
    from kinesis_assets.errors import *
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.kinesis.position import Position, PositionKind
    from kinesis_assets.kinesis.reading.range import Bounds
    from kinesis_assets.spark.data_source import KinesisDataSource

__version__ = "0.1.0"

__all__ = [
    "AttemptExpired",
    "BadRecordsRefused",
    "Bounds",
    "CallFailed",
    "CatalogFailed",
    "ClocksDisagree",
    "CommitFailed",
    "CommitOvertaken",
    "CommitUnknown",
    "Cursor",
    "CursorConflict",
    "DataFileInvalid",
    "DataLost",
    "DerivedTablesFailed",
    "ExecutorUnsuitable",
    "InvalidInput",
    "JavaUnavailable",
    "KinesisAccountComponent",
    "KinesisAssetProps",
    "KinesisAssetsError",
    "KinesisDataSource",
    "KinesisResource",
    "KinesisRoutesComponent",
    "KinesisStreamComponent",
    "KinesisTableComponent",
    "LandingFailed",
    "LeaseTableFailed",
    "LeasesRefused",
    "MaintenanceFailed",
    "NewRows",
    "OnDeleted",
    "ParentUnfinished",
    "PastChanged",
    "PauseUnreadable",
    "Position",
    "PositionConflict",
    "PositionKind",
    "PositionsMissing",
    "PositionsUnreadable",
    "ReadFailed",
    "RegistryCallFailed",
    "ReplayUnfinished",
    "RoleNotAssumed",
    "RunCanceled",
    "RunPlan",
    "SchemaChangeRefused",
    "SeekRefused",
    "ServiceTimeUncertain",
    "ShardError",
    "ShardIOManager",
    "ShardLeftOut",
    "ShardListIncomplete",
    "ShardListStale",
    "ShardSilent",
    "ShardStalled",
    "ShardThrottled",
    "ShardUnknown",
    "ShardVanished",
    "ShardsNotCommitted",
    "SourceCommitsMissing",
    "SourceRowsDeleted",
    "SourceRowsMissing",
    "SparkServerFailed",
    "StoreUnsuitable",
    "StreamError",
    "StreamNotFound",
    "StreamPaused",
    "StreamRecreated",
    "StreamsNotListed",
    "TableError",
    "TableMissing",
    "TableNotWritable",
    "TableOfAnotherSource",
    "TableOfAnotherStream",
    "TableRewritten",
    "TableUnreachable",
    "TableUnsuitable",
    "TickTooLong",
    "TooManyBadRecords",
    "UpsertOvertaken",
    "after_landing",
    "build_kinesis_stream",
    "derived_table",
    "new_rows",
    "read_table",
    "rollup",
]

# Names are imported on first use, because Spark's workers import this package and need neither Dagster nor
# Delta. Every name that is not listed here is an error class.
_HOMES = {
    "Bounds": "kinesis.reading.range",
    "Cursor": "derive.cursor",
    "NewRows": "derive.new_rows",
    "OnDeleted": "derive.policy",
    "after_landing": "dagster.derived.derived_asset",
    "derived_table": "dagster.derived.derived_asset",
    "new_rows": "dagster.table_rows",
    "read_table": "dagster.table_rows",
    "rollup": "dagster.derived.derived_asset",
    "KinesisAccountComponent": "dagster.components.account_component",
    "KinesisAssetProps": "dagster.components.yaml_component",
    "KinesisDataSource": "spark.data_source",
    "KinesisResource": "dagster.kinesis_resource",
    "KinesisRoutesComponent": "dagster.components.table_component",
    "KinesisStreamComponent": "dagster.components.stream_component",
    "KinesisTableComponent": "dagster.components.table_component",
    "Position": "kinesis.position",
    "PositionKind": "kinesis.position",
    "RunPlan": "ingest.plan",
    "ShardIOManager": "dagster.io_manager",
    "build_kinesis_stream": "dagster.build",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
