"""What may differ between the public emulators and the embedded stream.

The embedded stream follows the API reference, botocore's model of the service, and, where both say nothing,
kinesalite, whose tests were written to run against the service as well. The emulators are older than some
operations and members, and complete a change of a stream later.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from integration.emulators.recorded_api import NOT_CALLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from integration.emulators.compare import Mismatch


@dataclass(frozen=True)
class Allowed:
    """What may differ in an emulator; * matches any text.

    Attributes:
        members: Members that may differ in all responses.
        calls: Calls that may differ, by scenario.
        error_codes: Whether one error of the client may be another.
        unserved: Calls that are not made, because the emulator does not respond properly or in time.
    """

    members: frozenset[str]
    calls: Mapping[str, Sequence[str]]
    error_codes: bool
    unserved: Sequence[str]

    def is_called(self, call: str) -> bool:
        """Return whether a call is made to the emulator."""
        return not any(fnmatchcase(call, pattern) for pattern in self.unserved)

    def covers(self, mismatch: Mismatch) -> bool:
        """Return whether a difference is allowed."""
        scenario, _, call = mismatch.call.partition("/")
        return (
            mismatch.theirs == NOT_CALLED
            or mismatch.member.rpartition(".")[2] in self.members
            or (self.error_codes and mismatch.ours.endswith("(400)") and mismatch.theirs.endswith("00)"))
            or any(fnmatchcase(call, pattern) for pattern in self.calls.get(scenario, ()))
        )


_BOTH = {
    "stream lifecycle": ["DescribeStreamSummary: * a moment ago", "GetRecords: from before"],
    "trimming shards": ["*: a day"],
    "listing shards of a creation": ["ListShards: of another time"],
    "dry runs": ["*"],
    "reading": ["GetRecords: two*"],
    "reading records of one call": ["GetRecords: two"],
    "resharding twice at once": ["MergeShards: at once"],
}

ALLOWED = {
    "kinesalite": Allowed(
        frozenset(
            {
                *("StreamModeDetails", "StreamCreationTimestamp", "MaxRecordSizeInKiB", "ChildShards"),
                *("StreamSummaries", "NextToken"),
            }
        ),
        _BOTH
        | {
            "creating with bad options": ["*"],
            "creating on demand": ["*"],
            "distributing": ["Update*", "PutRecord: without a key", "PutRecord: in order"],
            "creating for large records": ["PutRecord: of 2 MiB"],
            "resizing records": ["UpdateMaxRecordSize*", "PutRecord: of more than 1 MiB"],
            "by arn": ["*"],
            "unknown name": ["UpdateShardCount"],
            "unknown arn": ["*"],
            "neither name nor arn": ["*"],
            "name and arn": ["DescribeStreamSummary: *"],
            "listing streams": ["ListStreams: eleven", "ListStreams: garbage for a token"],
            "retaining": ["*: to 0 *", "*: to -1 *", "*: to 8761 *", "*: *8760"],
            "listing shards": ["ListShards: two"],
            "describing shards": ["DescribeStream: *"],
            "filtering shards": ["ListShards: *"],
            "putting with invalid arguments": ["PutRecord: a hash key of 40 digits"],
            "putting with unusual arguments": ["PutRecord: *"],
            "putting 10 mib": ["PutRecords: *"],
            "reading from the end of a shard": ["GetRecords: *"],
            "starting with invalid arguments": ["GetShardIterator: AT_TIMESTAMP of a number"],
            "reading with invalid arguments": ["GetRecords: by the ARN of another"],
            "expiring": ["ListShards: one"],
            "splitting": ["DescribeStreamSummary: a moment ago", "GetRecords: * parent"],
            "splitting an empty shard": ["GetRecords*"],
            "splitting a closed shard": ["SplitShard: again"],
            "merging": ["DescribeStreamSummary: a moment ago", "GetRecords: all of *"],
            "merging a closed shard": ["MergeShards: again"],
            "scaling": ["*"],
            "scaling with invalid arguments": ["UpdateShardCount: *"],
            "registering": ["*"],
            "registering with invalid arguments": ["*"],
            "listing consumers": ["*"],
            "subscribing": ["*"],
            "tagging resources": ["*"],
            "describing the account": ["*"],
        },
        error_codes=False,
        unserved=["*/ListShards: garbage for a token", "reading/*: past the tip"],
    ),
    "kinesis-local": Allowed(
        frozenset({"EncryptionType", "MaxRecordSizeInKiB", "StreamSummaries", "NextToken"}),
        _BOTH
        | {
            "creating two shards": ["ListShards"],
            "creating without shard count": ["CreateStream"],
            "distributing": ["Update*: to AUTO", "Update*: back", "PutRecord: *"],
            "resizing records": ["UpdateMaxRecordSize: to 2 MiB"],
            "by arn": ["UpdateShardCount"],
            "listing streams": ["ListStreams: after an unknown one", "ListStreams: garbage for a token"],
            "trimming records": ["GetRecords*"],
            "listing shards": ["ListShards: after an unknown one", "ListShards: too many results"],
            "filtering shards": ["*: AT_TRIM_HORIZON", "*: * before all", "*: AT_LATEST of a shard"],
            "putting with unusual arguments": ["PutRecord: of 1 MiB and the key"],
            "putting many with invalid arguments": ["PutRecords: none"],
            "putting 500": ["PutRecords: 501"],
            "putting many with a large one": ["PutRecords"],
            "reading from the end of a shard": ["ListShards", "GetShardIterator*"],
            "starting with invalid arguments": ["GetShardIterator: * of a number"],
            "expiring": ["ListShards: late"],
            "splitting": ["*: a moment ago", "ListShards", "DescribeStream", "*: one of *"],
            "splitting at the edges": ["SplitShard: the * key", "ListShards: split at *"],
            "merging": ["DescribeStreamSummary: a moment ago", "ListShards"],
            "scaling": ["UpdateShardCount*", "ListShards*"],
            "scaling with invalid arguments": ["UpdateShardCount: to less than half"],
            "registering": ["DescribeStreamConsumer: by *"],
            "listing consumers": ["ListStreamConsumers: garbage for a token"],
            "describing the account": ["*"],
        },
        error_codes=True,
        # Its response to SubscribeToShard lacks the first event, without which the SDK fails.
        unserved=["putting 10 mib/PutRecords: *", "subscribing/SubscribeToShard*"],
    ),
}
"""By emulator."""
