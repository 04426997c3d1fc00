"""A supervisor that restarts a Spark server when it has ended, a limited number of times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput, SparkServerFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.spark.server import SparkServer

MAX_RESTARTS = 3
"""Maximum consecutive restarts. A server that ends after each of them is not restarted again."""

STABLE_SECONDS = 300.0
"""Seconds of running after which a start counts as successful, so that the count of restarts is reset."""


class Supervisor:
    """Supervises a started server. Call `check` about once a second."""

    def __init__(
        self,
        server: SparkServer,
        report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Supervise a server.

        Args:
            server: The started server. It keeps its port and token when it is restarted.
            report: Called with a message for each restart.
            clock: Returns a time in seconds.
        """
        self._server = server
        self._report = report
        self._clock = clock
        self._started_at = clock()
        self._restarts = 0

    def check(self) -> None:
        """Restart the server under the same URL if it has ended.

        Raises:
            SparkServerFailed: It ended or failed to start after each of `MAX_RESTARTS` consecutive restarts.
        """
        failed: SparkServerFailed | InvalidInput | None = self._server.failed()
        if failed is None:
            return
        if self._clock() - self._started_at >= STABLE_SECONDS:
            self._restarts = 0
        while True:
            if self._restarts == MAX_RESTARTS:
                raise SparkServerFailed(f"{failed}; given up after {MAX_RESTARTS} restarts") from failed
            self._restarts += 1
            self._report(f"{failed}. Restarting it")
            self._server.stop()  # some of its processes may still run
            try:
                self._server.start()
            except (SparkServerFailed, InvalidInput) as error:  # a remaining process may still use the port
                failed = error
            else:
                self._started_at = self._clock()
                return
