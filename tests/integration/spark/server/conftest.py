"""Processes of a Spark server, and runs that connect to it."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from uuid import uuid4

import pytest

from integration.spark.server.processes import SCRIPT, processes_with


@pytest.fixture
def marker():
    """A value in the environment of all processes of a test's server, which are killed at the end."""
    marker = uuid4().hex
    yield marker
    for pid in processes_with(marker):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(settings, tmp_path):
    """Starts a run on a server, of a stream into a table with its name."""

    def start(url, stream, *options):
        place = ["--table", str(tmp_path / stream), "--endpoint-url", str(settings.endpoint_url)]
        return subprocess.Popen(
            [SCRIPT, "run", "--stream", stream, *place, "--json", *options],
            env=os.environ | {"SPARK_REMOTE": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
