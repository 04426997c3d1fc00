"""Which kills of a run are thorough: those that leave what another kill leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chaos.faults.site.fault_points import FAN_OUT
from support.formats import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chaos.faults.site.fault_points import Fault

WRITING = {"create table", "close data file", "open positions file", "commit request"}
"""After any other point, the table and its folder are as they are before the next point."""

READING = {"describe stream", "list shards", "shard iterator", "get records", *FAN_OUT}
"""What is the same whatever the table's format is."""


def most(faults: Iterable[Fault]) -> list[Any]:
    """Return kills as parameters of a test."""
    return [pytest.param(each, marks=pytest.mark.thorough if _is_repeated(each) else ()) for each in faults]


def _is_repeated(fault: Fault) -> bool:
    if fault.point in READING:
        return FORMAT != "delta" or (fault.moment == "after" and fault.point not in FAN_OUT)
    return fault.moment == "after" and fault.point not in WRITING
