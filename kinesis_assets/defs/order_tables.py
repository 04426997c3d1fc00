"""The tables that are derived from the stream `orders`."""

import os

import dagster as dg

from kinesis_assets.demo.tables import build_order_tables


@dg.definitions
def tables() -> dg.Definitions:
    """Build the assets `latest_orders` and `revenue_by_day`, whose tables are beside the raw one."""
    raw = os.environ.get("ORDERS_TABLE", ".local/tables/orders")
    return build_order_tables(f"{raw}_derived")
