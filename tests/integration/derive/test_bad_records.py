"""Bad records of a derived table whose rows come from a function: how they are counted and limited."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.derived.derived_asset import with_bad_records
from kinesis_assets.decoders import from_json
from kinesis_assets.errors import BadRecordsRefused, InvalidInput
from kinesis_assets.metrics import DERIVED_BAD_RECORDS, DERIVED_ROWS
from support.derived import order

BAD = b'{"id": "one"}'


def decoded(rows):
    return from_json(rows, "id INT, amount DOUBLE")


def only_error(rows):
    return decoded(rows).select("id", "error")


def without_error(rows):
    return decoded(rows).select("id")


@pytest.fixture
def consume(bench, derived):
    """Puts records, ingests them, and consumes them with a function."""

    def consume(*payloads, function=decoded, max_bad_share=None):
        bench.put(*payloads)
        bench.run()
        transform = with_bad_records(function, derived.table.uri, max_bad_share)
        return derived.run(transform=transform)

    return consume


def test_the_rows_of_records_that_could_not_be_decoded_are_counted(consume):
    (commit,) = consume(order(1), BAD, BAD)
    assert (commit.rows, commit.bad_records) == (3, 2)


def test_a_column_error_alone_is_counted_only_with_a_limit(consume):
    (first,) = consume(order(1), BAD, function=only_error)
    (second,) = consume(order(1), BAD, function=only_error, max_bad_share=0.5)
    assert (first.bad_records, second.bad_records) == (None, 1)


def test_a_step_with_a_larger_share_of_bad_records_is_refused_before_it_is_committed(consume, derived):
    consume(order(1), max_bad_share=0.5)
    before = derived.rows
    with pytest.raises(BadRecordsRefused, match=r"2 of 3 records.*0\.667.*max_bad_share.*0\.5") as caught:
        consume(order(2), BAD, BAD, max_bad_share=0.5)
    assert "shardId-000000000000: " in str(caught.value)
    assert derived.rows == before
    (commit,) = consume(order(3), order(4), max_bad_share=0.5)
    assert (commit.rows, commit.bad_records) == (5, 2)


def test_a_limit_requires_the_column_error(consume, derived):
    with pytest.raises(InvalidInput, match=r"max_bad_share: .*column error"):
        consume(order(1), function=without_error, max_bad_share=0.5)
    assert derived.table.existing() is None


def test_a_run_records_its_rows_and_the_records_that_it_could_not_decode(bench, derived, measurements):
    bench.put(order(1), order(2), BAD)
    bench.run()
    uri = derived.table.uri
    derived.run(transform=with_bad_records(decoded, uri, None))
    measurements.read()
    assert measurements.of(DERIVED_ROWS) == {(uri,): 3}
    assert measurements.of(DERIVED_BAD_RECORDS) == {(uri,): 1}
    derived.run(transform=with_bad_records(decoded, uri, None))
    measurements.read()
    assert (measurements.of(DERIVED_ROWS), measurements.of(DERIVED_BAD_RECORDS)) == ({}, {})
