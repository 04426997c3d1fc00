"""Names of settings of a Spark session: some of Spark's own, and those of this package."""

PYTHON = "spark.pyspark.python"
"""The Python interpreter of the workers."""

WORKER_DAEMON = "spark.python.daemon.module"
"""The module of the process from which Spark forks Python workers."""

TIME_ZONE = "spark.sql.session.timeZone"
"""The time zone in which a session evaluates expressions."""

ARCHIVES = "spark.archives"
"""Archives that each executor unpacks, separated by commas: path or URI, #, and the name of the folder."""

PY_FILES = "spark.submit.pyFiles"
"""Files with modules that executors import, separated by commas: paths or URIs of .zip, .egg or .py files."""

CHECKED = "spark.kinesis_assets.checked"
"""The folders of the tables for which the executors of a session were checked, one a line.

A session whose tasks run in the environment of this process has no such setting.
"""

CODE = "spark.kinesis_assets.code"
"""The version of this package's code that the Python workers of a server have installed."""

TASKS = "spark.kinesis_assets.tasks"
"""The number of tasks of a job. By default the cluster decides."""

MANAGED = "spark.kinesis_assets.managed"
"""The setting `managed_spark` as a map: the service that starts the session of a run."""
