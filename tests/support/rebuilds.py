"""A derived table of a project, with rows that a test writes without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.table.commit_ids import new_id
from support.plain_derived import PlainDerived

if TYPE_CHECKING:
    from pathlib import Path

    from kinesis_assets.derive.commit_entry import Kind

SHARD = "shardId-000000000000"


@dataclass
class OwnedTable:
    """The derived table `numbers` of a stream, below which is the roll-up `counts`."""

    project: StreamProject
    derived: PlainDerived

    @classmethod
    def with_rows(cls, project: StreamProject, folder: Path) -> OwnedTable:
        """Read the stream's records, and create the table with two rows and no definition."""
        path = str(folder / "numbers")

        @derived_table(source=project.stream, table=path)
        def numbers(new: Any) -> Any:
            return new

        @rollup(source=project.stream, upstream="numbers", table=str(folder / "counts"), by=["key"])
        def counts(rows: Any) -> Any:
            return rows

        with project.open_stream() as opened:
            plan = plan_run(opened.client, opened.table, asked=[SHARD], policy=ReadPolicy())
            execute_run(land_group, opened.client, opened.table, plan)
            source = open_source(opened.table.uri)
        derived = PlainDerived(path, source.id, partitioned=False)
        derived.append((1, 1, None), (2, 2, None), cursor=source.end)
        definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[numbers, counts]))
        return cls(StreamProject(project.stream, definitions), derived)

    @property
    def assets(self) -> Any:
        """The assets of the code location, by key."""
        return self.project.definitions.get_repository_def().assets_defs_by_key

    @property
    def version(self) -> int:
        """The version of the derived table."""
        return self.derived.table.snapshot().delta.version()

    def define(self, owner: str, kind: Kind, *key: str, consumed: int | None = None) -> None:
        """Commit an owner, a definition and a number of consumed rows."""
        newest = self.derived.table.snapshot().newest
        assert newest is not None
        commit(
            self.derived.table,
            Attempt(
                cursor=newest.cursor,
                batch_id=new_id(),
                definition=Definition(owner=owner, kind=kind, key=key),
                consumed=consumed,
            ),
            expected=newest.commit_id,
        )
