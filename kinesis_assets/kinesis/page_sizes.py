"""The numbers of records that a reader requests and handles at once."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_LIMIT = 10_000
"""The maximum number of records in a page (AWS API reference, GetRecords)."""


@dataclass(frozen=True, slots=True)
class PageSizes:
    """The numbers of records that a reader requests and handles at once.

    Only tests and benchmarks replace the defaults.

    Attributes:
        page: The maximum number of records in a page, and the approximate number of records in a batch, if
            the page has aggregates.
        smallest_request: The minimum number of records to request, unless a quota is lower.
        sub_records: The maximum number of sub-records that are extracted at once: an aggregate can have a
            million.
    """

    page: int = PAGE_LIMIT
    smallest_request: int = 100
    sub_records: int = 10_000
