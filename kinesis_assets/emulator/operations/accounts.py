"""The operations on an account: its streams, limits and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.account import SHARD_LIMIT
from kinesis_assets.emulator.operations.streams import StreamSummary
from kinesis_assets.emulator.requests import Request
from kinesis_assets.emulator.shapes import Member, NextToken, PageLimit, StreamName

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account


PAGE_STREAMS = 100
ON_DEMAND_STREAM_LIMIT = 50
"""The quota of on-demand streams, which is reported but not enforced.

Source: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html
"""


class ListStreamsOutput(Member):
    """A page of streams."""

    stream_names: list[str]
    stream_summaries: list[StreamSummary]
    has_more_streams: bool
    next_token: str | None = None


class ListStreams(Request):
    """List the streams of the account by name, one page at a time."""

    limit: PageLimit | None = None
    exclusive_start_stream_name: StreamName | None = None
    next_token: NextToken | None = None

    def execute(self, account: Account) -> ListStreamsOutput:
        after = self.exclusive_start_stream_name or ""
        if self.next_token is not None:
            token = iterators.decode(self.next_token, iterators.StreamListing, account.clock.now())
            after = max(after, token.after)
        limit = min(self.limit or PAGE_STREAMS, PAGE_STREAMS)
        names = sorted(name for name in account.streams if name > after)
        page = names[:limit]
        more = len(names) > limit
        return ListStreamsOutput(
            stream_names=page,
            stream_summaries=[StreamSummary.of(account.stream(name)) for name in page],
            has_more_streams=more,
            next_token=iterators.encode(iterators.StreamListing(account.clock.now(), page[-1]))
            if more
            else None,
        )


class DescribeLimitsOutput(Member):
    """The quotas of the account and what counts towards them."""

    shard_limit: int
    open_shard_count: int
    on_demand_stream_count: int
    on_demand_stream_count_limit: int


class DescribeLimits(Request):
    """Describe the quotas of the account. As with AWS, only the shards of provisioned streams count."""

    def execute(self, account: Account) -> DescribeLimitsOutput:
        streams = [account.stream(name) for name in account.streams]
        return DescribeLimitsOutput(
            shard_limit=SHARD_LIMIT,
            open_shard_count=sum(len(each.open_shards) for each in streams if each.mode == "PROVISIONED"),
            on_demand_stream_count=sum(each.mode == "ON_DEMAND" for each in streams),
            on_demand_stream_count_limit=ON_DEMAND_STREAM_LIMIT,
        )


class BillingCommitment(Member):
    """The minimum throughput billing commitment."""

    status: str


class DescribeAccountSettingsOutput(Member):
    """The settings of the account."""

    minimum_throughput_billing_commitment: BillingCommitment


class DescribeAccountSettings(Request):
    """Describe the settings of the account: always those of On-demand Standard, without a commitment."""

    def execute(self, account: Account) -> DescribeAccountSettingsOutput:
        del account
        return DescribeAccountSettingsOutput(BillingCommitment("DISABLED"))
