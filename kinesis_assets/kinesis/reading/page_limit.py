"""The number of records to request, so that responses do not exceed the maximum length.

A page has at most 10 MiB of data. In JSON this is 14 MB of base64, and each record adds field names and a
partition key: 10,000 records of 1 KB with keys of 250 characters take 18 MB.

A response that is too long halves the limit, down to a single record. After some responses that are not too
long, the limit doubles. If the next response is too long again, the number of responses before the next
attempt doubles, so that few calls are wasted while the pages stay large.
"""

from __future__ import annotations

LARGEST_PAGE_BYTES = 10 << 20
"""The maximum data of a page (AWS API reference, GetRecords). The service counts it, received or not."""

_FIRST_PROBATION = 4
_LONGEST_PROBATION = 256


class PageLimit:
    """The limit of one shard's pages.

    Args:
        maximum: The maximum limit.

    Attributes:
        records: The current limit in records, at least 1.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.records = maximum
        self._probation = _FIRST_PROBATION
        self._received = 0
        self._raised = False

    def halve(self, requested: int) -> bool:
        """Lower the limit after a response that was too long.

        Args:
            requested: The limit of that request.

        Returns:
            Whether fewer records can be requested.
        """
        if requested <= 1:
            return False
        if self._raised:
            self._probation = min(2 * self._probation, _LONGEST_PROBATION)
        self.records, self._received, self._raised = requested // 2, 0, False
        return True

    def note_received(self) -> None:
        """Record a response that was not too long."""
        if self.records == self._maximum:
            return
        self._received += 1
        if self._received >= self._probation:
            self.records, self._received, self._raised = min(2 * self.records, self._maximum), 0, True
