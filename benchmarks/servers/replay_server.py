"""The replay server: a Kinesis endpoint on the loopback that sends pages built in advance.

    python -m benchmarks.servers.replay_server

prints its URL and serves until it receives SIGTERM. It supports the operations that readers call
(DescribeStreamSummary, DescribeStream, ListShards, GetShardIterator, GetRecords) in JSON, the protocol of the
AWS SDK for Python, and verifies neither signatures nor arguments. The reader is to be measured and not the
server, so a response costs a dictionary lookup and the copies of a socket. `benchmarks.servers.replay_client`
controls it.
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
SHARDS_PER_PAGE = 1000
"""See ListShards in the Kinesis API reference."""

SECONDS_BETWEEN_CALLS = 0.2
BYTES_PER_SECOND = 2_000_000
HASH_KEYS = 1 << 128
_END_OF_HEAD = b"\r\n\r\n"


class ErrorResponse(Exception):
    """An error response.

    Args:
        code: Its name in the Kinesis API.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Request(msgspec.Struct, rename="pascal"):
    """The fields that the server reads, of all operations."""

    stream_name: str | None = None
    stream_a_r_n: str | None = msgspec.field(default=None, name="StreamARN")
    shard_id: str = ""
    shard_iterator: str = ""
    shard_iterator_type: str = ""
    starting_sequence_number: str = "0"
    timestamp: float = 0.0
    next_token: str | None = None
    max_results: int = SHARDS_PER_PAGE
    limit: int = 10_000
    exclusive_start_shard_id: str | None = None


class Replay:
    """The state of the server.

    Attributes:
        latency: Seconds until a response is sent; control calls are not delayed.
        calls: Number of calls by operation, since the counters were last read.
    """

    def __init__(self) -> None:
        self.latency = 0.0
        self.calls: Counter[str] = Counter()
        self._streams: dict[str, ReplayStream] = {}
        self._next_call: dict[tuple[str, int], float] = {}
        self._request = msgspec.json.Decoder(_Request)

    def respond(self, operation: str, body: bytes) -> bytes:
        """Return the body of the response to a call.

        Raises:
            ErrorResponse: The response is an error.
        """
        self.calls[operation] += 1
        request = self._request.decode(body)
        operations: dict[str, Callable[[_Request], Any]] = {
            "DescribeStreamSummary": self._summary,
            "DescribeStream": self._description,
            "ListShards": self._shards,
            "GetShardIterator": self._iterator,
        }
        if operation == "GetRecords":
            return self._page(request)
        if operation not in operations:
            raise ErrorResponse("UnknownOperationException", f"{operation} is not supported")
        return msgspec.json.encode(operations[operation](request))

    def control(self, command: str, body: bytes) -> bytes:
        """Run a control command of `benchmarks.servers.replay_client.ReplayServer`."""
        if command == "create":
            spec = msgspec.json.decode(body, type=StreamSpec)
            self._streams[spec.name] = ReplayStream(spec)
        elif command == "delete":
            self._streams.pop(msgspec.json.decode(body, type=str), None)
        elif command == "latency":
            self.latency = msgspec.json.decode(body, type=float) / 1000
        elif command == "calls":
            calls, self.calls = self.calls, Counter()
            return msgspec.json.encode(calls)
        else:
            raise ErrorResponse("UnknownOperationException", f"unknown command {command}")
        return b"null"

    def _stream(self, request: _Request) -> ReplayStream:
        name = request.stream_name or (request.stream_a_r_n or "").rpartition("/")[2]
        return self._named(name)

    def _named(self, name: str) -> ReplayStream:
        if name not in self._streams:
            raise ErrorResponse(
                "ResourceNotFoundException", f"Stream {name} under account 000000000000 not found."
            )
        return self._streams[name]

    def _summary(self, request: _Request) -> dict[str, Any]:
        stream = self._stream(request)
        return {"StreamDescriptionSummary": {**_description_of(stream), "OpenShardCount": stream.spec.shards}}

    def _description(self, request: _Request) -> dict[str, Any]:
        stream = self._stream(request)
        after = request.exclusive_start_shard_id
        first = 0 if after is None else _shard_index(after) + 1
        shards = _list_shards(stream, first, 100)
        more = first + len(shards) < stream.spec.shards
        return {"StreamDescription": {**_description_of(stream), "Shards": shards, "HasMoreShards": more}}

    def _shards(self, request: _Request) -> dict[str, Any]:
        first = 0
        if request.next_token is not None:
            name, _, start = request.next_token.rpartition(":")
            stream, first = self._named(name), int(start)
        else:
            stream = self._stream(request)
        shards = _list_shards(stream, first, min(request.max_results, SHARDS_PER_PAGE))
        after = first + len(shards)
        response: dict[str, Any] = {"Shards": shards}
        if after < stream.spec.shards:
            response["NextToken"] = f"{stream.spec.name}:{after}"
        return response

    def _iterator(self, request: _Request) -> dict[str, str]:
        stream, shard = self._stream(request), _shard_index(request.shard_id)
        if shard >= stream.spec.shards:
            raise ErrorResponse("ResourceNotFoundException", f"Shard {request.shard_id} does not exist.")
        number = request.starting_sequence_number
        indexes: dict[str, Callable[[], int]] = {
            "TRIM_HORIZON": lambda: 0,
            "LATEST": lambda: stream.spec.shard_records,
            "AT_TIMESTAMP": lambda: stream.index_at(request.timestamp),
            "AT_SEQUENCE_NUMBER": lambda: stream.index_of(shard, number),
            "AFTER_SEQUENCE_NUMBER": lambda: stream.index_of(shard, str(int(number) + 1)),
        }
        index = indexes[request.shard_iterator_type]()
        return {"ShardIterator": iterator(stream.spec.name, shard, index)}

    def _page(self, request: _Request) -> bytes:
        name, shard, index = request.shard_iterator.rsplit(":", 2)
        stream = self._named(name)
        if not stream.spec.throttled:
            return stream.page(int(shard), int(index), request.limit)
        now, key = time.monotonic(), (name, int(shard))
        if now < self._next_call.get(key, 0.0):
            raise ErrorResponse("ProvisionedThroughputExceededException", f"Rate exceeded for shard {shard}")
        body = stream.page(int(shard), int(index), request.limit)
        seconds = max(SECONDS_BETWEEN_CALLS, len(body) * 0.75 / BYTES_PER_SECOND)
        self._next_call[key] = now + seconds
        return body


