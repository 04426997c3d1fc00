"""Everything the package raises, in one tree.

KinesisAssetsError
├── InvalidInput               what was asked for cannot be meant; nothing was touched
├── JavaUnavailable            no Java that Spark can run on
├── LandingFailed              the Spark job failed as a whole; nothing was committed
├── SparkServerFailed          the Spark server that was to be kept did not come up, or ended
├── RegistryCallFailed         a schema registry did not say what a decoder needs to know
├── StreamError                a whole stream
│   ├── StreamNotFound
│   ├── StreamRecreated        same name, other stream: its old positions mean nothing
│   ├── ShardListIncomplete    ListShards answered without what it must contain
│   ├── ShardListStale         ListShards contradicts what is recorded in the table
│   ├── ServiceTimeUncertain   two responses do not agree about the service's clock
│   └── CallFailed             a call to Kinesis failed, after the retries of who makes it
├── ShardError                 one shard; its neighbours go on
│   ├── ShardUnknown           not a shard of the stream
│   ├── ShardVanished          no longer listed, and not read to its end
│   ├── ParentUnfinished       waits for its parents
│   ├── SeekRefused            its position cannot be set there by hand; nothing was changed
│   ├── ShardLeftOut           the asset's body took it out of the plan
│   ├── ReadFailed             GetRecords or GetShardIterator failed after bounded retries
│   │   ├── ShardThrottled     its calls were throttled for as long as others may wait for it
│   │   └── ShardSilent        it gave no answer for as long as others may wait for it
│   ├── ShardStalled           neither a record nor the tip within the limit
│   ├── DataLost               records may have expired unread
│   ├── TooManyBadRecords      more damaged records than allowed; the range ended before
│   ├── ReplayUnfinished       a replay's time was over before its range was read
│   └── PositionConflict       another run moved the shard first
├── TableError
│   ├── TableMissing           no table there yet
│   ├── TableUnreachable       its log cannot be read
│   ├── TableNotWritable       writing to it is refused, and a retry would be too
│   ├── TableUnsuitable        a table that this package did not make, or of another schema
│   ├── TableOfAnotherStream   the table belongs to a stream with another ARN; nothing was changed
│   ├── TableRewritten         a restore or an overwrite changed the rows, but not the positions
│   ├── PositionsMissing       the table has rows, but no positions; nothing was changed
│   ├── PositionsUnreadable    the positions file the log points at is missing or not understood
│   ├── DataFileInvalid        a landed file is not there, or not with its rows
│   ├── AttemptExpired         too old to commit: its files may have been vacuumed
│   ├── ClocksDisagree         this machine's clock and the service's differ; nothing was deleted
│   ├── PastChanged            rows behind the positions were changed since they were looked at
│   ├── CommitFailed           the bounded tries are used up; nothing was committed
│   │   └── CommitOvertaken    another commit landed first; the next try starts from it
│   └── CommitUnknown          whether the commit landed cannot be told
├── RunCanceled                told to stop; what was read by then is committed
└── ShardsNotCommitted         a run's error: which shards are not committed, and why
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_SECRETS = re.compile(
    # Where a signature is refused, AWS repeats the request's headers, of which this one is a credential.
    r"(?<=x-amz-security-token)[:=]\s*[^\s<>&'\"]+"
    r"|(?<=//)[^\s<>'\"/]*:[^\s<>'\"@]*@",
    re.IGNORECASE,
)
_NAMED = 3
"""Shards that an error about a whole stream names; the others are counted."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def without_secrets(text: str) -> str:
    """What a service or a library said: one printable line, no session token, no password in a URL."""
    line = _SECRETS.sub("***", " ".join(_COLOURS.sub("", text).split()))
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in line
    )


class KinesisAssetsError(Exception):
    """Base of every error that the package raises. Its text is one line, and has no secret in it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(without_secrets(arg) if isinstance(arg, str) else arg for arg in args))


class InvalidInput(KinesisAssetsError, ValueError):
    """What was asked for cannot be meant; nothing was touched."""


class JavaUnavailable(KinesisAssetsError):
    """There is no Java that Spark can run on."""


class LandingFailed(KinesisAssetsError):
    """The Spark job failed as a whole; nothing was committed."""


class SparkServerFailed(KinesisAssetsError):
    """The Spark server that was to be kept on this machine did not come up, or ended."""


class RegistryCallFailed(KinesisAssetsError):
    """A call to the Glue Schema Registry failed after the SDK's retries: nobody knows which rows are bad."""


class StreamError(KinesisAssetsError):
    """Something is wrong with a whole stream.

    Attributes:
        stream: The stream's name.
    """

    def __init__(self, stream: str, sentence: str) -> None:
        super().__init__(f"stream {stream}: {sentence}")
        self.stream = stream


class StreamNotFound(StreamError):
    """The service knows no stream of that name in that account and region."""


class StreamRecreated(StreamError):
    """The stream was deleted and created again under its name: the stored positions are another stream's."""


class ShardListIncomplete(StreamError):
    """ListShards answered without what it must contain; nothing is concluded from it."""


