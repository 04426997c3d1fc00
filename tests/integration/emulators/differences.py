"""All differences between the public emulators and the embedded stream, and which of them is correct.

The authority is the API reference, https://docs.aws.amazon.com/kinesis/latest/APIReference, together with
botocore's model of the service. Where both say nothing, other knowledge about the service decides: the tests
of kinesalite were written to run against the service as well, and issues quote its errors. The list includes
calls that an emulator cannot serve and that are therefore not made.

The tests fail for a pattern that no longer applies, and for a difference that no pattern covers. An
unintended error of the embedded stream is a bug, and is not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple

from integration.emulators.compare import OUTCOME, SUCCESS
from integration.emulators.recorded_api import ABSENT, NOT_CALLED

if TYPE_CHECKING:
    from integration.emulators.compare import Mismatch

ACCESS_DENIED = "AccessDeniedException (400)"
DRY_RUN = "DryRunOperationException (400)"
EXPIRED = "ExpiredNextTokenException (400)"
IN_USE = "ResourceInUseException (400)"
INVALID = "InvalidArgumentException (400)"
LIMIT = "LimitExceededException (400)"
NOT_FOUND = "ResourceNotFoundException (400)"
NO_OPERATION = "UnknownOperationException (400)"
SERIALIZATION = "SerializationException (400)"
VALIDATION = "ValidationException (400)"


class Pattern(NamedTuple):
    """Patterns for the fields of a `Mismatch`; * matches any text."""

    call: str
    member: str
    ours: str
    theirs: str

    def covers(self, mismatch: Mismatch) -> bool:
        """Return whether this pattern matches."""
        found = (mismatch.call, mismatch.member, mismatch.ours, mismatch.theirs)
        return all(map(fnmatchcase, found, self))


@dataclass(frozen=True)
class Difference:
    """The reason for a difference.

    Attributes:
        correct: Whose behavior is correct.
        reason: The reason.
        patterns: The mismatches that it explains.
    """

    correct: Literal["embedded", "emulator", "either"]
    reason: str
    patterns: list[Pattern]


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

DIFFERENCES = {"kinesalite": KINESALITE, "kinesis-local": KINESIS_LOCAL}
"""The differences by emulator."""


def patterns(emulator: str) -> list[Pattern]:
    """Return all patterns for an emulator."""
    return [pattern for difference in DIFFERENCES[emulator] for pattern in difference.patterns]


def is_called(emulator: str, call: str) -> bool:
    """Return whether a call is made to an emulator."""
    return not any(
        pattern.theirs == NOT_CALLED and fnmatchcase(call, pattern.call) for pattern in patterns(emulator)
    )
