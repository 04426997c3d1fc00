"""The Delta properties of a new table, and how long files and log entries are kept."""

from __future__ import annotations

from datetime import timedelta

from kinesis_assets.table.data_files.data_file import STATISTICS

VACUUM_RETENTION = timedelta(days=7)
"""Files that no commit refers to are kept for at least this long after they were written."""

HISTORY_RETENTION = timedelta(days=1)
"""Older versions of the table stay readable for this long: log entries that a checkpoint covers, and the
tombstones of removed files, are kept until then. Spark's VACUUM keeps uncommitted files for as long.

Commits do not depend on older entries: a commit that is based on a version whose entry was deleted is refused
and tried again. Longer retention makes opening the table slower: a reader skips each tombstone and, in a
local folder, each entry. In a bucket it lists only the entries after the newest checkpoint."""

DELETED_RETENTION = "delta.deletedFileRetentionDuration"

STATISTICS_PROPERTY = "delta.dataSkippingStatsColumns"
"""The columns whose statistics readers use to skip files."""

HISTORY_PROPERTIES = {
    "delta.logRetentionDuration": f"interval {HISTORY_RETENTION.days} days",
    DELETED_RETENTION: f"interval {HISTORY_RETENTION.days} days",
}
"""A table where one of them has another value keeps its own values of both."""

TABLE_PROPERTIES = HISTORY_PROPERTIES | {
    # Replay and doctor skip files by these statistics. Those of `data` would only make the log larger.
    STATISTICS_PROPERTY: ",".join(STATISTICS),
    # Opening the table takes one request for the newest checkpoint and one for each later entry. Writing a
    # checkpoint takes time in proportion to the table's files and tombstones.
    "delta.checkpointInterval": "20",
}
"""The properties of a new table. Maintenance adds those that an older table lacks."""
