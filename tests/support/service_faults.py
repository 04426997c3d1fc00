"""Faults of a service, by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kinesis_assets.testing import Faults
from support.timing import set_timing

THROTTLING = {
    "throughput": Faults.throttle,
    "limit": partial(Faults.throttle, code="LimitExceededException"),
    "KMS": partial(Faults.throttle, code="KMSThrottlingException"),
    "API": partial(Faults.throttle, code="ThrottlingException"),
}

FAILURES = {
    "expired iterator": Faults.expire,
    "500": Faults.fail,
    "503": partial(Faults.fail, status=503, code="ServiceUnavailable"),
    "connection reset": Faults.reset,
    "no response": Faults.stall,
    "truncated body": Faults.cut_body,
    "body truncated on the wire": partial(Faults.cut_body, on_wire=True),
}


def each_fault(faults):
    """Run a test once for each fault."""
    marks = {"no response": pytest.mark.slow}
    cases = [pytest.param(fault, id=name, marks=marks.get(name, ())) for name, fault in faults.items()]
    return pytest.mark.parametrize("fault", cases)


def draw_waits(client, jitter):
    """Use a function for the jitter of the waits between attempts."""
    timing = client.settings.timing
    set_timing(
        client,
        page_retries=replace(
            timing.page_retries, backoff=replace(timing.page_retries.backoff, jitter=jitter)
        ),
    )
