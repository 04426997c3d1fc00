"""Findings about missing rows and the floor of the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kinesis_assets.operations.doctor.row_scan import Counted, Scan
from kinesis_assets.table.maintenance.retention import lower_floor
from support.mentions import assert_mentions

A = "shardId-000000000000"


def no_rows(_) -> Scan:
    return Scan({}, {})


def created_on(bench):
    """Return the date on which the stream was created."""
    return bench.positions.identity.created.date()


def test_a_floor_before_the_creation_of_the_stream_explains_no_missing_rows(ingested):
    ingested.amend(floor=created_on(ingested) - timedelta(days=2))
    assert [check for check, _, _ in ingested.problems(read_rows=no_rows)] == ["rows"] * 6


def test_missing_batches_below_the_floor_are_accepted(ingested):
    ingested.amend(floor=created_on(ingested) + timedelta(days=2))
    assert ingested.levels(read_rows=no_rows)["rows"] == {"ok"}


def test_a_lowered_floor_is_not_a_problem_and_still_explains_earlier_expired_rows(ingested):
    high = created_on(ingested) + timedelta(days=2)
    low = high - timedelta(days=9)
    ingested.amend(floor=high)
    lower_floor(ingested.table, ingested.positions.identity, low, datetime.now(UTC), by="ada")
    assert ingested.problems(read_rows=no_rows) == []
    (sentence,) = ingested.sentences("continuity")
    assert_mentions(sentence, "lowered", high, low, "ada")


def test_a_floor_that_decreased_without_a_record_is_a_problem(ingested):
    today = created_on(ingested)
    ingested.amend(floor=today)
    ingested.amend(floor=today - timedelta(days=1))
    sentence = f"the floor went back from {today} to {today - timedelta(days=1)}"
    assert ingested.problems() == [("continuity", None, sentence)]


def test_a_floor_in_the_future_is_a_problem_with_the_option_to_fix_it(ingested):
    ingested.amend(floor=created_on(ingested) + timedelta(days=365))
    ((check, _, sentence),) = ingested.problems()
    assert check == "floor"
    assert "--lower-floor" in sentence


def test_uncertain_rows_are_reported_as_info_and_do_not_hide_a_restore(ingested):
    ingested.restore(ingested.version - 1)
    ingested.amend(floor=created_on(ingested) + timedelta(days=2))
    batch_id = ingested.positions.batch_id

    def one_row_left(_):
        return Scan({(batch_id, A): Counted(1, 1)}, {})

    levels = ingested.levels(read_rows=one_row_left)
    assert (levels["rows"], levels["restore"]) == ({"info"}, {"problem"})
