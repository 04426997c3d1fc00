"""Fault injection between a client and the embedded stream."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from kinesis_assets.emulator.asgi import read_body
from kinesis_assets.emulator.operations.listing import PAGE_SHARDS
from kinesis_assets.emulator.shapes import milliseconds
from kinesis_assets.emulator.shards import PAGE_RECORDS
from kinesis_assets.errors import InvalidInput, KinesisAssetsError, ShardUnknown, StreamNotFound
from kinesis_assets.testing import event_faults, fault_layers
from kinesis_assets.testing.exchange import (
    Answer,
    Call,
    CallFilter,
    DelayedResponses,
    Downstream,
    Exchange,
    Fault,
    Layer,
    check_operation,
)
from kinesis_assets.testing.fault_layers import THROTTLED, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.app import KinesisApp
    from kinesis_assets.emulator.asgi import App, Receive, Scope, Send
    from kinesis_assets.testing.event_faults import Change

_PAGE_SIZES = {"GetRecords": ("Limit", PAGE_RECORDS), "ListShards": ("MaxResults", PAGE_SHARDS)}
"""The arguments that limit a page, and their defaults."""


class Faults:
    """Faults between any client and the embedded stream: `LocalKinesis(wrap=faults.around)`.

    All faults select their calls in the same way: by operation, which is GetRecords by default, and by the
    members of `CallFilter`.

    A fault counts calls from the moment it is added. `delay`, `page_size`, `null_iterator`, `stale_list`,
    `skew_date`, `before`, `answer` and `request` combine with all other faults; the first one added is the
    outermost. The other faults are exclusive: of those that match a call, only the first one added applies,
    and the later ones do not count the call. Exclusive faults with `times` therefore apply in turn. Faults
    can be added at any time and from any thread. They remain active until `clear`.

    The faults within subscriptions affect calls of SubscribeToShard. `events` is the number of events with
    records that arrive before the fault, 0 by default. Events without records do not count, because their
    number depends on the time.

    All methods that add a fault raise `InvalidInput` if the operation is unknown, or if `after`, `times` or
    `events` is out of range.

    Attributes:
        calls: All calls since the start or the last `clear`, in order of arrival.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._faults: list[Fault] = []
        self._limits: tuple[Fault, ...] = ()
        self._delayed = DelayedResponses()
        self._accounts: WeakSet[Account] = WeakSet()

    def around(self, app: KinesisApp) -> App:
        """Wrap the embedded stream's application in the faults. One object can wrap several applications."""
        self._accounts.add(app.account)

        async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
            generation = self._delayed.generation
            exchange = Exchange(app, scope, receive, send, await read_body(receive))
            account = app.caller(dict(scope["headers"]))
            call = Call.now(exchange.operation, exchange.arguments, account)
            self.calls.append(call)
            faults = sorted(self._faults, key=lambda fault: fault.exclusive)
            downstream = Downstream((*faults, *self._limits), account, exchange.serve)
            await exchange.respond(await downstream(call), self._delayed, generation)

        return faulty

    def count(self, operation: str, shard_id: str | None = None) -> int:
        """Count the calls of an operation in `calls`; with `shard_id`, only those on this shard."""
        check_operation(operation)
        return sum(
            call.operation == operation and shard_id in (None, call.shard_id) for call in list(self.calls)
        )

    def clear(self) -> None:
        """Remove all faults and limits, send all delayed responses and forget the calls."""
        self._faults.clear()
        self._limits = ()
        self._delayed.release()
        self.calls.clear()

    # The service returns an error and does not carry out the call.

    def throttle(
        self, operation: str = "GetRecords", *, code: str = THROTTLED, **calls: Unpack[CallFilter]
    ) -> None:
        """Throttle calls: return HTTP 400.

        Args:
            code: The error code. The service also uses LimitExceededException for control plane operations,
                and KMSThrottlingException.
        """
        self.fail(operation, status=HTTPStatus.BAD_REQUEST, code=code, **calls)

    def expire(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Return HTTP 400: the iterator (GetRecords) or token (ListShards, ListStreams) has expired."""
        token = "Iterator" if operation == "GetRecords" else "NextToken"
        self.fail(operation, status=HTTPStatus.BAD_REQUEST, code=f"Expired{token}Exception", **calls)

    def fail(
        self,
        operation: str = "GetRecords",
        *,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        code: str = "InternalFailure",
        **calls: Unpack[CallFilter],
    ) -> None:
        """Return any error.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/CommonErrors.html

        Args:
            status: The HTTP status: 500 or 503 for failures of the service, 400 for all other errors.
        """

        async def refused(_call: Call, _downstream: Downstream) -> Answer:
            return Answer.error(code, status)

        self._add_exclusive(operation, refused, calls)

    # The network fails. The call is carried out, but its response is lost, late or truncated.

    def reset(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Reset the connection instead of sending the response."""
        self._override(operation, calls, reset=True)

    def stall(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Send no response until `clear`. The client waits until its own timeout."""
        self._override(operation, calls, delay=inf)

    def delay(self, seconds: float, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Delay responses. Their content is that of the time at which the call arrived."""
        self.answer(operation, lambda _, answer: replace(answer, delay=answer.delay + seconds), **calls)

    def cut_body(
        self,
        operation: str = "GetRecords",
        *,
        kept: float = 0.5,
        on_wire: bool = False,
        **calls: Unpack[CallFilter],
    ) -> None:
        """Send only a part of the response body, with HTTP 200.

        boto3 treats this as a success without members, because it neither compares lengths nor rejects a body
        that is not JSON.

        Args:
            kept: The part of the body that is sent, from 0 to less than 1.
            on_wire: Close the connection within the body, before the end that Content-Length announces.
                Otherwise the part is a complete HTTP response, as from a proxy that truncated it.

        Raises:
            InvalidInput: `kept` is out of range, or the operation is SubscribeToShard; see `cut_event`.
        """
        _check_kept(kept)
        if operation == "SubscribeToShard":
            raise InvalidInput("SubscribeToShard has events instead of a body; use cut_event")
        self._override(operation, calls, kept=kept, on_wire=on_wire)

    # The service returns a valid response for which clients are often not prepared.

    def empty_page(self, *, behind_ms: int = 1000, **calls: Unpack[CallFilter]) -> None:
        """Return pages of GetRecords without records although there are some.

        No record is lost: the next iterator has the same position.
        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

        Args:
            behind_ms: MillisBehindLatest.
        """
        self._add_exclusive("GetRecords", fault_layers.empty(behind_ms), calls)

    def null_iterator(self, **calls: Unpack[CallFilter]) -> None:
        """Return pages of GetRecords without NextShardIterator and ChildShards, even if the shard is open.

        The pages contain their records.
        """
        removed = {"NextShardIterator", "ChildShards"}

        def ended(_call: Call, answer: Answer, _account: Account) -> Answer:
            members = {name: value for name, value in answer.members.items() if name not in removed}
            return answer.with_body(json.dumps(members).encode())

        self._add("GetRecords", fault_layers.change_pages(ended), calls)

    def stale_list(self, *, reshards: int = 1, **calls: Unpack[CallFilter]) -> None:
        """List the shards as of before the stream's last splits and merges.

        ListShards is eventually consistent, and so are the pages of one list. A list with a filter lacks the
        new shards, too, but has no shards that the filter leaves out.

        Args:
            reshards: The number of splits and merges that are missing from the list.

        Raises:
            InvalidInput: `reshards` is less than 1.
        """
        _check_at_least_1("reshards", reshards)
        self._add("ListShards", fault_layers.stale_list(reshards), calls)

    def skew_date(self, seconds: float, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Skew the `Date` header of responses, like a host with a wrong clock.

        Args:
            seconds: The difference from the service's clock; positive is in the future.
        """
        self.answer(operation, lambda _, answer: replace(answer, skew=answer.skew + seconds), **calls)

    def page_size(self, most: int, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Return at most `most` records (GetRecords) or shards (ListShards) in a page."""
        if operation not in _PAGE_SIZES:
            raise InvalidInput(f"{operation} has no page size; use one of {', '.join(_PAGE_SIZES)}")
        name, default = _PAGE_SIZES[operation]
        self.request(operation, lambda given: {**given, name: min(given.get(name, default), most)}, **calls)

    def partial_puts(self, *, every: int = 2, code: str = THROTTLED, **calls: Unpack[CallFilter]) -> None:
        """Let some records of PutRecords fail: they are not put, and the HTTP 200 response reports it.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html

        Args:
            every: 1 fails all records of a call, 2 the second, the fourth and so on.
            code: The ErrorCode of each failed record. The service also uses InternalFailure.
            calls: The calls of PutRecords. `shard_id` selects records instead of calls: only the records to
                this shard are counted and fail.

        Raises:
            InvalidInput: `every` is less than 1.
        """
        _check_at_least_1("every", every)
        shard_id = calls.pop("shard_id", None)
        self._add_exclusive("PutRecords", fault_layers.fail_some(every, code, shard_id), calls)

    # The service returns an invalid response. The next iterator is that of the regular page.

    def repeat_page(self, *, back: int = 1, **calls: Unpack[CallFilter]) -> None:
        """Return pages of GetRecords that start before the iterator, so that records are repeated.

        Args:
            back: The number of records that are repeated, if the shard has as many.

        Raises:
            InvalidInput: `back` is less than 1.
        """
        _check_at_least_1("back", back)
        self._add_exclusive("GetRecords", fault_layers.repeat(back), calls)

    def reverse_page(self, **calls: Unpack[CallFilter]) -> None:
        """Return the records of GetRecords pages in reverse order."""
        self._add_exclusive("GetRecords", fault_layers.change_records(lambda records: records[::-1]), calls)

    def wrong_arrival(self, seconds: float = 1e20, **calls: Unpack[CallFilter]) -> None:
        """Return an impossible arrival time for the last record of GetRecords pages.

        Args:
            seconds: ApproximateArrivalTimestamp in seconds since the epoch. It may be infinite or NaN.
        """

        def dated(records: list[Any]) -> list[Any]:
            last = [record | {"ApproximateArrivalTimestamp": seconds} for record in records[-1:]]
            return [*records[:-1], *last]

        self._add_exclusive("GetRecords", fault_layers.change_records(dated), calls)

    def long_page(self, *, above: int, size: int = 17 << 20, **calls: Unpack[CallFilter]) -> None:
        """Return GetRecords pages with a longer body, padded with blanks, which are valid JSON.

        10,000 records of 1 KB with long partition keys take 18 MB. Public emulators return up to 72 MB.

        Args:
            above: Only pages with more than this number of records are padded.
            size: The number of blanks, in bytes.
        """

        def padded(_call: Call, answer: Answer, _account: Account) -> Answer:
            is_long = len(answer.members["Records"]) > above
            return answer.with_body(answer.body + b" " * size) if is_long else answer

        self._add_exclusive("GetRecords", fault_layers.change_pages(padded), calls)

    # A subscription sends invalid events, or no more.

    def stop_events(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Send nothing more, although the connection remains open."""
        self._change_frames(event_faults.stop(_check_events(events)), calls)

    def reset_events(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Reset the connection, with all other subscriptions that it has."""
        self._change_frames(event_faults.reset(_check_events(events)), calls)

    def fail_events(
        self, *, events: int = 0, code: str = "InternalFailureException", **calls: Unpack[CallFilter]
    ) -> None:
        """End a subscription with an exception.

        Args:
            code: The type of the exception, such as ResourceInUseException or KMSThrottlingException.
        """
        self._change_frames(event_faults.fail(_check_events(events), code), calls)

    def cut_event(self, *, events: int = 0, kept: float = 0.5, **calls: Unpack[CallFilter]) -> None:
        """End the response of a subscription within an event with records.

        Args:
            kept: The part of the event that is sent, from 0 to less than 1.

        Raises:
            InvalidInput: `kept` is out of range.
        """
        _check_kept(kept)
        self._change_frames(event_faults.cut(_check_events(events), kept), calls)

    def damage_event(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Change a byte of an event with records, which therefore does not match its checksum."""
        self._change_frames(event_faults.damage(_check_events(events)), calls)

    def repeat_event(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Send an event with records twice."""
        self._change_frames(event_faults.repeat(_check_events(events)), calls)

    def swap_events(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Send two consecutive events with records in reverse order. The first waits for the second."""
        self._change_frames(event_faults.swap(_check_events(events)), calls)

    def stale_continuation(self, *, events: int = 0, **calls: Unpack[CallFilter]) -> None:
        """Send the ContinuationSequenceNumber of the last event before in all events."""
        self._change_frames(event_faults.keep_continuation(_check_events(events)), calls)

    def end_shard_twice(self, **calls: Unpack[CallFilter]) -> None:
        """Send the event at the end of a shard twice."""
        self._change_frames(event_faults.end_twice, calls)

    def end_without_children(self, **calls: Unpack[CallFilter]) -> None:
        """Send no ChildShards at the end of a shard, and no ContinuationSequenceNumber either."""
        self._change_frames(event_faults.end_without_children, calls)

    # The stream changes.

    def trim(self, stream: str, shard_id: str | None = None, *, before: str | None = None) -> None:
        """Delete records immediately, as if they had expired. The shards remain.

        Closed shards only disappear when the service's clock exceeds their retention; see `Clock`.

        Args:
            shard_id: The shard; None for all shards of the stream.
            before: The sequence number of the first record that remains; None deletes all records.

        Raises:
            InvalidInput: `before` is not a sequence number of this shard.
            ShardUnknown: The shard does not exist.
            StreamNotFound: The stream does not exist.
        """
        self._change_stream(
            stream, lambda account: fault_layers.trim(account.stream(stream), shard_id, before)
        )

    def recreate(self, stream: str) -> None:
        """Delete a stream and create it again under the same name with the same number of open shards.

        Raises:
            StreamNotFound: The stream does not exist.
        """

        def create_again(account: Account) -> None:
            before = account.stream(stream)
            account.delete_stream(before)
            account.create_stream(stream, len(before.open_shards))

        self._change_stream(stream, create_again)

    def slow_consumers(self, stream: str, seconds: float) -> None:
        """Let consumers of a stream that are registered or deregistered from now on take their time.

        They are CREATING or DELETING that long, while no shard can be subscribed to.

        Args:
            seconds: The time by the service's clock; 0, as at first, for none.

        Raises:
            StreamNotFound: The stream does not exist.
        """

        def slow(account: Account) -> None:
            account.stream(stream).consumers.delay = milliseconds(seconds)

        self._change_stream(stream, slow)

    def before(self, operation: str, do: Callable[[], object], **calls: Unpack[CallFilter]) -> None:
        """Call a function before calls are carried out, such as `lambda: faults.trim("orders")`.

        The function runs in its own thread, so it may call the embedded stream. The faults apply to these
        calls too. If it raises, the response is HTTP 500 and the exception is logged on stderr.
        """

        async def preceded(call: Call, downstream: Downstream) -> Answer:
            await asyncio.to_thread(do)
            return await downstream(call)

        self._add(operation, preceded, calls)

    # The limits of the service.

    def enforce_limits(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Enforce the limits of a shard as AWS does, by the machine's clock or another one.

        - Reads: five GetRecords per second. After a response of N bytes, none for N / 2 MiB seconds.
        - Subscriptions: 2 MiB per second for each consumer, and one SubscribeToShard per second.
        - Writes: 1,000 records and 1 MiB per second. The records of PutRecords that exceed them fail.
        - Consumers: 20 DescribeStreamConsumer, five ListStreamConsumers and five DeregisterStreamConsumer per
          second for a stream, and five RegisterStreamConsumer for an account.

        Sources: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html,
        https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html,
        https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SubscribeToShard.html
        """
        self._limits = Limits(clock).faults

    # Any other fault.

    def answer(
        self, operation: str, change: Callable[[Call, Answer], Answer | None], **calls: Unpack[CallFilter]
    ) -> None:
        """Change the response of the service or of another fault. None leaves it unchanged."""
        self._add(operation, fault_layers.change_answer(change), calls)

    def request(
        self, operation: str, change: Callable[[dict[str, Any]], dict[str, Any]], **calls: Unpack[CallFilter]
    ) -> None:
        """Change the arguments of calls before the service and the other faults receive them."""

        async def changed(call: Call, downstream: Downstream) -> Answer:
            return await downstream(replace(call, arguments=change(dict(call.arguments))))

        self._add(operation, changed, calls)

    def _change_frames(self, change: Change, calls: CallFilter) -> None:
        self._add_exclusive("SubscribeToShard", event_faults.change_frames(change), calls)

    def _override(self, operation: str, calls: CallFilter, **attributes: Any) -> None:
        layer = fault_layers.change_answer(lambda _, answer: replace(answer, **attributes))
        self._add_exclusive(operation, layer, calls)

    def _add_exclusive(self, operation: str, layer: Layer, calls: CallFilter) -> None:
        self._faults.append(Fault(operation, layer, exclusive=True, **calls))

    def _add(self, operation: str, layer: Layer, calls: CallFilter) -> None:
        self._faults.append(Fault(operation, layer, **calls))

    def _change_stream(self, stream: str, change: Callable[[Account], None]) -> None:
        """Change a stream in every account that has a stream of this name to which the change applies."""
        changed = False
        refused: KinesisAssetsError = StreamNotFound(
            stream, "not found in the embedded stream; create it first"
        )
        for account in [each for one in self._accounts for each in list(one.accounts.values())]:
            with account.lock:
                if stream in account.streams:
                    try:
                        change(account)
                        changed = True
                    except (InvalidInput, ShardUnknown) as error:
                        refused = error
        if not changed:
            raise refused


def _check_at_least_1(name: str, value: int) -> None:
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, not {value}")


def _check_kept(kept: float) -> None:
    if not 0 <= kept < 1:
        raise InvalidInput(f"kept must be at least 0 and less than 1, not {kept}")


def _check_events(events: int) -> int:
    if events < 0:
        raise InvalidInput(f"events must be at least 0, not {events}")
    return events
