"""The records of a page, with aggregates as their sub-records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.records.aggregation import any_aggregate, sliced
from kinesis_assets.kinesis.records.wire import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.kinesis.records.wire import Record


def user_records(
    wire: Records, begin: Position, hash_range: tuple[str, str] | None, at_once: int
) -> Iterator[Records]:
    """The page's records, aggregates as their sub-records, about so many at a time."""
    if begin.sub_sequence_number is None and not any_aggregate(wire):
        yield wire
        return
    wire.drop_data_column()  # the sub-records have their own
    records: list[Record] = []
    for record in wire:
        broken = begin.sub_sequence_number is not None and record.sequence_number == begin.sequence_number
        held: Sequence[Record] = ()
        for parts in sliced(record, hash_range):
            if held:
                yield Records.of([*records, *held], continued=True)
                records = []
            held = [part for part in parts if _comes_after(part, begin)] if broken else parts
        records += held
        if len(records) >= at_once:
            yield Records.of(records)
            records = []
    yield Records.of(records)


def is_inside(records: Records, taken: int) -> bool:
    """Whether the aggregate of the last taken one goes on."""
    if taken == len(records):
        return records.continued
    return records.numbers[taken] == records.numbers[taken - 1]


def _comes_after(part: Record, begin: Position) -> bool:
    """Whether a sub-record comes after the one up to which its aggregate was read."""
    return part.sub_sequence_number > (begin.sub_sequence_number or 0)
