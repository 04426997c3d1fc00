"""The differences of kinesis-local."""

from __future__ import annotations

from integration.emulators.compare import OUTCOME, SUCCESS
from integration.emulators.differences.difference import (
    ACCESS_DENIED,
    EXPIRED,
    IN_USE,
    INVALID,
    LIMIT,
    NOT_FOUND,
    SERIALIZATION,
    VALIDATION,
    Difference,
    Pattern,
)
from integration.emulators.differences.shared import SHARED
from integration.emulators.recorded_api import ABSENT, NOT_CALLED

KINESIS_LOCAL = [
    *SHARED,
    Difference(
        "embedded",
        "The model contains on-demand streams and their record distribution strategy. kinesis-local "
        "supports only the former.",
        [
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: of a provisioned one",
                OUTCOME,
                INVALID,
                ACCESS_DENIED,
            ),
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: to AUTO",
                OUTCOME,
                SUCCESS,
                ACCESS_DENIED,
            ),
            Pattern("distributing/PutRecord: without a key", OUTCOME, SUCCESS, SERIALIZATION),
            Pattern("distributing/PutRecord: without one again", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern(
                "distributing/UpdateStreamRecordDistributionStrategy: back", OUTCOME, SUCCESS, ACCESS_DENIED
            ),
            Pattern("distributing/PutRecord: in order", OUTCOME, INVALID, SUCCESS),
        ],
    ),
    Difference(
        "either",
        "kinesis-local writes null for absent members. boto3 does not distinguish the two.",
        [Pattern("*", "*", ABSENT, "null")],
    ),
    Difference(
        "either",
        "EncryptionType and MaxRecordSizeInKiB are optional in the model.",
        [
            Pattern("*/PutRecord*", "EncryptionType", ABSENT, "NONE"),
            Pattern("*/GetRecords: *", "Records.*.EncryptionType", ABSENT, "NONE"),
            Pattern("*/DescribeStreamSummary*", "*.MaxRecordSizeInKiB", "1024", "null"),
        ],
    ),
    Difference(
        "embedded",
        "In the model, UpdateShardCount returns a StreamARN, and UpdateMaxRecordSize returns nothing.",
        [
            Pattern("by arn/UpdateShardCount", "StreamARN", "arn:*", ABSENT),
            Pattern("scaling/UpdateShardCount: up", "StreamARN", "arn:*", ABSENT),
            Pattern("scaling/UpdateShardCount: down", "StreamARN", "arn:*", ABSENT),
            Pattern("scaling/UpdateShardCount: nowhere", "StreamARN", "arn:*", ABSENT),
            Pattern("*/UpdateMaxRecordSize: to 2 MiB", "*", ABSENT, "*"),
        ],
    ),
    Difference(
        "embedded",
        "The service returns ValidationException for a missing member or an unknown value of an "
        "enumeration. kinesis-local fails to decode the request.",
        [
            Pattern("creating *", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern("name and arn/*: no ARN", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern("filtering shards/ListShards: an unknown filter", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern("filtering shards/ListShards: a filter of no type", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern("* with invalid arguments/*", OUTCOME, VALIDATION, SERIALIZATION),
            Pattern("* to nothing", OUTCOME, VALIDATION, SERIALIZATION),
        ],
    ),
    Difference(
        "embedded",
        "The service returns ValidationException for a member outside the bounds of the model, as the "
        "reference says for UpdateMaxRecordSize, and issue 680 of the KPL for the size of a record.",
        [
            Pattern("creating *", OUTCOME, VALIDATION, INVALID),
            Pattern("creating with invalid arguments/CreateStream: no shards", OUTCOME, VALIDATION, LIMIT),
            Pattern("resizing records/UpdateMaxRecordSize: to * KiB", OUTCOME, VALIDATION, INVALID),
            Pattern("listing streams/ListStreams: *", OUTCOME, VALIDATION, INVALID),
            Pattern("describing shards/DescribeStream: *", OUTCOME, VALIDATION, INVALID),
            Pattern(
                "putting with unusual arguments/PutRecord: a padded hash key", OUTCOME, VALIDATION, INVALID
            ),
            Pattern("* with invalid arguments/*", OUTCOME, VALIDATION, INVALID),
        ],
    ),
    Difference(
        "either",
        "According to the reference, a Limit of GetRecords above 10,000 is an InvalidArgumentException. "
        "kinesalite returns ValidationException, and has a test for it that was written to run against the "
        "service as well.",
        [
            Pattern(
                "reading with invalid arguments/GetRecords: too high a limit", OUTCOME, VALIDATION, INVALID
            )
        ],
    ),
    Difference(
        "embedded",
        "An error of the client is not a failure of the service. kinesis-local fails if it cannot decode a "
        "request.",
        [Pattern("*", OUTCOME, "*Exception (400)", "500 (500)")],
    ),
    Difference(
        "embedded",
        "The model allows up to 10,000 MaxResults, and 1 to 500 Records. kinesis-local accepts any number.",
        [
            Pattern("*/ListShards: too many results", OUTCOME, VALIDATION, SUCCESS),
            Pattern("*/PutRecords: 501", OUTCOME, VALIDATION, SUCCESS),
            Pattern("*/PutRecords: none", OUTCOME, VALIDATION, SUCCESS),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, the number of provisioned shards must be specified. kinesis-local "
        "creates four.",
        [Pattern("creating without shard count/CreateStream", OUTCOME, VALIDATION, SUCCESS)],
    ),
    Difference(
        "embedded",
        "The hash key ranges of two shards meet at half of 2^128, as in kinesalite. kinesis-local divides "
        "2^128 - 1.",
        [
            Pattern("creating two shards/ListShards", "Shards.0.*.EndingHashKey", "*727", "*726"),
            Pattern("creating two shards/ListShards", "Shards.1.*.StartingHashKey", "*728", "*727"),
        ],
    ),
    Difference(
        "either",
        "The reference does not describe an ARN that contradicts a name or an iterator.",
        [
            Pattern("name and arn/*: of two streams", OUTCOME, INVALID, NOT_FOUND),
            Pattern(
                "reading with invalid arguments/GetRecords: by the ARN of another",
                OUTCOME,
                INVALID,
                NOT_FOUND,
            ),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, a page starts after the given name or shard id. kinesis-local starts "
        "with the first one if the given one does not exist.",
        [
            Pattern("*/ListStreams: after an unknown one", "StreamNames", "list of 1", "list of *"),
            Pattern("*/ListShards: after an unknown one", "Shards", "list of 0", "list of 5"),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, tokens of ListShards expire after 300 seconds. Those of kinesis-local "
        "do not.",
        [Pattern("expiring/ListShards: late", OUTCOME, EXPIRED, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, AT_TRIM_HORIZON returns the shards that were open at that time. "
        "kinesis-local returns all.",
        [Pattern("*/ListShards: AT_TRIM_HORIZON", "Shards", "list of 3", "list of 6")],
    ),
    Difference(
        "either",
        "According to the reference, FROM_TIMESTAMP before the trim horizon counts as the trim horizon. It "
        "does not describe such an AT_TIMESTAMP. The embedded stream treats it in the same way; kinesis- "
        "local returns all shards.",
        [Pattern("*/ListShards: AT_TIMESTAMP before all", "Shards", "list of 3", "list of 6")],
    ),
    Difference(
        "embedded",
        "According to the reference, only an AFTER_SHARD_ID filter has a ShardId. kinesis-local ignores "
        "others.",
        [Pattern("*/ListShards: AT_LATEST of a shard", OUTCOME, INVALID, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, a single record fails because of throughput or an internal failure. "
        "Because of the size of a record, the whole call fails (issue 680 of the KPL).",
        [Pattern("putting many with a large one/PutRecords", OUTCOME, VALIDATION, SUCCESS)],
    ),
    Difference(
        "embedded",
        "According to the reference, PutRecords accepts 10 MiB. kinesis-local accepts more, but takes many "
        "seconds.",
        [
            Pattern("*/PutRecords: exactly", OUTCOME, SUCCESS, NOT_CALLED),
            Pattern("*/PutRecords: and more", OUTCOME, INVALID, NOT_CALLED),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, MillisBehindLatest is how far the consumer is behind the current time, "
        "and 0 if there are no new records. In kinesis-local it is the time from the last record of the "
        "page to the last record of the shard, which is 0 too early if both arrived at the same time.",
        [
            Pattern("reading/GetRecords: two", "MillisBehindLatest", "8000", "4000"),
            Pattern("reading/GetRecords: two once more", "MillisBehindLatest", "14000", "4000"),
            Pattern("*/GetRecords: one of the parent", "MillisBehindLatest", "80000", "2000"),
            Pattern("reading records of one call/GetRecords: two", "MillisBehindLatest", "4000", "0"),
        ],
    ),
    Difference(
        "embedded",
        "The service accepts sequence numbers of the shard and returns InvalidArgumentException for others, "
        "as kinesalite does. kinesis-local searches for a record with the number, if the shard has any "
        "records.",
        [
            Pattern("starting with invalid arguments/*_SEQUENCE_NUMBER of *", OUTCOME, INVALID, NOT_FOUND),
            Pattern("starting from the number of another stream/*", OUTCOME, INVALID, NOT_FOUND),
            Pattern("reading from the * of a shard/GetShardIterator: *", OUTCOME, SUCCESS, NOT_FOUND),
            Pattern("reading from the * of a shard/GetRecords: *", OUTCOME, SUCCESS, NOT_CALLED),
        ],
    ),
    Difference(
        "embedded",
        "The service returns an error for TRIM_HORIZON or LATEST with a number, as kinesalite does.",
        [
            Pattern(
                "starting with invalid arguments/GetShardIterator: * of a number", OUTCOME, INVALID, SUCCESS
            )
        ],
    ),
    Difference(
        "embedded",
        "The end of a closed shard is above its records. In kinesis-local, it is always "
        "9223372036854775807, which is below them.",
        [Pattern("*", "*Shards.*.EndingSequenceNumber", "above * of * records", "above 0 of * records")],
    ),
    Difference(
        "embedded",
        "The start of the child of a merge is above its parents. In kinesis-local, it is the start of the "
        "first parent.",
        [
            Pattern(
                "merging/ListShards", "Shards.3.*.StartingSequenceNumber", "above 2 of 4 *", "above 0 of 4 *"
            )
        ],
    ),
    Difference(
        "embedded",
        "The service requires a key that is more than one above the first key of the shard and below the "
        "last one, as kinesalite does. kinesis-local accepts all three, and splits the shard.",
        [
            Pattern("splitting at the edges/SplitShard: the * key", OUTCOME, INVALID, SUCCESS),
            Pattern("splitting at the edges/ListShards: *", "Shards", "list of 9", "list of 1*"),
        ],
    ),
    Difference(
        "embedded",
        "The service returns InvalidArgumentException for a closed shard (issue 109 of kinesalite).",
        [Pattern("* a closed shard/*: again", OUTCOME, INVALID, IN_USE)],
    ),
    Difference(
        "embedded",
        "According to the reference, UNIFORM_SCALING creates shards of equal size. kinesis-local splits or "
        "merges only as many shards as necessary.",
        [
            Pattern("scaling/ListShards: up", "Shards", "list of 13", "list of 7"),
            Pattern("scaling/ListShards: down", "Shards", "list of 21", "list of 9"),
            Pattern("scaling/ListShards: nowhere", "Shards", "list of 21", "list of 9"),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, more than double and less than half exceed a limit. kinesis-local "
        "returns another error for the former, and rounds down for the latter.",
        [
            Pattern(
                "scaling with invalid arguments/UpdateShardCount: to more than double",
                OUTCOME,
                LIMIT,
                INVALID,
            ),
            Pattern(
                "scaling with invalid arguments/UpdateShardCount: to less than half", OUTCOME, LIMIT, SUCCESS
            ),
        ],
    ),
    Difference(
        "embedded",
        "According to the reference, records expire after the retention period. kinesis-local keeps them.",
        [Pattern("trimming records/GetRecords: *", "Records", "list of 1", "list of 2")],
    ),
]
