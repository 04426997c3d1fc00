"""The errors that the package raises, in one tree under `KinesisAssetsError`, without credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MASK = "***"
"""The text that replaces a credential."""

_SECRETS = re.compile(
    # If AWS rejects a signature, it repeats the request's headers. This one is a credential.
    r"(?<=x-amz-security-token)[:=]\s*[^\s<>&'\"]+"
    r"|(?<=<token-\d>)[^<]+"  # S3 repeats a token that it rejects
    r"|(?<=//)[^\s<>'\"/]*:[^\s<>'\"@]*@",
    re.IGNORECASE,
)

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def mask_secrets(text: str) -> str:
    """Return a text without session tokens and passwords in URLs."""
    return _SECRETS.sub(MASK, text)


def without_secrets(text: str) -> str:
    """Return a message as one printable line, without session tokens and passwords in URLs."""
    line = mask_secrets(" ".join(_COLOURS.sub("", text).split()))
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in line
    )


_NAMED = 3  # how many shards an error about a whole stream names; it counts the others


class KinesisAssetsError(Exception):
    """Base of every error that the package raises. Its message is one line and contains no secrets.

    Attributes:
        reason: What happened, without what it happened to and without the advice.
        advice: What to do; empty if the reason says it.
    """

    _advice = ""

    def __init__(self, reason: str, *, subject: str = "", advice: str = "") -> None:
        self.advice = advice or self._advice
        self.reason = without_secrets(reason.rstrip(".: ") if self.advice else reason)
        text = f"{self.reason}. {self.advice}" if self.advice else self.reason
        super().__init__(without_secrets(f"{subject}: {text}" if subject else text))

    def __reduce__(self) -> tuple[Any, ...]:
        # That of `Exception` calls the class with `args`, which are not the arguments of every subclass.
        return self.__new__, (type(self), *self.args), vars(self)


class InvalidInput(KinesisAssetsError, ValueError):
    """An argument or a setting is invalid. Nothing was changed."""


class JavaUnavailable(KinesisAssetsError):
    """No Java that can run Spark was found."""


class LandingFailed(KinesisAssetsError):
    """The Spark job failed as a whole. Nothing was committed."""


class ExecutorUnsuitable(KinesisAssetsError):
    """Spark's executors cannot run tasks, or their packages cannot be packed. Nothing was changed."""


class SparkServerFailed(KinesisAssetsError):
    """The Spark Connect server on this machine did not start, or it ended."""


class RoleNotAssumed(KinesisAssetsError):
    """AWS STS returned no credentials for the role of the settings."""


class RegistryCallFailed(KinesisAssetsError):
    """A call to a schema registry failed after its client's retries, so payloads cannot be decoded."""


class StreamsNotListed(KinesisAssetsError):
    """There is no complete list of an account's streams."""


class LeaseTableFailed(KinesisAssetsError):
    """A call to the DynamoDB table of another consumer failed. `code` is the error code of the service."""

    def __init__(self, reason: str, *, advice: str = "", code: str = "") -> None:
        super().__init__(reason, advice=advice)
        self.code = code


class CatalogFailed(KinesisAssetsError):
    """A table cannot be registered in the AWS Glue Data Catalog. `code` is the error code of the service."""

    def __init__(self, reason: str, *, advice: str = "", code: str = "") -> None:
        super().__init__(reason, advice=advice)
        self.code = code


class StreamError(KinesisAssetsError):
    """Base of the errors that concern a whole stream, which `stream` names."""

    def __init__(self, stream: str, sentence: str, *, advice: str = "") -> None:
        super().__init__(sentence, subject=f"stream {stream}", advice=advice)
        self.stream = stream


class StreamNotFound(StreamError):
    """The account has no stream of that name in that region."""


class StreamRecreated(StreamError):
    """The stream was deleted and created again: the stored positions belong to the old stream."""


class ShardListIncomplete(StreamError):
    """A response of ListShards is incomplete, so it was not used."""


class ShardListStale(StreamError):
    """A response of ListShards contradicts the table, so it was not used. `reasons` says how, by shard id."""

    def __init__(self, stream: str, reasons: Mapping[str, str]) -> None:
        listed = _first_of(reasons, "more shards, see `kinesis-assets doctor`")
        super().__init__(stream, f"ListShards contradicts the table, nothing was changed: {listed}")
        self.reasons = {shard_id: without_secrets(reason) for shard_id, reason in reasons.items()}


