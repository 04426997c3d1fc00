"""The checks of lag, of the time to loss, and of shards that are not read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kinesis_assets.dagster.checks.results import WORST
from kinesis_assets.dagster.checks.shard_checks import (
    Unread,
    check_every_shard_read,
    check_lag,
    check_time_to_loss,
    lags,
    latest_time,
    readable,
    unread_shards,
    waiting_shards,
)
from kinesis_assets.dagster.settings.check_settings import (
    EveryShardReadCheck,
    LagCheck,
    TimeToLossCheck,
)
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from support.mentions import assert_mentions
from support.stored_positions import finished, shard_after, shard_at

NOW = datetime(2026, 2, 2, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LAG, LOSS, READ = LagCheck(), TimeToLossCheck(), EveryShardReadCheck()


def behind(ago, **rest):
    """A shard whose last read ended at a record that arrived some time ago."""
    return shard_after(1, last_arrival=NOW - ago, tip_time=NOW - ago - HOUR, retention_hours=24, **rest)


def at_tip(ago, **rest):
    return shard_after(1, last_arrival=NOW - ago - HOUR, tip_time=NOW - ago, retention_hours=24, **rest)


def lag(shards, waiting=None):
    return check_lag(LAG, lags(shards, NOW, waiting=waiting or {}, idle=HOUR))


def shards_in(result):
    return [record.data["shard"] for record in result.metadata["shards"].records]


# Lag


def test_a_shard_is_late_if_its_last_read_ended_at_an_old_record():
    result = lag({"a": behind(16 * MINUTE), "b": behind(14 * MINUTE)})
    assert (result.passed, result.severity, shards_in(result)) == (False, "WARN", ["a"])
    assert "a for 16 min" in result.description
    assert result.metadata["worst lag (s)"] == 960


def test_a_shard_that_catches_up_is_not_late_any_more():
    assert lag({"a": behind(14 * MINUTE)}).passed


def test_an_idle_shard_is_not_late():
    idle = shard_after(1, last_arrival=NOW - 20 * HOUR, tip_time=NOW - 59 * MINUTE)
    assert lag({"a": idle}).metadata["worst lag (s)"] == 0


def test_a_shard_at_its_tip_is_late_once_its_next_read_is_overdue():
    assert lag({"a": at_tip(HOUR + 14 * MINUTE)}).passed
    assert not lag({"a": at_tip(HOUR + 16 * MINUTE)}).passed


def test_a_shard_that_waits_to_be_read_is_late_without_that_delay():
    since = (NOW - 16 * MINUTE).timestamp()
    assert not lag({"a": at_tip(20 * MINUTE)}, waiting={"a": since}).passed
    assert lag({"a": at_tip(20 * MINUTE)}, waiting={"b": since}).passed


def test_the_lag_of_a_shard_without_a_start_is_unknown():
    result = lag({"a": shard_at()})
    assert result.passed
    assert result.metadata["shards with unknown lag"] == 1


def test_the_worst_of_many_shards_are_shown():
    result = lag({f"s{number:04}": behind(HOUR + number * MINUTE) for number in range(1000)})
    assert shards_in(result) == [f"s{number:04}" for number in range(999, 999 - WORST, -1)]
    assert result.metadata["shards not shown"] == 1000 - WORST


def test_a_shard_waits_since_it_was_first_found_waiting():
    first = waiting_shards({}, ["a"], NOW)
    later = waiting_shards(first, ["a", "b"], NOW + HOUR)
    assert later == {"a": NOW.timestamp(), "b": (NOW + HOUR).timestamp()}
    assert waiting_shards(later, [], NOW) == {}


def test_a_clock_that_was_ahead_does_not_hide_a_waiting_shard():
    ahead = waiting_shards({}, ["a"], NOW + 24 * HOUR)
    assert waiting_shards(ahead, ["a"], NOW) == {"a": NOW.timestamp()}


# Time to loss


def test_records_that_expire_soon_fail_the_check():
    result = check_time_to_loss(LOSS, {"a": behind(19 * HOUR), "b": behind(17 * HOUR)}, NOW)
    assert (result.passed, result.severity, shards_in(result)) == (False, "ERROR", ["a"])
    assert result.metadata["least time to loss (h)"] == 5


def test_records_that_expire_later_pass_the_check():
    assert check_time_to_loss(LOSS, {"a": behind(17 * HOUR)}, NOW).passed


def test_records_of_a_shard_that_waits_for_its_parents_expire_too():
    child = behind(19 * HOUR, parents=("a",))
    assert not check_time_to_loss(LOSS, {"a": at_tip(MINUTE), "b": child}, NOW).passed


def test_finished_shards_lose_nothing():
    assert check_time_to_loss(LOSS, {"a": finished(behind(30 * HOUR))}, NOW).passed


def test_records_that_may_have_expired_have_no_time_left():
    result = check_time_to_loss(LOSS, {"a": behind(30 * HOUR)}, NOW)
    assert result.metadata["least time to loss (h)"] == 0
    assert "a already" in result.description


def skipped(ago):
    """A range that a catch-up has skipped, whose first record arrived some time ago."""
    return Gap(after=Position.after("1"), since=NOW - ago, next_sequence_number="9", until=NOW, to_fill=True)


def test_what_a_catch_up_has_skipped_expires_although_the_shard_is_at_its_tip():
    shards, to_fill = {"a": at_tip(MINUTE), "b": at_tip(MINUTE)}, {"b": [skipped(19 * HOUR)]}
    result = check_time_to_loss(LOSS, shards, NOW, to_fill)
    assert (result.passed, shards_in(result)) == (False, ["b"])
    assert result.metadata["least time to loss (h)"] == 5
    assert "the catch-up again" in result.description
    assert "catch-up" not in check_time_to_loss(LOSS, {"a": behind(19 * HOUR)}, NOW).description


def test_what_a_catch_up_has_skipped_of_a_finished_shard_expires_too():
    shards = {"a": finished(at_tip(MINUTE))}
    assert not check_time_to_loss(LOSS, shards, NOW, {"a": [skipped(19 * HOUR)]}).passed


def test_records_of_a_shard_that_was_never_read_expire_too():
    listed = shard_at(wanted_from=NOW - 19 * HOUR, retention_hours=24)
    assert check_time_to_loss(LOSS, {"a": listed}, NOW).metadata["least time to loss (h)"] == 5


def test_a_retention_that_is_not_known_counts_as_the_shortest():
    unknown = shard_after(1, tip_time=NOW - 19 * HOUR)
    assert check_time_to_loss(LOSS, {"a": unknown}, NOW).metadata["least time to loss (h)"] == 5


# Every shard is read


def read(shards, before=None, now=NOW, failing=None, waiting=None, idle=4 * HOUR):
    ended = {shard_id for shard_id, shard in shards.items() if shard.finished}
    unread = unread_shards(before or {}, readable(shards), now, finished=ended)
    result = check_every_shard_read(
        READ, readable(shards), unread, now, failing=failing or {}, waiting=waiting or {}, idle=idle
    )
    return result, unread


def test_a_shard_whose_tip_is_old_was_not_read():
    assert read({"a": at_tip(5 * HOUR)})[0].passed
    result, _ = read({"a": at_tip(7 * HOUR), "b": at_tip(HOUR)})
    assert (result.passed, shards_in(result)) == (False, ["a"])


def test_an_idle_shard_may_be_unread_until_an_hour_after_its_next_read_is_due():
    idle = shard_after(1, tip_time=NOW, retention_hours=168)
    passed, _ = read({"a": idle}, now=NOW + 9 * HOUR, idle=8 * HOUR)
    assert passed.passed
    assert "was read in the last 9.0 h" in passed.description
    missed, _ = read({"a": idle}, now=NOW + 9 * HOUR + MINUTE, idle=8 * HOUR)
    assert (missed.passed, shards_in(missed)) == (False, ["a"])
    assert "not read for more than 9.0 h" in missed.description


def test_an_idle_shard_is_due_after_a_sixth_of_its_retention_whatever_the_settings_say():
    idle = shard_after(1, tip_time=NOW, retention_hours=24)
    assert not read({"a": idle}, now=NOW + 7 * HOUR, idle=8 * HOUR)[0].passed


def test_a_shard_with_new_records_is_due_at_once_however_long_idle_ones_may_wait():
    idle = shard_after(1, tip_time=NOW, retention_hours=168)
    waiting = {"a": (NOW + 2 * HOUR).timestamp()}
    assert read({"a": idle}, now=NOW + 8 * HOUR, waiting=waiting, idle=20 * HOUR)[0].passed
    result, _ = read({"a": idle}, now=NOW + 8 * HOUR + MINUTE, waiting=waiting, idle=20 * HOUR)
    assert (result.passed, shards_in(result)) == (False, ["a"])


def test_a_shard_that_is_behind_is_due_at_once_however_long_idle_ones_may_wait():
    _, unread = read({"a": shard_at(retention_hours=168)})
    result, _ = read({"a": shard_at(retention_hours=168)}, unread, NOW + 7 * HOUR, idle=8 * HOUR)
    assert "not read for more than 6.0 h" in result.description


def test_a_shard_that_fails_was_not_read_however_recent_its_tip_is():
    result, _ = read({"a": at_tip(HOUR), "b": at_tip(HOUR)}, failing={"b": "b: access denied"})
    assert (result.passed, shards_in(result)) == (False, ["b"])
    assert_mentions(result.description, "1 of 2 shards failed", "b: access denied")
    assert result.metadata["failing shards"] == 1


def test_a_shard_that_failed_and_is_finished_by_now_counts_no_more():
    assert read({"a": finished(shard_at()), "b": at_tip(HOUR)}, failing={"a": "a: access denied"})[0].passed


def test_a_shard_that_was_never_read_counts_from_when_it_was_first_found():
    _, unread = read({"a": shard_at()})
    assert read({"a": shard_at()}, unread, NOW + 5 * HOUR)[0].passed
    assert not read({"a": shard_at()}, unread, NOW + 7 * HOUR)[0].passed


def test_a_shard_that_is_behind_counts_from_when_its_position_last_moved():
    _, unread = read({"a": behind(20 * HOUR)})
    moved = {"a": behind(19 * HOUR)}
    _, unread = read(moved, unread, NOW + 5 * HOUR)
    assert read(moved, unread, NOW + 10 * HOUR)[0].passed
    assert not read(moved, unread, NOW + 12 * HOUR)[0].passed


def test_a_child_counts_only_once_its_parents_are_finished():
    parent, child = at_tip(MINUTE), shard_at(parents=("a",))
    _, unread = read({"a": parent, "b": child})
    assert "b" not in unread
    assert "b" in read({"a": finished(parent), "b": child}, unread)[1]


def test_a_shard_that_was_read_to_its_end_is_forgotten():
    _, unread = read({"a": behind(HOUR)})
    result, unread = read({"a": finished(behind(HOUR))}, unread, NOW + 7 * HOUR)
    assert (result.passed, unread) == (True, {})


def test_a_list_without_an_unread_shard_does_not_start_again():
    _, unread = read({"a": shard_at()})
    missing, unread = read({}, unread, NOW + 7 * HOUR)
    assert not missing.passed
    assert not read({"a": shard_at()}, unread, NOW + 7 * HOUR)[0].passed


def test_a_shard_that_is_listed_no_more_is_forgotten_after_a_day():
    _, unread = read({"a": shard_at()})
    assert read({}, unread, NOW + 25 * HOUR)[1] == {}


def test_a_clock_that_was_ahead_does_not_hide_an_unread_shard():
    _, unread = read({"a": shard_at()}, now=NOW + 100 * HOUR)
    _, unread = read({"a": shard_at()}, unread)
    assert not read({"a": shard_at()}, unread, NOW + 7 * HOUR)[0].passed


def test_a_shard_that_is_read_is_forgotten():
    _, unread = read({"a": shard_at()})
    assert unread == {"a": Unread(None, NOW.timestamp(), NOW.timestamp())}
    assert read({"a": at_tip(MINUTE)}, unread)[1] == {}


def test_the_time_is_that_of_the_latest_clock():
    shards = {"a": at_tip(timedelta(0))}
    assert latest_time(shards, NOW - HOUR, NOW - 2 * HOUR) == NOW
    assert latest_time(shards, NOW + HOUR, NOW - 2 * HOUR) == NOW + HOUR
