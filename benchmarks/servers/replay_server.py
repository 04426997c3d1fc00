"""The replay server: a Kinesis endpoint on the loopback that sends pages made beforehand.

    python -m benchmarks.servers.replay_server

prints its URL and serves until it is told to stop. It answers what readers call (DescribeStreamSummary,
DescribeStream, ListShards, GetShardIterator, GetRecords) in JSON, which is what the AWS SDK for Python talks;
nothing is signed, nothing checked. What is measured is the reader, so an answer costs a look into a
dictionary and the copies of a socket; `benchmarks.servers.replay_client` is how it is told what to serve.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.servers.replay_streams import ReplayStream, StreamSpec, iterator

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
SHARDS_A_PAGE = 1000
"""AWS API reference, ListShards."""

SECONDS_BETWEEN_CALLS = 0.2
BYTES_PER_SECOND = 2_000_000
HASH_KEYS = 1 << 128
_END_OF_HEAD = b"\r\n\r\n"


class Refused(Exception):
    """An answer that is an error.

    Args:
        code: Its name in the service's API.
        message: What is wrong.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Request(msgspec.Struct, rename="pascal"):
    """What is looked at of any operation's request."""

    stream_name: str | None = None
    stream_a_r_n: str | None = msgspec.field(default=None, name="StreamARN")
    shard_id: str = ""
    shard_iterator: str = ""
    shard_iterator_type: str = ""
    starting_sequence_number: str = "0"
    timestamp: float = 0.0
    next_token: str | None = None
    max_results: int = SHARDS_A_PAGE
    limit: int = 10_000
    exclusive_start_shard_id: str | None = None


class Replay:
    """What the server knows.

    Attributes:
        latency: Seconds until an answer is sent; control calls are answered at once.
        calls: By operation, since they were last read.
    """

    def __init__(self) -> None:
        self.latency = 0.0
        self.calls: Counter[str] = Counter()
        self._streams: dict[str, ReplayStream] = {}
        self._next_call: dict[tuple[str, int], float] = {}
        self._request = msgspec.json.Decoder(_Request)

    def answer(self, operation: str, body: bytes) -> bytes:
        """The body of an answer.

        Raises:
            Refused: It is an error.
        """
        self.calls[operation] += 1
        request = self._request.decode(body)
        answers: dict[str, Callable[[_Request], Any]] = {
            "DescribeStreamSummary": self._summary,
            "DescribeStream": self._description,
            "ListShards": self._shards,
            "GetShardIterator": self._iterator,
        }
        if operation == "GetRecords":
            return self._page(request)
        if operation not in answers:
            raise Refused("UnknownOperationException", f"{operation} is not served")
        return msgspec.json.encode(answers[operation](request))

    def control(self, command: str, body: bytes) -> bytes:
        """Do what `benchmarks.servers.replay_client.Replay` asks for."""
        if command == "create":
            spec = msgspec.json.decode(body, type=StreamSpec)
            self._streams[spec.name] = ReplayStream(spec)
        elif command == "delete":
            self._streams.pop(msgspec.json.decode(body, type=str), None)
        elif command == "latency":
            self.latency = msgspec.json.decode(body, type=float) / 1000
        elif command == "calls":
            told, self.calls = self.calls, Counter()
            return msgspec.json.encode(told)
        else:
            raise Refused("UnknownOperationException", f"{command} is no command")
        return b"null"

    def _stream(self, request: _Request) -> ReplayStream:
        name = request.stream_name or (request.stream_a_r_n or "").rpartition("/")[2]
        return self._named(name)

    def _named(self, name: str) -> ReplayStream:
        if name not in self._streams:
            raise Refused("ResourceNotFoundException", f"Stream {name} under account 000000000000 not found.")
        return self._streams[name]

    def _summary(self, request: _Request) -> dict[str, Any]:
        stream = self._stream(request)
        return {"StreamDescriptionSummary": {**_about(stream), "OpenShardCount": stream.spec.shards}}

    def _description(self, request: _Request) -> dict[str, Any]:
        stream = self._stream(request)
        after = request.exclusive_start_shard_id
        first = 0 if after is None else _number(after) + 1
        shards = _listed(stream, first, 100)
        more = first + len(shards) < stream.spec.shards
        return {"StreamDescription": {**_about(stream), "Shards": shards, "HasMoreShards": more}}

    def _shards(self, request: _Request) -> dict[str, Any]:
        first = 0
        if request.next_token is not None:
            name, _, start = request.next_token.rpartition(":")
            stream, first = self._named(name), int(start)
        else:
            stream = self._stream(request)
        shards = _listed(stream, first, min(request.max_results, SHARDS_A_PAGE))
        after = first + len(shards)
        answer: dict[str, Any] = {"Shards": shards}
        if after < stream.spec.shards:
            answer["NextToken"] = f"{stream.spec.name}:{after}"
        return answer

    def _iterator(self, request: _Request) -> dict[str, str]:
        stream, shard = self._stream(request), _number(request.shard_id)
        if shard >= stream.spec.shards:
            raise Refused("ResourceNotFoundException", f"Shard {request.shard_id} does not exist.")
        number = request.starting_sequence_number
        places: dict[str, Callable[[], int]] = {
            "TRIM_HORIZON": lambda: 0,
            "LATEST": lambda: stream.spec.shard_records,
            "AT_TIMESTAMP": lambda: stream.index_at(request.timestamp),
            "AT_SEQUENCE_NUMBER": lambda: stream.index_of(shard, number),
            "AFTER_SEQUENCE_NUMBER": lambda: stream.index_of(shard, str(int(number) + 1)),
        }
        index = places[request.shard_iterator_type]()
        return {"ShardIterator": iterator(stream.spec.name, shard, index)}

    def _page(self, request: _Request) -> bytes:
        name, shard, index = request.shard_iterator.rsplit(":", 2)
        stream = self._named(name)
        if not stream.spec.throttled:
            return stream.page(int(shard), int(index), request.limit)
        now, place = time.monotonic(), (name, int(shard))
        if now < self._next_call.get(place, 0.0):
            raise Refused("ProvisionedThroughputExceededException", f"Rate exceeded for shard {shard}")
        body = stream.page(int(shard), int(index), request.limit)
        seconds = max(SECONDS_BETWEEN_CALLS, len(body) * 0.75 / BYTES_PER_SECOND)
        self._next_call[place] = now + seconds
        return body


