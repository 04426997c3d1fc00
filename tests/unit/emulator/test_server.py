import json
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from contextlib import closing
from http.client import HTTPConnection
from itertools import cycle
from multiprocessing import get_context

import pytest

from kinesis_assets.emulator import LocalKinesis
from support.producers import put_from_another_process

SERVE = "import sys; from kinesis_assets.emulator import serve; serve(0, lambda url: print(url, flush=True))"


def test_a_server_takes_requests_as_soon_as_it_is_entered(connect):
    with LocalKinesis() as local:
        assert connect(local).list_streams()["StreamNames"] == []


def test_a_server_can_be_put_on_a_given_port(connect):
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    with LocalKinesis(port) as local:
        assert local.endpoint_url == f"http://127.0.0.1:{port}"
        connect(local).list_streams()


def test_a_port_in_use_is_told_at_once():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(OSError, match="in use"):
        LocalKinesis(taken.getsockname()[1]).__enter__()


def test_a_stopped_server_is_gone(connect):
    with LocalKinesis() as local:
        connect(local).list_streams()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", local.port))


def test_only_the_loopback_address_is_bound(local):
    bound = local._server.servers[0].sockets[0].getsockname()
    assert bound == ("127.0.0.1", local.port)


def test_servers_share_nothing(connect):
    with LocalKinesis() as one, LocalKinesis() as other:
        connect(one).create_stream(StreamName="mine", ShardCount=1)
        assert connect(other).list_streams()["StreamNames"] == []


def test_the_clock_is_that_of_the_machine_if_no_other_is_given(connect):
    with LocalKinesis() as local:
        client = connect(local)
        client.create_stream(StreamName="stream", ShardCount=1)
        created = client.describe_stream(StreamName="stream")["StreamDescription"]["StreamCreationTimestamp"]
    assert abs(created.timestamp() - time.time()) < 60


def test_a_middleware_can_be_put_around_the_application(connect):
    seen = []

    def wrap(app):
        async def middleware(scope, receive, send):
            seen.append(dict(scope["headers"])[b"x-amz-target"])
            await app(scope, receive, send)

        return middleware

    with LocalKinesis(wrap=wrap) as local:
        connect(local).list_streams()
    assert seen == [b"Kinesis_20131202.ListStreams"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serve_runs_until_it_is_told_to_stop(stop):
    command = [sys.executable, "-W", "error", "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            connection = HTTPConnection(url.removeprefix("http://"))
            connection.request("POST", "/")
            assert connection.getresponse().read()
            connection.close()
            process.send_signal(stop)
            assert process.wait(timeout=60) == -stop
        finally:
            process.kill()


def list_all(client):
    page = client.list_shards(StreamName="stream")
    yield from (shard["ShardId"] for shard in page["Shards"])
    while "NextToken" in page:
        page = client.list_shards(NextToken=page["NextToken"])
        yield from (shard["ShardId"] for shard in page["Shards"])


def read_all(client, shard_id):
    iterator = client.get_shard_iterator(
        StreamName="stream", ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while iterator:
        page = client.get_records(ShardIterator=iterator)
        yield from ((shard_id, record["SequenceNumber"], record["Data"]) for record in page["Records"])
        iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None


def test_nothing_acknowledged_to_putters_of_several_processes_is_lost_or_doubled(connect):
    with LocalKinesis() as local, get_context("spawn").Pool(3) as pool:
        client = connect(local)
        client.create_stream(StreamName="stream", ShardCount=2)
        putters = [
            pool.apply_async(put_from_another_process, (local.endpoint_url, local.region)) for _ in range(3)
        ]
        targets = cycle((3, 2, 4, 3, 2))
        while not all(putter.ready() for putter in putters):
            client.update_shard_count(
                StreamName="stream", TargetShardCount=next(targets), ScalingType="UNIFORM_SCALING"
            )
            putters[0].wait(0.02)
        acknowledged = [entry for putter in putters for entry in putter.get()]
        read = [entry for shard_id in list_all(client) for entry in read_all(client, shard_id)]
    assert len(acknowledged) >= 3 * 20 * 100
    assert len({sequence_number for _, sequence_number, _ in read}) == len(read)
    assert sorted(read) == sorted(acknowledged)


def test_100_000_records_of_1_kb_go_in_and_out_within_5_seconds_of_cpu(record_property):
    spent = []

    def wrap(app):
        async def timed(scope, receive, send):
            await app(scope, receive, send)
            spent.append(time.thread_time())

        return timed

    data = b64encode(bytes(1024)).decode()
    entries = [{"Data": data, "PartitionKey": f"key {i}"} for i in range(500)]
    batch = json.dumps({"StreamName": "stream", "Records": entries})
    with LocalKinesis(wrap=wrap) as local:
        connection = HTTPConnection("127.0.0.1", local.port)

        def call(operation, body):
            headers = {
                "X-Amz-Target": f"Kinesis_20131202.{operation}",
                "Content-Type": "application/x-amz-json-1.1",
            }
            connection.request("POST", "/", body, headers)
            return connection.getresponse().read()

        call("CreateStream", '{"StreamName": "stream", "ShardCount": 1}')
        for _ in range(200):
            call("PutRecords", batch)
        place = {
            "StreamName": "stream",
            "ShardId": "shardId-000000000000",
            "ShardIteratorType": "TRIM_HORIZON",
        }
        position = json.loads(call("GetShardIterator", json.dumps(place)))["ShardIterator"]
        records, behind = 0, 1
        while behind:
            page = json.loads(call("GetRecords", json.dumps({"ShardIterator": position})))
            records += len(page["Records"])
            position, behind = page["NextShardIterator"], page["MillisBehindLatest"]
        connection.close()
    record_property("cpu_seconds", spent[-1] - spent[0])
    assert records == 100_000
    assert spent[-1] - spent[0] < 5
