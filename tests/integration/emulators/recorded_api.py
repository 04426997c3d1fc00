"""Record the responses of an endpoint in a form that can be compared with those of another endpoint.

Values that differ between any two endpoints are replaced by their meaning: a sequence number by its rank
among the puts to its shard, a time by the call that was made at that time, a token by its presence, and an
error by its code and HTTP status, without its message.
"""

from __future__ import annotations

import json
from bisect import bisect
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError

from benchmarks.harness.waiting import SECONDS, wait_until
from integration.emulators.emulators import STOPPED_CHANGE_MS, Service, client

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_SECONDS = 2
"""Time between two calls by the clock of the endpoint. Some operations have a resolution of one second."""

DAY = 86_400.0
MIB = 1024 * 1024
HASH_KEYS = 2**128
GARBAGE = "AAAAAAAAAAE="
NO_STREAM = "no-such-stream"
ABSENT = "absent"
NOT_CALLED = "not called"
TIMES = frozenset({"ApproximateArrivalTimestamp", "ConsumerCreationTimestamp", "StreamCreationTimestamp"})
TOKENS = frozenset({"NextShardIterator", "NextToken", "ShardIterator"})


Outcome = dict[str, Any] | str
"""A response, or the reason why there is none."""


class Response(dict[str, Any]):
    """The members of a response; a missing member is ABSENT."""

    def __missing__(self, member: str) -> str:
        return ABSENT


