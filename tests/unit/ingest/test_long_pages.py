"""A run over pages that exceed the size limit of a response."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinesis_assets.kinesis.settings import LARGEST_BODY

RECORDS = 10_000
KEY = "k" * 250


@pytest.mark.slow
@pytest.mark.parametrize("sdk_parser", [False, True], ids=["own_parser", "sdk_parser"])
def test_a_page_of_10_000_records_with_long_keys_is_read_in_halves(bench, faults, sdk_parser):
    bench.settings = replace(bench.settings, sdk_parser=sdk_parser)
    bench.set_timing(bytes_per_second=1e12)  # no call waits until the shard may return more
    (shard,) = bench.create()
    for first in range(0, RECORDS, 500):
        entries = [{"Data": b"%01000d" % item, "PartitionKey": KEY} for item in range(first, first + 500)]
        bench.kinesis.put_records(StreamName=bench.stream, Records=entries)
    bodies = []
    faults.answer(
        "GetRecords", lambda call, response: bodies.append((call.arguments["Limit"], len(response.body)))
    )
    outcome = bench.run().outcomes[shard]
    assert (outcome.error, outcome.rows) == (None, RECORDS)
    assert bench.items == list(range(RECORDS))
    assert [limit for limit, _ in bodies[:3]] == [RECORDS, RECORDS // 2, RECORDS // 2]
    assert [limit for limit, body in bodies if body > LARGEST_BODY] == [RECORDS]
