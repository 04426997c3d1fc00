"""The Spark of a run, as Dagster's resource: attached where a server is named, started here otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from kinesis_assets.spark.session import end_session, start_session

if TYPE_CHECKING:
    import dagster as dg


class SparkResource(LazyPySparkResource):
    """`LazyPySparkResource`, for which SPARK_REMOTE goes before `spark.master`.

    On Spark Connect each of these has a session of its own, which ends with it. A session that is started
    here stays, for the next run of the same process.

    Attributes:
        spark_config: Settings of the session.
    """

    _session: Any = PrivateAttr(default=None)

    @property
    def spark_session(self) -> Any:
        """The session, from the first look on.

        Raises:
            JavaUnavailable: A session would be started here, and there is no Java.
            LandingFailed: SPARK_REMOTE or spark.remote names a server that does not answer.
        """
        if self._session is None:
            self._session = start_session(self.spark_config)
        return self._session

    @property
    def spark_context(self) -> Any:
        """The session's context; Spark Connect has none."""
        return self.spark_session.sparkContext

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End what ends with a run."""
        del context
        if self._session is not None:
            end_session(self._session)
            self._session = None
