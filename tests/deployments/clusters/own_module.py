"""A session that sends a module of its own: `own_module.py CONFIG` writes what a task gets from it.

CONFIG are the settings of the session, as JSON.
"""

import json
import sys

from pyspark.sql import functions

from kinesis_assets.spark.session import end_session, start_session

spark = start_session(json.loads(sys.argv[1]))


def shout(number):
    import own_module_of_a_test  # noqa: PLC0415  # sent with the session

    return own_module_of_a_test.shout(number)


row = spark.range(7, 8).select(functions.udf(shout, "string", useArrow=False)("id")).first()
sys.stdout.write(row[0])
end_session(spark)
