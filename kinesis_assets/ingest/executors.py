"""Check that executors can run the tasks of a run, before anything is planned or changed.

One task imports what tasks need, reads a shard, and writes a file into the table's folder.
"""

from __future__ import annotations

import json
import pickle
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileType

from kinesis_assets.errors import CallFailed, ExecutorUnsuitable, KinesisAssetsError, LandingFailed
from kinesis_assets.ingest.task import client_of
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.retry_policy import is_throttled
from kinesis_assets.kinesis.reading.unread_records import Probe, Prober
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.spark.probe_task import examine
from kinesis_assets.spark.session import wrap_spark_errors
from kinesis_assets.spark.setting_names import CHECKED
from kinesis_assets.spark.task_modules import TASK_MODULES
from kinesis_assets.table.clocks import TOLERANCE
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.conditional_puts import PROBES_FOLDER
from kinesis_assets.table.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.storage import TableFolder
    from kinesis_assets.table.table import PositionedTable

_SECONDS = 30.0
"""The time for the calls of an executor."""


@dataclass(frozen=True, slots=True)
class ExecutorCheck:
    """What an executor tries. It can be pickled and holds no secrets.

    Attributes:
        stream: The stream's name or ARN.
        settings: The client's settings.
        shard_id: A shard to read; None if the stream has no open one.
        since: Where to read it from.
        folder: The table's folder.
        file: Path of the file to write, relative to the folder.
    """

    stream: str
    settings: ClientSettings
    shard_id: str | None
    since: datetime
    folder: TableFolder
    file: str

    def __call__(self) -> str | None:
        """Return what failed; None if nothing did."""
        if self.shard_id is not None:
            prober = Prober(client_of(self.stream, self.settings), _SECONDS)
            prober.probe([Probe(self.shard_id, Position.at_timestamp(self.since), self.since, None)])
            error = prober.error
            if isinstance(error, CallFailed) and not is_throttled(error):
                return str(error)
        try:
            write_new(self.folder.open(), self.file).close()
        except (OSError, KinesisAssetsError) as error:
            return f"table {self.folder.uri}: cannot be written to: {error}"
        return None


def check_executors(spark: SparkSession, client: StreamClient, table: PositionedTable) -> None:
    """Check an executor of a session, once for each stream and table.

    A session whose tasks run in the environment of this process is not checked.

    Raises:
        ExecutorUnsuitable: The executor cannot run tasks, reach the stream or write to the table; or its
            clock differs from this machine's by more than `clocks.TOLERANCE`.
        StreamError: The shards cannot be listed.
    """
    subject = f"{client.address} {table.uri}"
    if spark.conf.get(CHECKED, subject) == subject:
        return
    listing = retry_listing(client, lambda each: each)
    shard_id = next((shard.shard_id for shard in listing.shards if not shard.closed), None)
    file = f"{PROBES_FOLDER}/{new_id(table.clock)}"
    check = ExecutorCheck(
        str(client.address), client.settings, shard_id, listing.summary.service_time, table.folder, file
    )
    before = time.time()
    facts = _examined(spark, f"stream {client.stream}", check)
    after = time.time()
    where = f"stream {client.stream}: on an executor ({facts['host']}, {facts['python']}): "
    _refuse_failures(where, facts)
    _refuse_other_folder(where, table.folder, file)
    _refuse_other_clock(where, facts["time"], before, after)
    spark.conf.set(CHECKED, subject)


def _refuse_failures(where: str, facts: Mapping[str, Any]) -> None:
    if facts["missing"]:
        raise ExecutorUnsuitable(
            f"{where}{facts['missing']}. Install the packages that tasks import, or set python_environment "
            "to an archive that `kinesis-assets spark environment` creates"
        )
    if facts["error"]:
        raise ExecutorUnsuitable(
            f"{where}{facts['error']}. Tasks need credentials, rights and a network path of their own, see "
            "docs/permissions.md"
        )


def _refuse_other_folder(where: str, folder: TableFolder, file: str) -> None:
    """Check that this machine finds the file that the executor wrote, and delete it."""
    files = folder.open()
    if files.get_file_info(file).type is FileType.NotFound:
        raise ExecutorUnsuitable(
            f"{where}a file that it wrote into {folder.uri} is not found by this machine. Use a bucket, or a "
            "folder that all machines share"
        )
    with suppress(OSError):  # it is empty, and nothing refers to it
        files.delete_file(file)


def _refuse_other_clock(where: str, theirs: float, before: float, after: float) -> None:
    """Check the executor's time against this machine's times before and after it was read."""
    difference = theirs - after if theirs > after else min(theirs - before, 0.0)
    if abs(difference) > TOLERANCE.total_seconds():
        raise ExecutorUnsuitable(
            f"{where}the clock differs from this machine's by {difference:.0f} s. Set both by NTP"
        )


def _examined(spark: SparkSession, subject: str, check: ExecutorCheck) -> dict[str, Any]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    run = partial(examine, TASK_MODULES, pickle.dumps(check))
    # A function of Arrow data would need packages that may be missing.
    probe = F.udf(lambda _: run(), "string", useArrow=False)
    try:
        with wrap_spark_errors(subject):
            row = spark.range(0, 1, 1, 1).select(probe("id")).first()
    except LandingFailed as error:
        raise ExecutorUnsuitable(f"on an executor: {error}") from error
    facts: dict[str, Any] = json.loads(row[0]) if row else {}
    return facts
