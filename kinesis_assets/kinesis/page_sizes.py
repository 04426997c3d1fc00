"""How much a reader requests and handles at once."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_LIMIT = 10_000
"""The maximum number of records in a page (AWS API reference, GetRecords)."""

LARGEST_BODY = 16 << 20
"""Maximum size of a response body, in bytes. The service returns at most 10 MiB, as base64 in JSON."""


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How much a reader requests and handles at once.

    Only tests and benchmarks replace the defaults.

    Attributes:
        page: The maximum number of records in a page, and the approximate number of records in a batch, if
            the page has aggregates.
        smallest_request: The minimum number of records to request, unless a quota is lower.
        sub_records: The maximum number of sub-records that are extracted at once: an aggregate can have a
            million.
        largest_body: The maximum size of a response body, in bytes. After a longer one, fewer records are
            requested.
    """

    page: int = PAGE_LIMIT
    smallest_request: int = 100
    sub_records: int = 10_000
    largest_body: int = LARGEST_BODY
