"""The checks of a derived table, evaluated from the commits of the table and of its source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import new_rows
from kinesis_assets.dagster.checks.derived_evaluation import (
    DerivedEvaluation,
    DerivedProgress,
    DerivedState,
)
from kinesis_assets.dagster.checks.table_checks import FILES_EVERY
from kinesis_assets.dagster.settings.check_settings import DerivedChecks
from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.commit_entry import Definition, Kind, entry_path
from kinesis_assets.derive.data_files import ERRORS_FOLDER, RecordCounts
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import DeletedRows, Deletion, OnDeleted
from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.commit_ids import new_id, time_of_id
from support.checked_tables import changed, checked_table
from support.mentions import assert_mentions
from support.plain_derived import PlainDerived
from support.shifted_clock import ShiftedClock
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kinesis_assets.dagster.checks.results import CheckResult
    from kinesis_assets.dagster.derived_tables import CheckedTable

pytestmark = pytest.mark.slow

ALWAYS = {"lag", "continuity", "no_accepted_data_loss", "compaction_debt"}
BAD = {"bad_records": {"max_share": 0.1}}


class Pair:
    """A derived table that was derived from another one, and its checks.

    Attributes:
        progress: What the checks remember.
    """

    def __init__(self, folder: Path) -> None:
        self.source = PlainDerived(folder / "source")
        self.source.append((1, 0, "a"))
        self.derived = PlainDerived(folder / "derived", source=self.source.id)
        self.derived.consume_all(self.source)
        self.progress = DerivedProgress()

    def table(self, **checks: Any) -> CheckedTable:
        parsed = DerivedChecks.parse(checks)
        return checked_table("derived", self.derived.table.uri, self.source.table.uri, parsed)

    @property
    def newest(self) -> float:
        """The time of the newest commit of the source."""
        return time_of_id(self.source.table.snapshot().newest.commit_id)

    def results(self, later: float = 0.0, /, **checks: Any) -> Mapping[str, CheckResult]:
        """Return the results some seconds after the newest commit of the source, by name."""
        return self.results_of(self.table(**checks), later)

    def results_of(self, table: CheckedTable, later: float = 0.0) -> Mapping[str, CheckResult]:
        now = self.newest + later
        evaluation = DerivedEvaluation(table, DerivedState.of(table), self.progress, now)
        self.progress = evaluation.progress
        return {result.name: result for result in evaluation.results}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def broken(results: Mapping[str, CheckResult]) -> str:
    """Return why the continuity is broken. Nothing is known about the lag then."""
    assert "lag" not in results
    assert not results["continuity"].passed
    return results["continuity"].description


def test_a_table_that_has_consumed_its_source_passes(pair):
    results = pair.results(100_000)
    assert results.keys() == ALWAYS
    assert all(result.passed for result in results.values())


def test_checks_that_are_off_have_no_result(pair):
    assert pair.results(**dict.fromkeys(ALWAYS, "off")) == {}


def test_a_table_of_errors_that_has_consumed_its_source_passes(pair, tmp_path):
    pair.derived.append(errors=[b"one"])
    typed, position = pair.derived.table, new_rows(f"{pair.derived.table.uri}/{ERRORS_FOLDER}").cursor
    errors = PlainDerived(tmp_path / "errors", source=pair.source.id, partitioned=False)
    errors.append((1, 0, "a"), cursor=position)
    uri, source = errors.table.uri, f"{typed.uri}/{ERRORS_FOLDER}"
    results = pair.results_of(changed(pair.table(), uri=uri, source=source, partition_by=()))
    assert {name: result.passed for name, result in results.items()} == dict.fromkeys(ALWAYS, True)


# Lag


@pytest.mark.parametrize(("seconds", "passed"), [(900, True), (901, False)])
def test_a_commit_that_is_not_consumed_may_be_as_old_as_the_bound(pair, seconds, passed):
    pair.source.append((2, 0, "a"))
    assert pair.results(seconds)["lag"].passed is passed
    pair.derived.consume_all(pair.source)
    assert pair.results(seconds)["lag"].passed


def test_a_clock_that_is_behind_hides_no_lag(pair):
    clock = ShiftedClock()
    pair.source.table = DerivedTable(pair.source.table.uri, replace(WRITING, clock=clock))
    pair.source.append((2, 0, "a"))
    clock.advance(hours=1)
    pair.source.append((3, 0, "a"))
    assert not pair.results(-7200)["lag"].passed


def test_a_table_that_does_not_exist_yet_is_late(pair, tmp_path):
    table = changed(pair.table(), uri=str(tmp_path / "new"))
    results = pair.results_of(table, 100_000)
    assert {name: result.passed for name, result in results.items()} == {"lag": False, "continuity": True}


def test_a_table_whose_source_does_not_exist_yet_is_not_late(pair, tmp_path):
    table = changed(pair.table(), uri=str(tmp_path / "new"), source=str(tmp_path / "other"))
    results = pair.results_of(table, 100_000)
    assert {name: result.passed for name, result in results.items()} == {"lag": True, "continuity": True}


# Continuity


def test_a_source_that_was_rebuilt_breaks_the_continuity(pair):
    pair.source.rebuild()
    assert "rebuilt" in broken(pair.results())


def test_a_source_that_was_restored_breaks_the_continuity(pair):
    DeltaTable(pair.source.table.uri).restore(0)
    assert pair.source.table.uri in broken(pair.results())


def test_a_table_that_was_restored_breaks_the_continuity(pair):
    DeltaTable(pair.derived.table.uri).restore(0)
    assert pair.derived.table.uri in broken(pair.results())


def test_another_source_breaks_the_continuity(pair, tmp_path):
    other = PlainDerived(tmp_path / "other")
    results = pair.results_of(changed(pair.table(), source=other.table.uri))
    assert_mentions(broken(results), pair.source.id, other.id)


def test_another_owner_breaks_the_continuity(pair):
    snapshot = pair.derived.table.snapshot()
    commit(
        pair.derived.table,
        Attempt(
            cursor=snapshot.newest.cursor,
            batch_id=new_id(),
            definition=Definition(owner="derived", kind=Kind.APPEND),
        ),
        expected=snapshot.commit_id,
    )
    assert pair.results()["continuity"].passed
    renamed = pair.results_of(changed(pair.table(), key=dg.AssetKey("renamed")))
    assert_mentions(broken(renamed), "derived", "renamed", "--take-over")


def test_rows_without_a_position_break_the_continuity(pair, tmp_path):
    original = DeltaTable(pair.derived.table.uri)
    write_deltalake(tmp_path / "copy", original.to_pyarrow_table())
    properties = original.metadata().configuration
    DeltaTable(tmp_path / "copy").alter.set_table_properties(properties, raise_if_not_exists=False)
    results = pair.results_of(changed(pair.table(), uri=str(tmp_path / "copy")))
    assert "kinesis-assets rebuild" in broken(results)


def test_a_source_that_is_gone_breaks_the_continuity(pair, tmp_path):
    results = pair.results_of(changed(pair.table(), source=str(tmp_path / "gone")))
    assert str(tmp_path / "gone") in broken(results)


def test_a_missing_record_of_the_newest_commit_breaks_the_continuity(pair):
    newest = pair.derived.table.snapshot().newest
    pair.derived.table.files.delete_file(entry_path(newest.commit_id))
    assert entry_path(newest.commit_id) in broken(pair.results())


@pytest.mark.parametrize(
    ("on_deleted", "passed"),
    [(OnDeleted.FAIL, False), (OnDeleted.IGNORE, True), (OnDeleted.REBUILD, True)],
)
def test_rows_that_were_deleted_break_the_continuity_if_runs_fail_because_of_them(
    pair, bench, tmp_path, on_deleted, passed
):
    bench.create()
    bench.put(1)
    bench.run()
    cursor = new_rows(bench.table.uri).cursor
    derived = PlainDerived(tmp_path / "of_raw", source=cursor.source)
    derived.append((1, 0, "a"), cursor=cursor, consumed=1)
    table = changed(pair.table(), uri=derived.table.uri, source=bench.table.uri, on_deleted=on_deleted)
    assert pair.results_of(table)["continuity"].passed
    bench.seek("TRIM_HORIZON")
    assert pair.results_of(table)["continuity"].passed is passed


def test_a_source_that_cannot_be_read_is_an_error(pair):
    def unreachable(uri: str, _role: None, _format: None) -> None:
        raise TableUnreachable(uri, "the store does not respond")

    table = pair.table()
    with pytest.raises(TableUnreachable):
        DerivedEvaluation(table, DerivedState.of(table), pair.progress, 0.0, unreachable)


# Bad records


@pytest.mark.parametrize(("bad", "passed"), [(0, True), (10, True), (11, False)])
def test_the_share_of_records_that_could_not_be_decoded_is_bounded(pair, bad, passed):
    pair.derived.append((2, 0, "a"), counts=RecordCounts(100, bad))
    result = pair.results(**BAD)["bad_records"]
    assert (result.passed, result.severity) == (passed, "WARN")
    assert (result.metadata["records"], result.metadata["bad records"]) == (100, bad)


def test_bad_records_from_before_a_rebuild_turn_the_check_green(pair):
    pair.derived.append((2, 0, "a"), counts=RecordCounts(100, 100))
    assert not pair.results(**BAD)["bad_records"].passed
    pair.derived.rebuild()
    result = pair.results(**BAD)["bad_records"]
    assert (result.passed, result.metadata["records"]) == (True, 0)


def test_a_table_without_the_column_of_errors_names_its_table_of_errors(pair):
    pair.derived.append(counts=RecordCounts(100, 100))
    advice = "The table of errors says why. Correct the schema and run `kinesis-assets redrive`"
    assert advice in pair.results(**BAD)["bad_records"].description


def test_records_are_counted_from_where_the_last_evaluation_ended(pair):
    pair.derived.append((2, 0, "a"), counts=RecordCounts(100, 100))
    assert not pair.results(**BAD)["bad_records"].passed
    pair.derived.append((3, 0, "a"), counts=RecordCounts(900, 0))
    result = pair.results(**BAD)["bad_records"]
    assert (result.passed, result.metadata["records"]) == (True, 1000)


def test_the_share_is_one_of_records_and_not_of_rows(pair):
    pair.derived.append((2, 0, "a"), counts=RecordCounts(1000, 1))  # of 999 records with one key, one is left
    assert pair.results(**BAD)["bad_records"].metadata["share of bad records (%)"] == 0.1


def test_a_table_that_does_not_count_its_records_has_no_share(pair):
    assert "bad_records" not in pair.results()


# Small files


@pytest.mark.parametrize(("allowed", "passed"), [(2, True), (1, False)])
def test_the_number_of_small_files_is_bounded(pair, allowed, passed):
    pair.derived.append((2, 0, "b"))
    result = pair.results(compaction_debt={"max_small_files": allowed})["compaction_debt"]
    assert (result.passed, result.metadata["small files"]) == (passed, 2)
    found = {record.data["partition"] for record in result.metadata["partitions"].records}
    assert found == {"part=a", "part=b"}


def test_the_files_are_read_again_after_a_while(pair):
    assert pair.results()["compaction_debt"].metadata["small files"] == 1
    pair.derived.append((2, 0, "b"))
    assert pair.results(1)["compaction_debt"].metadata["small files"] == 1
    assert pair.results(FILES_EVERY + 1)["compaction_debt"].metadata["small files"] == 2


# Losses


def give_up(pair: Pair, deletion: Deletion) -> None:
    """Commit that rows were given up."""
    newest = pair.derived.table.snapshot().newest
    lost = (DeletedRows(deletion=deletion, rows=3),)
    commit(
        pair.derived.table,
        Attempt(cursor=newest.cursor, batch_id=new_id(), on_deleted=OnDeleted.IGNORE, given_up=lost),
        expected=None if newest is None else newest.commit_id,
    )


@pytest.mark.parametrize("deletion", [Deletion.EXPIRED, Deletion.FORGOTTEN])
def test_rows_that_were_given_up_turn_the_check_red_until_the_loss_is_accepted(pair, deletion):
    give_up(pair, deletion)
    for _ in range(2):  # also if the commit is not read again
        result = pair.results()["no_accepted_data_loss"]
        assert (result.passed, result.metadata["rows given up"]) == (False, 3)
    later = "2999-01-01T00:00:00Z"
    assert pair.results(no_accepted_data_loss={"since": later})["no_accepted_data_loss"].passed


def test_rows_that_were_consumed_before_are_no_loss(pair):
    give_up(pair, Deletion.ADDED_AGAIN)
    assert pair.results()["no_accepted_data_loss"].passed
