"""Differences that both emulators have."""

from __future__ import annotations

from integration.emulators.compare import OUTCOME, SUCCESS
from integration.emulators.differences.difference import (
    DRY_RUN,
    IN_USE,
    INVALID,
    NOT_FOUND,
    VALIDATION,
    Difference,
    Pattern,
)
from integration.emulators.recorded_api import ABSENT, NOT_CALLED

SHARED = [
    Difference(
        "emulator",
        "A stream is CREATING, UPDATING or DELETING for a while. In the embedded stream, changes take no "
        "time by design: a client sees what a fast service would show.",
        [
            Pattern("*/DescribeStreamSummary: created a moment ago", "*.StreamStatus", "ACTIVE", "CREATING"),
            Pattern("*/DescribeStreamSummary: a moment ago", "*.StreamStatus", "ACTIVE", "UPDATING"),
            Pattern("*/DescribeStreamSummary: deleted a moment ago", OUTCOME, NOT_FOUND, SUCCESS),
            Pattern("*/MergeShards: at once", OUTCOME, SUCCESS, IN_USE),
        ],
    ),
    Difference(
        "embedded",
        "The model contains DryRun, which is newer than the emulators.",
        [
            Pattern("dry runs/PutRecord", OUTCOME, DRY_RUN, SUCCESS),
            Pattern("dry runs/PutRecords", OUTCOME, DRY_RUN, SUCCESS),
            Pattern("dry runs/GetShardIterator: dry", OUTCOME, DRY_RUN, SUCCESS),
            Pattern("dry runs/GetRecords", OUTCOME, DRY_RUN, SUCCESS),
        ],
    ),
    Difference(
        "embedded",
        "In the model, ListStreams has StreamSummaries and NextToken, which are newer than the emulators.",
        [
            Pattern("*/ListStreams: eleven", "StreamSummaries", "list of 11", ABSENT),
            Pattern("*/ListStreams: two", "StreamSummaries", "list of 2", ABSENT),
            Pattern("*/ListStreams: two", "NextToken", "some", ABSENT),
            Pattern("*/ListStreams: two more by name", "StreamSummaries", "list of 2", ABSENT),
            Pattern("*/ListStreams: two more by name", "NextToken", "some", ABSENT),
            Pattern("*/ListStreams: two more by token", OUTCOME, SUCCESS, NOT_CALLED),
            Pattern("*/ListStreams: the last", "StreamSummaries", "list of 1", ABSENT),
            Pattern("*/ListStreams: none", "StreamSummaries", "list of 0", ABSENT),
            Pattern("*/ListStreams: after an unknown one", "StreamSummaries", "list of 1", ABSENT),
            Pattern("*/ListStreams: garbage for a token", OUTCOME, INVALID, SUCCESS),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, ListShards can select one of several streams with the same name by its "
        "creation time. The emulators return the existing one.",
        [Pattern("*/ListShards: of another time", OUTCOME, NOT_FOUND, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, the maximum size of a record applies to its data and its partition key "
        "together. The emulators count only the data.",
        [Pattern("*/PutRecord: of 1 MiB and the key", OUTCOME, VALIDATION, SUCCESS)],
    ),
    Difference(
        "either",
        "The reference describes StartingSequenceNumber for AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER, "
        "but not for AT_TIMESTAMP. The emulators ignore one of the two arguments.",
        [Pattern("*/GetShardIterator: AT_TIMESTAMP of a number", OUTCOME, INVALID, SUCCESS)],
    ),
    Difference(
        "either",
        "The reference does not describe an iterator of a stream that was deleted and created again. The "
        "emulators return records of the new stream for it.",
        [Pattern("stream lifecycle/GetRecords: from before", OUTCOME, NOT_FOUND, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, expired shards are not listed. The emulators list them.",
        [
            Pattern("trimming shards/ListShards: a day", "Shards", "list of 2", "list of 3"),
            Pattern("trimming shards/GetShardIterator: a day", OUTCOME, NOT_FOUND, SUCCESS),
        ],
    ),
]
