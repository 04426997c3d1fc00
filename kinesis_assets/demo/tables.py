"""Tables that are derived from the orders: the newest version of each order, and the revenue of each day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.derived.derived_asset import derived_table, rollup
from kinesis_assets.decoders import Json, decode
from kinesis_assets.demo.orders import STREAM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = "order_id string, customer_id string, placed_at_ms long, channel string, total_cents long"


def build_order_tables(folder: str) -> dg.Definitions:
    """Build the assets `latest_orders` and `revenue_by_day`."""

    @derived_table(source=STREAM, table=f"{folder}/latest_orders", key=["order_id"], order_by=["placed_at"])
    def latest_orders(new: DataFrame) -> DataFrame:
        """The newest version of each order."""
        typed = new.transform(decode(Json(_ORDER))).select("value.*")
        return typed.selectExpr(
            "order_id",
            "customer_id",
            "channel",
            "total_cents / 100 AS total",
            "timestamp_millis(placed_at_ms) AS placed_at",
            "CAST(timestamp_millis(placed_at_ms) AS DATE) AS day",
        )

    @rollup(source=STREAM, upstream="latest_orders", table=f"{folder}/revenue_by_day", by=["day"])
    def revenue_by_day(rows: DataFrame) -> DataFrame:
        """The number of orders and the revenue of each day."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415  # definitions are loaded without PySpark

        return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("total").alias("revenue"))

    return dg.Definitions(assets=[latest_orders, revenue_by_day])
