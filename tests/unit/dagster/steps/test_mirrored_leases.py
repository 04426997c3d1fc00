"""The lease table of a mirror, for which a run does not wait long."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from kinesis_assets.dagster.steps.mirrored_leases import open_lease_table
from kinesis_assets.errors import LeaseTableFailed


@pytest.mark.slow
def test_a_call_that_is_not_answered_is_given_up_after_one_attempt(environment, monkeypatch):
    del environment
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    calls.append(server.accept())
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{server.getsockname()[1]}")
        stream = SimpleNamespace(
            client=SimpleNamespace(settings=SimpleNamespace(region_name="us-east-1")),
            kinesis=SimpleNamespace(profile_name=None),
            role=None,
        )
        with pytest.raises(LeaseTableFailed, match="ReadTimeoutError"):
            open_lease_table(stream, "clicks-positions").items()
        server.shutdown(socket.SHUT_RDWR)
    assert len(calls) == 1
    for connection, _ in calls:
        connection.close()
