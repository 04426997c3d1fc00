"""CPU of a call that returns no records, made in different ways: the cost of a call without its page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
from botocore.awsrequest import AWSRequest

from benchmarks.harness.single_process import REGION
from benchmarks.harness.spread import Spread
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import PAGE_LIMIT, ClientSettings
from kinesis_assets.kinesis.transport.concurrency import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.servers.replay_client import ReplayServer

EMPTY = StreamSpec("empty", shards=1, pages=0, page_records=1)
CALLS = 200

DIRECT = "as a reading makes it"
SESSION = "signed and parsed in the same way, but sent by the HTTP session of the AWS SDK"
SDK = "by the AWS SDK alone"


def measure(server: ReplayServer, rounds: int) -> dict[str, Spread]:
    """Return the CPU of this process for one GetRecords in milliseconds, by the way in which it is made."""
    server.create(EMPTY)
    client = StreamClient(EMPTY.name, ClientSettings(REGION, server.url), attempts=1)
    sdk_client = StreamClient(EMPTY.name, ClientSettings(REGION, server.url, sdk_parser=True))
    shard_id = client.list_shards()[0].shard_id
    iterator = client.shard_iterator(shard_id, Position(PositionKind.TRIM_HORIZON))
    ways: dict[str, Callable[[], None]] = {
        DIRECT: lambda: run(_calls_of_reading(client, iterator)),
        SESSION: _calls_by_session(client, iterator),
        SDK: lambda: run(_calls_of_reading(sdk_client, iterator)),
    }
    milliseconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):  # the first round is a warm-up
        for way, calls in ways.items():
            started = time.process_time()
            calls()
            if number:
                milliseconds[way].append((time.process_time() - started) / CALLS * 1e3)
    server.delete(EMPTY.name)
    return {way: Spread.of(values) for way, values in milliseconds.items()}


def describe(milliseconds: Mapping[str, Spread]) -> str:
    """Return the text of the report."""
    ways = "; ".join(f"{spread.text(2)} ms {way}" for way, spread in milliseconds.items())
    return f"CPU of one call that returns no records, without waits between calls: {ways}."


async def _calls_of_reading(client: StreamClient, iterator: str) -> None:
    for _ in range(CALLS):
        await client.getting_records(iterator, PAGE_LIMIT)


def _calls_by_session(client: StreamClient, iterator: str) -> Callable[[], None]:
    direct = client._records_call  # noqa: SLF001
    assert direct is not None
    session = client._client._endpoint.http_session  # noqa: SLF001
    body = msgspec.json.encode({"ShardIterator": iterator, "Limit": PAGE_LIMIT})

    def calls() -> None:
        for _ in range(CALLS):
            request = AWSRequest("POST", direct.requests.url, direct.requests.headers, body)
            direct.requests.signing.signer.sign("GetRecords", request)
            direct._decoder.decode(session.send(request.prepare()).content).to_result()  # noqa: SLF001

    return calls
