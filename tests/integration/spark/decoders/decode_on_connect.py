"""A job on Spark Connect, which decodes four records and prints the rows as one line of JSON."""

from __future__ import annotations

import gzip
import json

from pyspark.sql import SparkSession

from kinesis_assets.decoders import Glue, Gzip, SchemaVersion, decode

SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
FRAME = bytes.fromhex("03 00 b7b4a7f0 9c96 4e4a a687 fb5de9ef0c63")


def main() -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    data = [gzip.compress(FRAME + document) for document in (b'{"order_id": 1}', b'{"order_id": "1"}')]
    data += [gzip.compress(b"plain"), data[0][:-1]]
    raw = spark.createDataFrame([(each, None) for each in data], "data binary, error string")
    decoders = [Gzip(), Glue("order_id long", schemas={SCHEMA_ID: SchemaVersion("JSON", "{}")})]
    rows = raw.transform(decode(*decoders)).collect()
    told = [[row.value and row.value.order_id, row.schema_id, row.error] for row in rows]
    print(json.dumps(told))  # noqa: T201  # the job's answer
    spark.stop()


if __name__ == "__main__":
    main()
