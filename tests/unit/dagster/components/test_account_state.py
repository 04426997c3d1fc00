"""The list of an account's streams over time: nothing that was listed is dropped."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.dagster.components.account_component import AccountState, KnownStream, refreshed
from kinesis_assets.errors import StreamsNotListed
from kinesis_assets.kinesis.account import ListedStream

FIRST, LATER, LAST = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3))


def arn(name: str, account: str = "111122223333") -> str:
    return f"arn:aws:kinesis:eu-west-1:{account}:stream/{name}"


def listed(*names: str) -> list[ListedStream]:
    return [ListedStream(name, arn(name), deleting=False) for name in names]


def test_a_stream_that_is_no_longer_listed_stays_and_is_dated():
    state = refreshed(None, listed("orders", "clicks"), FIRST)
    assert state.streams == [KnownStream("clicks", arn("clicks")), KnownStream("orders", arn("orders"))]
    for time in (LATER, LAST):
        state = refreshed(AccountState.parse(state.encode()), listed("clicks"), time)
        assert state.streams[1] == KnownStream("orders", arn("orders"), missing_since=LATER)
    assert refreshed(state, listed("clicks", "orders"), LAST).streams[1].missing_since is None


def test_an_empty_list_changes_nothing():
    before = refreshed(None, listed("orders"), FIRST)
    for state in (None, before):
        with pytest.raises(StreamsNotListed, match="stream_names"):
            refreshed(state, [], LATER)


def test_a_stream_of_another_account_is_refused():
    before = refreshed(None, listed("orders"), FIRST)
    other = [ListedStream("orders", arn("orders", "444455556666"), deleting=False)]
    with pytest.raises(StreamsNotListed, match=r"\borders\b.*111122223333.*444455556666"):
        refreshed(before, other, LATER)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [(None, "were not listed yet"), (b"", "is damaged"), (b'{"streams": 7}', "is damaged")],
)
def test_a_state_that_cannot_be_read_is_refused_with_the_way_out(stored, reason):
    with pytest.raises(StreamsNotListed, match=rf"{reason}.*run `dg utils refresh-defs-state`"):
        AccountState.parse(stored)
