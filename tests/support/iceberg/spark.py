"""Spark with Iceberg's runtime, in an environment of its own, because it needs another version of Spark."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

from benchmarks.harness.peer_environments import PeerUnavailable, delta_python
from support.iceberg.rest_server import libraries
from support.skipping import give_up

if TYPE_CHECKING:
    from support.iceberg.catalogs import TestCatalog

WORKER = Path(__file__).with_name("spark_worker.py")
JARS = ("iceberg-spark-runtime", "iceberg-aws-bundle", "postgresql", "sqlite-jdbc")


class SparkFailed(Exception):
    """A statement failed. The message contains Spark's error."""


class IcebergSpark:
    """A session of Spark, which runs while it is entered as a context."""

    def __enter__(self) -> Self:
        try:
            python = delta_python()
        except PeerUnavailable as error:
            give_up(f"PySpark cannot be installed: {error}")
        jars = [path for path in libraries() if Path(path).name.startswith(JARS)]
        self._errors = TemporaryFile()  # closed at the end of the context
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        tests = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [python, str(WORKER), *jars],
            env={**environment, "PYTHONPATH": str(tests), "TZ": "UTC", "PYSPARK_PYTHON": python},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._read() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._errors.close()

    def sql(self, catalog: TestCatalog, statement: str) -> list[dict[str, Any]]:
        """Execute a statement in a catalog, and return its rows, see `plain_values.plain`.

        Raises:
            SparkFailed: It failed.
        """
        assert catalog.spark is not None, f"Spark cannot reach a catalog on {catalog.kind}"
        assert self._process.stdin is not None
        request = [catalog.name, dict(catalog.spark), statement]
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._read()
        if "error" in answer:
            raise SparkFailed(answer["error"])
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def _read(self) -> Any:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            self._errors.seek(0)
            raise AssertionError(self._errors.read().decode()[-3000:])
        return json.loads(line)
