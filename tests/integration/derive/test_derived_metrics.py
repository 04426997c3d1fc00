"""The metrics of a run of a derived table."""

from __future__ import annotations

from kinesis_assets.dagster.derived.derived_asset import with_bad_records
from kinesis_assets.decoders import from_json
from kinesis_assets.metrics.instruments import DERIVED_BAD_RECORDS, DERIVED_ROWS
from support.derived import order


def decoded(rows):
    return from_json(rows, "id INT, amount DOUBLE")


def test_a_run_records_its_rows_and_the_records_that_it_could_not_decode(bench, derived, measurements):
    bench.put(order(1), order(2), b'{"id": "one"}')
    bench.run()
    uri = derived.table.uri
    derived.run(transform=with_bad_records(decoded, uri, None))
    measurements.read()
    assert measurements.of(DERIVED_ROWS) == {(uri,): 3}
    assert measurements.of(DERIVED_BAD_RECORDS) == {(uri,): 1}
    derived.run(transform=with_bad_records(decoded, uri, None))
    measurements.read()
    assert (measurements.of(DERIVED_ROWS), measurements.of(DERIVED_BAD_RECORDS)) == ({}, {})
