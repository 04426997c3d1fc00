"""Records that consume a quota."""

from __future__ import annotations

from kinesis_assets.kinesis.records.records import Record, Records


def records(*data):
    return Records.of([Record(str(number), 0.0, item, "k") for number, item in enumerate(data)])
