"""How a derived table follows its source."""

from __future__ import annotations

from enum import StrEnum

MAX_BYTES = 1 << 30
"""The default size in bytes of the source's files after which a step includes no further commit."""

TIME_ZONE = "UTC"
"""The default of the time zone of expressions."""


class OnDeleted(StrEnum):
    """The policy for rows of the source that were deleted, which a run has consumed or was to consume.

    Attributes:
        FAIL: The run fails and changes nothing.
        IGNORE: It continues with the rows that are there. Rows that were derived from the others stay.
        REBUILD: It empties the table and starts again with the rows that the source has. So it does if a
            column gets another type.
    """

    FAIL = "fail"
    IGNORE = "ignore"
    REBUILD = "rebuild"
