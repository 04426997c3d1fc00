"""The names of the instruments; and what becomes of a measurement, whatever the SDK and its exporter do."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.metrics import (
    COMMIT_DURATION,
    CURRENT_SECONDS,
    INSTRUMENTS,
    LAG,
    ROWS,
    SHARD,
    STREAM,
    TABLE,
    CurrentValues,
    Kind,
    measure,
    timed,
)

RECORD = """
from kinesis_assets.metrics import INSTRUMENTS, ROWS, flush, measure
for instrument in INSTRUMENTS:
    measure(instrument, 1, {})
"""

WITH_EXPORTER = """
import math, threading
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader

class Exporter(MetricExporter):
    def export(self, metrics_data, timeout_millis=10_000, **kwargs):
        EXPORT
    def force_flush(self, timeout_millis=10_000):
        return True
    def shutdown(self, timeout_millis=30_000, **kwargs):
        pass

reader = PeriodicExportingMetricReader(Exporter(), export_interval_millis=math.inf)
set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, because a process can have only one provider."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda each: each.name)
def test_an_instrument_is_named_as_opentelemetry_recommends(instrument):
    assert re.fullmatch(r"kinesis_assets(\.[a-z]+(_[a-z]+)*)+", instrument.name)
    assert re.fullmatch(r"s|By|\{[a-z]+\}", instrument.unit)
    assert (instrument.bounds is not None) == (instrument.kind is Kind.HISTOGRAM)


def test_every_instrument_has_a_name_of_its_own():
    assert len({each.name for each in INSTRUMENTS}) == len(INSTRUMENTS) > 10


@pytest.fixture
def attributes(stream):
    return {STREAM: stream, SHARD: "a"}


def test_a_counter_adds_up_and_a_gauge_keeps_the_last_value(measurements, attributes):
    for value in (2, 0, 3):
        measure(ROWS, value, attributes)
        measure(LAG, value / 2, attributes)
    measurements.read()
    assert measurements.of(ROWS) == {("a",): 5}
    assert measurements.of(LAG) == {("a",): 1.5}


def test_a_gauge_may_be_zero_but_a_counter_is_not_incremented_by_nothing(measurements, attributes):
    measure(ROWS, 0, attributes)
    measure(LAG, 0, attributes)
    measurements.read()
    assert (measurements.of(ROWS), measurements.of(LAG)) == ({}, {("a",): 0})


def test_the_time_of_an_error_has_its_class(measurements, stream):
    times = iter([1.0, 3.5, 10.0, 10.25])
    attributes = {STREAM: stream, TABLE: "t"}
    with pytest.raises(KeyError), timed(COMMIT_DURATION, attributes, times.__next__):
        raise KeyError
    with timed(COMMIT_DURATION, attributes, times.__next__):
        pass
    measurements.read()
    assert measurements.of(COMMIT_DURATION) == {("t", "KeyError"): 1, ("t",): 1}


def test_an_attribute_has_no_password(measurements):
    measure(ROWS, 1, {TABLE: "http://ann:secret@store/lake"})
    measurements.read()
    assert measurements.of(ROWS) == {("http://***store/lake",): 1}


def test_a_value_that_is_refused_is_logged(measurements, attributes, caplog):
    with caplog.at_level(logging.WARNING):
        measure(ROWS, "three", attributes)  # type: ignore[arg-type]
    measurements.read()
    assert measurements.of(ROWS) == {}


def test_without_an_sdk_nothing_is_recorded_and_none_is_loaded():
    loaded = run(f"{RECORD}\nflush()\nimport sys\nprint(*sys.modules)").stdout.split()
    assert "opentelemetry.metrics" in loaded
    assert not [name for name in loaded if name.startswith("opentelemetry.sdk")]


@pytest.mark.slow
def test_flush_exports_what_was_recorded():
    names = (
        "[print(m.name) for r in metrics_data.resource_metrics for s in r.scope_metrics for m in s.metrics]"
    )
    exporter = WITH_EXPORTER.replace("EXPORT", f"{names}; return MetricExportResult.SUCCESS")
    done = run(f"{exporter}\n{RECORD}\nflush()\nprint('done')")
    *names, last = done.stdout.split()
    assert sorted(names) == sorted(each.name for each in INSTRUMENTS)
    assert last == "done"


@pytest.mark.slow
def test_an_exporter_that_raises_is_logged():
    exporter = WITH_EXPORTER.replace("EXPORT", "raise OSError('no such host')")
    done = run(f"{exporter}\n{RECORD}\nflush()\nprint('done')")
    assert done.stdout == "done\n"
    assert "no such host" in done.stderr


@pytest.mark.slow
def test_an_exporter_that_hangs_is_given_up():
    exporter = WITH_EXPORTER.replace("EXPORT", "threading.Event().wait()")
    done = run(f"{exporter}\n{RECORD}\nflush(0.2)\nprint('done')")
    assert done.stdout == "done\n"
    assert " 0.2 s" in done.stderr


@pytest.mark.slow
def test_a_provider_that_is_not_installed_is_logged():
    name = "import os; os.environ['OTEL_PYTHON_METER_PROVIDER'] = 'no_such_provider'"
    done = run(f"{name}\n{RECORD}\nflush()\nprint('done')")
    assert done.stdout == "done\n"
    assert "provider" in done.stderr


TWO_THREADS = """
import threading
from opentelemetry.metrics import NoOpMeter, NoOpMeterProvider, set_meter_provider
from kinesis_assets.metrics import LAG, measure

created, other = [], threading.Thread(target=measure, args=[LAG, 1, {}])

class Meter(NoOpMeter):
    def create_observable_gauge(self, name, *args, **kwargs):
        created.append(name)
        if len(created) == 1:
            other.start()
            other.join(0.1)
        return super().create_observable_gauge(name, *args, **kwargs)

class Provider(NoOpMeterProvider):
    def get_meter(self, name, *args, **kwargs):
        return Meter(name)

set_meter_provider(Provider())
measure(LAG, 1, {})
other.join()
print(*created)
"""


@pytest.mark.slow
def test_two_threads_share_an_instrument_that_both_use_first():
    assert run(TWO_THREADS).stdout == f"{LAG.name}\n"


# Which values of a gauge are exported

A, B = {"shard": "a"}, {"shard": "b"}


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def values(clock):
    return CurrentValues(lambda: clock[0])


def test_the_last_value_of_each_shard_is_current(values):
    values.set(1, A)
    values.set(2, B)
    values.set(3, A)
    for _ in range(2):  # each reader of the SDK asks for them
        assert values.all() == [(3, A), (2, B)]


def test_a_value_that_is_not_set_again_is_not_exported_for_ever(values, clock):
    values.set(1, A)
    values.set(2, B)
    clock[0] += CURRENT_SECONDS - 1
    values.set(3, B)
    assert values.all() == [(1, A), (3, B)]
    clock[0] += 1
    assert values.all() == [(3, B)]
