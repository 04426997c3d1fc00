"""Each command that an error or a check advises, and each advice of a check, is followed by a test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.derive.commit_entry import REBUILD_COMMAND
from support.import_graph import ROOT, modules, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[2]

_ADVICE = "unit/cli/test_advice.py::"
_CHECKS = "unit/dagster/checks/"
_OWNERSHIP = "integration/derive/test_ownership.py::"

FOLLOWED = {
    "cli/consumer.py": {
        "Show the registered ones with": "unit/cli/test_consumer.py::"
        "test_a_consumer_that_is_not_registered_cannot_be_deregistered",
    },
    "cli/run.py": {
        "list its shards with": f"{_ADVICE}test_the_shards_of_a_stream_are_listed_for_a_run",
    },
    "dagster/checks/commit_checks.py": {
        "then set checks.continuity.since": f"{_CHECKS}test_commit_checks.py::"
        "test_a_break_before_an_examined_time_does_not_count",
        "Replay what the stream still has": f"{_CHECKS}test_advice.py::"
        "test_a_replay_of_what_the_stream_still_has_clears_the_gap",
        "set checks.no_accepted_data_loss.since": f"{_CHECKS}test_advice.py::"
        "test_a_gap_whose_records_have_expired_is_accepted_with_a_later_time",
        "Run the catch-up again": f"{_CHECKS}test_advice.py::"
        "test_a_catch_up_that_is_run_again_turns_its_checks_green",
    },
    "dagster/checks/derived_evaluation.py": {
        "See whether runs of the table fail": "unit/dagster/sensor/test_failed_derived_runs.py::"
        "test_a_table_whose_run_failed_turns_the_continuity_red_with_the_reason",
        "set checks.no_accepted_data_loss.since": f"{_CHECKS}test_derived_evaluation.py::"
        "test_rows_that_were_given_up_turn_the_check_red_until_the_loss_is_accepted",
        "Correct the {settings} and run": f"{_CHECKS}test_committed_records.py::"
        "test_records_that_a_redrive_has_decoded_are_not_bad_any_more",
    },
    "dagster/checks/duplicates.py": {
        "Examine the table with": "integration/cli/test_doctor.py::"
        "test_rows_that_another_program_has_doubled_are_found_as_the_errors_about_them_say",
        "stop that, and run": "integration/dagster/test_derived_checks.py::"
        "test_keys_that_are_there_twice_are_found_by_a_scan",
    },
    "dagster/checks/recorded_checks.py": {
        "run a shard": f"{_CHECKS}test_recorded_checks.py::"
        "test_a_late_mirror_turns_the_check_red_without_a_run",
    },
    "dagster/checks/shard_checks.py": {
        "See whether runs fail, or read too little": f"{_CHECKS}test_tick.py::"
        "test_a_lag_turns_the_check_red_and_a_run_turns_it_green",
        "See whether the sensor requests runs": f"{_CHECKS}test_shard_checks.py::"
        "test_a_shard_that_is_read_is_forgotten",
        "Run these shards now": f"{_CHECKS}test_advice.py::"
        "test_time_to_loss_is_green_once_the_shards_have_run",
        "increase the stream's retention": f"{_CHECKS}test_advice.py::"
        "test_with_a_longer_retention_the_records_stay_until_a_run_can_read_them",
    },
    "dagster/checks/table_checks.py": {
        "raise checks.unmatched_records.max_share": f"{_CHECKS}test_unmatched_records.py::"
        "test_the_share_of_records_without_a_route_is_bounded",
        "See whether the maintenance job runs": f"{_CHECKS}test_advice.py::"
        "test_maintenance_merges_small_files",
    },
    "dagster/jobs/derived_jobs.py": {
        "start it and the tables below it again": "integration/derive/test_routes.py::"
        "test_a_router_and_the_tables_below_it_start_again_by_a_rebuild_of_each",
    },
    "dagster/effective_settings.py": {
        "lets a replay add them again": "docs/test_maintenance.py::"
        "test_the_documented_command_lowers_the_retention_floor",
        "moves them": "docs/test_positions.py::test_the_commands_run",
    },
    "derive/commit_entry.py": {
        "If it was renamed, run": f"{_OWNERSHIP}test_a_renamed_asset_takes_over_the_table_with_its_rows",
        "Undo the change of the settings": f"{_OWNERSHIP}"
        "test_an_explicit_rebuild_accepts_another_owner_and_another_definition",
    },
    "derive/derived_table.py": {
        "Restore the original file": f"{_OWNERSHIP}test_a_lost_record_is_refused_until_the_table_is_rebuilt",
        "replaced rows but not the position": "integration/derive/test_rewritten.py::"
        "test_a_rewritten_table_is_refused_until_it_is_rebuilt",
        "Use an empty table, or run": f"{_OWNERSHIP}"
        "test_rows_without_a_position_are_deleted_by_an_explicit_rebuild",
    },
    "derive/losses.py": {
        "would be lost. Nothing was changed": "integration/derive/test_rebuild_losses.py::"
        "test_the_explicit_rebuild_loses_them",
        "Set on_deleted to ignore": "integration/derive/test_rebuild_losses.py::"
        "test_the_explicit_rebuild_is_a_way_out_of_deleted_rows",
        "another program has added rows to it": "integration/cli/test_doctor.py::"
        "test_rows_that_another_program_has_doubled_are_found_as_the_errors_about_them_say",
        "Add them again with": "unit/derive/test_new_rows.py::"
        "test_rows_that_another_program_deleted_are_added_again_by_the_replay_that_the_error_names",
    },
    "derive/schema.py": {
        "give it another name, or run": "integration/derive/test_changed_source.py::"
        "test_a_refused_type_is_written_under_another_name_or_after_a_rebuild_as_the_error_says",
    },
    "derive/source.py": {
        "for the table that is derived from it": f"{_CHECKS}test_unwell_derived_tables.py::"
        "test_a_rebuild_as_the_check_advises_turns_it_green",
    },
    "derive/derived_source.py": {
        "for both": "unit/derive/test_errors_source.py::"
        "test_a_table_of_errors_at_another_position_is_refused",
    },
    "errors.py": {
        "more shards, see": "unit/operations/doctor/test_shards.py::"
        "test_a_finished_shard_that_is_open_in_the_stream_is_a_problem",
    },
    "ingest/executor_check.py": {
        "set python_environment to an archive": "docs/test_spark.py::"
        "test_a_session_uses_the_archive_that_the_command_writes",
    },
    "ingest/shard_lists.py": {
        "To continue the shard there, run": "unit/operations/seek/test_reopen.py::"
        "test_the_command_in_the_error_reopens_the_shard_without_loss",
    },
    "kinesis/consumers.py": {
        "Register it with": "unit/ingest/test_fan_out.py::"
        "test_without_the_consumer_getrecords_reads_and_a_warning_says_so_once",
    },
    "operations/adopt.py": {
        "or delete these rows; then run": "unit/operations/adopt/test_accept_restore.py::"
        "test_a_restore_is_accepted_once_the_rows_that_a_seek_deleted_are_deleted_again",
    },
    "operations/doctor/examine.py": {
        "wrong clock; lower it": f"{_ADVICE}test_a_floor_in_the_future_is_lowered",
    },
    "operations/catalog/registration.py": {
        "or replace it with": "unit/cli/test_catalog.py::"
        "test_an_entry_is_shown_registered_and_left_to_its_owner",
    },
    "operations/leases/export_leases.py": {
        "Resume the stream until a run has read": "unit/operations/leases/test_export.py::"
        "test_a_time_is_handed_over_as_its_first_record_or_refused_without_one",
        "a catch-up has skipped records": "unit/operations/leases/test_export.py::"
        "test_records_that_a_catch_up_has_not_yet_added_are_refused",
        "wait until its runs have ended": "unit/operations/leases/test_export.py::"
        "test_a_stream_that_is_not_paused_is_refused",
    },
    "operations/leases/import_leases.py": {
        "Import into a new table; or set": "unit/operations/leases/test_import.py::"
        "test_a_table_with_positions_is_refused_and_compared",
    },
    "operations/replay/plan.py": {
        "list its shards with": f"{_ADVICE}test_the_shards_of_a_stream_are_listed_for_those_that_change_rows",
    },
    "operations/seek/run.py": {
        "list its shards with": f"{_ADVICE}test_the_shards_of_a_stream_are_listed_for_those_that_change_rows",
    },
    "spark/connect.py": {
        "start it again": "integration/spark/server/test_server.py::"
        "test_a_server_ends_with_its_supervisor_and_an_active_run_reports_it",
    },
    "table/commits/commit.py": {
        "Compute the positions from the rows": f"{_ADVICE}test_a_copy_without_positions_is_adopted",
    },
    "table/rewrites.py": {
        "Add the missing records with": f"{_ADVICE}test_a_restored_table_is_accepted_after_a_replay",
    },
    "table/maintenance/retention.py": {
        "Lower it with": f"{_ADVICE}test_a_floor_in_the_future_is_lowered",
    },
    "table/ownership.py": {
        "copy the rows of the stream there": f"{_ADVICE}test_a_copy_without_positions_is_adopted",
    },
    "table/run_files/pause.py": {
        "To delete the file, run": f"{_ADVICE}test_a_pause_that_cannot_be_read_is_deleted_or_replaced",
        "To continue, run": "docs/test_operate.py::test_a_paused_stream_is_refused_until_it_is_resumed",
    },
}
"""The tests that do what a text says, by the module, and by words of the text."""

COMMAND = re.compile(r"`kinesis-assets [\w{]|REBUILD_COMMAND|self\.command")

IMPERATIVE = re.compile(
    r"(?:^|[.;:,] |\b(?:and|or|then) )(?:[Rr]un|[Ss]et|[Ss]ee|Keep|Correct|Examine|Replay|[Rr]aise|increase) "
)
"""How an advice in the description of a check begins."""


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Return each text of the package that may be a part of a message, with its module."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for module, path in modules().items():
        left_out = {
            id(part)
            for node in nodes()[module]
            if isinstance(node, ast.JoinedStr | ast.Expr)
            or (isinstance(node, ast.keyword) and node.arg in {"description", "help"})
            for part in (node.values if isinstance(node, ast.JoinedStr) else [node.value])
        }
        for node in nodes()[module]:
            if id(node) not in left_out and isinstance(node, ast.JoinedStr | ast.Constant):
                yield path.relative_to(ROOT).as_posix(), _text(node)


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else ast.unparse(part) for part in node.values
    )


def is_advice(module: str, text: str) -> bool:
    """Return whether a text advises a command, or is an advice of a check."""
    if text == REBUILD_COMMAND:  # the part of other texts
        return False
    of_check = module.startswith("dagster/checks/") and IMPERATIVE.search(text)
    return bool(COMMAND.search(text) or of_check)


@pytest.mark.slow
def test_each_advice_names_the_test_that_follows_it():
    advice = [(module, text) for module, text in texts() if is_advice(module, text)]
    assert len(advice) > 40
    unnamed = [
        f"{module}: {text}"
        for module, text in advice
        if not any(words in text for words in FOLLOWED.get(module, ()))
    ]
    assert unnamed == []


@pytest.mark.parametrize("module", FOLLOWED)
def test_the_texts_and_the_tests_exist(module):
    of_module = [text for found, text in texts() if found == module]
    for words, test in FOLLOWED[module].items():
        assert any(words in text for text in of_module), words
        path, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / path).read_text(), test
