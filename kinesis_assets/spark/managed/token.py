"""The token of a session, which is replaced before it expires."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.spark.managed.service import Endpoint

MOST_SECONDS = 600.0
"""A token is replaced after this time even if it expires much later by this machine's clock, which may be
wrong."""

FEWEST_SECONDS = 1.0
"""Minimum seconds from one request for a token to the next."""

_log = logging.getLogger(__name__)

_KEPT = "%s: the token could not be replaced, and the old one is used as long as it is accepted: %s"


class Token:
    """The current token of a session. It can be used by several threads.

    Args:
        subject: The session, for the log.
        request: Returns the endpoint with a new token.
        first: The endpoint with the first token.
        clock: The clock of this machine.
    """

    def __init__(self, subject: str, request: Callable[[], Endpoint], first: Endpoint, clock: Clock) -> None:
        self._subject = subject
        self._request = request
        self._clock = clock
        self._lock = threading.Lock()
        self._keep(first)

    def __call__(self) -> str:
        """Return a token that has not expired."""
        with self._lock:
            if self._clock.monotonic() >= self._replaced_at:
                self._replace()
            return self._value

    def _replace(self) -> None:
        try:
            self._keep(self._request())
        except (BotoCoreError, ClientError) as error:  # the server refuses the old one if it has expired
            _log.warning(_KEPT, self._subject, error)
            self._replaced_at = self._clock.monotonic() + FEWEST_SECONDS

    def _keep(self, endpoint: Endpoint) -> None:
        left = endpoint.expires.timestamp() - self._clock.time()
        self._value = endpoint.token
        self._replaced_at = self._clock.monotonic() + min(MOST_SECONDS, max(FEWEST_SECONDS, left / 2))
