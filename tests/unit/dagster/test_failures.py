"""Errors of the package that Dagster shows without a sentence of its own before theirs."""

from __future__ import annotations

import pickle
from contextlib import suppress

import dagster as dg
import pytest

from kinesis_assets.dagster.failures import as_failure, shown_as_failures
from kinesis_assets.dagster.graceful_stop import NOTHING_READ, stops_explained
from kinesis_assets.errors import (
    DataLost,
    InvalidInput,
    LandingFailed,
    PositionConflict,
    ShardsNotCommitted,
    StreamError,
    StreamRecreated,
    TableError,
)
from support.mentions import numbers

A, B = "shardId-000000000000", "shardId-000000000001"
LOST = DataLost(A, "records may be lost")


def first_lines(body) -> list[str]:
    """Run an asset whose body is given, and return the errors that the UI shows for it."""

    @dg.asset
    def failing() -> None:
        body()

    with dg.DagsterInstance.ephemeral() as instance:
        with suppress(dg.DagsterExecutionInterruptedError):
            dg.materialize([failing], instance=instance, raise_on_error=False)
        (run,) = instance.get_runs()
        records = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    events = [record.event_log_entry.get_dagster_event() for record in records.records]
    return [event.step_failure_data.error.message for event in events]


def test_the_sentence_of_an_error_is_the_first_line_of_the_error_card():
    @shown_as_failures()
    def body():
        raise StreamRecreated("clicks", "deleted and created again")

    assert first_lines(body) == [
        "kinesis_assets.errors.StreamRecreated: stream clicks: deleted and created again\n"
    ]


def test_the_card_of_a_conflict_has_its_class_and_its_sentence():
    @shown_as_failures()
    def body():
        raise ShardsNotCommitted("clicks", {A: PositionConflict(A, "another run moved it")})

    (line,) = first_lines(body)
    assert line.startswith("kinesis_assets.errors.ShardsNotCommitted: stream clicks: 1 of the run's shards")
    assert line.endswith(f"PositionConflict: {A}: another run moved it\n")


def test_the_card_of_a_stopped_run_says_what_was_committed():
    @shown_as_failures()
    def body():
        raise dg.DagsterExecutionInterruptedError

    (line,) = first_lines(body)
    assert line.startswith(
        "dagster._core.errors.DagsterExecutionInterruptedError: the run was stopped: what it"
    )


def test_the_card_of_a_run_that_was_stopped_before_it_read_anything_says_so():
    @shown_as_failures()
    @stops_explained(NOTHING_READ)
    def body():
        raise dg.DagsterExecutionInterruptedError

    assert first_lines(body) == [f"dagster._core.errors.DagsterExecutionInterruptedError: {NOTHING_READ}\n"]


def test_the_card_shows_the_cause_of_an_error():
    with pytest.raises(LandingFailed) as caught, shown_as_failures():
        raise LandingFailed("the Spark job failed") from OSError("disk full")
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("wrong"),
        ShardsNotCommitted("clicks", {A: LOST}),
        StreamError("clicks", "failed"),
        TableError("file:///t", "failed"),
        LOST,
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_is_an_error_of_the_same_class_with_the_same_attributes(error):
    failure = as_failure(error)
    assert isinstance(failure, type(error))
    assert isinstance(failure, dg.Failure)
    assert str(failure) == str(error)
    assert vars(error).items() <= vars(failure).items()
    assert as_failure(failure) is failure


def test_a_failure_survives_pickling():
    failure = as_failure(ShardsNotCommitted("clicks", {A: LOST}))
    restored = pickle.loads(pickle.dumps(failure))  # noqa: S301  # our own
    assert (type(restored), str(restored)) == (type(failure), str(failure))
    assert (restored.metadata, restored.allow_retries) == (failure.metadata, failure.allow_retries)
    assert str(restored.errors[A]) == str(LOST)


def test_the_card_lists_the_reason_of_each_shard_and_counts_those_beyond_fifty():
    shards = {f"shard-{number:03}": DataLost(f"shard-{number:03}", "lost") for number in range(53)}
    metadata = as_failure(ShardsNotCommitted("clicks", shards)).metadata
    assert len(metadata) == 51
    assert metadata["shard-000"].value == "DataLost: shard-000: lost"
    assert numbers(metadata["others"].value) == [3]


def test_the_card_lists_the_reason_of_each_table_that_failed_beside_the_shards():
    failure = as_failure(ShardsNotCommitted("clicks", {A: LOST}, {"orders": ValueError("no column")}))
    assert failure.metadata["orders"].value == "ValueError: no column"
    assert str(failure).endswith("Of its derived tables, 1 failed: orders: ValueError: no column")


def test_dagster_does_not_retry_the_step_because_of_shards_that_failed():
    assert not as_failure(ShardsNotCommitted("clicks", {A: LOST})).allow_retries
    assert as_failure(LandingFailed("the Spark job failed")).allow_retries


def test_errors_of_others_are_not_changed():
    with pytest.raises(KeyError) as caught, shown_as_failures():
        raise KeyError("x")
    assert not isinstance(caught.value, dg.Failure)