class LeasesRefused(StreamError):
    """Positions of another consumer cannot be used. `reasons` says why, by shard or item."""

    def __init__(self, stream: str, reasons: Mapping[str, str]) -> None:
        super().__init__(stream, f"nothing was changed: {_first_of(reasons, 'more')}")
        self.reasons = {name: without_secrets(reason) for name, reason in reasons.items()}


def _first_of(reasons: Mapping[str, str], others: str) -> str:
    """Return the first reasons, and the number of others."""
    named = [f"{name}: {reason}" for name, reason in reasons.items()]
    if len(named) > _NAMED:
        named[_NAMED:] = [f"and {len(named) - _NAMED} {others}"]
    return "; ".join(named)


class ServiceTimeUncertain(StreamError):
    """Two responses disagree about the service's clock, so neither was used."""


class StreamPaused(StreamError):
    """An operator has paused the stream. Nothing was changed."""


class MaintenanceFailed(StreamError):
    """The maintenance of several tables of a stream failed. That of its other tables is done."""


class TickTooLong(StreamError):
    """A part of a tick of the sensor was not ready in time. It stores nothing any more."""


class CallFailed(StreamError):
    """A call to Kinesis failed after the retries of the AWS SDK or of the shard's reader.

    Attributes:
        operation: The operation's name, such as `GetRecords`.
        code: The service's error code, or the name of the SDK's exception if there was no response.
        status: The HTTP status of the response; None if no complete response was received.
    """

    _advice = "Run again when the cause is resolved"

    def __init__(
        self,
        stream: str,
        operation: str,
        code: str,
        message: str,
        status: int | None = None,
        *,
        advice: str = "",
    ) -> None:
        super().__init__(stream, f"{operation} failed with {code}: {message}", advice=advice)
        self.operation, self.code, self.status = operation, code, status


class ShardError(KinesisAssetsError):
    """Base of the errors that concern one shard. The run's other shards are not affected.

    Attributes:
        sentence: What happened and what to do, without the shard's id.
    """

    def __init__(self, shard_id: str, sentence: str) -> None:
        super().__init__(sentence, subject=shard_id)
        self.shard_id, self.sentence = shard_id, self.reason


class ShardUnknown(ShardError):
    """The stream has no such shard."""


class ShardVanished(ShardError):
    """The shard is no longer listed, but it was not read to its end."""


class ParentUnfinished(ShardError):
    """The shard waits, because its parents have not been read to their end."""


class ShardLeftOut(ShardError):
    """The asset's body removed the shard from the plan."""


class SeekRefused(ShardError):
    """The shard's position cannot be set as requested. Nothing was changed."""


class ReadFailed(ShardError):
    """GetRecords or GetShardIterator failed after bounded retries."""


class ShardThrottled(ReadFailed):
    """The shard's calls were throttled for longer than it may delay the run's other shards."""


class ShardSilent(ReadFailed):
    """A call was not answered for longer than the shard may delay the run's other shards."""


class ShardStalled(ShardError):
    """Kinesis returned neither a record nor the shard's tip within the limit."""


class DataLost(ShardError):
    """Records may have expired before they were read. The position was not moved."""


class TooManyBadRecords(ShardError):
    """The shard has more damaged records than allowed. Its range ended before the next one."""


class ReplayUnfinished(ShardError):
    """A replay did not read the shard's range to its end, so the rest is still to be read."""


class PositionConflict(ShardError):
    """Another run moved the shard's position first. This run added none of the shard's rows."""


class TableError(KinesisAssetsError):
    """Base of the errors that concern a table, of which `table` is the URI."""

    def __init__(self, table: str, sentence: str, *, advice: str = "") -> None:
        super().__init__(sentence, subject=f"table {table}", advice=advice)
        self.table = table


class TableMissing(TableError):
    """No table exists at the URI."""


class TableUnreachable(TableError):
    """The table's log or files cannot be accessed at present."""

    _advice = "Check its URI, the network, the permissions and its files, then run again"


class TableNotWritable(TableError):
    """Writing to the table is denied, and a retry would be denied too."""


class TableUnsuitable(TableError):
    """The table at the URI has another schema or partitioning."""


class StoreUnsuitable(TableError):
    """The table's store ignores the condition of a conditional put, so commits could overwrite each other."""


