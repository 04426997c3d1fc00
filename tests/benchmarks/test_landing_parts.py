"""What a landing consists of is measured part by part, each over every page."""

from __future__ import annotations

import pytest

from benchmarks.harness.measure import Command, started
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from benchmarks.workers import landing_parts
from benchmarks.workers.landing_parts import ALL, ALONE


@pytest.mark.parametrize("part", ["read", "write"])
def test_the_processes_of_a_bare_part_take_each_record_once_together(part):
    spec = StreamSpec("parts", shards=3, pages=2, page_records=50)
    with (
        replay_server() as server,
        started(Command.module(part, "benchmarks.workers.landing", part)) as child,
    ):
        server.create(spec)
        for _ in range(2):
            server.calls()
            work = child.work(server.url, spec.name, spec.records)
            assert (work.read.records, work.read.bytes) == (spec.records, spec.data_bytes)
            assert server.calls()["GetRecords"] == spec.shards * spec.pages
        assert bool(work.written) is (part == "write")


def test_each_part_reads_every_page(monkeypatch):
    spec = StreamSpec("parts", shards=3, pages=2, page_records=50)
    monkeypatch.setattr(landing_parts, "SPEC", spec)
    monkeypatch.setattr(landing_parts, "WHOLE", spec)
    with replay_server() as server:
        server.create(spec)
        server.calls()
        seconds = {}
        for kind in landing_parts.KINDS:
            seconds |= landing_parts.measure(kind, server.url, 1)
        calls = server.calls()
    assert [*seconds] == [*ALONE, ALL]
    assert all(each > 0 for each in seconds.values())
    # In each of two rounds the calls alone and a landing; once the tables for the bare write.
    assert calls["GetRecords"] == 6 * (2 * 2 + 1)
