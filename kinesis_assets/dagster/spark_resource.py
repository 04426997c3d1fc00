"""The Dagster resource for a run's Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from kinesis_assets.spark.session import end_session, start_session

if TYPE_CHECKING:
    import dagster as dg


class SparkResource(LazyPySparkResource):
    """A `LazyPySparkResource` for which SPARK_REMOTE takes precedence over `spark.master`.

    With Spark Connect each resource has its own session, which ends with the run. A session that is started
    in this process is kept for the next run of the process.
    """

    _session: Any = PrivateAttr(default=None)

    @property
    def spark_session(self) -> Any:
        """The session, created on first access.

        Raises:
            JavaUnavailable: The session must be started in this process, and no Java was found.
            LandingFailed: The server that SPARK_REMOTE or spark.remote names does not respond.
        """
        if self._session is None:
            self._session = start_session(self.spark_config)
        return self._session

    @property
    def spark_context(self) -> Any:
        """The session's context. Spark Connect has none."""
        return self.spark_session.sparkContext

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End the session if it belongs to this run."""
        del context
        self.end()

    def end(self) -> None:
        """End the session, see `session.end_session`. It is started again on the next access."""
        if self._session is not None:
            end_session(self._session)
            self._session = None
