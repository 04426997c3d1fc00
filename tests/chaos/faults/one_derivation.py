"""One run of a derived table in a process of its own, with Spark: `one_derivation.py ARGUMENTS` (JSON)."""

import json
import sys
from functools import partial

from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.policy import MAX_BYTES
from kinesis_assets.derive.run import derive
from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.spark.session import start_session
from support.derived import identified, numbered
from support.formats import derived_at, raw_table, source_format
from support.pipeline import SPARK_CONFIG

arguments = json.loads(sys.argv[1])
transform = partial(numbered, arguments["kind"]) if "kind" in arguments else identified
derivation = Derivation(
    arguments["table"],
    transform,
    max_bytes=arguments.get("max_bytes", MAX_BYTES),
    source_format=source_format(raw_table(arguments["table"])),
)
table = derived_at(arguments["target"])
try:
    commits = list(derive(start_session(SPARK_CONFIG), table, derivation))
except KinesisAssetsError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(json.dumps([commit.rows for commit in commits]))  # noqa: T201