class ShardListStale(StreamError):
    """ListShards contradicts what is recorded in the table; nothing is concluded from it.

    Attributes:
        reasons: What it contradicts, by shard id.
    """

    def __init__(self, stream: str, reasons: Mapping[str, str]) -> None:
        named = [f"{shard_id}: {reason}" for shard_id, reason in reasons.items()]
        if len(named) > _NAMED:
            named[_NAMED:] = [f"and {len(named) - _NAMED} more shards, see `kinesis-assets doctor`"]
        super().__init__(
            stream, f"the list of shards contradicts the table, nothing was changed: {'; '.join(named)}"
        )
        self.reasons = {shard_id: without_secrets(reason) for shard_id, reason in reasons.items()}


class ServiceTimeUncertain(StreamError):
    """Two responses do not agree about the service's clock; nothing is concluded from either."""


class CallFailed(StreamError):
    """A call to Kinesis failed, after the retries of who makes it: the SDK, or a shard's reading.

    Attributes:
        operation: The operation's name, as `GetRecords`.
        code: The service's error code, or the SDK's exception name where no answer came.
        status: The answer's HTTP status; None where no whole answer came.
    """

    def __init__(
        self, stream: str, operation: str, code: str, message: str, status: int | None = None
    ) -> None:
        super().__init__(stream, f"{operation} failed with {code}: {message}")
        self.operation = operation
        self.code = code
        self.status = status


class ShardError(KinesisAssetsError):
    """Something is wrong with one shard; its neighbours go on.

    Attributes:
        shard_id: The shard's id.
        sentence: What happened and what to do, without the shard's id.
    """

    def __init__(self, shard_id: str, sentence: str) -> None:
        # Both go to Exception as they came, so that the error survives pickling.
        super().__init__(shard_id, sentence)
        self.shard_id = shard_id
        self.sentence = str(self.args[1])

    def __str__(self) -> str:
        return f"{self.shard_id}: {self.sentence}"


class ShardUnknown(ShardError):
    """The stream has no such shard."""


class ShardVanished(ShardError):
    """The shard is no longer listed and was not read to its end."""


class ParentUnfinished(ShardError):
    """The shard waits: its parents are not read to their end."""


class ShardLeftOut(ShardError):
    """The asset's body took the shard out of the plan."""


class SeekRefused(ShardError):
    """The shard's position cannot be set there by hand; nothing was changed."""


class ReadFailed(ShardError):
    """GetRecords or GetShardIterator failed after bounded retries."""


class ShardThrottled(ReadFailed):
    """Its calls were throttled for as long as the run's other shards may wait for it."""


class ShardSilent(ReadFailed):
    """A call of its was not answered for as long as the run's other shards may wait for it."""


class ShardStalled(ShardError):
    """The shard gave neither a record nor its tip within the limit."""


class DataLost(ShardError):
    """Records may have expired before they were read; the position stays where it is."""


class TooManyBadRecords(ShardError):
    """The shard has more damaged records than a run may take; its range ended before the next one."""


class ReplayUnfinished(ShardError):
    """A replay's time was over before it had read the whole of the shard's range."""


class PositionConflict(ShardError):
    """Another run moved the shard's position first; this run added none of its rows."""


class TableError(KinesisAssetsError):
    """Something is wrong with a table.

    Attributes:
        table: The table's URI.
    """

    def __init__(self, table: str, sentence: str) -> None:
        super().__init__(f"table {table}: {sentence}")
        self.table = table


class TableMissing(TableError):
    """There is no table at the URI."""


class TableUnreachable(TableError):
    """The table's log cannot be read."""


class TableNotWritable(TableError):
    """Writing to the table is refused, and a retry would be refused too."""


class TableUnsuitable(TableError):
    """The table at the URI has another schema or partitioning."""


class TableOfAnotherStream(TableError):
    """The table belongs to a stream with another ARN; nothing was changed."""


class TableRewritten(TableError):
    """A restore or an overwrite changed the table's rows, but not the positions; nothing was changed."""


class PositionsMissing(TableError):
    """The table has rows, but no positions of the stream; nothing was changed."""


class PositionsUnreadable(TableError):
    """The positions file that the table's log points at is missing or not understood."""


class DataFileInvalid(TableError):
    """A landed file is not there, or not with its rows."""


class AttemptExpired(TableError):
    """The attempt is too old to commit: its files may have been vacuumed."""


class PastChanged(TableError):
    """Rows behind the positions were changed since the attempt looked at them; nothing was committed."""


class ClocksDisagree(TableError):
    """This machine's clock and the service's differ by too much; nothing was deleted."""


class CommitFailed(TableError):
    """The commit did not come about: the bounded tries are used up, or the batch was committed before."""


class CommitOvertaken(CommitFailed):
    """Another commit landed first; the next read of the table shows whether this one landed too."""


class CommitUnknown(TableError):
    """Whether the commit landed cannot be told."""


class RunCanceled(KinesisAssetsError):
    """A run was told to stop.

    Attributes:
        told: The metadata of each event, one for each commit of a shard.
    """

    def __init__(self, stream: str, told: Sequence[dict[str, Any]]) -> None:
        shards = len({facts["shard"] for facts in told})
        super().__init__(
            f"stream {stream}: told to stop; {shards} shards committed what they had. The next run goes on"
        )
        self.told = told


class ShardsNotCommitted(KinesisAssetsError):
    """A run's error: the shards that are not committed, each with its reason.

    Attributes:
        errors: Shard id to error.
    """

    def __init__(self, stream: str, errors: Mapping[str, ShardError]) -> None:
        reasons = "; ".join(str(error) for error in errors.values())
        super().__init__(f"stream {stream}: {len(errors)} of the run's shards not committed: {reasons}")
        self.errors = dict(errors)
