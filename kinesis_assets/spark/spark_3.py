"""What differs before Spark 4: features that it lacks, and a default that is set to that of Spark 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.pyspark_internals import pyspark_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

_ANSI = "spark.sql.ansi.enabled"


def is_spark_3() -> bool:
    """Return whether the installed PySpark is older than Spark 4."""
    return int(pyspark_version().partition(".")[0]) < 4  # noqa: PLR2004


def is_remote() -> bool:
    """Return whether the session of this process is on Spark Connect."""
    if is_spark_3():
        return False
    from pyspark.sql import is_remote  # noqa: PLC0415  # of Spark 4

    return is_remote()


def require_spark_4(feature: str) -> None:
    """Check that the installed PySpark has a feature.

    Args:
        feature: The feature, as the subject of the error.

    Raises:
        InvalidInput: It is older than Spark 4.
    """
    if is_spark_3():
        raise InvalidInput(
            f"{feature} needs Spark 4, and PySpark {pyspark_version()} is installed. Install pyspark>=4, or "
            "do without it, see docs/spark.md"
        )


def error_condition(error: PySparkException) -> str | None:
    """Return the name of an error, such as PARSE_SYNTAX_ERROR. Spark 4 calls this its condition."""
    condition: str | None = error.getErrorClass() if is_spark_3() else error.getCondition()
    return condition


def enable_ansi(spark: SparkSession, spark_config: Mapping[str, Any]) -> None:
    """Enable the ANSI mode of a session, as Spark 4 does by default.

    Without it, an overflow or an invalid cast in an expression of a derived table is a wrong number or null
    instead of an error. A setting of the session, of spark-defaults.conf or of spark-submit has precedence.
    """
    if is_spark_3() and _ANSI not in spark_config and not spark.sparkContext.getConf().contains(_ANSI):
        spark.conf.set(_ANSI, "true")
