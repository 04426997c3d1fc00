"""The declarations of the instruments."""

from __future__ import annotations

import re

import pytest

from kinesis_assets.metrics import instruments
from kinesis_assets.metrics.instruments import INSTRUMENTS, Instrument, Kind


def test_every_declared_instrument_is_listed_under_a_name_of_its_own():
    declared = [each for each in vars(instruments).values() if isinstance(each, Instrument)]
    assert sorted(each.name for each in INSTRUMENTS) == sorted({each.name for each in declared})
    assert len(declared) == len(INSTRUMENTS)


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda each: each.name)
def test_an_instrument_is_named_as_opentelemetry_recommends(instrument):
    assert re.fullmatch(r"kinesis_assets(\.[a-z]+(_[a-z]+)*)+", instrument.name)
    assert re.fullmatch(r"s|By|\{[a-z]+\}", instrument.unit)
    assert (instrument.bounds is not None) == (instrument.kind is Kind.HISTOGRAM)
