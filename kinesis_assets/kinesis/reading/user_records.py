"""Convert the records of a page to user records: KPL aggregates are replaced by their sub-records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.records.aggregation import any_aggregate, deaggregate_slices
from kinesis_assets.kinesis.records.record import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.kinesis.page_sizes import PageSizes
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.records.record import Record


def user_records(page: Records, start: Position, range_: ShardRange, sizes: PageSizes) -> Iterator[Records]:
    """Yield the records of a page in order, in batches, with each KPL aggregate replaced by its sub-records.

    Args:
        page: The records as received.
        start: The position of the read. Inside an aggregate, its sub-records up to that position are omitted.
        range_: The range that is read.
        sizes: The numbers of records in a batch, and of sub-records that are extracted at once.
    """
    if start.sub_sequence_number is None and not any_aggregate(page):
        yield page
        return
    page.drop_data_column()  # the sub-records have their own
    batch: list[Record] = []
    for record in page:
        resumed = start.sub_sequence_number is not None and record.sequence_number == start.sequence_number
        last: Sequence[Record] = ()
        for parts in deaggregate_slices(record, range_.hash_range_for(record), sizes.sub_records):
            if last:
                yield Records.of([*batch, *last], continued=True)
                batch = []
            last = [part for part in parts if _is_after(part, start)] if resumed else parts
        batch += last
        if len(batch) >= sizes.page:
            yield Records.of(batch)
            batch = []
    yield Records.of(batch)


def is_inside(records: Records, taken: int) -> bool:
    """Whether a position after the first `taken` records is inside an aggregate."""
    if taken == len(records):
        return records.continued
    return records.numbers[taken] == records.numbers[taken - 1]


def _is_after(part: Record, start: Position) -> bool:
    """Whether a sub-record of the aggregate at a position is after that position."""
    return part.sub_sequence_number > (start.sub_sequence_number or 0)