def _description_of(stream: ReplayStream) -> dict[str, Any]:
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


def _list_shards(stream: ReplayStream, first: int, count: int) -> list[dict[str, Any]]:
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


def _shard_index(shard_id: str) -> int:
    return int(shard_id.removeprefix("shardId-"))


class _Connection(asyncio.Protocol):
    """A connection: requests with a Content-Length, one after the other."""

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
            self._respond(head.split(" ", 2)[1], headers.get("x-amz-target", ""), body)

    def _respond(self, path: str, target: str, body: bytes) -> None:
        status = b"200 OK"
        try:
            if path.startswith("/control/"):
                self._send(status, self._replay.control(path.removeprefix("/control/"), body))
                return
            response = self._replay.respond(target.rpartition(".")[2], body)
        except ErrorResponse as error:
            status = b"400 Bad Request"
            response = msgspec.json.encode({"__type": error.code, "message": str(error)})
        if self._replay.latency:
            asyncio.get_running_loop().call_later(self._replay.latency, self._send, status, response)
        else:
            self._send(status, response)

    def _send(self, status: bytes, body: bytes) -> None:
        head = (
            b"HTTP/1.1 %s\r\nDate: %s\r\nContent-Type: application/x-amz-json-1.1\r\n"
            b"x-amzn-RequestId: c0ffee00-0000-4000-8000-000000000000\r\nContent-Length: %d\r\n\r\n"
        ) % (status, formatdate(usegmt=True).encode(), len(body))
        if not self._transport.is_closing():
            # Two writes, because joining them would copy the body.
            self._transport.write(head)
            self._transport.write(body)


async def serve() -> None:
    """Print the URL of a free port, and serve on it until SIGTERM."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    replay = Replay()
    server = await loop.create_server(lambda: _Connection(replay), LOOPBACK, 0, backlog=2048)
    port = server.sockets[0].getsockname()[1]
    print(f"http://{LOOPBACK}:{port}", flush=True)  # noqa: T201  # read by `replay_server`
    await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve())
