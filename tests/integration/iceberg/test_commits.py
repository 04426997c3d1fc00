"""Commits of tables in each catalog, and requests to a REST catalog that fail in each way."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kinesis_assets.derive.schema import accept_columns
from kinesis_assets.errors import CommitFailed, CursorConflict, TableUnsuitable
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from support.attempts import (
    Attempt,
    assert_rows_are_what_positions_say,
    current_positions,
    freeze_all,
    shards,
)
from support.fixtures.iceberg import KINDS
from support.formats import derived_in, iceberg_of, raw_table_in, reopened
from support.iceberg import fault_proxy
from support.iceberg.catalogs import over_rest
from support.plain_derived import PlainDerived, steps_of
from support.shifted_clock import ShiftedClock
from support.timing import WRITING


def table_in(catalog, folder, **changes):
    """Return a raw table in a catalog, of which three snapshots are kept."""
    return raw_table_in(catalog, str(folder / "orders"), WRITING, snapshots_kept=3, **changes)


@pytest.mark.parametrize("kind", [*KINDS, "glue"])
def test_runs_commit_in_each_catalog(kind, request, tmp_path):
    table = table_in(request.getfixturevalue(f"{kind}_catalog"), tmp_path)
    frozen = freeze_all(table, shards("a", "b"))
    first, second = Attempt(table, frozen, {"a": 3}), Attempt(table, frozen, {"b": 2})
    stale = Attempt(table, frozen, {"a": 1})
    assert [first.commit().version, second.commit().version] == [2, 3]
    assert stale.commit().conflicts.keys() == {"a"}
    for _ in range(3):
        Attempt(table, current_positions(table), {"a": 1}).commit()
    assert [each.sequence_number for each in iceberg_of(table).snapshots()] == [4, 5, 6]
    assert_rows_are_what_positions_say(table)


FAULTS = (
    fault_proxy.LOST_RESPONSE,
    fault_proxy.LOST_REQUEST,
    fault_proxy.CONFLICT_AFTER_SUCCESS,
    fault_proxy.ERROR_AFTER_SUCCESS,
    fault_proxy.UNAVAILABLE,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_fails_commits_once(rest_catalog, rest_url, tmp_path, fault):
    with fault_proxy.FaultProxy(rest_url) as proxy:
        table = table_in(rest_catalog, tmp_path, uri=proxy.url)
        frozen = freeze_all(table, shards("a"))
        sent = len(proxy.commits)
        proxy.faults.append(fault)
        assert Attempt(table, frozen, {"a": 3}).commit().version == 2
        assert len(proxy.commits) - sent == (1 if fault.lands else 2)
        assert_rows_are_what_positions_say(table)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_to_glue_that_fails_commits_once_also_if_the_sdk_repeats_it(
    glue_catalog, glue_proxy, tmp_path, fault
):
    table = table_in(glue_catalog, tmp_path)
    frozen = freeze_all(table, shards("a"))
    sent = len(glue_proxy.commits)
    glue_proxy.faults.append(fault)
    assert Attempt(table, frozen, {"a": 3}).commit().version == 2
    is_final = fault is fault_proxy.CONFLICT_AFTER_SUCCESS
    assert len(glue_proxy.commits) - sent == (1 if is_final else 2)
    assert len(iceberg_of(table).snapshots()) == 2
    assert_rows_are_what_positions_say(table)


def test_of_two_commits_to_glue_at_once_both_land_unless_they_move_one_shard(
    glue_catalog, glue_proxy, tmp_path
):
    table = table_in(glue_catalog, tmp_path)
    frozen = freeze_all(table, shards("a", "b"))
    attempts = [Attempt(reopened(table), frozen, moved) for moved in ({"a": 3}, {"b": 2}, {"a": 1})]
    with ThreadPoolExecutor() as pool:
        with glue_proxy.delayed():
            commits = [pool.submit(attempt.commit) for attempt in attempts]
            for _ in commits:
                glue_proxy.wait_for_commit()
        conflicts = [tuple(each.result().conflicts) for each in commits]
    assert conflicts in ([(), (), ("a",)], [("a",), (), ()])
    assert iceberg_of(table).metadata.last_sequence_number == 3
    assert_rows_are_what_positions_say(table)


def test_a_database_of_glue_that_exists_need_not_be_created(glue_catalog, glue_proxy, tmp_path):
    glue_catalog.load()
    freeze_all(table_in(glue_catalog, tmp_path), shards("a"))
    assert glue_proxy.calls["CreateDatabase"] == 1  # by the test


def test_a_clock_ahead_of_the_catalog_is_named_and_commits_nothing(rest_catalog, rest_url, tmp_path):
    with fault_proxy.FaultProxy(rest_url) as proxy:
        table = table_in(rest_catalog, tmp_path, uri=proxy.url)
        frozen = freeze_all(table, shards("a"))
        sent = len(proxy.commits)
        ahead = reopened(table, replace(WRITING, clock=ShiftedClock(offset=120)))
        with pytest.raises(CommitFailed, match=r"nothing was committed.* a minute or more ahead .* with NTP"):
            Attempt(ahead, frozen, {"a": 3}).commit()
        assert len(proxy.commits) - sent == 1
        assert Attempt(table, frozen, {"a": 3}).commit().version == 2


@pytest.mark.parametrize("kind", [*KINDS, "glue"])
def test_derived_tables_commit_and_grow_in_each_catalog(kind, request, tmp_path):
    catalog = request.getfixturevalue(f"{kind}_catalog")
    derived = PlainDerived(tmp_path / "derived", format=derived_in(catalog, "derived"))
    late = derived.planned([(9, 9, "z")])
    derived.append((1, 10, "a"), (2, 20, None))
    with pytest.raises(CursorConflict):
        late()
    columns = derived.table.snapshot().schema
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    accept_columns(derived.table.snapshot(), {**columns, "fields": [*columns["fields"], note]})
    derived.upsert((2, 21, "b"))
    steps_of(derived, limits=MaintenanceLimits(small_files=2))
    assert derived.rows == Counter([(1, 10, "a"), (2, 21, "b")])
    assert [field["name"] for field in derived.table.snapshot().schema["fields"]][-1] == "note"
    derived.rebuild()
    assert derived.rows == Counter()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["rest", "glue"])
def test_a_request_that_fails_commits_to_a_derived_table_once(kind, request, tmp_path, fault):
    proxy = request.getfixturevalue(f"{kind}_proxy")
    catalog = request.getfixturevalue("glue_catalog") if kind == "glue" else over_rest(proxy.url, {})
    derived = PlainDerived(tmp_path / "derived", format=derived_in(catalog, "derived"))
    proxy.faults.append(fault)
    made = derived.append((1, 10, "a"))
    assert not proxy.faults
    assert derived.table.snapshot().newest == made
    assert derived.rows == Counter([(1, 10, "a")])


def test_a_delta_entry_of_glue_is_not_taken_for_a_missing_table(glue_catalog, tmp_path):
    glue_catalog.load().glue.create_table(
        DatabaseName=glue_catalog.namespace,
        TableInput={"Name": "derived", "Parameters": {"table_type": "DELTA"}},
    )
    with pytest.raises(TableUnsuitable, match=r"entry tests_\w+\.derived is not of an Iceberg table"):
        PlainDerived(tmp_path / "derived", format=derived_in(glue_catalog, "derived"))
