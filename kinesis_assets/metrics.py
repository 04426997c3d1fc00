"""The metrics: what is measured, and how that is recorded by OpenTelemetry's API.

The API does nothing unless the process has configured an SDK. No failure here fails its caller: a run that
has committed must report it, whatever happens to its metrics.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from kinesis_assets.errors import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# Attributes are those of OpenTelemetry's semantic conventions, where there is one. Units are codes of UCUM.
STREAM = "aws.kinesis.stream_name"
SHARD = "messaging.destination.partition.id"
TABLE = "kinesis_assets.table"
ERROR = "error.type"


class Kind(StrEnum):
    """The kind of an instrument."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One instrument, with the attributes that its measurements may have."""

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...]
    bounds: tuple[float, ...] | None = None


LAG = Instrument(
    "kinesis_assets.lag",
    Kind.GAUGE,
    "s",
    "Age of the oldest unread record of the shard, at most; 0 at its tip",
    (STREAM, SHARD),
)
TIME_TO_LOSS = Instrument(
    "kinesis_assets.time_to_loss",
    Kind.GAUGE,
    "s",
    "Time until the first unread record of the shard may expire",
    (STREAM, SHARD),
)
ROWS = Instrument(
    "kinesis_assets.rows", Kind.COUNTER, "{row}", "Rows committed to the raw table", (STREAM, SHARD)
)
PAYLOAD = Instrument(
    "kinesis_assets.payload", Kind.COUNTER, "By", "Payload bytes of these rows", (STREAM, SHARD)
)
BAD_RECORDS = Instrument(
    "kinesis_assets.bad_records",
    Kind.COUNTER,
    "{record}",
    "How many of these rows are damaged records",
    (STREAM, SHARD),
)
THROTTLES = Instrument(
    "kinesis_assets.throttles",
    Kind.COUNTER,
    "{call}",
    "Calls that the service throttled while a run read the shard",
    (STREAM, SHARD),
)
CONFLICTS = Instrument(
    "kinesis_assets.conflicts",
    Kind.COUNTER,
    "{conflict}",
    "Times that another run had moved the shard's position first",
    (STREAM, SHARD),
)
COMMIT_DURATION = Instrument(
    "kinesis_assets.commit.duration",
    Kind.HISTOGRAM,
    "s",
    "Time from the first try of a commit until its outcome was known",
    (STREAM, TABLE, ERROR),
    bounds=(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
LEASE_TABLE_LAG = Instrument(
    "kinesis_assets.lease_table.lag",
    Kind.GAUGE,
    "s",
    "Time since the first update of the lease table that failed, if none has succeeded since; 0 otherwise",
    (STREAM,),
)
CATALOG_LAG = Instrument(
    "kinesis_assets.catalog.lag",
    Kind.GAUGE,
    "s",
    "Time since the first registration of the table that failed, if none has succeeded since; 0 otherwise",
    (STREAM, TABLE),
)
DERIVED_ROWS = Instrument(
    "kinesis_assets.derived.rows", Kind.COUNTER, "{row}", "Rows committed to a derived table", (TABLE,)
)
DERIVED_BAD_RECORDS = Instrument(
    "kinesis_assets.derived.bad_records",
    Kind.COUNTER,
    "{record}",
    "Records that a derived table could not decode",
    (TABLE,),
)
DERIVED_REDRIVEN_RECORDS = Instrument(
    "kinesis_assets.derived.redriven_records",
    Kind.COUNTER,
    "{record}",
    "Bad records of a derived table that a redrive decoded",
    (TABLE,),
)

INSTRUMENTS = tuple(each for each in list(vars().values()) if isinstance(each, Instrument))

_log = logging.getLogger(__name__)


def measure(instrument: Instrument, value: float, attributes: Mapping[str, str]) -> None:
    """Record a measurement. A counter is not incremented by zero."""
    if instrument.kind is Kind.COUNTER and not value:
        return
    with _failures_logged(f"{instrument.name} was not recorded"):
        masked = {name: mask_secrets(text) for name, text in attributes.items()}
        with _creating:
            record = _recorder(instrument)
        record(value, masked)


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


def flush(seconds: float = 5.0) -> None:
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


_creating = threading.Lock()
"""`cache` may call a function twice at once, and the values of a second gauge would be exported too."""


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
