"""Has a Spark server started anew when it has ended, but not for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput, SparkServerFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.spark.server import SparkServer

STARTS = 3
"""Starts in a row; who ends after each of them will do so again."""

SECONDS_TO_LAST = 300.0
"""A server that was up for so long has come up well: what ends it then begins a new row."""


class Keeper:
    """Looks after a server that was started; to be asked to `look` every second or so."""

    def __init__(
        self,
        server: SparkServer,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to look after a server.

        Args:
            server: Is started, with a port and a token that stay.
            say: Is told why it is started anew.
            clock: In seconds.
        """
        self._server = server
        self._say = say
        self._clock = clock
        self._since = clock()
        self._in_a_row = 0

    def look(self) -> None:
        """Start the server anew, where it was, if it has ended.

        Raises:
            SparkServerFailed: It has ended, or not come up, after each of `STARTS` starts in a row.
        """
        failed: SparkServerFailed | InvalidInput | None = self._server.failed()
        if failed is None:
            return
        if self._clock() - self._since >= SECONDS_TO_LAST:
            self._in_a_row = 0
        while True:
            if self._in_a_row == STARTS:
                raise SparkServerFailed(f"{failed}; given up after {STARTS} more starts") from failed
            self._in_a_row += 1
            self._say(f"{failed}. Starting it again")
            self._server.stop()  # something of it may be left
            try:
                self._server.start()
            except (SparkServerFailed, InvalidInput) as error:  # what is left of it may have the port yet
                failed = error
            else:
                self._since = self._clock()
                return
