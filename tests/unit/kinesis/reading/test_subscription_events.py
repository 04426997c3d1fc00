"""The events of a response, from a server whose events are given, and the messages that carry them."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from zlib import crc32

import pytest
from h2.events import SettingsAcknowledged

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading import subscription_events
from kinesis_assets.kinesis.reading.calls import is_transient
from kinesis_assets.kinesis.reading.subscription import Limits, Subscriptions
from kinesis_assets.kinesis.reading.subscription_events import MessageParser, ShardEvents
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.concurrency import run
from support.one_shard import BEGINNING
from support.scripted_http2 import Http2Server, event, exception, message
from support.timing import READING

DATE = datetime(2026, 11, 28, 12, tzinfo=UTC)
"""The Date of every response of the server."""

SECONDS = 60.0
MIB = 1 << 20


def record(number, size=1, arrival=1764331200.123):
    return {
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": arrival,
        "Data": base64.b64encode(b"x" * size).decode(),
        "PartitionKey": "k",
    }


def records(*numbers, behind=0, **fields):
    wire = [record(number, **fields) for number in numbers]
    last = str(numbers[-1]) if numbers else "1"
    return event(records=wire, continuation_sequence_number=last, millis_behind_latest=behind)


END = event(
    records=[],
    millis_behind_latest=0,
    child_shards=[{"ShardId": "shardId-000000000001", "ParentShards": ["shardId-000000000000"]}],
)


@pytest.fixture
def opened(virtual):
    """Open the response of a server that sends some bytes, and then runs a script."""
    servers, responses = [], []

    def opened(data, then=lambda peer: peer.hold()):
        def script(peer):
            peer.head()
            peer.send(data)
            then(peer)

        server = Http2Server(script)
        servers.append(server)
        settings = ClientSettings("us-east-1", server.__enter__().url, timing=replace(READING, clock=virtual))
        client = StreamClient("s", settings, attempts=1)
        response, date = run(client.subscribing("arn", "shardId-000000000000", BEGINNING, SECONDS))
        responses.append(ShardEvents(client, response, date))
        return responses[-1]

    yield opened
    for response in responses:
        response.close()
    for server in servers:
        server.__exit__()


def receive(events, wait=SECONDS, most=MIB):
    return run(events.receive(wait, most))


def code_of(events, wait=SECONDS):
    """Receive events until that fails, and return the code of the error."""

    def read():
        while True:
            receive(events, wait)

    with pytest.raises(CallFailed) as failed:
        read()
    return failed.value.code


def test_an_event_is_passed_on_as_it_came(opened):
    (found,) = receive(opened(records(5, 6, behind=7)))
    assert json.loads(found.payload)["Records"] == [record(5), record(6)]
    assert (found.records, found.numbers) == (2, ("5", "6"))
    assert (found.millis_behind_latest, found.ends_shard) == (7, False)


def test_an_event_without_records_has_no_numbers(opened):
    (found,) = receive(opened(records()))
    assert (found.records, found.numbers) == (0, None)


def test_events_that_have_arrived_are_returned_together(opened):
    arrived = threading.Event()
    data = b"".join(records(n) for n in range(1, 51))
    events = opened(b"", then=lambda peer: (peer.send(data), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)
    assert [event.numbers[0] for event in receive(events)] == [str(n) for n in range(1, 51)]


def test_other_shards_go_on_before_events_that_have_arrived(opened):
    arrived = threading.Event()
    events = opened(b"", then=lambda peer: (peer.send(records(1)), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)

    async def two_shards():
        order = []

        async def other():
            order.append("other")

        task = asyncio.ensure_future(other())
        assert await events.receive(SECONDS, MIB)
        order.append("events")
        await task
        return order

    assert run(two_shards()) == ["other", "events"]


@pytest.mark.slow
def test_not_much_more_is_received_than_asked_for(opened):
    sent = b"".join(records(n, size=MIB // 4) for n in range(1, 18))
    found = []
    events = opened(sent)
    while not found or found[-1][-1] != "17":
        found.append([event.numbers[0] for event in receive(events)])
    assert [number for numbers in found for number in numbers] == [str(n) for n in range(1, 18)]
    assert max(map(len, found)) <= 4


@pytest.mark.slow
def test_an_event_that_is_larger_than_all_windows_arrives_whole(opened):
    (found,) = receive(opened(records(1, size=5 * MIB)))
    assert json.loads(found.payload)["Records"] == [record(1, size=5 * MIB)]


def test_a_part_of_an_event_is_kept_for_the_next_time(opened):
    whole, more = records(1, size=1000), threading.Event()
    events = opened(whole[:500], then=lambda peer: (more.wait(), peer.send(whole[500:]), peer.hold()))
    while not events.buffered:
        assert receive(events, wait=0.01) == []
    more.set()
    assert [event.numbers for event in receive(events)] == [("1", "1")]
    assert events.buffered == 0


@pytest.mark.slow
def test_an_event_of_which_bytes_keep_arriving_is_not_waited_for_without_end(opened, monkeypatch):
    monkeypatch.setattr(subscription_events, "_LONGEST_EVENT", 0.05)

    def trickles(peer):
        for byte in records(1, size=MIB):
            peer.send(bytes([byte]))

    assert code_of(opened(b"", then=trickles), wait=0.1) == "ReadTimeoutError"


@pytest.mark.slow
def test_an_event_is_not_waited_for_without_end_while_others_of_no_meaning_arrive(opened, monkeypatch):
    monkeypatch.setattr(subscription_events, "_LONGEST_EVENT", 0.05)

    def others(peer):
        while True:
            peer.send(message(b"{}", message_type="event", event_type="other"))

    assert code_of(opened(b"", then=others), wait=0.1) == "ReadTimeoutError"


def test_nothing_is_received_after_the_end_of_the_shard(opened):
    events = opened(records(1) + END + records(2))
    found = []
    while not events.ended:
        found += receive(events)
    assert [event.ends_shard for event in found] == [False, True]


def test_the_end_of_the_response_is_no_event(opened):
    events = opened(records(1), then=lambda peer: (peer.end(), peer.hold()))
    while found := receive(events):
        assert [event.ends_shard for event in found] == [False]
    assert events.ended


def test_an_event_that_is_cut_is_an_incomplete_body(opened):
    assert code_of(opened(records(1)[:-1], then=lambda peer: (peer.end(), peer.hold()))) == "IncompleteBody"


def test_a_connection_that_is_cut_within_an_event_fails(opened):
    def ends(peer):
        peer.receive_until(SettingsAcknowledged)  # what it has not received would reset the connection

    assert code_of(opened(records(1)[:-1], then=ends)) == "ConnectionClosedError"


@pytest.mark.parametrize(
    "data",
    [
        event(records=[record("x")], continuation_sequence_number="1", millis_behind_latest=0),
        event(records=[{}], continuation_sequence_number="1", millis_behind_latest=0),
        event(continuation_sequence_number="1", millis_behind_latest=0),
        event(records=[], continuation_sequence_number="1", millis_behind_latest=10**15),
        records(1)[:-1] + b"\0",
    ],
    ids=["no number", "no record", "no records", "more than a century", "another checksum"],
)
def test_an_invalid_event_is_an_incomplete_body(opened, data):
    arrived = threading.Event()
    events = opened(b"", then=lambda peer: (peer.send(data), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)
    assert code_of(events) == "IncompleteBody"


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        ("InternalFailureException", True),
        ("KMSDisabledException", False),
        ("ResourceNotFoundException", False),
    ],
)
def test_an_exception_of_the_service_itself_is_transient(opened, code, transient):
    with pytest.raises(CallFailed) as failed:
        receive(opened(exception(code, "why")))
    assert is_transient(failed.value) is transient


def test_the_text_of_an_exception_is_cut(opened):
    with pytest.raises(CallFailed) as failed:
        receive(opened(exception("X" * 1000, "y" * MIB)))
    assert failed.value.code == "X" * 100
    assert failed.value.reason == f"SubscribeToShard failed with {'X' * 100}: {'y' * 1000}"


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ({"message_type": "event", "event_type": "SubscribeToShardEvent"}, "IncompleteBody"),
        ({"message_type": "exception", "exception_type": "SomeException"}, "SomeException"),
    ],
)
def test_json_that_is_nested_too_deeply_is_an_error(opened, kind, code):
    assert code_of(opened(message(b'{"message":' + NESTED + b"}", **kind))) == code


def test_an_exception_has_its_code_and_comes_after_the_events_before_it(opened):
    arrived = threading.Event()
    data = records(1) + exception("ResourceInUseException", "taken over")
    events = opened(b"", then=lambda peer: (peer.send(data), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)
    assert [event.numbers for event in receive(events)] == [("1", "1")]
    with pytest.raises(CallFailed, match="ResourceInUseException: taken over"):
        receive(events)


def test_the_times_of_an_event_are_those_before_which_all_had_arrived_and_when_it_did(opened, virtual):
    sent = threading.Event()
    events = opened(b"", then=lambda peer: (sent.wait(), peer.send(records(1)), peer.hold()))
    virtual.now += 10
    assert receive(events, wait=0.0) == []
    virtual.now += 20
    sent.set()
    (found,) = receive(events)
    assert (found.emptied, found.received) == (DATE + timedelta(seconds=10), DATE + timedelta(seconds=30))


def test_a_reading_that_is_canceled_closes_the_subscription_because_it_may_lose_events(virtual):
    arrived = threading.Event()

    def script(peer):
        peer.head()
        peer.send(records(1) + records(2, size=2 * MIB)[: MIB // 2 - 10_000])  # as much as is sent in advance
        arrived.set()
        peer.hold()

    async def cancels(subscription):
        assert arrived.wait(SECONDS)
        task = asyncio.ensure_future(subscription.receive(BEGINNING, Limits(inf, inf, SECONDS)))
        for _ in range(3):  # until it waits for the rest of the event
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not subscription.has_connection

    with Http2Server(script) as server:
        settings = ClientSettings("us-east-1", server.url, timing=replace(READING, clock=virtual))
        subscriptions = Subscriptions(StreamClient("s", settings, attempts=1), "arn", DATE, print)
        subscription = subscriptions.of("shardId-000000000000")
        assert run(subscription.receive(BEGINNING, Limits(1, 1, SECONDS))) is not None
        run(cancels(subscription))
        subscriptions.close()


EVENT = event(records=[], millis_behind_latest=0)


def parsed(*pieces):
    parser = MessageParser(MIB)
    found = []
    for piece in pieces:
        parser.add(piece)
        while (each := parser.next_message()) is not None:
            found.append(each)
    return found


def test_a_message_has_headers_and_a_payload():
    ((headers, payload),) = parsed(exception("SomeException", "why"))
    assert headers == {":message-type": "exception", ":exception-type": "SomeException"}
    assert payload == b'{"message": "why"}'


def test_messages_may_arrive_in_any_pieces():
    whole = EVENT + exception("SomeException", "why") + message(b"")
    for at in range(len(whole)):
        assert len(parsed(whole[:at], whole[at:])) == 3


def test_the_bytes_of_an_incomplete_message_are_buffered():
    parser = MessageParser(MIB)
    parser.add(EVENT + EVENT[:12])
    assert parser.next_message() is not None
    assert (parser.next_message(), parser.buffered) == (None, 12)


@pytest.mark.parametrize("at", range(len(EVENT)))
def test_a_changed_byte_is_noticed(at):
    damaged = bytearray(EVENT)
    damaged[at] ^= 1
    with pytest.raises(ValueError, match=r"message"):
        parsed(bytes(damaged))


@pytest.mark.parametrize("size", [0, 15, MIB + 1])
def test_an_impossible_size_is_refused_before_the_message_is_received(size):
    lengths = struct.pack(">II", size, 0)
    with pytest.raises(ValueError, match=f"has {size} bytes"):
        parsed(lengths + struct.pack(">I", crc32(lengths)))


def sealed(headers):
    """Return a message with any bytes as its headers, and with the right checksums."""
    lengths = struct.pack(">II", 16 + len(headers), len(headers))
    data = lengths + struct.pack(">I", crc32(lengths)) + headers
    return data + struct.pack(">I", crc32(data))


@pytest.mark.parametrize(
    "headers",
    [b"\x01", b"\x01a\x63", b"\x01\xff\x07\0\0", 2 * b"\x01a\0"],
    ids=["cut", "of unknown type", "not UTF-8", "twice"],
)
def test_invalid_headers_are_refused(headers):
    with pytest.raises(ValueError, match="a message is invalid"):
        parsed(sealed(headers))