class RecordedApi:
    """Makes and records the calls of a scenario; the clock of the endpoint advances with each call.

    Attributes:
        stream: The name of the scenario's stream.
        now: The time of the last call, in seconds since the epoch.
    """

    def __init__(self, service: Service, stream: str, now: float, is_called: Callable[[str], bool]) -> None:
        self.stream = stream
        self.now = now
        self._service = service
        self._is_called = is_called
        self._outcomes: dict[str, Outcome] = {}
        self._calls: dict[int, str] = {}
        self._body = b""
        # The endpoint validates the arguments, and no call is retried.
        self._kinesis = client(
            service.endpoint,
            parameter_validation=False,
            read_timeout=SECONDS,
            retries={"total_max_attempts": 1},
        )
        self._kinesis.meta.events.register("before-parse.kinesis.*", self._keep_body)

    def __call__(self, operation: str, note: str = "", /, **arguments: Any) -> Response:
        """Make a call and return its response, which is empty if the call fails or is not made.

        A call is not made if a list says so, or if an argument is missing from an earlier response.
        """
        step = f"{operation}: {note}" if note else operation
        assert step not in self._outcomes, f"{step} is called twice"
        self.advance(STEP_SECONDS)
        self._calls[round(self.now * 1000)] = step
        if ABSENT in arguments.values() or not self._is_called(step):
            self._outcomes[step] = NOT_CALLED
            return Response()
        try:
            response = Response(getattr(self._kinesis, xform_name(operation))(**arguments))
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            self._outcomes[step] = f"{error.response['Error']['Code']} ({status})"
            return Response()
        self._outcomes[step] = json.loads(self._body or b"{}")
        if "EventStream" in response:
            self._outcomes[step] = {"Events": list(response["EventStream"])}
        return response

    @property
    def name(self) -> dict[str, str]:
        """The argument that names the stream in a call."""
        return {"StreamName": self.stream}

    @property
    def arn(self) -> str:
        """The ARN of the stream."""
        return arn(self.stream)

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds
        self._service.stop_clock(self.now)

    def settle(self) -> None:
        """Wait until the stream is ACTIVE or deleted."""
        self.advance(STOPPED_CHANGE_MS / 1000)
        with suppress(self._kinesis.exceptions.ResourceNotFoundException):
            wait_until(
                lambda: self._status() == "ACTIVE",
                failure=f"{self.stream} does not become ACTIVE",
                interval=0.01,
            )

    def create(self, shard_count: int, **arguments: Any) -> None:
        """Create the stream, and wait until it is ACTIVE."""
        self("CreateStream", StreamName=self.stream, ShardCount=shard_count, **arguments)
        self.settle()

    def iterator(self, note: str, **arguments: Any) -> str:
        """Return an iterator, by default at TRIM_HORIZON of the first shard."""
        defaults = self.name | {"ShardId": shard_id(0), "ShardIteratorType": "TRIM_HORIZON"}
        iterator: str = self("GetShardIterator", note, **defaults | arguments)["ShardIterator"]
        return iterator

    def read(self, note: str, **arguments: Any) -> None:
        """Get an iterator, by default at TRIM_HORIZON of the first shard, and read from it."""
        self("GetRecords", note, ShardIterator=self.iterator(note, **arguments))

    def close(self) -> None:
        """Let the clock of the endpoint run again."""
        self._service.stop_clock(None)
        self._kinesis.close()

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcome of each call in a comparable form."""
        puts = self._puts()
        return {step: self._comparable(outcome, puts) for step, outcome in self._outcomes.items()}

    def _keep_body(self, response_dict: dict[str, Any], **_: Any) -> None:
        # boto3 removes nulls, and members that it does not know.
        body = response_dict["body"]
        self._body = body if isinstance(body, bytes) else b""

    def _status(self) -> str:
        response = self._kinesis.describe_stream_summary(StreamName=self.stream)
        status: str = response["StreamDescriptionSummary"]["StreamStatus"]
        return status

    def _puts(self) -> dict[int, str]:
        """Return the shard of every sequence number in the responses to puts."""
        puts = [outcome for step, outcome in self._outcomes.items() if step.startswith("Put")]
        entries = [
            entry
            for response in puts
            if isinstance(response, dict)
            for entry in response.get("Records", [response])
        ]
        return {
            int(entry["SequenceNumber"]): entry["ShardId"] for entry in entries if entry["SequenceNumber"]
        }

    def _comparable(self, value: Any, puts: dict[int, str]) -> Any:
        if isinstance(value, list):
            return [self._comparable(item, puts) for item in value]
        if not isinstance(value, dict):
            return value
        comparable = {name: self._comparable(member, puts) for name, member in value.items()}
        comparable |= {name: "some" for name in TOKENS & value.keys() if value[name]}
        for name in TIMES & value.keys():
            comparable[name] = self._calls.get(round(value[name] * 1000), "no call")
        if "ConsumerARN" in value:
            comparable["ConsumerARN"] = value["ConsumerARN"].rpartition(":")[0]  # the second follows
        if value.get("SequenceNumber"):
            comparable["SequenceNumber"] = _rank(int(value["SequenceNumber"]), puts)
        if "SequenceNumberRange" in value:
            family = {value["ShardId"], value.get("ParentShardId"), value.get("AdjacentParentShardId")}
            numbers = sorted(number for number, shard in puts.items() if shard in family)
            for name, bound in value["SequenceNumberRange"].items():
                comparable["SequenceNumberRange"][name] = bound and _describe_bound(int(bound), numbers)
        return comparable


def shard_id(number: int) -> str:
    """Return the id of a shard."""
    return f"shardId-{number:012}"


def arn(stream: str) -> str:
    """Return the ARN of a stream."""
    return f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream}"


def timestamp(seconds: float) -> datetime:
    """Return a time for boto3, with a resolution of a millisecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(seconds * 1000))


def _rank(number: int, puts: dict[int, str]) -> str:
    """Return the rank of a sequence number among the puts to its shard."""
    shard = puts.get(number)
    numbers = sorted(other for other, put_to in puts.items() if put_to == shard)
    return f"record {numbers.index(number)} of {shard}" if shard else "of no put"


def _describe_bound(bound: int, numbers: list[int]) -> str:
    """Describe the position of a shard's bound among the records of the shard and its parents."""
    return "at a record" if bound in numbers else f"above {bisect(numbers, bound)} of {len(numbers)} records"
