"""The faults between a client and the embedded stream."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any, Unpack

from kinesis_assets.emulator.operations.listing import PAGE_SHARDS
from kinesis_assets.emulator.shards import PAGE_RECORDS
from kinesis_assets.errors import InvalidInput
from kinesis_assets.testing import events, layers, pages
from kinesis_assets.testing.fault_chain import CallFilter, Fault, Layer, check_operation
from kinesis_assets.testing.interceptor import Interceptor
from kinesis_assets.testing.limits import THROTTLED, Limits
from kinesis_assets.testing.partial_puts import fail_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.emulator.app import App, KinesisApp
    from kinesis_assets.testing.messages import Answer, Call

_PAGES = {"GetRecords": ("Limit", PAGE_RECORDS), "ListShards": ("MaxResults", PAGE_SHARDS)}


class Faults:
    """Faults between any client and the embedded stream: `LocalKinesis(wrap=faults.around)`.

    Every fault says which calls it takes in the same way: the operation, GetRecords where none is named, and

    - `stream`, `shard_id`: calls on it alone;
    - `after`: so many are let through first, 0 by default;
    - `times`: so many are taken then, by default all.

    Only calls that come after the fault was added count. `delay`, `page_size`, `null_iterator`, `stale_list`,
    `skew_date`, `before`, `answer` and `request` add to whatever else becomes of a call, the first one added
    outermost. Of the other faults one decides: the first one added that takes the call; the later ones
    neither see nor count it. So faults that take a few calls each take turns. Faults can be added at any
    time, from any thread, and hold until `clear`.

    Every method raises `InvalidInput` for an operation that there is not, or numbers that take no call.

    Attributes:
        calls: Every call since the beginning or the last `clear`, in the order in which they came.
    """

    def __init__(self) -> None:
        self._interceptor = Interceptor()
        self.calls: list[Call] = self._interceptor.calls

    def around(self, app: KinesisApp) -> App:
        """The embedded stream's application with the faults around it. They may be around several."""
        return self._interceptor.around(app)

    def count(self, operation: str, shard_id: str | None = None) -> int:
        """How many calls of an operation there are in `calls`, on a shard where one is named."""
        check_operation(operation)
        return sum(
            call.operation == operation and shard_id in (None, call.shard_id) for call in list(self.calls)
        )

    def clear(self) -> None:
        """End all faults and limits, let go every answer that is held back, and forget the calls."""
        self._interceptor.clear()

    # The service refuses. The call is not carried out.

    def throttle(
        self, operation: str = "GetRecords", *, code: str = THROTTLED, **calls: Unpack[CallFilter]
    ) -> None:
        """Refuse calls for their rate: HTTP 400.

        Args:
            operation: Which operation.
            code: The service also has LimitExceededException (control operations) and KMSThrottlingException.
            which: Which of its calls.
        """
        self.fail(operation, status=HTTPStatus.BAD_REQUEST, code=code, **calls)

    def expire(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Refuse iterators (GetRecords) or page tokens (ListShards, ListStreams) as too old: HTTP 400."""
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
        """Refuse calls with any error.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/CommonErrors.html

        Args:
            operation: Which operation.
            status: HTTP's: 500 and 503 for failures of the service, 400 for all other errors.
            code: The error's code.
            which: Which of its calls.
        """
        self._add_exclusive(operation, layers.refuse(status, code), calls)

    # The network fails. The call is carried out, but its answer does not come, comes late or comes in part.

    def reset(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Reset the connection instead of answering."""
        self._override(operation, calls, reset=True)

    def stall(self, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Answer never, that is when all is cleared; until then the client waits for as long as it likes."""
        self._override(operation, calls, delay=inf)

    def delay(self, seconds: float, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Send answers so many seconds later. What they tell is of when the call came."""
        self.answer(operation, lambda _, answer: replace(answer, delay=answer.delay + seconds), **calls)

    def cut_body(
        self,
        operation: str = "GetRecords",
        *,
        kept: float = 0.5,
        on_wire: bool = False,
        **calls: Unpack[CallFilter],
    ) -> None:
        """Send a part of the body alone, with HTTP 200.

        boto3 takes both kinds for a success whose members are not there, as it neither compares lengths nor
        minds a body that is no JSON.

        Args:
            operation: Which operation.
            kept: The part of the body that is sent, from 0 to below 1.
            on_wire: The connection ends within the body, whose Content-Length tells more. Otherwise the part
                is a whole answer as far as HTTP can tell, as from a proxy that lost the rest.
            which: Which of its calls.

        Raises:
            InvalidInput: `kept` is no such part.
        """
        if not 0 <= kept < 1:
            raise InvalidInput(f"kept is from 0 to below 1, not {kept}")
        self._override(operation, calls, kept=kept, on_wire=on_wire)

    # The service answers, in a way that clients forget about.

    def empty_page(self, *, behind_ms: int = 1000, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords without records, so far behind the tip, with an iterator at the same place.

        Nothing is lost: the page after the last empty one has the records.
        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

        Args:
            behind_ms: MillisBehindLatest.
            which: Which calls of GetRecords.
        """
        self._add_exclusive("GetRecords", pages.empty(behind_ms), calls)

    def null_iterator(self, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords without NextShardIterator and ChildShards, though the shard may go on.

        The records of the page are in the answer.

        Args:
            which: Which calls of GetRecords.
        """
        self.answer("GetRecords", pages.without_next_iterator, **calls)

    def stale_list(self, *, reshards: int = 1, **calls: Unpack[CallFilter]) -> None:
        """List shards as they were before the stream's last splits and merges.

        ListShards is eventually consistent, and so are the pages of one list.

        Args:
            reshards: How many splits and merges are not in the list yet.
            which: Which calls of ListShards.

        Raises:
            InvalidInput: `reshards` is below 1.
        """
        if reshards < 1:
            raise InvalidInput(f"reshards is 1 or more, not {reshards}")
        self._add("ListShards", events.list_stale(reshards), calls)

    def skew_date(self, seconds: float, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Send a `Date` header that is so many seconds off the service's clock, as of a wrong host.

        Args:
            seconds: Above 0 is in the future, below 0 in the past.
            operation: Which operation.
            which: Which of its calls.
        """
        self.answer(operation, lambda _, answer: replace(answer, skew=answer.skew + seconds), **calls)

    def page_size(self, most: int, operation: str = "GetRecords", **calls: Unpack[CallFilter]) -> None:
        """Let no page hold more records (GetRecords) or shards (ListShards), whatever is asked for."""
        if operation not in _PAGES:
            raise InvalidInput(f"{operation} has no page to be made smaller; {' and '.join(_PAGES)} have")
        name, default = _PAGES[operation]
        self.request(
            operation,
            lambda arguments: {**arguments, name: min(arguments.get(name, default), most)},
            **calls,
        )

    def partial_puts(self, *, every: int = 2, code: str = THROTTLED, **calls: Unpack[CallFilter]) -> None:
        """Let some records of PutRecords fail: they are not put, and the answer says so within its HTTP 200.

        Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_PutRecords.html

        Args:
            every: 1 fails all records of a call, 2 the second, fourth and so on.
            code: Each failed record's ErrorCode; the service also has InternalFailure.
            which: Which calls of PutRecords. With `shard_id` it is the records to this shard that count and
                fail, of every call.

        Raises:
            InvalidInput: `every` is below 1.
        """
        if every < 1:
            raise InvalidInput(f"every is 1 or more, not {every}")
        shard_id = calls.pop("shard_id", None)
        self._add_exclusive("PutRecords", fail_some(every, code, shard_id), calls)

    # The service answers what it must not. The next iterator is that of the page that was due.

    def repeat_page(self, *, back: int = 1, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords with a page that begins so many records before its iterator, where there are any.

        Args:
            back: How many records come a second time.
            which: Which calls of GetRecords.

        Raises:
            InvalidInput: `back` is below 1.
        """
        if back < 1:
            raise InvalidInput(f"back is 1 or more, not {back}")
        self._add_exclusive("GetRecords", pages.repeat(back), calls)

    def reverse_page(self, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords with the records of a page in reverse order."""
        self._change_records(lambda records: records[::-1], calls)

    def wrong_arrival(self, seconds: float = 1e20, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords with an arrival time that the last record of a page cannot have.

        Args:
            seconds: ApproximateArrivalTimestamp, in seconds since the epoch; may be infinite or no number.
            which: Which calls of GetRecords.
        """
        name = "ApproximateArrivalTimestamp"
        self._change_records(
            lambda records: [*records[:-1], *({**it, name: seconds} for it in records[-1:])], calls
        )

    def long_page(self, *, above: int, size: int = 17 << 20, **calls: Unpack[CallFilter]) -> None:
        """Answer GetRecords with a longer body where a page has more than so many records.

        It is padded with blanks, which JSON may have. 10,000 records of 1 KB with long partition keys come to
        18 MB, and public emulators answer with up to 72 MB.

        Args:
            above: Pages of so many records stay as they are.
            size: Bytes of the blanks.
            which: Which calls of GetRecords.
        """
        self._add_exclusive("GetRecords", pages.pad(above, size), calls)

    # The stream changes.

    def trim(self, stream: str, shard_id: str | None = None, *, before: str | None = None) -> None:
        """Let records be gone at once, as when their retention has passed; the shards stay.

        Whole closed shards go when the service's clock passes their retention; see `Clock`.

        Args:
            stream: The stream's name.
            shard_id: The shard, or every shard of the stream.
            before: The sequence number of the first record that stays. None is that of the next record put.

        Raises:
            InvalidInput: `before` is no sequence number of that shard.
            ShardUnknown: The stream has no such shard.
            StreamNotFound: There is no such stream.
        """
        self._interceptor.change_stream(
            stream,
            lambda account: events.trim(account.stream(stream), shard_id, before),
        )

    def recreate(self, stream: str) -> None:
        """Delete a stream at once and create it again under its name, with as many shards as were open.

        Raises:
            StreamNotFound: There is no such stream.
        """
        self._interceptor.change_stream(stream, lambda account: events.recreate(account, stream))

    def before(self, operation: str, do: Callable[[], object], **calls: Unpack[CallFilter]) -> None:
        """Do something before calls are carried out, as `lambda: faults.trim("orders")`.

        It is done in a thread of its own, so it may itself call the embedded stream; these calls meet the
        faults too. What it raises is answered as HTTP 500 and told on stderr.
        """
        self._add(operation, layers.run_before(do), calls)

    # The limits of the service.

    def enforce_limits(self) -> None:
        """Throttle whoever goes beyond the limits of a shard, by the machine's own clock, as AWS does.

        - Reads: five GetRecords a second; and after an answer of N bytes none for N / 2 MiB seconds.
        - Writes: 1,000 records and 1 MiB a second; of a PutRecords, the records beyond them fail.

        Sources: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html,
        https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
        """
        self._interceptor.limits = Limits().faults

    # Whatever else there is.

    def answer(
        self, operation: str, change: Callable[[Call, Answer], Answer | None], **calls: Unpack[CallFilter]
    ) -> None:
        """Change what is about to go back, from the service or another fault; None leaves it as it is."""
        self._add(operation, layers.change_answer(change), calls)

    def request(
        self,
        operation: str,
        change: Callable[[dict[str, Any]], dict[str, Any]],
        **calls: Unpack[CallFilter],
    ) -> None:
        """Change the arguments that the service sees, and the other faults."""
        self._add(operation, layers.change_arguments(change), calls)

    def _override(self, operation: str, calls: CallFilter, **way: Any) -> None:
        self._add_exclusive(operation, layers.override(**way), calls)

    def _change_records(self, change: Callable[[list[Any]], list[Any]], calls: CallFilter) -> None:
        self._add_exclusive("GetRecords", pages.change_records(change), calls)

    def _add_exclusive(self, operation: str, layer: Layer, calls: CallFilter) -> None:
        self._interceptor.faults.append(Fault(operation, layer, exclusive=True, **calls))

    def _add(self, operation: str, layer: Layer, calls: CallFilter) -> None:
        self._interceptor.faults.append(Fault(operation, layer, **calls))
