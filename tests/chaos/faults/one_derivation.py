"""One run of a derived table in a process of its own, with Spark: `one_derivation.py ARGUMENTS` (JSON)."""

import json
import sys

from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.spark.session import start_session
from support.derived import identified
from support.pipeline import SPARK_CONFIG

arguments = json.loads(sys.argv[1])
derivation = Derivation(arguments["table"], identified)
table = DerivedTable(arguments["target"])
try:
    commits = list(derive(start_session(SPARK_CONFIG), table, derivation))
except KinesisAssetsError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(json.dumps([commit.rows for commit in commits]))  # noqa: T201
