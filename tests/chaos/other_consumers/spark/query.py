"""Writes the records of a stream to a folder with Spark's Kinesis connector, until it is killed.

python query.py ENDPOINT STREAM FOLDER CLASS_PATH
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

endpoint, stream, folder, class_path = sys.argv[1:]
connector = next(path for path in class_path.split(":") if "spark-sql-kinesis" in path)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", connector)
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
records = (
    spark.readStream.format("kinesis")
    .option("streamName", stream)
    .option("endpointUrl", endpoint)
    .option("region", os.environ["AWS_REGION"])
    .option("awsAccessKeyId", os.environ["AWS_ACCESS_KEY_ID"])
    .option("awsSecretKey", os.environ["AWS_SECRET_ACCESS_KEY"])
    .option("startingPosition", "TRIM_HORIZON")
    .option("kinesis.executor.maxRecordPerRead", "3")
    .option("kinesis.executor.maxFetchRecordsPerShard", "3")
    .load()
)
query = (
    records.selectExpr("CAST(data AS STRING) AS item")
    .writeStream.format("json")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .option("path", f"{folder}/rows")
    .start()
)
query.awaitTermination()
