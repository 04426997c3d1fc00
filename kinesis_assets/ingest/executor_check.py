"""Check that executors can run the tasks of a run, before anything is planned or changed.

One task imports what tasks need, reads a shard if they read a stream, and writes a file into the folder of
their table.

If no Python worker starts on an executor, Spark reports the reason only in the text of its errors.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from pyarrow.fs import FileType

from kinesis_assets.errors import (
    CallFailed,
    ExecutorUnsuitable,
    KinesisAssetsError,
    LandingFailed,
    RoleNotAssumed,
    StreamError,
    reason_of,
)
from kinesis_assets.ingest.task import client_of
from kinesis_assets.kinesis.listing_retries import list_shards
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.calls import is_throttled
from kinesis_assets.retry import Backoff, RetryPolicy, retry
from kinesis_assets.spark.local_settings import CHECKED
from kinesis_assets.spark.probe_task import examine
from kinesis_assets.spark.session import wrap_spark_errors
from kinesis_assets.spark.worker_daemon import TASK_MODULES
from kinesis_assets.table.clocks import TOLERANCE
from kinesis_assets.table.store.storage import write_new
from kinesis_assets.table.store.suitability import PROBES_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.store.storage import TableFolder


_LATEST = Position(PositionKind.LATEST)

_ATTEMPTS = RetryPolicy(3, Backoff(0.5, 1.0))
"""One wrong response must not refuse an executor."""


@dataclass(frozen=True, slots=True)
class ShardCheck:
    """The shard of a stream that an executor reads, which waits for responses as long as the tasks of a run.

    It can be pickled and holds no secrets.

    Attributes:
        stream: Its name or ARN.
        shard_id: None if the stream has no open one.
    """

    stream: str
    settings: ClientSettings
    shard_id: str | None

    @classmethod
    def of(cls, client: StreamClient) -> Self:
        """Return the check of a client's stream. Raises `StreamError` if the shards cannot be listed."""
        listing = list_shards(client)
        shard_id = next((shard.shard_id for shard in listing.shards if not shard.closed), None)
        return cls(str(client.address), client.settings, shard_id)

    def __call__(self) -> str | None:
        """Return what failed; None if nothing did."""
        try:
            client = client_of(self.stream, self.settings)
        except RoleNotAssumed as refused:
            return str(refused)
        if self.shard_id is None:
            return None
        attempt = partial(_read, client, self.shard_id)
        try:
            retry(attempt, on=CallFailed, policy=_ATTEMPTS, sleep=self.settings.timing.clock.sleep)
        except CallFailed as failed:
            return failed.reason
        return None


def _read(client: StreamClient, shard_id: str) -> None:
    """Read a page of a shard. What does not depend on the executor is left to the run."""
    try:
        client.get_records(client.shard_iterator(shard_id, _LATEST), 1)
    except CallFailed as error:
        if not is_throttled(error):
            raise
    except StreamError:
        pass


@dataclass(frozen=True, slots=True)
class ExecutorCheck:
    """The checks that an executor makes. It can be pickled and holds no secrets.

    Attributes:
        shard: What it reads of a stream; None if it reads none.
        file: Path of the file to write, relative to the folder.
    """

    shard: ShardCheck | None
    folder: TableFolder
    file: str

    def __call__(self) -> str | None:
        """Return what failed; None if nothing did."""
        if self.shard is not None and (failure := self.shard()) is not None:
            return failure
        try:
            write_new(self.folder.open(), self.file).close()
        except (OSError, KinesisAssetsError) as error:
            return f"{self.folder.uri} cannot be written to: {reason_of(error)}"
        return None


def check_executors(
    spark: SparkSession, subject: str, folder: TableFolder, client: StreamClient | None = None
) -> None:
    """Check an executor of a session, once for each table.

    A session whose tasks run in the environment of this process is not checked.

    Args:
        subject: What the tasks work for, such as "stream orders", for errors.
        folder: That of the table that they write.
        client: The stream that they read; None if they read none.

    Raises:
        ExecutorUnsuitable: The executor cannot run tasks, assume the role, reach the stream or write to the
            table; or its clock differs from this machine's by more than `clocks.TOLERANCE`.
        StreamError: The shards cannot be listed.
    """
    checked = spark.conf.get(CHECKED, folder.uri) or ""
    if folder.uri in checked.splitlines():
        return
    shard = None if client is None else ShardCheck.of(client)
    file = f"{PROBES_FOLDER}/{uuid4().hex}"
    check = ExecutorCheck(shard, folder, file)
    before = time.time()
    facts = _examined(spark, subject, check)
    after = time.time()
    where = f"{subject}: on an executor ({facts['host']}, {facts['python']}): "
    _refuse_failures(where, facts)
    _refuse_other_folder(where, folder, file)
    _refuse_other_clock(where, facts["time"], before, after)
    spark.conf.set(CHECKED, f"{checked}{folder.uri}\n")


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
        with wrap_spark_errors(f"{subject}: on an executor"):
            row = spark.range(0, 1, 1, 1).select(probe("id")).first()
    except LandingFailed as error:
        failure = start_failure(str(error.__cause__))
        raise ExecutorUnsuitable(f"{subject}: {failure}" if failure else str(error)) from error
    facts: dict[str, Any] = json.loads(row[0]) if row else {}
    return facts


# The first group is the version of the executor. PySpark 3.5 gives it as a tuple.
_OTHER_VERSION = re.compile(r"Python in worker has different version:? (.+?) than that in driver")
# What the JVM reports, or the last line that the interpreter has printed.
_NOT_STARTED = re.compile(
    r"Cannot run program ([^\n]+)|Error from python worker:.*?([^\n]*\S)\s*PYTHONPATH was", re.DOTALL
)
_HOST = re.compile(r"\(TID \d+\) \((\S+) executor ")


def start_failure(text: str) -> str | None:
    """Return why no worker started, where, and what to do; None if that is not the reason of an error."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if other := _OTHER_VERSION.search(text):
        reason = f"Python is {other[1]}, and {version} on this machine, but Spark requires the same version"
    elif failed := _NOT_STARTED.search(text):
        reason = f"the Python interpreter does not start: {(failed[1] or failed[2]).strip()}"
    else:
        return None
    host = _HOST.search(text)
    return (
        f"on an executor{f' ({host[1]})' if host else ''}: {reason}. Set python_executable to an interpreter "
        f"of Python {version} on the executors, or python_environment to an archive for that version, which "
        f"uses python{version} on their PATH"
    )
