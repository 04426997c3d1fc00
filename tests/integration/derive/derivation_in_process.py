"""A derivation in a process that prints the hour of the epoch in its session: arguments SOURCE TABLE."""

import sys

from pyspark.sql import DataFrame

from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.spark.session import start_session

source, table = sys.argv[1:]


def days(rows: DataFrame) -> DataFrame:
    text = "from_json(CAST(data AS STRING), 'id INT, at TIMESTAMP') AS row"
    return rows.selectExpr(text).selectExpr("row.id", "CAST(row.at AS DATE) AS day")


spark = start_session({"spark.master": "local[2]"})
list(derive(spark, DerivedTable(table), Derivation(source, days)))
print(spark.sql("SELECT hour(timestamp_seconds(0))").head()[0])  # noqa: T201