def _about(stream: ReplayStream) -> dict[str, Any]:
    return {
        "StreamName": stream.spec.name,
        "StreamARN": f"arn:aws:kinesis:{REGION}:000000000000:stream/{stream.spec.name}",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": 24,
        "StreamCreationTimestamp": stream.created - 3600,
        "EnhancedMonitoring": [],
        "EncryptionType": "NONE",
    }


def _listed(stream: ReplayStream, first: int, count: int) -> list[dict[str, Any]]:
    shards = stream.spec.shards
    return [
        {
            "ShardId": f"shardId-{shard:012}",
            "HashKeyRange": {
                "StartingHashKey": str(HASH_KEYS * shard // shards),
                "EndingHashKey": str(HASH_KEYS * (shard + 1) // shards - 1),
            },
            "SequenceNumberRange": {"StartingSequenceNumber": stream.first_sequence_number(shard)},
        }
        for shard in range(first, min(first + count, shards))
    ]


def _number(shard_id: str) -> int:
    return int(shard_id.removeprefix("shardId-"))


class _Connection(asyncio.Protocol):
    """One connection: requests with a Content-Length, one after the other."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_END_OF_HEAD)) >= 0:
            head = self._received[:end].decode("latin-1")
            fields = dict(line.partition(": ")[::2] for line in head.split("\r\n")[1:])
            headers = {name.lower(): value for name, value in fields.items()}
            whole = end + len(_END_OF_HEAD) + int(headers.get("content-length", 0))
            if len(self._received) < whole:
                return
            body, self._received = self._received[end + len(_END_OF_HEAD) : whole], self._received[whole:]
            self._answer(head.split(" ", 2)[1], headers.get("x-amz-target", ""), body)

    def _answer(self, path: str, target: str, body: bytes) -> None:
        status = b"200 OK"
        try:
            if path.startswith("/control/"):
                self._send(status, self._replay.control(path.removeprefix("/control/"), body))
                return
            answer = self._replay.answer(target.rpartition(".")[2], body)
        except Refused as refused:
            status = b"400 Bad Request"
            answer = msgspec.json.encode({"__type": refused.code, "message": str(refused)})
        if self._replay.latency:
            asyncio.get_running_loop().call_later(self._replay.latency, self._send, status, answer)
        else:
            self._send(status, answer)

    def _send(self, status: bytes, body: bytes) -> None:
        head = (
            b"HTTP/1.1 %s\r\nDate: %s\r\nContent-Type: application/x-amz-json-1.1\r\n"
            b"x-amzn-RequestId: c0ffee00-0000-4000-8000-000000000000\r\nContent-Length: %d\r\n\r\n"
        ) % (status, formatdate(usegmt=True).encode(), len(body))
        if not self._transport.is_closing():
            # Apart, so that a large body is not copied for the sake of its head.
            self._transport.write(head)
            self._transport.write(body)


async def serve() -> None:
    """Print the URL of a free port, and serve it until SIGTERM."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    replay = Replay()
    server = await loop.create_server(lambda: _Connection(replay), LOOPBACK, 0, backlog=2048)
    port = server.sockets[0].getsockname()[1]
    print(f"http://{LOOPBACK}:{port}", flush=True)  # noqa: T201  # for who started it
    await over.wait()


if __name__ == "__main__":
    asyncio.run(serve())
