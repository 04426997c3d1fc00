"""The events of a response as pages, from a server whose events are given."""

from __future__ import annotations

import asyncio
import base64
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading import shard_events
from kinesis_assets.kinesis.reading.retries import is_transient
from kinesis_assets.kinesis.reading.shard_events import ShardEvents
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, run
from support.one_shard import BEGINNING
from support.recording_limiter import RecordingLimiter
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


def page(events, wait=SECONDS, reservation=None):
    found = run(events.page(wait, reservation))
    return None if found is None else found[0]


def code_of(events, wait=SECONDS):
    """Read pages until one fails, and return the code of its error."""

    def read():
        while page(events, wait):
            pass

    with pytest.raises(CallFailed) as failed:
        read()
    return failed.value.code


def test_an_event_is_a_page(opened):
    found = page(opened(records(5, 6, behind=7)))
    assert found.records.numbers == ["5", "6"]
    assert (found.millis_behind_latest, found.next_shard_iterator) == (7, "6")
    assert found.records.payloads == [b"x", b"x"]


def test_events_that_have_arrived_are_one_page(opened):
    arrived = threading.Event()
    data = b"".join(records(n) for n in range(1, 51))
    events = opened(b"", then=lambda peer: (peer.send(data), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)
    assert page(events).records.numbers == [str(n) for n in range(1, 51)]


def test_other_readings_go_on_before_a_page_that_has_arrived(opened):
    arrived = threading.Event()
    events = opened(b"", then=lambda peer: (peer.send(records(1)), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)

    async def two_readings():
        order = []

        async def other():
            order.append("other")

        task = asyncio.ensure_future(other())
        assert await events.page(0.0, None) is not None
        order.append("page")
        await task
        return order

    assert run(two_readings()) == ["other", "page"]


def test_a_page_has_not_much_more_than_a_mebibyte(opened):
    sent = b"".join(records(n, size=MIB // 4) for n in range(1, 18))
    pages = []
    events = opened(sent)
    while not pages or pages[-1][-1] != "17":
        pages.append(page(events).records.numbers)
    assert [number for numbers in pages for number in numbers] == [str(n) for n in range(1, 18)]
    assert max(map(len, pages)) <= 4


def test_an_event_that_is_larger_than_all_windows_arrives_whole(opened):
    found = page(opened(records(1, size=5 * MIB)))
    assert [len(payload) for payload in found.records.payloads] == [5 * MIB]


def test_memory_is_reserved_for_what_arrives(opened):
    limiter = RecordingLimiter(100 * MIB)
    reservation = limiter.reservation()
    page(opened(records(1)), reservation=reservation)
    assert limiter.requested == [int(2.5 * MIB)]
    reservation.release()
    events = opened(records(1, size=3 * MIB))
    page(events, reservation=reservation)
    assert limiter.requested[-1] == int(2.5 * len(records(1, size=3 * MIB)))


def test_no_memory_is_reserved_while_nothing_arrives(opened):
    limiter = RecordingLimiter(MIB)
    assert page(opened(b""), wait=0.0, reservation=limiter.reservation()) is None
    assert limiter.requested == []


def test_a_part_of_an_event_is_kept_for_the_next_page(opened):
    whole, more = records(1, size=1000), threading.Event()
    events = opened(whole[:500], then=lambda peer: (more.wait(), peer.send(whole[500:]), peer.hold()))
    while not events.buffered:
        assert page(events, wait=0.01) is None
    more.set()
    assert page(events).records.numbers == ["1"]
    assert events.buffered == 0


def test_an_event_of_which_bytes_keep_arriving_is_not_waited_for_without_end(opened, monkeypatch):
    monkeypatch.setattr(shard_events, "_LONGEST_EVENT", 0.05)

    def trickles(peer):
        for byte in records(1, size=MIB):
            peer.send(bytes([byte]))

    assert code_of(opened(b"", then=trickles), wait=0.1) == "ReadTimeoutError"


def test_an_event_is_not_waited_for_without_end_while_others_of_no_meaning_arrive(opened, monkeypatch):
    monkeypatch.setattr(shard_events, "_LONGEST_EVENT", 0.05)

    def others(peer):
        while True:
            peer.send(message(b"{}", message_type="event", event_type="other"))

    assert code_of(opened(b"", then=others), wait=0.1) == "ReadTimeoutError"


def test_the_time_for_which_memory_is_waited_for_does_not_count_for_an_event(opened, monkeypatch):
    monkeypatch.setattr(shard_events, "_LONGEST_EVENT", 0.0)
    arrived = threading.Event()
    data = records(1, size=MIB // 3)  # more than is received at once
    events = opened(b"", then=lambda peer: (peer.send(data), arrived.set(), peer.hold()))
    assert arrived.wait(SECONDS)

    class SlowReservation:
        async def acquire_at_least(self, _):
            await asyncio.sleep(0.6)

    assert page(events, wait=0.5, reservation=SlowReservation()).records.numbers == ["1"]


def test_the_end_of_the_shard_is_in_a_page_of_its_own_or_the_last_one(opened):
    events = opened(records(1) + END + records(2))
    found = page(events)
    while found.next_shard_iterator is not None:
        found = page(events)
    assert found.records.numbers in ([], ["1"])
    assert events.ended


def test_the_end_of_the_response_is_no_page(opened):
    events = opened(records(1), then=lambda peer: (peer.end(), peer.hold()))
    page(events)
    assert page(events) is None
    assert events.ended


def test_an_event_that_is_cut_is_an_incomplete_body(opened):
    assert code_of(opened(records(1)[:-1], then=lambda peer: (peer.end(), peer.hold()))) == "IncompleteBody"


def test_a_connection_that_is_cut_within_an_event_fails(opened):
    assert code_of(opened(records(1)[:-1], then=lambda _: None)) == "ConnectionClosedError"


@pytest.mark.parametrize(
    "data",
    [
        records(2, 2),
        records(2, 1),
        records(1) + records(1),
        event(records=[record(1) | {"Data": "?"}], continuation_sequence_number="1", millis_behind_latest=0),
        event(records=[record("x")], continuation_sequence_number="1", millis_behind_latest=0),
        event(continuation_sequence_number="1", millis_behind_latest=0),
        records(1)[:-1] + b"\0",
    ],
    ids=["twice", "backwards", "repeated", "not base64", "no number", "no records", "another checksum"],
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
        page(opened(exception(code, "why")))
    assert is_transient(failed.value) is transient


def test_the_text_of_an_exception_is_cut(opened):
    with pytest.raises(CallFailed) as failed:
        page(opened(exception("X" * 1000, "y" * MIB)))
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
    assert page(events).records.numbers == ["1"]
    with pytest.raises(CallFailed, match="ResourceInUseException: taken over"):
        page(events)


@pytest.mark.parametrize(("behind", "seconds"), [(0, 10), (1, 30)])
def test_the_time_of_a_page_up_to_the_tip_is_that_at_which_nothing_else_had_arrived(
    opened, virtual, behind, seconds
):
    sent = threading.Event()
    events = opened(b"", then=lambda peer: (sent.wait(), peer.send(records(1, behind=behind)), peer.hold()))
    virtual.now += 10
    assert page(events, wait=0.0) is None
    virtual.now += 20
    sent.set()
    _, seen = run(events.page(SECONDS, None))
    assert seen == DATE + timedelta(seconds=seconds)


@pytest.mark.parametrize(("arrived", "seconds"), [(5, 10), (17, 17), (100, 30)])
def test_the_time_of_the_tip_is_not_before_the_arrival_of_the_last_record(opened, virtual, arrived, seconds):
    sent = threading.Event()
    arrival = (DATE + timedelta(seconds=arrived)).timestamp()
    event = records(1, arrival=arrival)
    events = opened(b"", then=lambda peer: (sent.wait(), peer.send(event), peer.hold()))
    virtual.now += 10
    assert page(events, wait=0.0) is None
    virtual.now += 20
    sent.set()
    _, seen = run(events.page(SECONDS, None))
    assert seen == DATE + timedelta(seconds=seconds)


def test_the_time_of_the_tip_does_not_go_back_while_more_arrives_than_a_page_has(opened, virtual):
    virtual.now += 10
    arrival = (DATE + timedelta(seconds=7)).timestamp()
    events = opened(
        records(1, arrival=arrival, size=2 * MIB)
        + event(records=[], continuation_sequence_number="1", millis_behind_latest=0)
    )
    virtual.now += 10
    _, seen = run(events.page(SECONDS, None))
    _, then = run(events.page(SECONDS, None))
    assert seen == then == DATE + timedelta(seconds=7)


class WaitingLimiter(MemoryLimiter):
    """A memory limiter in which the second reservation waits for ever."""

    def __init__(self):
        super().__init__(1 << 30)
        self.waiting = asyncio.Event()
        self._amounts = []

    async def acquire(self, amount):
        self._amounts.append(amount)
        if len(self._amounts) == 2:
            self.waiting.set()
            await asyncio.get_running_loop().create_future()
        return await super().acquire(amount)


def test_a_page_that_is_canceled_closes_the_subscription_because_it_may_lose_events(virtual):
    arrived = threading.Event()

    def script(peer):
        peer.head()
        peer.send(records(1) + records(2, size=2 * MIB)[: MIB // 2 - 10_000])  # as much as is sent in advance
        arrived.set()
        peer.hold()

    async def cancels(subscription):
        limiter = WaitingLimiter()
        assert await subscription.connect(BEGINNING)
        task = asyncio.ensure_future(subscription.page(BEGINNING, limiter.reservation()))
        await limiter.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await subscription.connect(BEGINNING)

    with Http2Server(script) as server:
        settings = ClientSettings("us-east-1", server.url, timing=replace(READING, clock=virtual))
        subscriptions = Subscriptions(StreamClient("s", settings, attempts=1), "arn", DATE, print)
        run(subscriptions.of("shardId-000000000000").connect(BEGINNING))
        assert arrived.wait(SECONDS)
        run(cancels(subscriptions.of("shardId-000000000000")))
        subscriptions.close()
