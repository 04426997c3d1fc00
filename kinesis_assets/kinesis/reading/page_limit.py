"""How many records to ask for, so that a response is not longer than may be received.

A page has at most 10 MiB of data. In JSON these are 14 MB of base64, and each record adds its names and its
partition key: 10,000 records of 1 KB with keys of 250 characters come to 18 MB.

After a response that was too long the limit is halved, down to a single record. It is doubled again after
some responses that were not too long, and after twice as many each time that this turns out to be too early:
where pages stay as they are, few calls are made in vain.
"""

from __future__ import annotations

LARGEST_PAGE_BYTES = 10 << 20
"""Data of the largest page (AWS API reference, GetRecords): the service counts it, received or not."""

_FIRST_PROBATION = 4
_LONGEST_PROBATION = 256


class PageLimit:
    """The limit of one shard's pages.

    Args:
        most: Records of a page at most, also after any response.

    Attributes:
        records: Most records to ask for, at least 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.records = most
        self._probation = _FIRST_PROBATION
        self._received = 0
        self._raised = False

    def halve(self, asked: int) -> bool:
        """Note that the response to a call for so many records was too long.

        Returns:
            Whether fewer can be asked for.
        """
        if asked <= 1:
            return False
        if self._raised:
            self._probation = min(2 * self._probation, _LONGEST_PROBATION)
        self.records, self._received, self._raised = asked // 2, 0, False
        return True

    def note_received(self) -> None:
        """Note a response that was not too long."""
        if self.records == self._most:
            return
        self._received += 1
        if self._received >= self._probation:
            self.records, self._received, self._raised = min(2 * self.records, self._most), 0, True
