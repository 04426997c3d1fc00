"""A run of a derived table, in a process of its own: `derived_run.py FIELDS TABLE`.

FIELDS are the arguments of `build_kinesis_stream` for its source, as JSON.
"""

import json
import sys

import dagster as dg

from kinesis_assets import build_kinesis_stream, derived_table
from kinesis_assets.errors import KinesisAssetsError

fields, table = json.loads(sys.argv[1]), sys.argv[2]


@derived_table(source=fields["stream"], table=table)
def numbers(new):
    return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")


definitions = dg.Definitions.merge(build_kinesis_stream(**fields), dg.Definitions(assets=[numbers]))
with dg.DagsterInstance.ephemeral() as instance:
    job = definitions.resolve_implicit_global_asset_job_def()
    try:
        job.execute_in_process(instance=instance, asset_selection=[numbers.key])
    except KinesisAssetsError as error:
        sys.exit(str(error))
