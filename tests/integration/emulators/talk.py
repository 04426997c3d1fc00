"""One endpoint's side of a conversation, and what of it can be compared with another's.

What no two endpoints can have in common is told by what it stands for: a sequence number by its place among
the puts to its shard, a time by the call that was made then, a token by its being there, and an error by its
code and HTTP status, as messages are for people.
"""

from __future__ import annotations

import json
import time
from bisect import bisect
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError

from integration.emulators.emulators import STOPPED_CHANGE_MS, Service, client

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_SECONDS = 20
SETTLE_SECONDS = 20
STEP_SECONDS = 2
"""Between two calls by the endpoint's clock: some things go by whole seconds."""

DAY = 86_400.0
MIB = 1024 * 1024
HASH_KEYS = 2**128
GARBAGE = "AAAAAAAAAAE="
NO_STREAM = "no-such-stream"
NOTHING = "nothing"
NOT_ASKED = "not asked"
TIMES = frozenset({"ApproximateArrivalTimestamp", "StreamCreationTimestamp"})
TOKENS = frozenset({"NextShardIterator", "NextToken", "ShardIterator"})


Said = dict[str, Any] | str
"""An answer, or why there is none."""


class Answer(dict[str, Any]):
    """The members of an answer; one that it does not have is NOTHING."""

    def __missing__(self, member: str) -> str:
        return NOTHING


class Talk:
    """Makes the calls of one conversation to one endpoint, by a clock that moves on with each call.

    Attributes:
        stream: The name of the conversation's stream.
        now: The time of the last call, in seconds since the epoch.
    """

    def __init__(self, service: Service, stream: str, now: float, is_asked: Callable[[str], bool]) -> None:
        self.stream = stream
        self.now = now
        self._service = service
        self._is_asked = is_asked
        self._said: dict[str, Said] = {}
        self._calls: dict[int, str] = {}
        self._body = b""
        # What is wrong with a call is for the service to say; and nothing is tried twice.
        self._kinesis = client(
            service.endpoint,
            parameter_validation=False,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": 1},
        )
        self._kinesis.meta.events.register("before-parse.kinesis.*", self._keep_body)

    def __call__(self, operation: str, note: str = "", /, **arguments: Any) -> Answer:
        """Make a call, and return its answer; it is empty after an error or where the call is not made.

        A call is not made where that is listed, and where it needs what an earlier answer did not have.
        """
        step = f"{operation}: {note}" if note else operation
        assert step not in self._said, f"{step} is said twice"
        self.later(STEP_SECONDS)
        self._calls[round(self.now * 1000)] = step
        if NOTHING in arguments.values() or not self._is_asked(step):
            self._said[step] = NOT_ASKED
            return Answer()
        try:
            answer = Answer(getattr(self._kinesis, xform_name(operation))(**arguments))
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            self._said[step] = f"{error.response['Error']['Code']} ({status})"
            return Answer()
        self._said[step] = json.loads(self._body or b"{}")
        return answer

    @property
    def name(self) -> dict[str, str]:
        """What names the stream in a call."""
        return {"StreamName": self.stream}

    @property
    def arn(self) -> str:
        """The stream's ARN."""
        return arn(self.stream)

    def later(self, seconds: float) -> None:
        """Move the clock on."""
        self.now += seconds
        self._service.stop_clock(self.now)

    def settle(self) -> None:
        """Wait until the stream is ACTIVE or gone."""
        self.later(STOPPED_CHANGE_MS / 1000)
        deadline = time.monotonic() + SETTLE_SECONDS
        with suppress(self._kinesis.exceptions.ResourceNotFoundException):
            while self._status() != "ACTIVE":
                assert time.monotonic() < deadline, f"{self.stream} does not settle"

    def create(self, shard_count: int, **arguments: Any) -> None:
        """Create the stream and wait for it."""
        self("CreateStream", StreamName=self.stream, ShardCount=shard_count, **arguments)
        self.settle()

    def iterator(self, note: str, **arguments: Any) -> str:
        """An iterator of the stream's first shard from its beginning, unless told otherwise."""
        usual = self.name | {"ShardId": shard_id(0), "ShardIteratorType": "TRIM_HORIZON"}
        iterator: str = self("GetShardIterator", note, **usual | arguments)["ShardIterator"]
        return iterator

    def read(self, note: str, **arguments: Any) -> None:
        """Take such an iterator and read from it."""
        self("GetRecords", note, ShardIterator=self.iterator(note, **arguments))

    def close(self) -> None:
        """Let the endpoint's clock go on."""
        self._service.stop_clock(None)
        self._kinesis.close()

    def said(self) -> dict[str, Said]:
        """Every call with its answer, in comparable terms."""
        puts = self._puts()
        return {step: self._plain(answer, puts) for step, answer in self._said.items()}

    def _keep_body(self, response_dict: dict[str, Any], **_: Any) -> None:
        # boto3 hides nulls, and members that it does not know.
        self._body = response_dict["body"]

    def _status(self) -> str:
        answer = self._kinesis.describe_stream_summary(StreamName=self.stream)
        status: str = answer["StreamDescriptionSummary"]["StreamStatus"]
        return status

    def _puts(self) -> dict[int, str]:
        """The shard of every sequence number that a put was answered with."""
        told = [answer for step, answer in self._said.items() if step.startswith("Put")]
        entries = [
            entry for answer in told if isinstance(answer, dict) for entry in answer.get("Records", [answer])
        ]
        return {
            int(entry["SequenceNumber"]): entry["ShardId"] for entry in entries if entry["SequenceNumber"]
        }

    def _plain(self, value: Any, puts: dict[int, str]) -> Any:
        if isinstance(value, list):
            return [self._plain(item, puts) for item in value]
        if not isinstance(value, dict):
            return value
        plain = {name: self._plain(member, puts) for name, member in value.items()}
        plain |= {name: "some" for name in TOKENS & value.keys() if value[name]}
        for name in TIMES & value.keys():
            plain[name] = self._calls.get(round(value[name] * 1000), "no call")
        if value.get("SequenceNumber"):
            plain["SequenceNumber"] = _rank(int(value["SequenceNumber"]), puts)
        if "SequenceNumberRange" in value:
            family = {value["ShardId"], value.get("ParentShardId"), value.get("AdjacentParentShardId")}
            numbers = sorted(number for number, shard in puts.items() if shard in family)
            for name, bound in value["SequenceNumberRange"].items():
                plain["SequenceNumberRange"][name] = bound and _place(int(bound), numbers)
        return plain


def shard_id(number: int) -> str:
    """The name of a stream's shard."""
    return f"shardId-{number:012}"


def arn(stream: str) -> str:
    """The ARN of the stream of that name."""
    return f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream}"


def moment(seconds: float) -> datetime:
    """A time as boto3 takes it, to the millisecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(seconds * 1000))


def _rank(number: int, puts: dict[int, str]) -> str:
    """Which put to its shard a sequence number belongs to, by their order."""
    shard = puts.get(number)
    numbers = sorted(other for other, put_to in puts.items() if put_to == shard)
    return f"record {numbers.index(number)} of {shard}" if shard else "of no put"


def _place(bound: int, numbers: list[int]) -> str:
    """Where the bound of a shard is among the records of the shard and its parents."""
    return "at a record" if bound in numbers else f"above {bisect(numbers, bound)} of {len(numbers)} records"
