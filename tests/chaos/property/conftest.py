"""How many histories are executed, and the resources that they share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS

from chaos.property.interceptor import Interceptor
from chaos.property.scenario import SharedResources
from chaos.property.strategies import LONG
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings, PageSizes
from kinesis_assets.testing import Clock, Faults, LocalKinesis
from support.formats import FORMAT
from support.timing import READING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent

# Hypothesis makes most of its examples by copying parts of one within it: of 1,600 runs, fewer than 400
# would differ. As a backend with another name it draws each example independently.
AVAILABLE_PROVIDERS["independent"] = "hypothesis.internal.conjecture.providers.HypothesisProvider"

_any = settings(
    backend="independent",
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("short", _any, max_examples=40 if FORMAT == "delta" else 20, derandomize=True)
settings.register_profile("long", _any, max_examples=10_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the histories first: no other file of the chaos tests takes as long."""
    items.sort(key=lambda item: item.path.parent != FOLDER)


@pytest.fixture(scope="module")  # the tests of other folders need what it patches
def shared(environment: None) -> Iterator[SharedResources]:
    """An emulator whose clock the test controls, and clients that do not wait."""
    del environment
    clock, faults = Clock(), Faults()
    with LocalKinesis(now=clock, wrap=faults.around) as local, pytest.MonkeyPatch.context() as patch:
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        timing = replace(READING, bytes_per_second=10**12)
        sizes = PageSizes(page=5, largest_body=LONG // 2)
        reached = ClientSettings(local.region, local.endpoint_url, timing=timing, page_sizes=sizes)
        client = StreamClient("orders", reached, attempts=1)
        yield SharedResources(clock, faults, kinesis, client, Interceptor(patch))
