"""The differences of kinesalite."""

from __future__ import annotations

from integration.emulators.compare import OUTCOME, SUCCESS
from integration.emulators.differences.difference import (
    EXPIRED,
    INVALID,
    LIMIT,
    NO_OPERATION,
    NOT_FOUND,
    VALIDATION,
    Difference,
    Pattern,
)
from integration.emulators.differences.shared import SHARED
from integration.emulators.recorded_api import ABSENT, NOT_CALLED

KINESALITE = [
    *SHARED,
    Difference(
        "embedded",
        "The model contains on-demand streams and their record distribution strategy, which are newer than "
        "kinesalite.",
        [
            Pattern("creating on demand/CreateStream", OUTCOME, SUCCESS, VALIDATION),
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: of a provisioned one",
                OUTCOME,
                INVALID,
                NO_OPERATION,
            ),
            Pattern("distributing/UpdateStreamMode: to nothing", OUTCOME, VALIDATION, NO_OPERATION),
            Pattern("distributing/UpdateStreamMode", OUTCOME, SUCCESS, NO_OPERATION),
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: to AUTO",
                OUTCOME,
                SUCCESS,
                NO_OPERATION,
            ),
            Pattern("distributing/PutRecord: without a key", OUTCOME, SUCCESS, VALIDATION),
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: back", OUTCOME, SUCCESS, NO_OPERATION
            ),
            Pattern("distributing/PutRecord: in order", OUTCOME, INVALID, SUCCESS),
        ],
    ),
    Difference(
        "emulator",
        "Shards are added and closed when the change of the stream is complete; in the embedded stream, "
        "immediately.",
        [
            Pattern("*/DescribeStreamSummary: created a moment ago", "*.OpenShardCount", "3", "0"),
            Pattern("splitting/DescribeStreamSummary: a moment ago", "*.OpenShardCount", "2", "1"),
            Pattern("merging/DescribeStreamSummary: a moment ago", "*.OpenShardCount", "2", "3"),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, a stream is identified by its name or its ARN. kinesalite supports "
        "only the name.",
        [
            Pattern("by arn/*", OUTCOME, SUCCESS, "*Exception (400)"),
            Pattern("unknown arn/*", OUTCOME, NOT_FOUND, "*Exception (400)"),
            Pattern("neither name nor arn/*", OUTCOME, INVALID, VALIDATION),
            Pattern("name and arn/*: no ARN", OUTCOME, VALIDATION, SUCCESS),
            Pattern("name and arn/*: of two streams", OUTCOME, INVALID, SUCCESS),
            Pattern(
                "reading with invalid arguments/GetRecords: by the ARN of another", OUTCOME, INVALID, SUCCESS
            ),
        ],
    ),
    Difference(
        "embedded",
        "The model contains UpdateShardCount, which kinesalite does not support.",
        [
            Pattern("unknown name/UpdateShardCount", OUTCOME, NOT_FOUND, NO_OPERATION),
            Pattern("neither name nor arn/UpdateShardCount", OUTCOME, INVALID, NO_OPERATION),
            Pattern(
                "scaling with invalid arguments/UpdateShardCount: to * than *", OUTCOME, LIMIT, NO_OPERATION
            ),
            Pattern(
                "scaling with invalid arguments/UpdateShardCount: to no*", OUTCOME, VALIDATION, NO_OPERATION
            ),
            Pattern(
                "scaling with invalid arguments/UpdateShardCount: an unknown type",
                OUTCOME,
                VALIDATION,
                NO_OPERATION,
            ),
            Pattern("scaling/UpdateShardCount: *", OUTCOME, SUCCESS, NO_OPERATION),
            Pattern("scaling/DescribeStreamSummary: up", "*.OpenShardCount", "5", "3"),
            Pattern("scaling/ListShards: *", "Shards", "list of *", "list of 3"),
        ],
    ),
    Difference(
        "embedded",
        "The model contains capacity modes and records of more than 1 MiB, which are newer than kinesalite.",
        [
            Pattern("*/DescribeStream*", "*.StreamModeDetails", "some", ABSENT),
            Pattern("*/DescribeStreamSummary*", "*.MaxRecordSizeInKiB", "*", ABSENT),
            Pattern("creating with bad options/CreateStream: *", OUTCOME, VALIDATION, SUCCESS),
            Pattern("neither name nor arn/UpdateMaxRecordSize", OUTCOME, INVALID, NO_OPERATION),
            Pattern("*/UpdateMaxRecordSize: to 2 MiB", OUTCOME, SUCCESS, NO_OPERATION),
            Pattern("*/UpdateMaxRecordSize: to * KiB", OUTCOME, VALIDATION, NO_OPERATION),
            Pattern("*/UpdateMaxRecordSize: to nothing", OUTCOME, VALIDATION, NO_OPERATION),
            Pattern("creating for large records/PutRecord: of 2 MiB", OUTCOME, SUCCESS, VALIDATION),
            Pattern("resizing records/PutRecord: of more than 1 MiB", OUTCOME, SUCCESS, VALIDATION),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, records can be retained for a year. The maximum was a week when "
        "kinesalite was written.",
        [
            Pattern("retaining/*: to 8760", OUTCOME, SUCCESS, VALIDATION),
            Pattern("retaining/DescribeStreamSummary: 8760", "*.RetentionPeriodHours", "8760", "168"),
        ],
    ),
    Difference(
        "embedded",
        "In the model, a retention period has no bounds whose violation would be a ValidationException.",
        [
            Pattern("retaining/*: to 8761 from *", OUTCOME, INVALID, VALIDATION),
            Pattern("retaining/*: to 0 from *", OUTCOME, INVALID, VALIDATION),
            Pattern("retaining/*: to -1 from *", OUTCOME, INVALID, VALIDATION),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, ListStreams returns 100 streams by default. The default was 10 when "
        "kinesalite was written.",
        [
            Pattern("*/ListStreams: eleven", "StreamNames", "list of 11", "list of 10"),
            Pattern("*/ListStreams: eleven", "HasMoreStreams", "False", "True"),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, ListShards has MaxResults, NextToken and ShardFilter. kinesalite "
        "always returns all shards.",
        [
            Pattern("*/ListShards: *", "Shards", "list of *", "list of *"),
            Pattern("*/ListShards: *", "NextToken", "some", ABSENT),
            Pattern("listing shards/ListShards: two more", OUTCOME, SUCCESS, NOT_CALLED),
            Pattern("*/ListShards: the rest", OUTCOME, SUCCESS, NOT_CALLED),
            Pattern("*/ListShards: a token and a *", OUTCOME, INVALID, NOT_CALLED),
            Pattern("expiring/ListShards: early", OUTCOME, SUCCESS, NOT_CALLED),
            Pattern("expiring/ListShards: late", OUTCOME, EXPIRED, NOT_CALLED),
            Pattern("filtering shards/ListShards: * of none", OUTCOME, INVALID, SUCCESS),
            Pattern("filtering shards/ListShards: AT_LATEST of a shard", OUTCOME, INVALID, SUCCESS),
            Pattern("filtering shards/ListShards: an unknown filter", OUTCOME, VALIDATION, SUCCESS),
            Pattern("filtering shards/ListShards: a filter of no type", OUTCOME, VALIDATION, SUCCESS),
        ],
    ),
    Difference(
        "embedded",
        "kinesalite crashes on ListShards with NextToken and without StreamName.",
        [Pattern("*/ListShards: garbage for a token", OUTCOME, INVALID, NOT_CALLED)],
    ),
    Difference(
        "embedded",
        "According to the reference, DescribeStream has Limit and ExclusiveStartShardId. kinesalite ignores "
        "them.",
        [
            Pattern("describing shards/DescribeStream: *", "*.Shards", "list of *", "list of 3"),
            Pattern("describing shards/DescribeStream: two", "*.HasMoreShards", "True", "False"),
        ],
    ),
    Difference(
        "either",
        "According to the reference, the creation time is approximate. kinesalite subtracts two seconds and "
        "the fraction of a second.",
        [Pattern("*/DescribeStream*", "*.StreamCreationTimestamp", "CreateStream*", "no call")],
    ),
    Difference(
        "embedded",
        "According to the reference, AT_TIMESTAMP starts at the next record if there is none of that time. "
        "If there is no later record either, kinesalite does not respond.",
        [Pattern("reading/*: past the tip", OUTCOME, SUCCESS, NOT_CALLED)],
    ),
    Difference(
        "embedded",
        "According to the reference, MillisBehindLatest is 0 if there are no new records. In kinesalite it "
        "is always 0, except at the end of a closed shard, where it is the time since the shard was closed.",
        [
            Pattern("*/GetRecords: *", "MillisBehindLatest", "*000", "0"),
            Pattern("splitting*/GetRecords: LATEST*", "MillisBehindLatest", "0", "*"),
            Pattern("reading from the end of a shard/GetRecords: AT*", "MillisBehindLatest", "0", "*"),
            Pattern("reading from the end of a shard/GetRecords: AF*", "MillisBehindLatest", "0", "*"),
        ],
    ),
    Difference(
        "embedded",
        "The model contains ChildShards at the end of a closed shard, which are newer than kinesalite.",
        [Pattern("*/GetRecords: *", "ChildShards", "list of *", ABSENT)],
    ),
    Difference(
        "either",
        "According to the reference, NextShardIterator is null when a closed shard has no more records. In "
        "the embedded stream, this is the page with the last record; in kinesalite, it is one more, empty "
        "page.",
        [
            Pattern("splitting*/GetRecords: *", "NextShardIterator", ABSENT, "some"),
            Pattern("merging/GetRecords: *", "NextShardIterator", ABSENT, "some"),
        ],
    ),
    Difference(
        "embedded",
        "According to the pattern in the model, a hash key has up to 39 digits and no leading zero. "
        "kinesalite matches only one end of the text with it.",
        [
            Pattern("*/PutRecord: a hash key of 40 digits", OUTCOME, VALIDATION, INVALID),
            Pattern("*/PutRecord: a padded hash key", OUTCOME, VALIDATION, SUCCESS),
        ],
    ),
    Difference(
        "either",
        "According to the reference, SequenceNumberForOrdering is the number of an earlier put. It does not "
        "describe other numbers.",
        [Pattern("*/PutRecord: an unknown number for ordering", OUTCOME, INVALID, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, PutRecords accepts 10 MiB. kinesalite accepts bodies of 7 MiB.",
        [
            Pattern("*/PutRecords: exactly", OUTCOME, SUCCESS, "413 (413)"),
            Pattern("*/PutRecords: and more", OUTCOME, INVALID, "413 (413)"),
        ],
    ),
    Difference(
        "embedded",
        "The service does not split a closed shard (issue 109 of kinesalite).",
        [Pattern("* a closed shard/*: again", OUTCOME, INVALID, SUCCESS)],
    ),
]
