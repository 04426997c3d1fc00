"""The properties of a table that has no others, and how long its files and log are kept."""

from __future__ import annotations

from datetime import timedelta

from kinesis_assets.table.data_file import STATISTICS

VACUUM_RETENTION = timedelta(days=7)
"""Files that no commit points at are kept at least so long from when they were written."""

HISTORY_RETENTION = timedelta(days=1)
"""Older versions can be read for so long: entries of the log that are summed up, and the tombstones of files
that were taken out, are kept until then. Spark's VACUUM spares what no commit points at yet for as long.

No commit needs them: one that began before an entry that is gone is refused, and looks again. Whoever opens
the table passes over each tombstone, and in a local folder over each entry; a bucket lists what follows the
newest checkpoint."""

DELETED_RETENTION = "delta.deletedFileRetentionDuration"

HISTORY_PROPERTIES = {
    "delta.logRetentionDuration": f"interval {HISTORY_RETENTION.days} days",
    DELETED_RETENTION: f"interval {HISTORY_RETENTION.days} days",
}
"""Who has one of them longer wants the other as long."""

TABLE_PROPERTIES = HISTORY_PROPERTIES | {
    # Replay and the doctor prune files by these; no other writer may spend the log on those of `data`.
    "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
    # Who opens the table reads the newest checkpoint and each entry after it, with a request for each. A
    # checkpoint costs its writer what files and tombstones there are.
    "delta.checkpointInterval": "20",
}
"""Of a table that has no other values of its own."""
