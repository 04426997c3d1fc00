"""Everything in which the public emulators answer otherwise than the embedded stream, and who is right.

The judge is the API reference, https://docs.aws.amazon.com/kinesis/latest/APIReference, with botocore's model
of the service. Where both are silent it is what is known of the service: kinesalite's own tests were made to
be run against it too, and issues quote its errors. Calls that an emulator cannot be asked are here as well.

A line that is no longer true fails the tests, as does a difference that no line covers. Where the embedded
stream is wrong without meaning to be, that is a bug and not listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, NamedTuple

from integration.emulators.compare import ANSWERED, OUTCOME
from integration.emulators.talk import NOT_ASKED, NOTHING

if TYPE_CHECKING:
    from integration.emulators.compare import Contrast

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


class Line(NamedTuple):
    """Patterns for the members of a Contrast; * stands for anything."""

    call: str
    what: str
    ours: str
    theirs: str

    def covers(self, contrast: Contrast) -> bool:
        """Whether this line tells of what was found."""
        found = (contrast.call, contrast.what, contrast.ours, contrast.theirs)
        return all(map(fnmatchcase, found, self))


@dataclass(frozen=True)
class Difference:
    """A reason for answering otherwise, and where it shows."""

    right: Literal["embedded", "emulator", "either"]
    why: str
    lines: list[Line]


SHARED = [
    Difference(
        "emulator",
        "A stream is CREATING, UPDATING or DELETING for a while. In the embedded stream changes take no "
        "time, by design: a client sees what a quick service would show.",
        [
            Line("*/DescribeStreamSummary: created a moment ago", "*.StreamStatus", "ACTIVE", "CREATING"),
            Line("*/DescribeStreamSummary: a moment ago", "*.StreamStatus", "ACTIVE", "UPDATING"),
            Line("*/DescribeStreamSummary: deleted a moment ago", OUTCOME, NOT_FOUND, ANSWERED),
            Line("*/MergeShards: at once", OUTCOME, ANSWERED, IN_USE),
        ],
    ),
    Difference(
        "embedded",
        "The model has dry runs. They are newer than the emulators.",
        [
            Line("trying/PutRecord", OUTCOME, DRY_RUN, ANSWERED),
            Line("trying/PutRecords", OUTCOME, DRY_RUN, ANSWERED),
            Line("trying/GetShardIterator: dry", OUTCOME, DRY_RUN, ANSWERED),
            Line("trying/GetRecords", OUTCOME, DRY_RUN, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "ListStreams has StreamSummaries and NextToken in the model. They are newer than the emulators.",
        [
            Line("*/ListStreams: eleven", "StreamSummaries", "list of 11", NOTHING),
            Line("*/ListStreams: two", "StreamSummaries", "list of 2", NOTHING),
            Line("*/ListStreams: two", "NextToken", "some", NOTHING),
            Line("*/ListStreams: two more by name", "StreamSummaries", "list of 2", NOTHING),
            Line("*/ListStreams: two more by name", "NextToken", "some", NOTHING),
            Line("*/ListStreams: two more by token", OUTCOME, ANSWERED, NOT_ASKED),
            Line("*/ListStreams: the last", "StreamSummaries", "list of 1", NOTHING),
            Line("*/ListStreams: none", "StreamSummaries", "list of 0", NOTHING),
            Line("*/ListStreams: after one that is not there", "StreamSummaries", "list of 1", NOTHING),
            Line("*/ListStreams: garbage for a token", OUTCOME, INVALID, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "ListShards can be asked for the stream of one creation time among those of one name, by the "
        "reference. The emulators tell of the one there is.",
        [Line("*/ListShards: of another time", OUTCOME, NOT_FOUND, ANSWERED)],
    ),
    Difference(
        "embedded",
        "The limit of a record is for its data and its partition key together, by the reference. The "
        "emulators count the data.",
        [Line("*/PutRecord: of 1 MiB and the key", OUTCOME, VALIDATION, ANSWERED)],
    ),
    Difference(
        "either",
        "The reference has StartingSequenceNumber for AT_SEQUENCE_NUMBER and AFTER_SEQUENCE_NUMBER, and no "
        "word on one with AT_TIMESTAMP. The emulators ignore one of the two.",
        [Line("*/GetShardIterator: AT_TIMESTAMP of a number", OUTCOME, INVALID, ANSWERED)],
    ),
    Difference(
        "either",
        "The reference has no word on an iterator of a stream that was deleted and created again. In the "
        "emulators the records of the new stream pass for those of the old one.",
        [Line("a streams life/GetRecords: from before", OUTCOME, NOT_FOUND, ANSWERED)],
    ),
    Difference(
        "embedded",
        "Expired shards are not listed, by the reference. The emulators keep them.",
        [
            Line("trimming shards/ListShards: a day", "Shards", "list of 2", "list of 3"),
            Line("trimming shards/GetShardIterator: a day", OUTCOME, NOT_FOUND, ANSWERED),
        ],
    ),
]

KINESALITE = [
    *SHARED,
    Difference(
        "embedded",
        "The model has on-demand streams, and their record distribution strategy. kinesalite is older.",
        [
            Line("creating on demand/CreateStream", OUTCOME, ANSWERED, VALIDATION),
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: of a provisioned one",
                OUTCOME,
                INVALID,
                NO_OPERATION,
            ),
            Line("distributing/UpdateStreamMode: to nothing", OUTCOME, VALIDATION, NO_OPERATION),
            Line("distributing/UpdateStreamMode", OUTCOME, ANSWERED, NO_OPERATION),
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: to AUTO",
                OUTCOME,
                ANSWERED,
                NO_OPERATION,
            ),
            Line("distributing/PutRecord: without a key", OUTCOME, ANSWERED, VALIDATION),
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: back", OUTCOME, ANSWERED, NO_OPERATION
            ),
            Line("distributing/PutRecord: in order", OUTCOME, INVALID, ANSWERED),
        ],
    ),
    Difference(
        "emulator",
        "The shards of a stream come and go when the change is done, and in the embedded stream at once.",
        [
            Line("*/DescribeStreamSummary: created a moment ago", "*.OpenShardCount", "3", "0"),
            Line("splitting/DescribeStreamSummary: a moment ago", "*.OpenShardCount", "2", "1"),
            Line("merging/DescribeStreamSummary: a moment ago", "*.OpenShardCount", "2", "3"),
        ],
    ),
    Difference(
        "embedded",
        "A stream goes by its name or its ARN, by the reference. kinesalite knows the name alone.",
        [
            Line("by arn/*", OUTCOME, ANSWERED, "*Exception (400)"),
            Line("unknown arn/*", OUTCOME, NOT_FOUND, "*Exception (400)"),
            Line("neither name nor arn/*", OUTCOME, INVALID, VALIDATION),
            Line("name and arn/*: no ARN", OUTCOME, VALIDATION, ANSWERED),
            Line("name and arn/*: of two streams", OUTCOME, INVALID, ANSWERED),
            Line("reading badly/GetRecords: by the ARN of another", OUTCOME, INVALID, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "The model has UpdateShardCount. kinesalite does not, and so has nothing to show of it.",
        [
            Line("unknown name/UpdateShardCount", OUTCOME, NOT_FOUND, NO_OPERATION),
            Line("neither name nor arn/UpdateShardCount", OUTCOME, INVALID, NO_OPERATION),
            Line("scaling badly/UpdateShardCount: to * than *", OUTCOME, LIMIT, NO_OPERATION),
            Line("scaling badly/UpdateShardCount: to no*", OUTCOME, VALIDATION, NO_OPERATION),
            Line("scaling badly/UpdateShardCount: anyhow", OUTCOME, VALIDATION, NO_OPERATION),
            Line("scaling/UpdateShardCount: *", OUTCOME, ANSWERED, NO_OPERATION),
            Line("scaling/DescribeStreamSummary: up", "*.OpenShardCount", "5", "3"),
            Line("scaling/ListShards: *", "Shards", "list of *", "list of 3"),
        ],
    ),
    Difference(
        "embedded",
        "The model has capacity modes, and records of more than 1 MiB. They are newer than kinesalite.",
        [
            Line("*/DescribeStream*", "*.StreamModeDetails", "some", NOTHING),
            Line("*/DescribeStreamSummary*", "*.MaxRecordSizeInKiB", "*", NOTHING),
            Line("creating with bad options/CreateStream: *", OUTCOME, VALIDATION, ANSWERED),
            Line("neither name nor arn/UpdateMaxRecordSize", OUTCOME, INVALID, NO_OPERATION),
            Line("*/UpdateMaxRecordSize: to 2 MiB", OUTCOME, ANSWERED, NO_OPERATION),
            Line("*/UpdateMaxRecordSize: to * KiB", OUTCOME, VALIDATION, NO_OPERATION),
            Line("*/UpdateMaxRecordSize: to nothing", OUTCOME, VALIDATION, NO_OPERATION),
            Line("creating for large records/PutRecord: of 2 MiB", OUTCOME, ANSWERED, VALIDATION),
            Line("resizing records/PutRecord: of more than 1 MiB", OUTCOME, ANSWERED, VALIDATION),
        ],
    ),
    Difference(
        "embedded",
        "Records can be kept for a year, by the reference. It was a week when kinesalite was written.",
        [
            Line("retaining/*: to 8760", OUTCOME, ANSWERED, VALIDATION),
            Line("retaining/DescribeStreamSummary: 8760", "*.RetentionPeriodHours", "8760", "168"),
        ],
    ),
    Difference(
        "embedded",
        "A retention period has no bounds in the model that could make it a ValidationException.",
        [
            Line("retaining/*: to 8761 from *", OUTCOME, INVALID, VALIDATION),
            Line("retaining/*: to 0 from *", OUTCOME, INVALID, VALIDATION),
            Line("retaining/*: to -1 from *", OUTCOME, INVALID, VALIDATION),
        ],
    ),
    Difference(
        "embedded",
        "ListStreams tells 100 streams by default, by the reference. It was 10 when kinesalite was written.",
        [
            Line("*/ListStreams: eleven", "StreamNames", "list of 11", "list of 10"),
            Line("*/ListStreams: eleven", "HasMoreStreams", "False", "True"),
        ],
    ),
    Difference(
        "embedded",
        "ListShards has MaxResults, NextToken and ShardFilter, by the reference. kinesalite tells all "
        "shards, whatever is asked.",
        [
            Line("*/ListShards: *", "Shards", "list of *", "list of *"),
            Line("*/ListShards: *", "NextToken", "some", NOTHING),
            Line("listing shards/ListShards: two more", OUTCOME, ANSWERED, NOT_ASKED),
            Line("*/ListShards: the rest", OUTCOME, ANSWERED, NOT_ASKED),
            Line("*/ListShards: a token and a *", OUTCOME, INVALID, NOT_ASKED),
            Line("expiring/ListShards: early", OUTCOME, ANSWERED, NOT_ASKED),
            Line("expiring/ListShards: late", OUTCOME, EXPIRED, NOT_ASKED),
            Line("filtering shards/ListShards: * of none", OUTCOME, INVALID, ANSWERED),
            Line("filtering shards/ListShards: AT_LATEST of a shard", OUTCOME, INVALID, ANSWERED),
            Line("filtering shards/ListShards: an unknown filter", OUTCOME, VALIDATION, ANSWERED),
            Line("filtering shards/ListShards: a filter of no type", OUTCOME, VALIDATION, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "kinesalite dies of ListShards with NextToken and without StreamName.",
        [Line("*/ListShards: garbage for a token", OUTCOME, INVALID, NOT_ASKED)],
    ),
    Difference(
        "embedded",
        "DescribeStream has Limit and ExclusiveStartShardId, by the reference. kinesalite ignores them.",
        [
            Line("describing shards/DescribeStream: *", "*.Shards", "list of *", "list of 3"),
            Line("describing shards/DescribeStream: two", "*.HasMoreShards", "True", "False"),
        ],
    ),
    Difference(
        "either",
        "The creation time is approximate, by the reference. kinesalite takes off two seconds and a "
        "fraction.",
        [Line("*/DescribeStream*", "*.StreamCreationTimestamp", "CreateStream*", "no call")],
    ),
    Difference(
        "embedded",
        "AT_TIMESTAMP without a record of that time is for the next one, by the reference. Where there is "
        "none yet, kinesalite never answers.",
        [Line("reading/*: past the tip", OUTCOME, ANSWERED, NOT_ASKED)],
    ),
    Difference(
        "embedded",
        "MillisBehindLatest is 0 when there are no new records to process, by the reference. In kinesalite "
        "it is always 0, but at the end of a closed shard the time since its close.",
        [
            Line("*/GetRecords: *", "MillisBehindLatest", "*000", "0"),
            Line("splitting*/GetRecords: LATEST*", "MillisBehindLatest", "0", "*"),
            Line("reading from the end of a shard/GetRecords: AT*", "MillisBehindLatest", "0", "*"),
            Line("reading from the end of a shard/GetRecords: AF*", "MillisBehindLatest", "0", "*"),
        ],
    ),
    Difference(
        "embedded",
        "The model has ChildShards at the end of a closed shard. They are newer than kinesalite.",
        [Line("*/GetRecords: *", "ChildShards", "list of *", NOTHING)],
    ),
    Difference(
        "either",
        "NextShardIterator is null when the shard is closed and nothing more comes, by the reference. That "
        "is with the last record in the embedded stream, and on one more page, which is empty, in "
        "kinesalite.",
        [
            Line("splitting*/GetRecords: *", "NextShardIterator", NOTHING, "some"),
            Line("merging/GetRecords: *", "NextShardIterator", NOTHING, "some"),
        ],
    ),
    Difference(
        "embedded",
        "A hash key has up to 39 digits in the model's pattern and no leading zero. kinesalite holds "
        "against it only one end of the text.",
        [
            Line("*/PutRecord: a hash key of 40 digits", OUTCOME, VALIDATION, INVALID),
            Line("*/PutRecord: a padded hash key", OUTCOME, VALIDATION, ANSWERED),
        ],
    ),
    Difference(
        "either",
        "SequenceNumberForOrdering is that of an earlier put, by the reference, which has no word on others.",
        [Line("*/PutRecord: a number of none to be after", OUTCOME, INVALID, ANSWERED)],
    ),
    Difference(
        "embedded",
        "PutRecords takes 10 MiB, by the reference. kinesalite takes bodies of 7 MiB.",
        [
            Line("*/PutRecords: exactly", OUTCOME, ANSWERED, "413 (413)"),
            Line("*/PutRecords: and more", OUTCOME, INVALID, "413 (413)"),
        ],
    ),
    Difference(
        "embedded",
        "The service refuses to split a closed shard (issue 109 of kinesalite).",
        [Line("* a closed shard/*: again", OUTCOME, INVALID, ANSWERED)],
    ),
]

KINESIS_LOCAL = [
    *SHARED,
    Difference(
        "embedded",
        "The model has on-demand streams, and their record distribution strategy. kinesis-local has the "
        "former alone.",
        [
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: of a provisioned one",
                OUTCOME,
                INVALID,
                ACCESS_DENIED,
            ),
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: to AUTO",
                OUTCOME,
                ANSWERED,
                ACCESS_DENIED,
            ),
            Line("distributing/PutRecord: without a key", OUTCOME, ANSWERED, SERIALIZATION),
            Line("distributing/PutRecord: without one again", OUTCOME, VALIDATION, SERIALIZATION),
            Line(
                "distributing/UpdateStreamRecordDistributionStrategy: back", OUTCOME, ANSWERED, ACCESS_DENIED
            ),
            Line("distributing/PutRecord: in order", OUTCOME, INVALID, ANSWERED),
        ],
    ),
    Difference(
        "either",
        "kinesis-local writes null for what is absent. boto3 shows no difference.",
        [Line("*", "*", NOTHING, "null")],
    ),
    Difference(
        "either",
        "EncryptionType and MaxRecordSizeInKiB are optional in the model.",
        [
            Line("*/PutRecord*", "EncryptionType", NOTHING, "NONE"),
            Line("*/GetRecords: *", "Records.*.EncryptionType", NOTHING, "NONE"),
            Line("*/DescribeStreamSummary*", "*.MaxRecordSizeInKiB", "1024", "null"),
        ],
    ),
    Difference(
        "embedded",
        "In the model UpdateShardCount answers with a StreamARN, and UpdateMaxRecordSize with nothing.",
        [
            Line("by arn/UpdateShardCount", "StreamARN", "arn:*", NOTHING),
            Line("scaling/UpdateShardCount: up", "StreamARN", "arn:*", NOTHING),
            Line("scaling/UpdateShardCount: down", "StreamARN", "arn:*", NOTHING),
            Line("scaling/UpdateShardCount: nowhere", "StreamARN", "arn:*", NOTHING),
            Line("*/UpdateMaxRecordSize: to 2 MiB", "*", NOTHING, "*"),
        ],
    ),
    Difference(
        "embedded",
        "The service tells of a member that is missing, or not of its enumeration, as ValidationException. "
        "kinesis-local fails to decode it.",
        [
            Line("creating *", OUTCOME, VALIDATION, SERIALIZATION),
            Line("name and arn/*: no ARN", OUTCOME, VALIDATION, SERIALIZATION),
            Line("filtering shards/ListShards: an unknown filter", OUTCOME, VALIDATION, SERIALIZATION),
            Line("filtering shards/ListShards: a filter of no type", OUTCOME, VALIDATION, SERIALIZATION),
            Line("* badly/*", OUTCOME, VALIDATION, SERIALIZATION),
            Line("* to nothing", OUTCOME, VALIDATION, SERIALIZATION),
        ],
    ),
    Difference(
        "embedded",
        "The service tells of a member out of the model's bounds as ValidationException: so does the "
        "reference of UpdateMaxRecordSize, and issue 680 of the KPL of a record's size.",
        [
            Line("creating *", OUTCOME, VALIDATION, INVALID),
            Line("creating badly/CreateStream: no shards", OUTCOME, VALIDATION, LIMIT),
            Line("resizing records/UpdateMaxRecordSize: to * KiB", OUTCOME, VALIDATION, INVALID),
            Line("listing streams/ListStreams: *", OUTCOME, VALIDATION, INVALID),
            Line("describing shards/DescribeStream: *", OUTCOME, VALIDATION, INVALID),
            Line("putting almost badly/PutRecord: a padded hash key", OUTCOME, VALIDATION, INVALID),
            Line("* badly/*", OUTCOME, VALIDATION, INVALID),
        ],
    ),
    Difference(
        "either",
        "The reference has InvalidArgumentException for a Limit of GetRecords above 10,000. kinesalite has "
        "ValidationException, and a test of it that was made to be run against the service too.",
        [Line("reading badly/GetRecords: too high a limit", OUTCOME, VALIDATION, INVALID)],
    ),
    Difference(
        "embedded",
        "What a client gets wrong is no failure of the service. kinesis-local fails on what it cannot "
        "decode.",
        [Line("*", OUTCOME, "*Exception (400)", "500 (500)")],
    ),
    Difference(
        "embedded",
        "The model has up to 10,000 MaxResults, and 1 to 500 Records. kinesis-local takes any number.",
        [
            Line("*/ListShards: too many results", OUTCOME, VALIDATION, ANSWERED),
            Line("*/PutRecords: 501", OUTCOME, VALIDATION, ANSWERED),
            Line("*/PutRecords: none", OUTCOME, VALIDATION, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "The number of provisioned shards must be specified, by the reference. kinesis-local makes four.",
        [Line("creating without shard count/CreateStream", OUTCOME, VALIDATION, ANSWERED)],
    ),
    Difference(
        "embedded",
        "The keys of two shards meet in the middle of 2^128, as in kinesalite. kinesis-local halves 2^128 - "
        "1.",
        [
            Line("creating two shards/ListShards", "Shards.0.*.EndingHashKey", "*727", "*726"),
            Line("creating two shards/ListShards", "Shards.1.*.StartingHashKey", "*728", "*727"),
        ],
    ),
    Difference(
        "either",
        "The reference has no word on an ARN that contradicts a name or an iterator.",
        [
            Line("name and arn/*: of two streams", OUTCOME, INVALID, NOT_FOUND),
            Line("reading badly/GetRecords: by the ARN of another", OUTCOME, INVALID, NOT_FOUND),
        ],
    ),
    Difference(
        "embedded",
        "A page follows the name or shard id that is given, by the reference. kinesis-local begins with the "
        "first where there is none such.",
        [
            Line("*/ListStreams: after one that is not there", "StreamNames", "list of 1", "list of *"),
            Line("*/ListShards: after one that is not there", "Shards", "list of 0", "list of 5"),
        ],
    ),
    Difference(
        "embedded",
        "Tokens of ListShards expire after 300 seconds, by the reference. Those of kinesis-local do not.",
        [Line("expiring/ListShards: late", OUTCOME, EXPIRED, ANSWERED)],
    ),
    Difference(
        "embedded",
        "AT_TRIM_HORIZON is for the shards that were open then, by the reference. kinesis-local tells all.",
        [Line("*/ListShards: AT_TRIM_HORIZON", "Shards", "list of 3", "list of 6")],
    ),
    Difference(
        "either",
        "FROM_TIMESTAMP before the trim horizon is moved up to it, by the reference, which has no word on "
        "such an AT_TIMESTAMP. The embedded stream does the same; kinesis-local tells all shards.",
        [Line("*/ListShards: AT_TIMESTAMP before all", "Shards", "list of 3", "list of 6")],
    ),
    Difference(
        "embedded",
        "A filter has a ShardId only if it is AFTER_SHARD_ID, by the reference. kinesis-local ignores it.",
        [Line("*/ListShards: AT_LATEST of a shard", OUTCOME, INVALID, ANSWERED)],
    ),
    Difference(
        "embedded",
        "A record fails by itself for throughput or an internal failure, by the reference. For its size the "
        "service refuses the whole call (issue 680 of the KPL).",
        [Line("putting many with a large one/PutRecords", OUTCOME, VALIDATION, ANSWERED)],
    ),
    Difference(
        "embedded",
        "PutRecords takes 10 MiB, by the reference. kinesis-local takes more, and many seconds for it.",
        [
            Line("*/PutRecords: exactly", OUTCOME, ANSWERED, NOT_ASKED),
            Line("*/PutRecords: and more", OUTCOME, INVALID, NOT_ASKED),
        ],
    ),
    Difference(
        "embedded",
        "MillisBehindLatest tells how far behind the current time the consumer is, and 0 that there are no "
        "new records, by the reference. In kinesis-local it is the time from the last record of the page to "
        "the last of the shard, and so 0 too early where they came together.",
        [
            Line("reading/GetRecords: two", "MillisBehindLatest", "8000", "4000"),
            Line("reading/GetRecords: two once more", "MillisBehindLatest", "14000", "4000"),
            Line("*/GetRecords: one of the parent", "MillisBehindLatest", "80000", "2000"),
            Line("reading what was put together/GetRecords: two", "MillisBehindLatest", "4000", "0"),
        ],
    ),
    Difference(
        "embedded",
        "The service takes the numbers that the shard gave out and refuses others as InvalidArgument, as "
        "kinesalite does. kinesis-local looks for a record of the number, if the shard has any.",
        [
            Line("starting badly/*_SEQUENCE_NUMBER of *", OUTCOME, INVALID, NOT_FOUND),
            Line("starting from the number of another stream/*", OUTCOME, INVALID, NOT_FOUND),
            Line("reading from the * of a shard/GetShardIterator: *", OUTCOME, ANSWERED, NOT_FOUND),
            Line("reading from the * of a shard/GetRecords: *", OUTCOME, ANSWERED, NOT_ASKED),
        ],
    ),
    Difference(
        "embedded",
        "The service refuses TRIM_HORIZON or LATEST with a number, as kinesalite does.",
        [Line("starting badly/GetShardIterator: * of a number", OUTCOME, INVALID, ANSWERED)],
    ),
    Difference(
        "embedded",
        "A closed shard ends above its records. In kinesis-local its end is always 9223372036854775807, "
        "which is below them.",
        [Line("*", "*Shards.*.EndingSequenceNumber", "above * of * records", "above 0 of * records")],
    ),
    Difference(
        "embedded",
        "The child of a merge begins above its parents. In kinesis-local it begins where the first of them "
        "does.",
        [Line("merging/ListShards", "Shards.3.*.StartingSequenceNumber", "above 2 of 4 *", "above 0 of 4 *")],
    ),
    Difference(
        "embedded",
        "The service wants a key more than one above the first of the shard and below its last, as "
        "kinesalite does. kinesis-local takes all three, and splits.",
        [
            Line("splitting at the edges/SplitShard: the * key", OUTCOME, INVALID, ANSWERED),
            Line("splitting at the edges/ListShards: *", "Shards", "list of 9", "list of 1*"),
        ],
    ),
    Difference(
        "embedded",
        "The service tells of a closed shard as InvalidArgument (issue 109 of kinesalite).",
        [Line("* a closed shard/*: again", OUTCOME, INVALID, IN_USE)],
    ),
    Difference(
        "embedded",
        "UNIFORM_SCALING makes shards of equal size, by the reference. kinesis-local splits or merges as "
        "few as make the number.",
        [
            Line("scaling/ListShards: up", "Shards", "list of 13", "list of 7"),
            Line("scaling/ListShards: down", "Shards", "list of 21", "list of 9"),
            Line("scaling/ListShards: nowhere", "Shards", "list of 21", "list of 9"),
        ],
    ),
    Difference(
        "embedded",
        "More than double and less than half are limits, by the reference. kinesis-local has another error "
        "for the one, and rounds the other down.",
        [
            Line("scaling badly/UpdateShardCount: to more than double", OUTCOME, LIMIT, INVALID),
            Line("scaling badly/UpdateShardCount: to less than half", OUTCOME, LIMIT, ANSWERED),
        ],
    ),
    Difference(
        "embedded",
        "Records are gone after the retention period, by the reference. kinesis-local keeps them.",
        [Line("trimming records/GetRecords: *", "Records", "list of 1", "list of 2")],
    ),
]

DIFFERENCES = {"kinesalite": KINESALITE, "kinesis-local": KINESIS_LOCAL}
"""The table, by emulator."""


def lines(emulator: str) -> list[Line]:
    """What the table has on an emulator, without the reasons."""
    return [line for difference in DIFFERENCES[emulator] for line in difference.lines]


def is_asked(emulator: str, call: str) -> bool:
    """Whether an emulator can be asked this."""
    return not any(line.theirs == NOT_ASKED and fnmatchcase(call, line.call) for line in lines(emulator))