class TableOfAnotherStream(TableError):
    """The table belongs to a stream with another ARN. Nothing was changed."""


class TableOfAnotherSource(TableError):
    """The table was derived from another table, or belongs to another asset. Nothing was changed."""


class SourceCommitsMissing(TableError):
    """The source no longer records all commits since the last one that was consumed. Nothing was changed."""


class SourceRowsMissing(TableError):
    """The source has fewer rows than its commits added, and no amendment explains it."""


class SourceRowsDeleted(TableError):
    """Rows of the source were deleted, and the policy of the derived table does not accept that."""


class CursorConflict(TableError):
    """Another run consumed the same rows of the source first. This run added none of its rows."""


class UpsertOvertaken(TableError):
    """Another commit changed the files or the columns of the derived table first. Nothing was committed."""


class SchemaChangeRefused(TableError):
    """The new rows do not fit the columns of the derived table. Nothing was written."""


class BadRecordsRefused(TableError):
    """Too many records cannot be decoded into rows of the derived table. Nothing was committed."""


class TableRewritten(TableError):
    """A restore or an overwrite changed the table's rows, but not the positions. This run changed nothing."""


class PositionsMissing(TableError):
    """The table has rows, but no positions of the stream. Nothing was changed."""


class PositionsUnreadable(TableError):
    """A positions file, or another file that the table's log names, is missing or invalid."""


class PauseUnreadable(TableError):
    """The file that says whether the stream is paused is damaged or cannot be accessed."""


class DataFileInvalid(TableError):
    """A landed file is missing, or does not hold the expected rows."""


class AttemptExpired(TableError):
    """The attempt is too old to commit: its files may have been vacuumed."""


class PastChanged(TableError):
    """Another commit changed rows behind the positions during the attempt. Nothing was committed."""


class ClocksDisagree(TableError):
    """This machine's clock and the service's differ by too much. Nothing was deleted."""


class CommitFailed(TableError):
    """Nothing was committed: the bounded attempts failed, or the batch had been committed before."""


class CommitOvertaken(CommitFailed):
    """Another commit was first. The next read of the table shows whether this one succeeded too."""


class CommitUnknown(TableError):
    """Whether the commit succeeded is unknown."""


class RunCanceled(KinesisAssetsError):
    """A run was canceled. `events` has the exact values of its events, one for each commit of a shard."""

    def __init__(self, stream: str, events: Sequence[dict[str, Any]]) -> None:
        shards = len({event["shard"] for event in events})
        super().__init__(
            f"stream {stream}: the run was canceled; {shards} shards committed what they had read. The next "
            "run continues from there"
        )
        self.events = events


class ShardsNotCommitted(KinesisAssetsError):
    """Shards failed, wait or were moved by another run; `errors` says why. What was read is committed.

    Derived tables of the same continuous run may have failed too: `tables` says why, by asset key.
    """

    def __init__(
        self,
        stream: str,
        errors: Mapping[str, ShardError],
        tables: Mapping[str, Exception] | None = None,
    ) -> None:
        also = f". Of its derived tables, {len(tables)} failed: {_by_name(tables)}" if tables else ""
        super().__init__(
            f"stream {stream}: {len(errors)} of the run's shards did not reach the end of their ranges: "
            + "; ".join(map(with_class, errors.values()))
            + also
        )
        self.errors, self.tables = dict(errors), dict(tables or {})


class DerivedTablesFailed(KinesisAssetsError):
    """Derived tables of a continuous run could not consume their source. `errors` says why, by asset key."""

    def __init__(self, stream: str, errors: Mapping[str, Exception]) -> None:
        super().__init__(
            f"stream {stream}: the run committed its shards, but {len(errors)} of its derived tables failed, "
            f"and their next run consumes the same rows: {_by_name(errors)}"
        )
        self.errors = dict(errors)


def _by_name(errors: Mapping[str, Exception]) -> str:
    return "; ".join(f"{name}: {with_class(error)}" for name, error in errors.items())


def with_class(error: Exception) -> str:
    """Return what an error says, after the name of its class."""
    return f"{type(error).__name__}: {error}"


def reason_of(error: Exception) -> str:
    """Return what an error says, for a message that says itself what to do."""
    return error.reason if isinstance(error, KinesisAssetsError) else str(error)
