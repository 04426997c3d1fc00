"""A stream and its table, damaged in ways that no run would, and what the doctor finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.dagster.event_audit import EventAudit
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.operations.doctor.examine import examine
from kinesis_assets.operations.doctor.finding import Finding, Level
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.positions_chain import positions_path
from support.bench import Bench

if TYPE_CHECKING:
    import dagster as dg


class DoctorBench(Bench):
    """A bench whose table a doctor examines."""

    def ingest(self) -> None:
        """Create a stream of two shards, and read it in three commits with five records each."""
        first, second = self.create(2)
        for number in range(0, 15, 5):
            self.put(*range(number, number + 3), shard_id=first)
            self.put(*range(number + 3, number + 5), shard_id=second)
            self.run()

    @property
    def numbers(self) -> list[str]:
        """The sequence numbers of the first shard."""
        first = self.acknowledged[0][0]
        return [number for shard_id, number, _ in self.acknowledged if shard_id == first]

    def rewrite_range(self, shard_id: str, **changes: Any) -> None:
        """Change facts about a shard's range in the current positions file, as someone might by hand."""
        now = self.positions
        stats = msgspec.structs.replace(now.added[shard_id], **changes)
        changed = msgspec.structs.replace(now, added=now.added | {shard_id: stats})
        with self.table.files.open_output_stream(positions_path(now.commit_id)) as sink:
            sink.write(positions_file.encode(changed))

    # The doctor

    def findings(
        self, *, instance: dg.DagsterInstance | None = None, add_events: bool = False, **fields: Any
    ) -> list[Finding]:
        if instance is not None:
            fields["audit_events"] = EventAudit(
                instance, StreamNames(self.stream), self.table, add_events=add_events
            )
        return list(examine(self.client, self.table, **fields))

    def levels(self, **fields: Any) -> dict[str, set[str]]:
        """Return the levels of the findings by check."""
        levels: dict[str, set[str]] = {}
        for finding in self.findings(**fields):
            levels.setdefault(finding.check, set()).add(str(finding.level))
        return levels

    def problems(self, **fields: Any) -> list[tuple[str, str | None, str]]:
        """Return check, shard and sentence of each problem."""
        return [
            (finding.check, finding.shard, finding.sentence)
            for finding in self.findings(**fields)
            if finding.level is Level.PROBLEM
        ]

    def sentences(self, check: str, **fields: Any) -> list[str]:
        """Return the sentences of the findings of one check."""
        return [finding.sentence for finding in self.findings(**fields) if finding.check == check]
