"""Records measurements by OpenTelemetry's API, which does nothing unless the process has configured an SDK.

No failure here fails its caller: a run that has committed must report it, whatever happens to its metrics.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from kinesis_assets.errors.redaction import mask_secrets
from kinesis_assets.metrics.instruments import ERROR, Instrument, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


FLUSH_SECONDS = 5.0
"""How long the end of a run waits for the export of its last measurements."""

_log = logging.getLogger(__name__)


def measure(instrument: Instrument, value: float, attributes: Mapping[str, str]) -> None:
    """Record a measurement. A counter is not incremented by zero."""
    if instrument.kind is Kind.COUNTER and not value:
        return
    with _failures_logged(f"{instrument.name} was not recorded"):
        masked = {name: mask_secrets(text) for name, text in attributes.items()}
        _recorder(instrument)(value, masked)


@contextmanager
def timed(
    instrument: Instrument, attributes: Mapping[str, str], monotonic: Callable[[], float]
) -> Iterator[None]:
    """Measure the seconds for which the context is entered, and the class of the error that it raises."""
    started = monotonic()
    try:
        yield
    except Exception as error:
        measure(instrument, monotonic() - started, {**attributes, ERROR: type(error).__name__})
        raise
    measure(instrument, monotonic() - started, attributes)


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Export what was recorded, if the process has configured an SDK.

    Args:
        seconds: How long to wait. The export goes on afterwards, while the process lives.
    """
    # A thread, because not every exporter respects its timeout.
    thread = threading.Thread(target=_flush, args=(seconds,), name="flush metrics", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _log.warning("the last metrics were not exported within %g s", seconds)


def _flush(seconds: float) -> None:
    with _failures_logged("the last metrics were not exported"):
        from opentelemetry.metrics import get_meter_provider  # noqa: PLC0415  # only runs need it

        # Part of the SDK's provider, but not of the API's, which exports nothing.
        force_flush = getattr(get_meter_provider(), "force_flush", None)
        if force_flush is not None:
            force_flush(timeout_millis=seconds * 1000)


@cache
def _recorder(instrument: Instrument) -> Callable[[float, Mapping[str, str]], None]:
    from opentelemetry.metrics import Observation, get_meter  # noqa: PLC0415  # definitions do not need it

    meter = get_meter("kinesis_assets")
    name, unit, description = instrument.name, instrument.unit, instrument.description
    if instrument.kind is Kind.COUNTER:
        return meter.create_counter(name, unit, description).add
    if instrument.kind is Kind.GAUGE:
        values = CurrentValues()
        meter.create_observable_gauge(
            name, [lambda _: [Observation(*each) for each in values.all()]], unit, description
        )
        return values.set
    return meter.create_histogram(
        name, unit, description, explicit_bucket_boundaries_advisory=instrument.bounds
    ).record


@contextmanager
def _failures_logged(consequence: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # also any error of an exporter; see above
        _log.warning("%s: %s", consequence, error)


CURRENT_SECONDS = 300.0
"""A value that was not set again for this long is not exported any more. Prometheus keeps samples as long."""


class CurrentValues:
    """The current values of one gauge, by their attributes. Threads may share it.

    The SDK exports the last value of a synchronous gauge for as long as the process lives, so a shard that is
    finished, or all shards of a sensor that is stopped, would keep their last value. An observable gauge
    exports what its callback returns.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._values: dict[tuple[tuple[str, str], ...], tuple[float, float]] = {}

    def set(self, value: float, attributes: Mapping[str, str]) -> None:
        """Set the value of some attributes."""
        with self._lock:
            self._values[tuple(attributes.items())] = (value, self._monotonic())

    def all(self) -> list[tuple[float, dict[str, str]]]:
        """Return the current values with their attributes, and forget the others."""
        oldest = self._monotonic() - CURRENT_SECONDS
        with self._lock:
            self._values = {key: entry for key, entry in self._values.items() if entry[1] > oldest}
            return [(value, dict(key)) for key, (value, _) in self._values.items()]
