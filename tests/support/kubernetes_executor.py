"""A driver without executors, and the variables with which Spark starts an executor on Kubernetes."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import wait_until
from support.clean_environment import clean_environment

if TYPE_CHECKING:
    from typing import Self

LOOPBACK = "127.0.0.1"

_SCRIPT = """
import json, sys
from kinesis_assets.spark.session import start_session
from kinesis_assets.spark.worker_daemon import TASK_MODULES

spark = start_session({
    "spark.master": "local-cluster[0,1,1024]",
    "spark.driver.host": "${env:POD_IP}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.pyspark.python": sys.argv[1],
})
scala = spark.sparkContext._jsc.sc()
pod_name = spark._jvm.org.apache.spark.deploy.k8s.Config.KUBERNETES_DRIVER_POD_NAME()
scala.conf().set("spark.kubernetes.driver.pod.name", "${env:POD_NAME}")
print(json.dumps({
    "url": f"spark://CoarseGrainedScheduler@{scala.conf().get('spark.driver.host')}:"
           f"{scala.conf().get('spark.driver.port')}",
    "application": spark.sparkContext.applicationId,
    "options": scala.conf().get("spark.executor.extraJavaOptions"),
    "pod_name": scala.conf().get(pod_name).get(),
}), flush=True)

def task(_):
    import importlib, sys
    for name in TASK_MODULES:
        importlib.import_module(name)
    return {name: sys.modules[name].__file__ for name in ("kinesis_assets", "pyarrow", "msgspec")}

print(json.dumps(spark.sparkContext.parallelize([0], 1).map(task).first()), flush=True)
"""


class Driver:
    """A process with a session whose only job waits for an executor.

    Args:
        folder: A new folder for what it prints, and for its cache.
        python: The interpreter of the executor's workers.

    Attributes:
        address: The address of the driver that Spark would pass to an executor's pod.
    """

    def __init__(self, folder: Path, python: Path) -> None:
        folder.mkdir()
        self._printed, self._log = folder / "printed", folder / "log"
        variables = {"POD_IP": LOOPBACK, "POD_NAME": "run", "XDG_CACHE_HOME": str(folder)}
        with self._printed.open("wb") as output, self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, python],
                env=clean_environment() | variables,
                cwd=folder,
                stdout=output,
                stderr=errors,
            )
        self.address = self._line(0, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def result(self, executor: subprocess.Popen | None = None) -> dict[str, str]:
        """Return the files of three packages that a task has imported, as soon as an executor has run it.

        Args:
            executor: The process of the executor, which must not end before.
        """
        return self._line(1, executor)

    def _line(self, number: int, process: subprocess.Popen | None) -> dict[str, str]:
        """Return a line of what the process prints; each ends with a line feed."""
        wait_until(lambda: self._printed.read_text().count("\n") > number, process, failure=self._log)
        found: dict[str, str] = json.loads(self._printed.read_text().splitlines()[number])
        return found


def imported_from(files: dict[str, str], environment: Path) -> bool:
    """Whether the package was imported from the driver's zip, and the others from an environment."""
    archive = Path(files.pop("kinesis_assets").partition(".zip/")[0]).name
    return archive.startswith("kinesis_assets-") and all(
        Path(file).is_relative_to(environment / "lib") for file in files.values()
    )


def executor_variables(address: dict[str, str]) -> dict[str, str]:
    """Return the variables of an executor's pod."""
    options = shlex.split(address["options"])
    return {
        "SPARK_DRIVER_URL": address["url"],
        "SPARK_APPLICATION_ID": address["application"],
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_EXECUTOR_POD_IP": LOOPBACK,
        "SPARK_EXECUTOR_POD_NAME": "executor-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)},
    }
