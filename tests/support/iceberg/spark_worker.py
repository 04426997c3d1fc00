"""Executes SQL with Iceberg's runtime for Spark, in the environment of `spark.py`, one request a line.

Each catalog has a session of its own, since a session keeps the catalog that it has found under a name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from support.iceberg.plain_values import plain

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options of a process that executes a few statements, as in `kinesis_assets.spark.local_settings`."""


def main() -> None:
    """Answer requests: the name and the properties of a catalog, and a statement.

    The arguments are the paths of Java libraries.
    """
    first = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", ":".join(sys.argv[1:]))
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.shuffle.partitions", "1")  # the default, 200, is slow for a few rows
        .config("spark.sql.codegen.wholeStage", "false")  # to compile a query takes longer than to execute it
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    sessions: dict[str, SparkSession] = {}
    reply("ready")
    for line in sys.stdin:
        name, properties, statement = json.loads(line)
        key = json.dumps([name, properties])
        try:
            if key not in sessions:
                sessions[key] = connected(first.newSession(), name, properties)
            rows = [plain(row.asDict()) for row in sessions[key].sql(statement).collect()]
            reply({"rows": rows})
        except Exception as error:  # noqa: BLE001  # it is the answer
            reply({"error": str(error).partition("JVM stacktrace")[0]})


def reply(content: Any) -> None:
    sys.stdout.write(f"{json.dumps(content)}\n")
    sys.stdout.flush()


def connected(session: SparkSession, name: str, properties: dict[str, str]) -> SparkSession:
    """Give a session a catalog."""
    session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")  # others change the tables
    for each, value in properties.items():
        session.conf.set(f"spark.sql.catalog.{name}.{each}", value)
    session.sql(f"USE {name}")
    return session


if __name__ == "__main__":
    main()
